"""AWS on loopback: moto with our layer before it, as a process of its own.

    python -m tests.clouds.aws.server --port 0

prints `listening on http://127.0.0.1:PORT` once it serves, and ends when its standard input is closed. With `--tree`
its instances are real hosts of that tree: it prints what to set instead, and serves until it is ended.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tests.clouds.machines import announce

if TYPE_CHECKING:
    from tests.clouds.aws.layer import Layer

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "played", "AWS_SECRET_ACCESS_KEY": "played", "AWS_EC2_METADATA_DISABLED": "true"}
"""Nobody's, and enough here: a client that has none asks the metadata service."""

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
    parser.add_argument("--tree", type=Path, help="Directory of the namespace tree whose hosts instances are.")
    arguments = parser.parse_args()
    from tests.clouds.aws.layer import Layer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    layer = Layer()
    server = make_server("127.0.0.1", arguments.port, layer, threaded=True, request_handler=Handler)
    if arguments.tree is not None:
        _serve_hosts(layer, server, arguments.tree)
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()


def _serve_hosts(layer: Layer, server: BaseWSGIServer, tree: Path) -> None:
    from tests.clouds.aws.control import world
    from tests.clouds.aws.machines import rent_out_hosts

    subnet = rent_out_hosts(layer, tree)
    address = f"http://127.0.0.1:{server.server_port}"
    settings = {
        "REGION": "us-east-1",
        "ENDPOINT": address,
        "IMAGE": world(layer, {})["image"],
        "SUBNETS": subnet,
        "HOST_NAMES": "short",
        "FAMILIES": "c5,m5",
        "PRICES": "catalog",  # the price list is not asked of an endpoint of one's own
    }
    environment = {f"CP_CAP_AUTOSCALE_AWS_{name}": value for name, value in settings.items()}
    announce({**environment, **CREDENTIALS}, f"{address}/control/billable")
    server.serve_forever()


if __name__ == "__main__":
    main()
