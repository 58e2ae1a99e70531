"""TLS before a played cloud, which breaks once after a launch was carried out: the answer is a record that is none."""

from __future__ import annotations

import atexit
import http.client
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_NOT_OURS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


@cache
def certificate() -> tuple[Path, Path]:
    """A certificate that signs itself, for 127.0.0.1, and its key; the same for the whole process."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    folder = Path(tempfile.mkdtemp(prefix="sge-autoscaler-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made, key = folder / "server.pem", folder / "server.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*argv, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True, timeout=120)
    return made, key


class BreakingTls:
    """In front of `address`. The first call that `breaks` names (by method, path and body) is passed on, and its answer
    is not.
    """

    def __init__(self, address: str, breaks: Callable[[str, str, bytes], bool]) -> None:
        self.behind, self.breaks, self.broken = urlsplit(address), breaks, 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                proxy.pass_on(self)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that ends its connection is no error."""

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate())
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.server.server_address[1]}"

    def pass_on(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        behind = http.client.HTTPConnection(str(self.behind.hostname), self.behind.port, timeout=60)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _NOT_OURS}
        behind.request(handler.command, handler.path, body, headers)
        answer = behind.getresponse()
        text = answer.read()
        behind.close()
        if not self.broken and self.breaks(handler.command, handler.path, body):
            self.broken += 1
            handler.close_connection = True
            os.write(handler.connection.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
            return
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_OURS:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
