"""A CycleCloud server on loopback: `python -m tests.clouds.cyclecloud.server --port 0` prints its address and serves.

It speaks the API to the letter (`reference`), refuses what does not fit it, and plays the faults that it is given by
`POST /_control` (never part of CycleCloud): see `Control`. With `--tree` its nodes are real hosts of that tree, and it
prints what to set.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.clouds.cyclecloud.cluster import Array, Bucket, Cluster, Conflict, Operation
from tests.clouds.cyclecloud.reference import VERBS, Invalid, check_creation, check_management, check_query
from tests.clouds.machines import announce

USER, PASSWORD = "autoscaler", "s3cret/pass:word"


@dataclass(slots=True)
class Faults:
    """What goes wrong with calls, until it is set back."""

    status: int = 0
    """Every call that `on` names is answered so."""
    on: str = ""
    """`create`, `terminate`, `status`, `nodes`, `operations`; '' is every call."""
    times: int = -1
    """This many calls are still hit; -1: all."""
    retry_after: str = ""
    body: str = ""
    """Sent with status 200 in place of the answer."""
    reset: str = ""
    """`before`: the connection is reset before a call is heard; `after`: once it was carried out, and before each
    call from then on; `once`: once it was carried out, and later calls get `status`."""
    delay: float = 0.0
    """Seconds before an answer begins."""
    drip: float = 0.0
    """Seconds between two bytes of an answer."""


@dataclass(slots=True)
class World:
    """All that the server knows."""

    clusters: dict[str, Cluster] = field(default_factory=lambda: {"demo": Cluster("demo")})
    faults: Faults = field(default_factory=Faults)
    calls: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """What was refused for not fitting the reference."""
    guard: threading.RLock = field(default_factory=threading.RLock)
    cut: bool = False


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.world = World()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, *args: Any) -> None:
        pass

    # -- a call ----------------------------------------------------------------------------------------

    def _serve(self, sent: bytes | None) -> None:
        parts = urlsplit(self.path)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        if path == ["_control"]:
            self._control(json.loads(sent or b"{}"))
            return
        call = path[-1] if path[0] == "clusters" else path[0]
        world = self.server.world
        with world.guard:
            world.calls.append(f"{self.command} {self.path}")
        if self._fails(call):
            return
        try:
            status, body, headers = self._answer(path, dict(parse_qsl(parts.query, keep_blank_values=True)), sent)
        except Invalid as error:
            world.refused.append(str(error))
            status, body, headers = (409 if self.command == "POST" else 400), str(error), {}
        except Conflict as error:
            status, body, headers = 409, str(error), {}
        if world.faults.reset == "after" and world.faults.on in ("", call):
            world.cut = True
            self._reset()
            return
        if world.faults.reset == "once" and world.faults.on in ("", call):
            world.faults.reset = ""
            self._reset()
            return
        time.sleep(world.faults.delay if world.faults.on in ("", call) else 0)
        self._send(status, body, headers)

    def _answer(self, path: list[str], query: dict[str, str], sent: bytes | None) -> tuple[int, Any, dict[str, str]]:
        if self.headers.get("Authorization") != _basic(USER, PASSWORD):
            return 401, "<html><body><h1>Unauthorized</h1></body></html>", {"WWW-Authenticate": "Basic"}
        with self.server.world.guard:
            if path[0] == "operations":
                return self._operations(path, query)
            if path[0] != "clusters" or len(path) < 3:
                return 404, "Not found", {}
            cluster = self.server.world.clusters.get(path[1])
            if cluster is None:
                return 404, f"No cluster {path[1]}", {}
            return self._of_cluster(cluster, path[2:], query, sent)

    def _of_cluster(
        self, cluster: Cluster, path: list[str], query: dict[str, str], sent: bytes | None
    ) -> tuple[int, Any, dict[str, str]]:
        check_query(path[0] if len(path) == 1 else "", query)
        match (self.command, path):
            case ("GET", ["status"]):
                return 200, cluster.status(with_nodes=query.get("nodes") == "true"), {}
            case ("GET", ["nodes"]):
                return self._nodes(cluster, query)
            case ("POST", ["nodes", "create"]):
                body = _json(sent)
                check_creation(body)
                return self._accepted(cluster.create(body))
            case ("POST", ["nodes", verb]) if verb in VERBS:
                body = _json(sent)
                check_management(body)
                return self._accepted(cluster.manage(verb, body))
            case _:
                return 404, "Not found", {}

    def _nodes(self, cluster: Cluster, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        living, operation = cluster.living(), None
        if query:
            if "operation" in query:
                operation = cluster.operations.get(query["operation"])
            else:
                operation = cluster.requested(query["request_id"])
            if operation is None:
                return 404, "Not found", {}
            living = [node for node in living if node.id in set(operation.nodes)]
        answer = {"nodes": [cluster.record(node) for node in living]}
        return 200, answer | ({"operation": _operation_part(operation)} if operation else {}), {}

    def _operations(self, path: list[str], query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        check_query("operations", query)
        known = [each for cluster in self.server.world.clusters.values() for each in cluster.operations.values()]
        if len(path) == 2:
            found = next((each for each in known if each.id == path[1]), None)
            return (200, _operation_part(found), {}) if found else (404, "Not found", {})
        request = query.get("request_id")
        return 200, [_operation_part(each) for each in known if request in (None, each.request)], {}

    def _accepted(self, result: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return 202, result, {"Location": f"{self.server.url}/operations/{result['operationId']}"}

    # -- what goes wrong -------------------------------------------------------------------------------

    def _fails(self, call: str) -> bool:
        faults = self.server.world.faults
        if self.server.world.cut:
            self._reset()
            return True
        if faults.on not in ("", call) or faults.times == 0 or faults.reset == "once":
            return False
        if not (faults.status or faults.body or faults.reset == "before"):
            return False
        faults.times -= faults.times > 0
        if faults.reset == "before":
            self._reset()
        elif faults.status:
            asked = formatdate(time.time() + 1, usegmt=True) if faults.retry_after == "date" else faults.retry_after
            self._send(faults.status, "<html><h1>Not now</h1></html>", {"Retry-After": asked} if asked else {})
        else:
            self._send(200, faults.body, {})
        return True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        for each in (self.rfile, self.wfile, self.connection):  # only the last one closed closes the socket
            each.close()

    def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        text = (body if isinstance(body, str) else json.dumps(body)).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.server.world.faults.drip:
                for byte in text:
                    time.sleep(self.server.world.faults.drip)
                    self.wfile.write(bytes([byte]))
            else:
                self.wfile.write(text)
        except OSError:
            self.close_connection = True

    # -- the tests' own door ---------------------------------------------------------------------------

    def _control(self, command: dict[str, Any]) -> None:
        world = self.server.world
        with world.guard:
            match command.get("do"):
                case "reset":
                    self.server.world = world = World()
                case "faults":
                    world.faults, world.cut = Faults(**command["faults"]), False
                case "cluster":
                    cluster = world.clusters.setdefault(
                        command.get("name", "demo"), Cluster(command.get("name", "demo"))
                    )
                    for name, value in command["set"].items():
                        setattr(cluster, name, value)
                case "array":
                    array = self._array(command)
                    for name, value in command["set"].items():
                        if name == "attributes":
                            array.attributes |= value
                        else:
                            setattr(array, name, value)
                case "bucket":
                    bucket = next(each for each in self._array(command).buckets if each.machine_type == command["type"])
                    for name, value in command["set"].items():
                        setattr(bucket, name, value)
                case "add array":
                    world.clusters["demo"].arrays.append(
                        Array(command["array"], [Bucket(name) for name in command["types"]], command["attributes"])
                    )
                case "node":
                    node = world.clusters["demo"].nodes[command["id"]]
                    for name, value in command["set"].items():
                        setattr(node, name, value)
                case _:
                    pass  # a question only
            answer = {
                "calls": world.calls,
                "refused": world.refused,
                "billable": [node.id for cluster in world.clusters.values() for node in cluster.living()],
                "nodes": [cluster.record(node) for cluster in world.clusters.values() for node in cluster.living()],
            }
        self._send(200, answer, {})

    def _array(self, command: dict[str, Any]) -> Array:
        arrays = self.server.world.clusters["demo"].arrays
        return next(array for array in arrays if array.name == command["array"])


def _json(sent: bytes | None) -> Any:
    try:
        return json.loads(sent or b"")
    except ValueError as error:
        raise Invalid(f"the body is no JSON: {error}") from error


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _operation_part(operation: Operation) -> dict[str, str]:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(operation.started))
    return {"action": operation.action, "startTime": started}


def _environment(url: str) -> dict[str, str]:
    """What an operator sets to use the cluster."""
    settings = {"URL": url, "USERNAME": USER, "PASSWORD": PASSWORD, "CLUSTER": "demo"}
    return {f"CP_CAP_AUTOSCALE_CYCLECLOUD_{name}": value for name, value in settings.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--boot", type=float, default=0.1, help="seconds from a node's creation to Ready")
    parser.add_argument("--tree", type=Path, help="directory of the namespace tree whose hosts nodes are")
    chosen = parser.parse_args()
    server = Server(chosen.port)
    server.world.clusters["demo"].boot = chosen.boot
    if chosen.tree is None:
        print(server.url, flush=True)
    else:
        from tests.clouds.cyclecloud.machines import rent_out_hosts

        rent_out_hosts(server.world.clusters["demo"], chosen.tree)
        announce(_environment(server.url), f"{server.url}/_control")
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
