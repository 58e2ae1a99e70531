"""AWS on loopback: moto with our layer before it, as a process of its own.

    python -m tests.clouds.aws.server --port 0

prints `listening on http://127.0.0.1:PORT` once it serves, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading

from werkzeug.serving import WSGIRequestHandler, make_server

# Set before moto reads it: an image or type that does not exist is refused, as EC2 does.
os.environ.setdefault("MOTO_ENABLE_AMI_VALIDATION", "true")
os.environ.setdefault("MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION", "true")
os.environ.setdefault("MOTO_ENABLE_KEYPAIR_VALIDATION", "true")


class Handler(WSGIRequestHandler):
    """Keeps connections open, as AWS does: a pooled client is what we have there, too."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    from tests.clouds.aws.layer import Layer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", arguments.port, Layer(), threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
