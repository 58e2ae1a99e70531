"""Azure Resource Manager on loopback, as far as the provider calls it, in a process of its own.

    python -m tests.clouds.azure.server --port 0

prints `listening on http://127.0.0.1:PORT` once it serves, and ends when its standard input is closed. With `--tree`
its machines are real hosts of that tree: it prints what to set, and serves until it is ended. Tokens come from
`/msi/token`, as from a managed identity; `/control/VERB` makes changes that Azure itself does not offer.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.clouds.aws.faults import Fault, FaultKind
from tests.clouds.azure.answers import Reply, Request, error, nameless, not_found
from tests.clouds.azure.prices import price_page
from tests.clouds.azure.region import GROUP, LOCATION, SUBSCRIPTION, Azure
from tests.clouds.azure.routes import ROUTES, Route, answered
from tests.clouds.machines import announce

HEADER = "played"
"""What whoever asks for a token must show, as a managed identity's host gives it."""


def control(azure: Azure, verb: str, values: Mapping[str, Any]) -> Any:
    match verb:
        case "forget":
            azure.forget()
        case "faults":
            azure.set_faults(values["faults"])
        case "set":
            for name, value in values.items():
                setattr(azure, name, set(value) if name == "missing" else value)
        case "limit":
            azure.limits |= values
        case "power":
            azure.machines[values["name"]].power = values["power"]
        case "break":
            azure.machines[values["name"]].broken = values["code"]
        case "vanish":
            azure.delete(azure.machines[values["name"]])
        case "billable":
            azure.settle()
            return {"billable": azure.billable()}
        case "state":
            azure.settle()
        case _:
            raise KeyError(verb)
    return {
        "billable": azure.billable(),
        "machines": {name: machine.model for name, machine in azure.machines.items()},
        "calls": azure.calls,
        "refused": azure.refused,
        "actions": sorted(azure.actions),
        "grants": azure.grants,
    }


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open, as Azure does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    azure = Azure()
    guard = threading.Lock()

    def do_GET(self) -> None:
        self._serve()

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        address = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else {}
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        host = f"http://{self.headers['Host']}"
        request = Request(self.command, address.path, query, dict(self.headers), body, host)
        if address.path.startswith("/control/"):
            with self.guard:
                self._send(Reply(200, control(self.azure, address.path.rpartition("/")[2], body)))
        elif address.path == "/msi/token":
            self._send(self._token(request))
        elif address.path == "/api/retail/prices":
            self._send(price_page(query, host))
        elif address.path.startswith("/console/"):
            self._send(Reply(200, text=f"{address.path.rpartition('/')[2]} login:\n"))
        else:
            self._resource(request)

    def _token(self, request: Request) -> Reply:
        if request.headers.get("X-IDENTITY-HEADER", request.headers.get("X-Identity-Header")) != HEADER:
            return error(401, "Unauthorized", "whose identity?")
        expires = str(int(time.time()) + 3600)
        return Reply(200, {"access_token": "played", "expires_on": expires, "resource": "x", "token_type": "Bearer"})

    def _resource(self, request: Request) -> None:
        for found in ROUTES:
            if found.method == request.method and (match := found.path.fullmatch(request.path)):
                request.match = match
                with self.guard:
                    fault = self.azure.faults.meet(found.name + ("Next" if "$skiptoken" in request.query else ""))
                self._with(fault, request, found)
                return
        with self.guard:
            self.azure.refused.append(f"{request.method} {request.path}")
        self._send(not_found(request))

    def _with(self, fault: Fault | None, request: Request, found: Route) -> None:
        if fault is not None and fault.kind is FaultKind.RESET:
            self._reset()
            return
        if fault is not None and fault.kind is FaultKind.ERROR:
            wait = {"Retry-After": f"{fault.seconds:g}"} if fault.status == 429 else {}
            self._send(error(fault.status, fault.code, fault.message, **wait))
            return
        if fault is not None and fault.kind is FaultKind.SLOW:
            time.sleep(fault.seconds)
        if fault is not None and fault.kind is FaultKind.STRANGER:
            self._send(Reply(200, {"hello": "captive portal"}))
            return
        with self.guard:
            reply = answered(self.azure, request, found)
        if fault is not None and fault.kind is FaultKind.LOST:
            self._reset()
        else:
            if fault is not None and fault.kind is FaultKind.NAMELESS:
                reply = Reply(reply.status, nameless(reply.body), reply.headers)
            self._send(reply, cut=fault is not None and fault.kind is FaultKind.GARBAGE)

    def _send(self, reply: Reply, *, cut: bool = False) -> None:
        text = reply.text if reply.text is not None else json.dumps(reply.body) if reply.body is not None else ""
        data = text.encode()
        data = data[: len(data) // 2] if cut else data
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json" if reply.text is None else "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that either side reset is no error of the server."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ValueError):
            super().handle_error(request, client_address)


def _environment(address: str) -> dict[str, str]:
    """What an operator sets to use the region, on a machine whose identity Azure knows."""
    settings = {
        "SUBSCRIPTION": SUBSCRIPTION,
        "RESOURCE_GROUP": GROUP,
        "LOCATION": LOCATION,
        "ENDPOINT": address,
        "IMAGE": "p:o:s:latest",
        "SUBNET": "net/default",
        "KEY": "ssh-ed25519 AAAA played",
        "FAMILIES": "Dsv5",
    }
    identity = {"IDENTITY_ENDPOINT": f"{address}/msi/token", "IDENTITY_HEADER": HEADER}
    return {**{f"CP_CAP_AUTOSCALE_AZURE_{name}": value for name, value in settings.items()}, **identity}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tree", type=Path, help="directory of the namespace tree whose hosts machines are")
    chosen = parser.parse_args()
    server = Server(("127.0.0.1", chosen.port), Handler)
    if chosen.tree is not None:
        from tests.clouds.azure.machines import rent_out_hosts

        rent_out_hosts(Handler.azure, chosen.tree)
        address = f"http://127.0.0.1:{server.server_port}"
        announce(_environment(address), f"{address}/control/billable")
        server.serve_forever()
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
