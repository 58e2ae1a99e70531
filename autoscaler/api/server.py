"""Serves the application at a listener, on a thread beside the loop or alone. With a certificate: TLS only."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter

from autoscaler.api.accepting import QUEUE
from autoscaler.api.certificate import CHECK_EVERY, Certificate
from autoscaler.api.deadlines import LARGEST_HEAD, TimedProtocol
from autoscaler.api.handshakes import Doorway
from autoscaler.api.listeners import TCP, Listener
from autoscaler.caller_address import on_loopback
from autoscaler.engine.systemd import passed_socket
from autoscaler.errors import SettingsError
from autoscaler.supervised import supervised

log = logging.getLogger("autoscaler.api")
BETWEEN_CALLS = 5
"""Seconds that a connection stays open without a further call."""
LAST_CALLS = 10
"""Seconds that the server waits for calls under way when it ends."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `certificate` and `key`: PEM files, both or neither."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False
    """Whether an address that other machines reach may be served without TLS."""
    proxies: tuple[str, ...] = ()
    """Proxies whose `X-Forwarded-…` headers are trusted."""
    group: str | None = None
    """Members of this group may change both files."""

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


def address(
    text: str,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    plain: bool = False,
    proxies: tuple[str, ...] = (),
    group: str | None = None,
) -> Address:
    """`127.0.0.1:8080`, `[::1]:8080`, `:8080` or `8080`: without an address the loopback. Raises SettingsError, also
    if other machines reach the address without TLS and `plain` is false.
    """
    host, separator, port = text.strip().rpartition(":")
    if not separator:
        host = ""
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"CP_CAP_AUTOSCALE_HTTP={text!r} is not ADDRESS:PORT: write 127.0.0.1:8080")
    if (certificate is None) != (key is None):
        raise SettingsError("CP_CAP_AUTOSCALE_HTTP_CERT and CP_CAP_AUTOSCALE_HTTP_KEY: set both or neither")
    made = Address(host.strip("[]") or "127.0.0.1", int(port), certificate, key, plain, proxies, group)
    if not (certificate or plain or on_loopback(made.host)):
        raise SettingsError(
            f"CP_CAP_AUTOSCALE_HTTP={text!r} is reached by other machines, and passwords would go there in the clear: "
            "set CP_CAP_AUTOSCALE_HTTP_CERT and CP_CAP_AUTOSCALE_HTTP_KEY, or CP_CAP_AUTOSCALE_HTTP_PLAIN=true"
        )
    return made


class Server:
    """Listens as soon as it is made, so that a port in use is reported at once. Raises SettingsError.

    `at`: an address, or a socket that listens already, which is the server's from then on, as those of `also` are.
    """

    def __init__(
        self, app: Any, at: Address | socket.socket, listener: Listener = TCP, also: Sequence[socket.socket] = ()
    ) -> None:
        self._name = listener.name
        if isinstance(at, Address):
            self._socket = _listening(at, listener)
            if listener is TCP and not at.certificate and not on_loopback(at.host):
                log.warning(
                    "HTTP at %s is not encrypted: anybody on the network path can read passwords; set "
                    "CP_CAP_AUTOSCALE_HTTP_CERT and CP_CAP_AUTOSCALE_HTTP_KEY",
                    at.host,
                )
            host, port = self._socket.getsockname()[:2]
            self.url = f"{at.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
            where = at
        else:
            self._socket, self.url, where = at, "", Address("", 0)
        self._stopped = threading.Event()
        self._sockets = [self._socket, *also]
        self._make = partial(_server_of, app, self._sockets, listener, where)
        try:
            self._server, self._served = self._make()
        except BaseException:
            _close(self._sockets)
            raise

    def close(self) -> None:
        """Close a server that was never started."""
        _close([*self._served, *self._sockets])

    def serve(self) -> None:
        """Serve until `stop`, or in the main thread until a signal."""
        try:
            self._server.run(sockets=self._served)
        finally:
            self.close()

    def serve_again(self) -> None:
        """Serve until `stop`. After an error call it again: the socket goes on listening."""
        try:
            self._server.run(sockets=self._served)
            if not self._stopped.is_set():
                raise RuntimeError("the server ended by itself")
        except BaseException:
            _close(self._served)
            self._server, self._served = self._make()
            if self._stopped.is_set():
                self._server.should_exit = True
            raise

    def stop(self) -> None:
        """Accept no further call, and let calls under way end."""
        self._stopped.set()
        self._server.should_exit = True

    @contextlib.contextmanager
    def beside(self) -> Iterator[Server]:
        """Serve on a thread until the end of the block."""
        thread = supervised(self.serve_again, self._name, self._stopped)
        try:
            yield self
        finally:
            self.stop()
            thread.join(LAST_CALLS + 5)
            self.close()


class _Uvicorn(uvicorn.Server):
    """uvicorn's server with a limit on threads for calls."""

    def __init__(self, config: uvicorn.Config, places: int) -> None:
        super().__init__(config)
        self._places = places

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        current_default_thread_limiter().total_tokens = self._places  # the limiter of this server's own event loop
        await super().startup(sockets)


def _server_of(
    app: Any, listening: Sequence[socket.socket], listener: Listener, at: Address
) -> tuple[_Uvicorn, list[socket.socket]]:
    """A server, and the sockets that it serves and closes: other descriptors of those that listen."""
    served = [each.dup() for each in listening]
    try:
        return _Uvicorn(_config(app, served[0], listener, at), listener.places), served
    except BaseException:
        _close(served)
        raise


def _close(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _config(app: Any, listening: socket.socket, listener: Listener, at: Address) -> uvicorn.Config:
    greeted = {"greeted": listening.greeted} if isinstance(listening, Doorway) else {}
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        log_level="error",  # requests that are not HTTP are not worth a line
        server_header=False,
        headers=list(listener.headers),
        proxy_headers=bool(at.proxies),
        forwarded_allow_ips=list(at.proxies),  # else an environment variable decides, by default the whole loopback
        lifespan="off",
        loop="asyncio",  # uvloop would not call our socket's accept
        http=partial(TimedProtocol, listener=listener, by_proxy=bool(at.proxies), **greeted),  # type: ignore[arg-type]
        ws="none",
        limit_concurrency=listener.at_once,
        backlog=QUEUE,
        timeout_keep_alive=BETWEEN_CALLS,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=LAST_CALLS,
    )
    config.load()
    if at.certificate and at.key:
        try:
            certificate = Certificate(at.certificate, at.key, at.group)
        except OSError as error:
            raise SettingsError(f"cannot serve TLS with {at.certificate} and {at.key}: {error}") from error
        # uvicorn's load() sets `ssl` anew, so this follows it.
        config.ssl = certificate.context
        config.callback_notify, config.timeout_notify = certificate.check, CHECK_EVERY
    return config


def _listening(at: Address, listener: Listener) -> socket.socket:
    try:
        found = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        kind_of_socket = Doorway if at.certificate else socket.socket
        if (passed := passed_socket(os.environ, where)) is not None:
            return kind_of_socket(fileno=os.dup(passed))
        listening = kind_of_socket(family, kind, protocol)
        try:
            # Otherwise the port stays in use for a minute after the end of an earlier server (TIME_WAIT).
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(QUEUE)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {at.host}:{at.port}: {error}; set {listener.setting} to an address of this host and a "
            "free port"
        ) from error
    return listening
