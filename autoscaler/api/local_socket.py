"""The Unix socket of a cell: HTTP and JSON, and the file's owner, group and mode say who may."""

from __future__ import annotations

import contextlib
import grp
import logging
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoscaler.api.listeners import SOCKET
from autoscaler.api.server import Server
from autoscaler.errors import SettingsError

log = logging.getLogger("autoscaler.requests")

LONGEST_PATH = 107
"""Bytes of a socket's path that the kernel takes."""
_PROBE = 10.0
"""Seconds to wait for whoever listens already."""


@contextlib.contextmanager
def served_locally(app: Any, path: Path, group: str | None = None) -> Iterator[None]:
    """Listen until the end of the block. `group`: whose members may ask, besides the owner.

    Raises SettingsError where the socket cannot be made, or somebody else listens on it.
    """
    with Server(app, _listen(path, group), SOCKET).beside():
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while we listen: afterwards it may be the next one's


def _listen(path: Path, group: str | None) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingsError(
            f"{path} is too long for a socket: set CP_CAP_AUTOSCALE_SOCKET to a path of at most {LONGEST_PATH} bytes"
        )
    gid = _gid(group)
    before = os.umask(0o077)  # no moment at which others could connect
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
    return listening


def _bound(path: Path, gid: int | None) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(0o600 if gid is None else 0o660)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _gid(group: str | None) -> int | None:
    try:
        return None if group is None else grp.getgrnam(group).gr_gid
    except KeyError:
        raise SettingsError(
            f"CP_CAP_AUTOSCALE_SOCKET_GROUP: there is no group {group!r}: name one that `getent group` knows"
        ) from None


def _closed_to(gid: int, path: Path) -> Path | None:
    """The first directory on the way to the socket that a member of the group may not pass through."""
    for directory in reversed(path.resolve().parents):
        found = directory.stat()
        if not found.st_mode & (stat.S_IXGRP if found.st_gid == gid else stat.S_IXOTH):
            return directory
    return None


def _clear(path: Path) -> None:
    """Make the directory (everybody may look a name up in it) and take away what a crash left."""
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
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SettingsError(
        f"another process listens on {path}: set CP_CAP_AUTOSCALE_SOCKET to another path, or end that process first"
    )
