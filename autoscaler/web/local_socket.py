"""The request service on a Unix socket: HTTP and JSON, and the file's owner, group and mode say who may.

Who asks is told by the kernel, not by the caller. Root, and whoever runs the service, may say for whom they ask (as
`sudo` does). A caller that says nothing for `PATIENCE` seconds is let go; beyond `AT_ONCE` callers wait their turn.
"""

from __future__ import annotations

import contextlib
import grp
import json
import logging
import os
import pwd
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import unquote

from autoscaler.errors import SettingsError
from autoscaler.web.request_service import LONGEST_DOCUMENT, Answer, RequestService

log = logging.getLogger("autoscaler.requests")

PATIENCE = 10.0
AT_ONCE = 16
POLL = 0.2
"""Seconds after which it sees that it is to end."""
LONGEST_PATH = 107
"""Bytes of a socket's path that the kernel takes."""
ON_BEHALF = "X-Asked-By"
UPDATE, SHOW = "/autoscale", "/requests"


@contextlib.contextmanager
def serve_requests(service: RequestService, path: Path, group: str | None = None) -> Iterator[None]:
    """Listen until the end of the block. `group`: whose members may ask, besides the owner.

    Raises SettingsError where the socket cannot be made, or somebody else listens on it.
    """
    server = _listen(service, path, group)
    thread = threading.Thread(target=server.serve_forever, args=(POLL,), name="requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        path.unlink(missing_ok=True)
        thread.join()


def _listen(service: RequestService, path: Path, group: str | None) -> _Server:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingsError(
            f"{path} is too long for a socket: set CP_CAP_AUTOSCALE_SOCKET to a path of at most {LONGEST_PATH} bytes"
        )
    gid = _gid(group)
    before = os.umask(0o077)  # no moment at which others could connect
    try:
        _clear(path)
        server = _Server(service, str(path))
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(0o600 if gid is None else 0o660)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {path}: {error.strerror}; set CP_CAP_AUTOSCALE_SOCKET to a path that can be made"
        ) from error
    finally:
        os.umask(before)
    if gid is not None and (closed := _closed_to(gid, path)):
        log.warning("group %s cannot reach %s: %s is closed to it", group, path, closed)
    return server


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
        raise SettingsError(f"{path} is there and no socket: set CP_CAP_AUTOSCALE_SOCKET to another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SettingsError(f"somebody listens on {path}: set CP_CAP_AUTOSCALE_SOCKET to another path, or end that first")


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: RequestService, path: str) -> None:
        self.service = service
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._turns.acquire(timeout=PATIENCE):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._turns.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._turns.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up or fell silent is no news; anything else is a defect of ours."""
        error = sys.exception()
        log.log(logging.DEBUG if isinstance(error, OSError) else logging.ERROR, "a caller got no answer: %r", error)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    server_version = "sge-autoscaler"
    sys_version = ""

    def do_POST(self) -> None:
        if self.path != UPDATE:
            return self._tell(_no_such_place())
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            return self._tell((HTTPStatus.LENGTH_REQUIRED, {"error": "say Content-Length"}))
        if int(length) > LONGEST_DOCUMENT:
            told = f"{length} bytes are more than the {LONGEST_DOCUMENT} that one update may have"
            return self._tell((HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": told}))
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # hung up in the middle: a part is no update
            return None
        return self._tell(self.server.service.update(body, self._who()))

    def do_GET(self) -> None:
        self._tell(self.server.service.show() if self.path == SHOW else _no_such_place())

    def do_DELETE(self) -> None:
        place, _, name = self.path.rpartition("/")
        self._tell(self.server.service.end(unquote(name), self._who()) if place == SHOW and name else _no_such_place())

    def _who(self) -> str:
        """The caller's user name; what root or our own user says in its place, marked so."""
        peer = self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", peer)[1]
        try:
            own = pwd.getpwuid(uid).pw_name
        except KeyError:
            own = f"uid {uid}"
        other = self.headers.get(ON_BEHALF, "")
        may = uid in (0, os.geteuid()) and other.isprintable() and len(other) <= 64
        return f"{other} (as {own})" if other and other != own and may else own

    def _tell(self, answer: Answer) -> None:
        status, document = answer
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library says of a request that is none, as JSON; what we do not offer is the caller's mistake."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            return self._tell(_no_such_place(HTTPStatus.METHOD_NOT_ALLOWED))
        status = HTTPStatus(code)
        return self._tell((status, {"error": message or status.phrase}))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        log.debug(format, *args)

    def address_string(self) -> str:
        return "socket"


def _no_such_place(status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Answer:
    return status, {"error": f"there is POST {UPDATE}, GET {SHOW} and DELETE {SHOW}/SET"}
