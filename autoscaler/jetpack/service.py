"""Finds the running autoscaler and calls it: JSON over HTTP, on a Unix socket or at an address."""

from __future__ import annotations

import base64
import contextlib
import getpass
import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoscaler.answer_client import CA_ENV as CA_ENV
from autoscaler.answer_client import OF_ROOT as OF_ROOT
from autoscaler.answer_client import PATIENCE, TOKEN_ENV, await_answer, connection_to, not_trusted, token_of
from autoscaler.answer_client import SOCKET_ENV as SOCKET_ENV
from autoscaler.caller_address import LOGIN_ENV as LOGIN_ENV
from autoscaler.caller_address import PLAIN_ENV, TRUE, caller_address, first_line
from autoscaler.caller_address import URL_ENV as URL_ENV
from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.unix_connection import connect

GROUP_ENV = "CP_CAP_AUTOSCALE_SOCKET_GROUP"


class AutoscaleError(AutoscalerError):
    """A request was not accepted."""


class Unreachable(AutoscaleError):
    """No service answered; the message says which one was asked, and what to do."""

    exit_code = 4


class Silent(Unreachable):
    """The service there did not answer. `brief`: without what may still become of the request."""

    def __init__(self, name: str, then: str = "") -> None:
        self.brief = f"{name} does not answer: it hangs, or was stopped"
        super().__init__(self.brief + then)


_GO_ON = "let it go on, or start it again (`sge-autoscaler status` names its process)"
_NOT_ASKED = f"; nothing was requested: {_GO_ON}, and ask again"
_LATER = f"; it may still carry out the request: {_GO_ON}, and look at `sge-autoscaler requests`; asking again is safe"


class Rejected(AutoscaleError):
    """The service said no; the message is its own."""

    exit_code = 2


def places(environ: Mapping[str, str]) -> list[str]:
    """The sockets to try on this machine if no setting names one: beside the state, of root's services, of the user's
    own; only the first group with a service that listens.
    """
    chosen = environ.get("CP_CAP_AUTOSCALE_WORKDIR")
    for directory in (*([Path(chosen)] if chosen else []), OF_ROOT, of_user(environ)):
        found = (str(path) for path in sorted(directory.glob("*.sock")))
        if there := [path for path in found if first_listening([path]) is not None]:
            return there
    return []


def listens(path: Path | str) -> bool:
    """Whether a service answers at this socket; the socket of a killed service does not. Raises PermissionError if the
    caller may not use it.
    """
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        try:
            connect(probe, path, PATIENCE)
        except PermissionError:
            raise
        except TimeoutError:  # its queue is full, so somebody listens
            return True
        except OSError:
            return False
    return True


def first_listening(paths: Iterable[Path | str]) -> str | None:
    """The first of these that answers, else the first that the caller may not use; None: none."""
    closed: str | None = None
    for path in paths:
        try:
            if listens(path):
                return str(path)
        except PermissionError:
            closed = closed or str(path)
    return closed


def of_user(environ: Mapping[str, str]) -> Path:
    """The directory in which services of a user other than root keep their state, and listen."""
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "sge-autoscaler"


