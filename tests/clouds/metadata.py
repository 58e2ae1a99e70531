"""The metadata service of a cloud, at its link-local address, for the real hosts of a tree: it knows who asks by the
address that the question comes from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autoscaler.process import SystemRunner

ADDRESS = "169.254.169.254"
Answer = Callable[[str, str, str, Mapping[str, str]], tuple[int, str]]
"""Address of the asking host, method, path with query, headers in lower case → status and text."""


def serve_metadata(answer: Answer) -> None:
    """Serve until this process ends; it must be on the tree's first host, which the others' default route leads to."""
    SystemRunner()(("ip", "addr", "replace", f"{ADDRESS}/32", "dev", "lo"), timeout=60.0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = answer(self.client_address[0], self.command, self.path, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET  # noqa: N815 - a name of http.server

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((ADDRESS, 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
