"""Changes marked lines of the hosts file for an autoscaler that is not root: a program of root's at a socket, and its
caller's side.

One connection is one process, started by systemd (`conf/sge-autoscaler-hosts@.service`). It writes names of two kinds
only: those of probe hosts, which lead to the loopback and end with the connection, and those of workers, whose form and
addresses the unit allows. It never writes a name that another line has, and changes no line but ours (`hosts_file`).
Requests and answers are JSON, one a line.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.errors import HostsFileUnusable
from autoscaler.hosts_file import HOSTS, NAME, OF_WORKERS, PASSING, HostsFile, address_of
from autoscaler.unix_connection import connect

SOCKET = Path("/run/sge-autoscaler-hosts.sock")
LONGEST = 1 << 20
"""Bytes of one request or answer."""
MOST = 5000
"""Names of one kind at once."""
PATIENCE = 10.0
"""Longest wait for another writer."""
WAIT = 2.0
"""Longest wait of a change without an earlier `locked`."""
_KINDS: Mapping[str, bytes] = {"probe hosts": PASSING, "workers": OF_WORKERS}
_PROBE_NAME = re.compile(re.escape(PROBE_HOST_PREFIX) + r"[0-9]{1,9}")
_PROBE_NETWORK = ipaddress.ip_network("127.0.0.0/8")
_ANSWER = 30.0
"""Seconds that the caller waits for an answer, in addition to the patience in its request."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def names_at(path: Path | None, mark: bytes) -> HostsFile | HostsHelper:
    """Keeps names in this file, or through the helper at this socket. None: in /etc/hosts, if the process may write
    there.
    """
    if path is not None:
        return HostsHelper(path, mark) if path.is_socket() else HostsFile(path, mark)
    if not os.access(HOSTS, os.W_OK) and SOCKET.exists():
        return HostsHelper(SOCKET, mark)
    return HostsFile(HOSTS, mark)


# -- the caller's side ---------------------------------------------------------------------------------------------


class HostsHelper:
    """`HostsFile` through the helper at a socket. Raises HostsFileUnusable also if nobody answers."""

    def __init__(self, path: Path, mark: bytes) -> None:
        self._path = path
        self._kind = next(kind for kind, each in _KINDS.items() if each == mark)
        self._held: BinaryIO | None = None

    @contextlib.contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        """No other autoscaler process changes the file until the end of the block."""
        with self._connected(patience) as channel:
            self._ask(channel, "alone", patience=patience)
            self._held = channel
            try:
                yield
            finally:
                self._held = None

    def kept(self) -> dict[str, str]:
        return dict(self._send("kept"))

    def keep(self, addresses: Mapping[str, str]) -> bool:
        return bool(self._send("keep", addresses=dict(addresses)))

    def put(self, addresses: Mapping[str, str]) -> None:
        self._send("put", addresses=dict(addresses))

    def clear(self) -> None:
        self._send("clear")

    def _send(self, do: str, **what: Any) -> Any:
        if self._held is not None:
            return self._ask(self._held, do, **what)
        with self._connected(0.0) as channel:
            return self._ask(channel, do, **what)

    @contextlib.contextmanager
    def _connected(self, patience: float) -> Iterator[BinaryIO]:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connect(connection, self._path, patience + _ANSWER)
            except OSError as error:
                raise self._unusable(error.strerror or str(error)) from error
            with connection.makefile("rwb") as channel:
                yield cast("BinaryIO", channel)

    def _ask(self, channel: BinaryIO, do: str, **what: Any) -> Any:
        try:
            channel.write(json.dumps({"do": do, "kind": self._kind, **what}).encode() + b"\n")
            channel.flush()
            answer = json.loads(channel.readline(LONGEST))
            refused, found = answer.get("error"), answer.get("is")
        except (OSError, ValueError, AttributeError) as error:
            raise self._unusable(str(error) or "it gave no answer") from error
        if refused is not None:
            raise HostsFileUnusable(str(refused))
        return found

    def _unusable(self, why: str) -> HostsFileUnusable:
        return HostsFileUnusable(f"the helper of the hosts file at {self._path} does not answer: {why}")