@dataclass(frozen=True)
class Service:
    """The address of one service. `url` wins over `path`."""

    path: str | None = None
    url: str | None = None
    login: str | None = None
    token: str | None = None
    """File of a token; used where there is no login."""
    plain: bool = False
    """Whether an address that other machines reach may be called without TLS."""
    ca_file: str = ""
    """Certificate of the authority that signed that of the address; '': the authorities that this machine trusts."""

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Service:
        """The service that the environment names, or the only one here. Raises Unreachable."""
        if url := environ.get(URL_ENV):
            plain = environ.get(PLAIN_ENV, "").lower() in TRUE
            login, token = environ.get(LOGIN_ENV) or None, environ.get(TOKEN_ENV) or None
            return cls(url=url, login=login, token=token, plain=plain, ca_file=environ.get(CA_ENV, ""))
        if path := environ.get(SOCKET_ENV):
            return cls(path)
        found = places(environ)
        if len(found) == 1:
            return cls(found[0])
        if found:
            raise Unreachable(f"several autoscalers listen here ({', '.join(found)}): set {SOCKET_ENV} to one of them")
        raise Unreachable(
            f"no autoscaler listens on this machine: start `sge-autoscaler run`, or set {SOCKET_ENV} or {URL_ENV}"
        )

    def call(self, method: str, place: str, document: Any = None) -> dict[str, Any]:
        """Ask, and return the answer's document. Raises Rejected, Unreachable."""
        try:
            body = None if document is None else json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Rejected(f"the request cannot be written as JSON: {error}") from error
        changes = method != "GET"
        if changes and self.url is None:
            try:
                self._sent("GET", "/requests", None)
            except Silent as error:  # a service that hangs would carry the request out later, after newer ones
                raise Silent(self.name, _NOT_ASKED) from error
        try:
            status, said = self._sent(method, place, body)
        except Silent as error:
            raise Silent(self.name, _LATER if changes else "") from error
        return _read(self.name, status, said)

    def _sent(self, method: str, place: str, body: bytes | None) -> tuple[int, bytes]:
        """The answer's status and text. Raises Rejected, Unreachable."""
        connection, prefix, headers = self._connection()
        try:
            connection.request(method, prefix + place, body, headers)
            if self.url is None:
                await_answer(connection.sock)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except PermissionError as error:
            raise Rejected(
                f"you may not call {self.path}; its owner may, and the group that {GROUP_ENV} names"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(not_trusted(self.url or "", error.verify_message)) from error
        except TimeoutError as error:
            raise Silent(self.name) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.name} does not answer: {str(error) or type(error).__name__}; is it running?"
            ) from error
        finally:
            connection.close()

    @property
    def name(self) -> str:
        return f"the autoscaler at {self.url or self.path}"

    def _connection(self) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        if self.url is None:
            return _OverSocket(self.path or ""), "", _on_behalf()
        try:
            address = caller_address(self.url, plain=self.plain)
            return connection_to(address, self.ca_file), address.path, self._authorization()
        except SettingsError as error:
            raise Unreachable(str(error)) from error

    def _authorization(self) -> dict[str, str]:
        if self.login is not None:
            return {"Authorization": f"Basic {_login(self.login)}"}
        return {} if self.token is None else {"Authorization": f"Bearer {token_of(self.token)}"}


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        connect(self.sock, self._path, PATIENCE)


def _on_behalf() -> dict[str, str]:
    """The user for whom root asks, behind sudo; the service accepts it only from root and its own user."""
    behind = os.environ.get("SUDO_USER")
    return {"X-Asked-By": behind} if behind and behind != getpass.getuser() else {}


def _login(file: str) -> str:
    line = first_line(LOGIN_ENV, file, private=True)
    if ":" not in line:
        raise SettingsError(f"{LOGIN_ENV}: the first line of {file} is not USER:PASSWORD")
    return base64.b64encode(line.encode()).decode()


def _read(name: str, status: int, said: bytes) -> dict[str, Any]:
    try:
        document = json.loads(said)
    except (ValueError, RecursionError):
        document = None
    if status == http.client.OK and isinstance(document, dict):
        return document
    error = document.get("error") or document.get("detail") if isinstance(document, dict) else None
    reason = error if isinstance(error, str) else http.client.responses.get(status, f"status {status}")
    if status == http.client.UNAUTHORIZED:
        raise Rejected(
            f"{name} refuses this user and password, or this token; {LOGIN_ENV} names a file whose first line is "
            f"USER:PASSWORD, {TOKEN_ENV} one whose first line is a token"
        )
    if 400 <= status < 500:
        raise Rejected(reason if error else f"{name} refuses: {reason}")
    raise Unreachable(f"{name} cannot answer now: {reason}")
