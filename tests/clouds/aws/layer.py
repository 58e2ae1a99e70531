"""The layer before moto: every request is checked and recorded, may meet a fault, and is answered here if moto has not
what EC2 has (see `launching`). The rest is moto's.
"""

from __future__ import annotations

import io
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from tests.clouds.aws import wire
from tests.clouds.aws.faults import Fault, FaultKind, Faults
from tests.clouds.aws.launching import Launching
from tests.clouds.aws.listing import MOST_A_PAGE, REGION, aware, described, fits, known_of
from tests.clouds.aws.permissions import permissions_of
from tests.clouds.aws.wire import Invalid, Parameters

Environ = dict[str, Any]
Start = Callable[..., Any]
CONTROL = "/control/"
PRICES_A_PAGE = 2
MOST_IN_A_FILTER = 200
SOLD = frozenset({"c5", "c6g", "c7i", "g4dn", "m5", "mac1", "t2", "t3"})
"""Families that the region's zones have. Reading all of EC2's takes a fifth of a second."""
STANDING = frozenset({"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"})
"""Calls whose answer nothing changes that a test does: moto makes it once."""
LATER_PAGE = re.compile(rb"(?:^|&)NextToken=")
SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request")


@dataclass(slots=True)
class Layer:
    """A WSGI application. What tests may do to it stands in `control`."""

    inner: Any = field(default_factory=lambda: DomainDispatcherApplication(create_backend_app))
    faults: Faults = field(default_factory=Faults)
    lag: float = 0.0
    """Seconds after which a launch shows in listings."""
    hidden_from: datetime | None = None
    """Machines launched since then show in no listing."""
    page: int = MOST_A_PAGE
    """Machines on a page of a listing, at most."""
    recorded: list[str] = field(default_factory=list)
    """`service:Action` of every request that was valid."""
    refused: list[str] = field(default_factory=list)
    """What was wrong with those that were not."""
    permissions: set[str] = field(default_factory=set)
    """What AWS would have asked for before it did what was asked."""
    launching: Launching = field(init=False)
    protected: set[str] = field(default_factory=set)
    """Machines that are protected from termination."""
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Maintenance that is announced, by machine."""
    gone_subnets: set[str] = field(default_factory=set)
    """Subnets that are deleted."""
    standing: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Answers of `STANDING`, by what was asked."""
    on_look: Callable[[Sequence[Any]], None] = lambda _machines: None
    """Told of all machines before they are listed."""
    on_ended: Callable[[Any], None] = lambda _machine: None
    """Told of every machine that a call ended."""

    def __post_init__(self) -> None:
        self.launching = Launching(self.ask, self.backend, self.machines, self.gone_subnets)
        backend = self.backend()
        kept = {ami.architecture: ami for ami in backend.amis.values() if "amzn2" in (ami.name or "")}
        backend.amis = {ami.id: ami for ami in kept.values()}  # moto looks through all of them for every machine
        for offerings in INSTANCE_TYPE_OFFERINGS.values():
            offerings[REGION] = [each for each in offerings[REGION] if each["InstanceType"].split(".")[0] in SOLD]

    def backend(self) -> Any:
        return ec2_backends[DEFAULT_ACCOUNT_ID][REGION]

    def machines(self) -> Mapping[str, Any]:
        return {machine.id: machine for each in self.backend().reservations.values() for machine in each.instances}

    def forget(self) -> None:
        """An empty region: no machine, no fault, nothing recorded; images and networks stay."""
        backend = self.backend()
        self.end_all()
        backend.launch_templates.clear()
        backend.launch_template_name_to_ids.clear()
        self.launching = Launching(self.ask, self.backend, self.machines, self.gone_subnets)
        self.faults.set_now = []
        self.lag, self.hidden_from, self.page = 0.0, None, MOST_A_PAGE
        self.recorded, self.refused = [], []
        self.permissions = set()
        self.protected = set()
        self.events = {}
        self.gone_subnets.clear()

    def end_all(self) -> None:
        """No machine is left nor any trace of one; their addresses are free again."""
        backend = self.backend()
        for machine in self.machines().values():
            subnet = backend.get_subnet(machine.subnet_id)
            for address in machine._private_ips:
                subnet.del_subnet_ip(address)
            machine._private_ips = set()
        backend.reservations.clear()
        backend.volumes.clear()
        backend.tags.clear()
        backend.enis.clear()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size) if size else b""
        if path.startswith(CONTROL):
            from tests.clouds.aws.control import control

            status, answer = control(self, path.removeprefix(CONTROL), json.loads(body or b"{}"))
            return _answer(start, status, json.dumps(answer).encode(), "application/json")
        service, name = _called(environ, body)
        fault = self.faults.meet(f"{name}Next" if LATER_PAGE.search(body) else name)
        if fault is not None and (answered := self._at_fault(fault, environ, start)) is not None:
            return answered
        status, reply, kind = self._answered(service, name, environ, body)
        if fault is not None and fault.kind is FaultKind.LOST:
            return _reset(environ, start)
        if fault is not None and fault.kind is FaultKind.GARBAGE:
            return _answer(start, 200, reply[: len(reply) // 2] or b"<", kind)
        if fault is not None and fault.kind is FaultKind.NAMELESS:
            return _answer(start, status, _nameless(reply), kind)
        return _answer(start, status, reply, kind)

    def _at_fault(self, fault: Fault, environ: Environ, start: Start) -> Iterable[bytes] | None:
        match fault.kind:
            case FaultKind.ERROR:
                return _answer(start, fault.status, wire.error(fault.code, fault.message), "text/xml")
            case FaultKind.RESET:
                return _reset(environ, start)
            case FaultKind.STRANGER:
                return _answer(start, 200, b"<html><body>Please log in</body></html>", "text/html")
            case FaultKind.SLOW:
                time.sleep(fault.seconds)
                return None
            case FaultKind.LOST | FaultKind.GARBAGE | FaultKind.NAMELESS:
                return None

    def _answered(self, service: str, name: str, environ: Environ, body: bytes) -> tuple[int, bytes, str]:
        """Status, body and content type of the answer."""
        if service != "ec2":
            return self._of_another(service, name, environ, body)
        try:
            parameters = wire.parameters_of(name, body)
        except Invalid as error:
            self.refused.append(str(error))
            return 400, wire.error(error.code, str(error)), "text/xml"
        self.recorded.append(f"{service}:{name}")
        self.permissions.update(permissions_of(service, name, parameters))
        try:
            answered = self._here(name, parameters)
        except Invalid as error:
            return 412 if error.code == "DryRunOperation" else 400, wire.error(error.code, str(error)), "text/xml"
        if answered is not None:
            return 200, answered, "text/xml"
        if name in STANDING and body in self.standing:
            return *self.standing[body], "text/xml"
        status, reply = self._forward(environ, body)
        if name in STANDING:
            self.standing[body] = status, reply
        if name == "TerminateInstances" and status == 200:
            machines = self.machines()
            for worker_id in parameters["InstanceIds"]:
                self.on_ended(machines[worker_id])
        return status, reply, "text/xml"

    def _here(self, name: str, parameters: Parameters) -> bytes | None:
        """What moto has not, or not as EC2 has it."""
        if any(len(each.get("Values", ())) > MOST_IN_A_FILTER for each in parameters.get("Filters", ())):
            raise Invalid("FilterLimitExceeded", "The maximum number of filter values is 200")
        match name:
            case "RunInstances":
                return self.launching.run_instances(parameters)
            case "CreateFleet":
                return self.launching.create_fleet(parameters)
            case "DescribeImages" if self.launching.image_disk:
                return self._images(parameters)
            case "DescribeSubnets" if self.gone_subnets:
                return self._subnets(parameters)
            case "TerminateInstances":
                kept = sorted(self.protected & set(parameters["InstanceIds"]))
                if kept:
                    reply = f"The instance '{kept[0]}' may not be terminated: see its 'disableApiTermination'"
                    raise Invalid("OperationNotPermitted", reply)
                return None
            case "DescribeInstances":
                return self._instances(parameters)
            case "DescribeInstanceStatus":
                return self._statuses(parameters)
            case "DescribeSpotInstanceRequests":
                return self._spot_requests(parameters)
            case "DescribeSpotPriceHistory" if self.launching.stock.spot_prices:
                return self._spot_prices(parameters)
            case "DescribePlacementGroups":
                return self._placement_groups(parameters)
            case _:
                return None

    def _of_another(self, service: str, name: str, environ: Environ, body: bytes) -> tuple[int, bytes, str]:
        """SQS and the price list speak JSON."""
        kind = "application/x-amz-json-1.1"
        try:
            category = wire.operation(name, service).input_shape
            parameters = json.loads(body)
            unknown = sorted(set(parameters) - set(category.members)) if category is not None else []
            if unknown:
                raise Invalid("UnknownParameter", f"{name}.{unknown[0]} is not recognized")
            if category is not None:
                wire.checked(parameters, category, name)
        except Invalid as error:
            self.refused.append(str(error))
            return 400, json.dumps({"__type": error.code, "message": str(error)}).encode(), kind
        self.recorded.append(f"{service}:{name}")
        self.permissions.update(permissions_of(service, name, parameters))
        if name == "GetProducts":
            return 200, json.dumps(self._products(parameters)).encode(), kind
        status, reply = self._forward(environ, body)
        return status, reply, kind

    def ask(self, name: str, parameters: Parameters) -> tuple[int, bytes]:
        """moto's own answer to a call that EC2 makes of itself."""
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": f"ec2.{REGION}.amazonaws.com",
            "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential=layer/20260101/{REGION}/ec2/aws4_request, Signature=0",
            "CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8",
            "wsgi.url_scheme": "http",
            "wsgi.errors": io.StringIO(),
            "wsgi.version": (1, 0),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        return self._forward(environ, wire.form_of(name, parameters))

    def _forward(self, environ: Environ, body: bytes) -> tuple[int, bytes]:
        status = [500]

        def start(line: str, *_: Any) -> None:
            status[0] = int(line.split()[0])

        environ = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        reply = b"".join(self.inner(environ, start))
        return status[0], reply

    def _instances(self, parameters: Parameters) -> bytes:
        filters = parameters.get("Filters", ())
        self.on_look(tuple(self.machines().values()))
        found = [each for each in self.machines().values() if fits(known_of(each), filters)]
        if self.hidden_from is not None:
            found = [each for each in found if aware(each.launch_time) < self.hidden_from]
        return described(found, parameters, lag=self.lag, page=self.page)

    def _images(self, parameters: Parameters) -> bytes:
        """With their data disk."""
        _, body = self.ask("DescribeImages", parameters)
        images = wire.answer_of("DescribeImages", 200, body)["Images"]
        disk = {"DeviceName": self.launching.image_disk, "Ebs": {"VolumeSize": 8, "DeleteOnTermination": False}}
        for image in images:
            image["BlockDeviceMappings"] = [*image.get("BlockDeviceMappings", ()), disk]
        return wire.answer("DescribeImages", {"Images": images})

    def _subnets(self, parameters: Parameters) -> bytes:
        status, body = self.ask("DescribeSubnets", parameters)
        answer = wire.answer_of("DescribeSubnets", status, body)
        left = [each for each in answer.get("Subnets", ()) if each["SubnetId"] not in self.gone_subnets]
        return wire.answer("DescribeSubnets", {"Subnets": left})

    def _statuses(self, parameters: Parameters) -> bytes:
        """Of running machines, those with an event of the filter: no other filter is used here."""
        filtered = next(iter(parameters.get("Filters", ())), {"Name": "event.code", "Values": ()})
        assert filtered["Name"] == "event.code"
        state = {"Code": 16, "Name": "running"}
        found = [
            {"InstanceId": worker_id, "InstanceState": state, "Events": self.events[worker_id]}
            for worker_id, machine in self.machines().items()
            if machine.state == "running"
            and {event["Code"] for event in self.events.get(worker_id, ())}.intersection(filtered["Values"])
        ]
        return wire.answer("DescribeInstanceStatus", {"InstanceStatuses": found})

    def _spot_requests(self, parameters: Parameters) -> bytes:
        found = [
            request
            for request in self.launching.spot_requests.values()
            if fits(_known_of(request), parameters.get("Filters", ()))
        ]
        return wire.answer("DescribeSpotInstanceRequests", {"SpotInstanceRequests": found})

    def _spot_prices(self, parameters: Parameters) -> bytes:
        zones = [f"{REGION}{letter}" for letter in "abcdef"]
        stock = self.launching.stock
        kinds = parameters.get("InstanceTypes") or sorted(stock.spot_prices)
        history = [
            {
                "InstanceType": kind,
                "AvailabilityZone": zone,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{stock.spot_prices.get(f'{kind}/{zone}', stock.spot_prices[kind]):f}",
                "Timestamp": datetime.now(UTC),
            }
            for kind in kinds
            if kind in stock.spot_prices
            for zone in zones
        ]
        return wire.answer("DescribeSpotPriceHistory", {"SpotPriceHistory": history})

    def _placement_groups(self, parameters: Parameters) -> bytes:
        known = self.launching.stock.groups
        for name in parameters.get("GroupNames", ()):
            if name not in known:
                raise Invalid("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        groups = [
            {"GroupName": name, "Strategy": strategy, "State": "available"} for name, strategy in sorted(known.items())
        ]
        return wire.answer("DescribePlacementGroups", {"PlacementGroups": groups})

    def _products(self, parameters: Parameters) -> dict[str, Any]:
        """The price list, a few entries a page."""
        begin = int(parameters.get("NextToken") or 0)
        prices = sorted(self.launching.stock.on_demand_prices.items())
        page = [json.dumps(_product(name, price)) for name, price in prices[begin : begin + PRICES_A_PAGE]]
        more = begin + PRICES_A_PAGE < len(prices)
        return {
            "FormatVersion": "aws_v1",
            "PriceList": page,
            **({"NextToken": str(begin + PRICES_A_PAGE)} if more else {}),
        }


def _called(environ: Environ, body: bytes) -> tuple[str, str]:
    """Service and operation of a signed request."""
    scope = SCOPE.search(str(environ.get("HTTP_AUTHORIZATION", "")))
    service = scope[2] if scope else ""
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        return service, target.rpartition(".")[2]
    action = re.search(rb"(?:^|&)Action=(\w+)", body)
    return service, action[1].decode() if action else ""


def _known_of(request: Mapping[str, Any]) -> dict[str, str]:
    """A spot request by filter names."""
    tags = {f"tag:{tag['Key']}": tag["Value"] for tag in request["Tags"]}
    return {**tags, "status-code": request["Status"]["Code"], "instance-id": request["InstanceId"]}


def _product(name: str, price: float) -> dict[str, Any]:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{price:.10f}"}}
    return {
        "product": {"attributes": {"instanceType": name, "regionCode": REGION}},
        "terms": {"OnDemand": {"term": {"priceDimensions": {"dimension": dimension}}}},
    }


def _answer(start: Start, status: int, body: bytes, kind: str) -> Iterable[bytes]:
    start(f"{status} As played", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def _nameless(reply: bytes) -> bytes:
    """An answer without the ids of its machines; that to a launch has no machines at all."""
    if b"<reservationSet>" not in reply:
        reply = re.sub(rb"(<(instancesSet|fleetInstanceSet)>).*(</\2>)", rb"\1\3", reply, flags=re.DOTALL)
    return re.sub(rb"<instanceId>[^<]*</instanceId>", b"", reply)


def _reset(environ: Environ, start: Start) -> Iterable[bytes]:
    """Cut the line without a word, as a firewall or a dying router does."""
    line: socket.socket = environ["werkzeug.socket"]
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
    start("500 Never seen", [])
    return []
