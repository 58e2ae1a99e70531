"""The Unix socket of a cell: HTTP and JSON. Every local user may read; the kernel names the user (`local_roles`).

It listens at once. The server is imported and made at the first call: most cells get none, and it takes a sixth of the
service's memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.api.accepting import QUEUE, PacedSocket
from autoscaler.errors import SettingsError
from autoscaler.strict_modes import gid_of
from autoscaler.supervised import supervised
from autoscaler.unix_connection import OWN, connect

if TYPE_CHECKING:
    from autoscaler.api.server import Server

log = logging.getLogger("autoscaler.requests")

LONGEST_PATH = 107
"""Bytes of a socket's path that the kernel takes."""
_END = 15.0
"""Seconds that `close` waits at most; the server waits 10 for calls under way."""
_PROBE = 10.0
"""Seconds to wait for a process that listens already."""


@contextlib.contextmanager
def served_locally(make_app: Callable[[], Any], path: Path, group: str | None = None) -> Iterator[None]:
    """Listen until the end of the block. `make_app`: called at the first call; `group`: members of this group must be
    able to connect.

    Raises SettingsError if the socket cannot be made, or another process listens on it.
    """
    listening = _listen(path, group)
    served = _FirstCall([listening, *_listen_for_us(path)], make_app)
    try:
        yield
    finally:
        for each in (_own(path), path):  # before we stop listening: afterwards they may be another process's
            each.unlink(missing_ok=True)
        served.close()


class _FirstCall:
    """Waits for the first caller on a thread, which then serves the socket."""

    def __init__(self, listening: Sequence[socket.socket], make_app: Callable[[], Any]) -> None:
        """`listening`: at the first everybody connects, at others only root and our own user."""
        self._listening, self._make_app = listening, make_app
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._closed = threading.Event()
        self._closing, self._close = os.pipe2(os.O_CLOEXEC)
        self._thread = supervised(self._wait, "requests", self._closed)

    def close(self) -> None:
        """Accept no further call, and wait for calls under way."""
        with self._lock:
            self._closed.set()
            if self._server is not None:
                self._server.stop()
        os.write(self._close, b".")
        self._thread.join(_END)
        for each in self._listening:
            each.close()
        if not self._thread.is_alive():
            os.close(self._closing)
        os.close(self._close)

    def _wait(self) -> None:
        """The body of a supervised thread: after a defect it waits for the next caller."""
        waiting = select.poll()
        for each in self._listening:
            waiting.register(each, select.POLLIN)
        waiting.register(self._closing, select.POLLIN)
        waiting.poll()
        if (server := self._serving()) is not None:
            server.serve()

    def _serving(self) -> Server | None:
        """The server; None after `close`."""
        if self._closed.is_set():
            return None
        from autoscaler.api.listeners import SOCKET
        from autoscaler.api.server import Server

        app = self._make_app()
        everybodys, *ours = self._listening
        paced = PacedSocket(fileno=os.dup(everybodys.fileno()))
        server = Server(app, paced, SOCKET, also=[each.dup() for each in ours])
        with self._lock:
            self._server = None if self._closed.is_set() else server
            return self._server


def _listen(path: Path, group: str | None) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingsError(
            f"{path} is too long for a socket: set CP_CAP_AUTOSCALE_SOCKET to a path of at most {LONGEST_PATH} bytes"
        )
    gid = gid_of(group, "CP_CAP_AUTOSCALE_SOCKET_GROUP")
    before = os.umask(0o077)  # others can never connect before the mode is set
    try:
        _clear(path)
        listening = _bound(path, gid)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {path}: {error.strerror}; set CP_CAP_AUTOSCALE_SOCKET to a path that can be made"
        ) from error
    finally:
        os.umask(before)
    if gid is not None and (closed := _closed_to(gid, path)):
        log.warning("group %s cannot reach %s: %s is closed to it", group, path, closed)
    elif gid is None and (closed := _closed_to(gid, path)):
        log.info("users of this machine cannot connect to %s: they have no permission on %s", path, closed)
    return listening


def _own(path: Path) -> Path:
    return path.with_name(path.name + OWN)


def _listen_for_us(path: Path) -> list[socket.socket]:
    """The second socket, whose queue no other user can fill; none if its path would be too long."""
    own = _own(path)
    if len(os.fsencode(own)) > LONGEST_PATH:
        return []
    before = os.umask(0o077)
    try:
        own.unlink(missing_ok=True)  # of a crashed process: who listens at the first has the second
        return [_bound(own, None, mode=0o600)]
    except OSError as error:
        log.warning("root has no socket of its own at %s: %s", own, error.strerror)
        return []
    finally:
        os.umask(before)


def _bound(path: Path, gid: int | None, mode: int = 0o666) -> socket.socket:
    """`mode`: by default every user may connect, and the application checks roles."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(mode)
        listening.listen(QUEUE)
    except BaseException:
        listening.close()
        raise
    return listening


def _closed_to(gid: int | None, path: Path) -> Path | None:
    """The first directory on the way to the socket that a member of the group, or anybody, may not pass through."""
    for directory in reversed(path.resolve().parents):
        found = directory.stat()
        if not found.st_mode & (stat.S_IXGRP if gid is not None and found.st_gid == gid else stat.S_IXOTH):
            return directory
    return None


def _clear(path: Path) -> None:
    """Make the directory, which every user may enter, and remove the socket of a crashed process."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o755)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SettingsError(f"{path} exists and is not a socket: set CP_CAP_AUTOSCALE_SOCKET to another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            connect(probe, path, _PROBE, _PROBE)
        # The file of a Unix socket outlives its process; a connection to it is then refused.
        except ConnectionRefusedError:
            path.unlink()
            return
        except TimeoutError:  # its queue is full
            pass
    raise SettingsError(
        f"another process listens on {path}: set CP_CAP_AUTOSCALE_SOCKET to another path, or end that process first"
    )
