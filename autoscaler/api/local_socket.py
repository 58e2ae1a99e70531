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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.errors import SettingsError
from autoscaler.strict_modes import gid_of
from autoscaler.supervised import supervised

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
    served = _FirstCall(_listen(path, group), make_app)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before we stop listening: afterwards it may be another process's
        served.close()


class _FirstCall:
    """Waits for the first caller on a thread, which then serves the socket."""

    def __init__(self, listening: socket.socket, make_app: Callable[[], Any]) -> None:
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
        self._listening.close()
        if not self._thread.is_alive():
            os.close(self._closing)
        os.close(self._close)

    def _wait(self) -> None:
        """The body of a supervised thread: after a defect it waits for the next caller."""
        waiting = select.poll()
        waiting.register(self._listening, select.POLLIN)
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
        server = Server(app, self._listening.dup(), SOCKET)
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


def _bound(path: Path, gid: int | None) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(0o666)  # every user may connect; the application checks roles
        listening.listen(128)
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
        probe.settimeout(_PROBE)
        try:
            probe.connect(str(path))
        # The file of a Unix socket outlives its process; a connection to it is then refused.
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SettingsError(
        f"another process listens on {path}: set CP_CAP_AUTOSCALE_SOCKET to another path, or end that process first"
    )