# -- the helper's side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which names of workers may have which addresses."""

    names: re.Pattern[str]
    networks: tuple[Network, ...]

    def refusal(self, mark: bytes, name: str, address: str) -> str | None:
        """Why this name may not have this address; None: it may."""
        pattern, networks = (_PROBE_NAME, (_PROBE_NETWORK,)) if mark == PASSING else (self.names, self.networks)
        found = address_of(address)
        if found is None:
            return f"{name}: {address[:60]!r} is no address"
        if pattern.fullmatch(name) is None or NAME.fullmatch(name) is None:  # `[^.]` takes an end of line, too
            return f"{name[:100]!r} is no name that this helper writes"
        if not any(found in network for network in networks):
            return f"{name}: {address} is in no network that this helper writes"
        return None


@dataclass(slots=True)
class Helper:
    """Answers the requests of one connection."""

    path: Path
    allowed: Allowed
    _files: dict[bytes, HostsFile] = field(default_factory=dict)
    _locked: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _holds: bool = False
    """Whether this connection keeps others of ours away."""

    def serve(self, lines: BinaryIO, answers: BinaryIO) -> None:
        """Serve until the caller has closed the connection, or died: names for a moment are removed then."""
        with self._locked:
            while line := lines.readline(LONGEST):
                answers.write(json.dumps(self._answer(line)).encode() + b"\n")
                answers.flush()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            mark = _KINDS[request["kind"]]
            do = self._known[request["do"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "the helper of the hosts file does not know this request"}
        try:
            return {"is": do(mark, request)}
        except HostsFileUnusable as error:
            return {"error": str(error)}

    @property
    def _known(self) -> Mapping[str, Callable[[bytes, Mapping[str, Any]], object]]:
        return {"alone": self._hold, "kept": self._kept, "keep": self._keep, "put": self._put, "clear": self._clear}

    def _file(self, mark: bytes) -> HostsFile:
        return self._files.setdefault(mark, HostsFile(self.path, mark))

    def _hold(self, mark: bytes, request: Mapping[str, Any]) -> None:
        patience = request.get("patience")
        seconds = min(max(0.0, patience), PATIENCE) if isinstance(patience, int | float) else 0.0
        self._locked.enter_context(self._file(mark).locked(seconds))
        self._holds = True
        if mark == PASSING:
            self._locked.callback(self._file(mark).clear)

    def _kept(self, mark: bytes, _: Mapping[str, Any]) -> dict[str, str]:
        return self._file(mark).kept()

    def _keep(self, mark: bytes, request: Mapping[str, Any]) -> bool:
        good, refused = self._judged(mark, request)
        changed = self._file(mark).keep(good)
        if refused:
            raise HostsFileUnusable(refused)
        return changed

    def _put(self, mark: bytes, request: Mapping[str, Any]) -> None:
        good, refused = self._judged(mark, request)
        if refused:
            raise HostsFileUnusable(refused)
        with self._changing(mark) as file:
            file.put(good)

    def _clear(self, mark: bytes, _: Mapping[str, Any]) -> None:
        with self._changing(mark) as file:
            file.clear()

    @contextlib.contextmanager
    def _changing(self, mark: bytes) -> Iterator[HostsFile]:
        """Two connections that write at once would tear each other's lines, and nobody would own the remains."""
        file = self._file(mark)
        with contextlib.nullcontext() if self._holds else file.locked(WAIT):
            yield file

    def _judged(self, mark: bytes, request: Mapping[str, Any]) -> tuple[dict[str, str], str]:
        """The allowed part of a request, and why the rest is refused."""
        given = request.get("addresses")
        if not isinstance(given, dict) or len(given) > MOST:
            raise HostsFileUnusable(f"the helper of the hosts file takes {MOST} names at most")
        taken, good, refused = self._file(mark).names_of_others(), {}, []
        for name, address in given.items():
            why = self.allowed.refusal(mark, name, str(address))
            if why is None and name.lower() in taken:
                why = f"{name} is a name that another line of {self.path} has"
            if why is None:
                good[name] = str(address)
            else:
                refused.append(why)
        more = f" (and {len(refused) - 3} more)" if len(refused) > 3 else ""
        return good, "; ".join(refused[:3]) + more
