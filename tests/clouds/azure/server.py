"""Azure Resource Manager on loopback, as far as the provider calls it, in a process of its own.

    python -m tests.clouds.azure.server --port 0

prints `listening on http://127.0.0.1:PORT` once it serves, and ends when its standard input is closed. Tokens come from
`/msi/token`, as from a managed identity; `/control/VERB` does what nobody could ask of Azure.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.clouds.aws.faults import Fault, Kind
from tests.clouds.azure.bodies import MACHINE, machine_problems, problems
from tests.clouds.azure.region import GROUP, LOCATION, MACHINES, SKUS, SUBSCRIPTION, Azure, Machine

HEADER = "played"
"""What whoever asks for a token must show, as a managed identity's host gives it."""


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    address: str
    match: re.Match[str] | None = None


@dataclass(slots=True)
class Reply:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None


Answer = Callable[[Azure, Request], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """One call: its name, the permission it takes, the versions of its API that are taken."""

    name: str
    method: str
    path: re.Pattern[str]
    action: str
    answer: Answer
    versions: str = r"20\d\d-\d\d-\d\d"
    options: frozenset[str] = frozenset()


def error(status: int, code: str, message: str, **headers: str) -> Reply:
    return Reply(status, {"error": {"code": code, "message": message}}, headers)


def not_found(request: Request) -> Reply:
    return error(404, "ResourceNotFound", f"The Resource '{request.path}' was not found.")


def paged(
    azure: Azure, request: Request, records: list[Any], show: Callable[[Any], Any] = lambda record: record
) -> Reply:
    """A page of a listing, each record as `show` makes it."""
    start = int(request.query.get("$skiptoken", "0"))
    answer: dict[str, Any] = {"value": [show(record) for record in records[start : start + azure.page]]}
    if start + azure.page < len(records):
        query = "&".join(f"{k}={v.replace(' ', '%20')}" for k, v in request.query.items() if k != "$skiptoken")
        answer["nextLink"] = f"{request.address}{request.path}?{query}&$skiptoken={start + azure.page}"
    return Reply(200, answer)


def named(azure: Azure, request: Request) -> Machine | None:
    assert request.match is not None
    return azure.machines.get(request.match["name"].lower())


def create(azure: Azure, request: Request) -> Reply:
    assert request.match is not None
    name = request.match["name"].lower()
    if request.headers.get("If-None-Match") == "*" and name in azure.machines:
        return error(412, "PreconditionFailed", f"The machine {name} exists.")
    wrong = list(problems(MACHINE, request.body)) or list(machine_problems(request.body))
    if wrong:
        azure.refused += wrong
        return error(400, "InvalidParameter", "; ".join(wrong))
    if (lacking := next((each for each in linked(request.body) if not permitted(azure, each)), None)) is not None:
        return forbidden(lacking)
    for kind, words in (("subnet", "subnet"), ("image", "image")):
        if kind in azure.missing:
            return error(404 if kind == "image" else 400, "InvalidResourceReference", f"The {words} was not found.")
    if name in azure.machines:
        return Reply(200, azure.shown(azure.machines[name]))
    made = azure.create(name, request.body)
    if not isinstance(made, Machine):
        return error(*made)
    return Reply(201, azure.shown(made), operation(azure, request, made.name))


def linked(body: Mapping[str, Any]) -> list[str]:
    """What a new machine takes beside the permission to make it, for what is made with it or joined."""
    properties = body["properties"]
    cards = [each["properties"] for each in properties["networkProfile"]["networkInterfaceConfigurations"]]
    addresses = [each["properties"] for card in cards for each in card["ipConfigurations"]]
    found = ["Microsoft.Compute/disks/write", "Microsoft.Network/virtualNetworks/subnets/join/action"]
    found += [f"Microsoft.Network/networkInterfaces/{verb}" for verb in ("write", "join/action")]
    if any("publicIPAddressConfiguration" in each for each in addresses):
        found += [f"Microsoft.Network/publicIPAddresses/{verb}" for verb in ("write", "join/action")]
    if any("networkSecurityGroup" in card for card in cards):
        found.append("Microsoft.Network/networkSecurityGroups/join/action")
    if (body.get("identity") or {}).get("type") == "UserAssigned":
        found.append("Microsoft.ManagedIdentity/userAssignedIdentities/assign/action")
    return found


def ended_with(machine: Machine) -> list[str]:
    """What ending a machine takes beside, for what ends with it."""
    kinds = {"disk": "Microsoft.Compute/disks", "card": "Microsoft.Network/networkInterfaces"}
    kinds["address"] = "Microsoft.Network/publicIPAddresses"
    return [f"{kinds[thing.partition(' ')[0]]}/delete" for thing in machine.things]


def permitted(azure: Azure, action: str) -> bool:
    azure.actions.add(action)
    return any(fnmatch.fnmatchcase(action.lower(), each.lower()) for each in azure.allowed)


def forbidden(action: str) -> Reply:
    return error(403, "AuthorizationFailed", f"The client does not have authorization to perform action '{action}'.")


def operation(azure: Azure, request: Request, name: str) -> dict[str, str]:
    number = f"op-{len(azure.operations)}"
    azure.operations[number] = name
    path = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{LOCATION}/operations/{number}"
    return {"Azure-AsyncOperation": f"{request.address}{path}?api-version=2024-07-01", "Retry-After": "1"}


def operated(azure: Azure, request: Request) -> Reply:
    """How a long-running operation goes: a failed one answers 200, too."""
    assert request.match is not None
    machine = azure.machines.get(azure.operations.get(request.match["name"], ""))
    state = machine.provisioning(time.time()) if machine else "Succeeded"
    answer: dict[str, Any] = {"status": "InProgress" if state in ("Creating", "Deleting") else state}
    if machine and state == "Failed":
        answer["error"] = {"code": machine.failed, "message": "Allocation failed."}
    return Reply(200, answer)


def get(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    return Reply(200, azure.shown(machine)) if machine else not_found(request)


def view(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    return Reply(200, {"statuses": machine.statuses(time.time())}) if machine else not_found(request)


def delete(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    if machine is None:
        return Reply(204)
    if (lacking := next((each for each in ended_with(machine) if not permitted(azure, each)), None)) is not None:
        return forbidden(lacking)
    azure.delete(machine)
    return Reply(202, None, operation(azure, request, machine.name))


def machines(azure: Azure, request: Request) -> Reply:
    return paged(azure, request, azure.listed(), azure.shown)


def states(azure: Azure, request: Request) -> Reply:
    """The whole subscription's machines; with `statusOnly` their states and little else."""
    if request.query.get("statusOnly") != "true":
        return paged(azure, request, azure.listed(), azure.shown)
    return paged(azure, request, azure.listed(), azure.state)


def skus(azure: Azure, request: Request) -> Reply:
    if request.query.get("$filter") != f"location eq '{LOCATION}'":
        return error(400, "BadRequest", "the played region knows no such filter")
    return paged(azure, request, list(SKUS))


def cards(azure: Azure, request: Request) -> Reply:
    return paged(azure, request, azure.listed(), azure.card)


def console(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    if machine is None:
        return not_found(request)
    return Reply(200, {"serialConsoleLogBlobUri": f"{request.address}/console/{machine.name}?sig=played"})


def grant(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    properties = request.body.get("properties", {})
    if machine is None or properties.get("principalId") != machine.model.get("identity", {}).get("principalId"):
        return error(400, "PrincipalNotFound", "there is no such principal")
    azure.grants[machine.name] = properties
    return Reply(201, {"id": request.path, "properties": properties})


def there(kind: str, **properties: Any) -> Answer:
    """Something that is there unless it is missing."""

    def answer(azure: Azure, request: Request) -> Reply:
        if kind in azure.missing:
            return not_found(request)
        return Reply(200, {"id": request.path, "properties": properties})

    return answer


def permissions(azure: Azure, request: Request) -> Reply:
    return Reply(200, {"value": [{"actions": azure.allowed, "notActions": []}]})


def route(name: str, method: str, path: str, action: str, answer: Answer, *options: str) -> Route:
    return Route(name, method, re.compile(path, re.IGNORECASE), action, answer, options=frozenset(options))


_S, _G = f"/subscriptions/{SUBSCRIPTION}", f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
_VM, _C = f"{MACHINES}/(?P<name>[^/]+)", "Microsoft.Compute"
_N = f"{_G}/providers/Microsoft.Network"
ROUTES = (
    route("CreateMachine", "PUT", _VM, f"{_C}/virtualMachines/write", create),
    route("GetMachine", "GET", _VM, f"{_C}/virtualMachines/read", get, "$expand"),
    route("DeleteMachine", "DELETE", _VM, f"{_C}/virtualMachines/delete", delete, "forceDeletion"),
    route("InstanceView", "GET", f"{_VM}/instanceView", f"{_C}/virtualMachines/instanceView/read", view),
    route(
        "Console",
        "POST",
        f"{_VM}/retrieveBootDiagnosticsData",
        f"{_C}/virtualMachines/retrieveBootDiagnosticsData/action",
        console,
    ),
    route("ListMachines", "GET", MACHINES, f"{_C}/virtualMachines/read", machines, "$filter", "$expand", "$skiptoken"),
    route(
        "ListStates",
        "GET",
        f"{_S}/providers/{_C}/virtualMachines",
        f"{_C}/virtualMachines/read",
        states,
        "statusOnly",
        "$filter",
        "$skiptoken",
    ),
    route("Skus", "GET", f"{_S}/providers/{_C}/skus", f"{_C}/skus/read", skus, "$filter", "$skiptoken"),
    route(
        "Usages",
        "GET",
        f"{_S}/providers/{_C}/locations/{LOCATION}/usages",
        f"{_C}/locations/usages/read",
        lambda azure, request: paged(azure, request, azure.usages()),
        "$skiptoken",
    ),
    route(
        "Operation",
        "GET",
        f"{_S}/providers/{_C}/locations/{LOCATION}/operations/(?P<name>[^/]+)",
        f"{_C}/locations/operations/read",
        operated,
    ),
    route("Cards", "GET", f"{_N}/networkInterfaces", "Microsoft.Network/networkInterfaces/read", cards, "$skiptoken"),
    route(
        "Subnet",
        "GET",
        f"{_N}/virtualNetworks/net/subnets/default",
        "Microsoft.Network/virtualNetworks/subnets/read",
        there("subnet"),
    ),
    route(
        "SecurityGroup",
        "GET",
        f"{_N}/networkSecurityGroups/closed",
        "Microsoft.Network/networkSecurityGroups/read",
        there("security group"),
    ),
    route("Set", "GET", f"{_G}/providers/{_C}/availabilitySets/tight", f"{_C}/availabilitySets/read", there("set")),
    route(
        "ScaleSet",
        "GET",
        f"{_G}/providers/{_C}/virtualMachineScaleSets/(?P<name>flexible)",
        f"{_C}/virtualMachineScaleSets/read",
        there("scale set", orchestrationMode="Flexible"),
    ),
    route("Image", "GET", f"{_G}/providers/{_C}/images/worker", f"{_C}/images/read", there("image")),
    route(
        "Versions",
        "GET",
        f"{_S}/providers/{_C}/locations/{LOCATION}/publishers/p/artifacttypes/vmimage/offers/o/skus/s/versions.*",
        f"{_C}/locations/publishers/artifacttypes/offers/skus/versions/read",
        lambda azure, request: not_found(request) if "image" in azure.missing else Reply(200, [{"name": "1.0.0"}]),
    ),
    route("Subscription", "GET", _S, "Microsoft.Resources/subscriptions/read", there("subscription")),
    route("Group", "GET", _G, "Microsoft.Resources/subscriptions/resourceGroups/read", there("group")),
    route(
        "Permissions",
        "GET",
        f"{_G}/providers/Microsoft.Authorization/permissions",
        "Microsoft.Authorization/permissions/read",
        permissions,
    ),
    route(
        "Grant",
        "PUT",
        f"{_VM}/providers/Microsoft.Authorization/roleAssignments/[^/]+",
        "Microsoft.Authorization/roleAssignments/write",
        grant,
    ),
)


def answered(azure: Azure, request: Request, found: Route) -> Reply:
    """One call of Resource Manager: who asks, what for, in which version."""
    azure.calls.append(found.name)
    if request.headers.get("Authorization") != f"Bearer {azure.token}":
        return error(401, "ExpiredAuthenticationToken", "The access token has expired.")
    unknown = request.query.keys() - found.options - {"api-version"}
    if unknown or not re.fullmatch(found.versions, request.query.get("api-version", "")):
        azure.refused.append(f"{found.name}: {sorted(unknown) or 'no api-version'}")
        return error(400, "InvalidApiVersionParameter", f"no such version or option: {sorted(unknown)}")
    if not permitted(azure, found.action):
        return forbidden(found.action)
    azure.settle()
    return found.answer(azure, request)


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
        if fault is not None and fault.kind is Kind.RESET:
            self._reset()
            return
        if fault is not None and fault.kind is Kind.ERROR:
            wait = {"Retry-After": f"{fault.seconds:g}"} if fault.status == 429 else {}
            self._send(error(fault.status, fault.code, fault.message, **wait))
            return
        if fault is not None and fault.kind is Kind.SLOW:
            time.sleep(fault.seconds)
        if fault is not None and fault.kind is Kind.STRANGER:
            self._send(Reply(200, {"hello": "captive portal"}))
            return
        with self.guard:
            reply = answered(self.azure, request, found)
        if fault is not None and fault.kind is Kind.LOST:
            self._reset()
        else:
            self._send(reply, cut=fault is not None and fault.kind is Kind.GARBAGE)

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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
