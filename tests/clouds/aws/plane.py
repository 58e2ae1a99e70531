"""The played AWS as the contract's control plane, and providers that speak to it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, ClassVar

from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.aws.settings import PREFIX, AwsSettings
from autoscaler.providers.contract import ControlPlane, Fault
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.settings import read_settings
from tests.clouds.played import Region
from tests.clouds.tls import BreakingTls, certificate

LAUNCHES = ("RunInstances", "CreateFleet")
NOWHERE = "http://127.0.0.1:9"
"""A port without a server: calls are refused at once."""
LAG = 3600.0
"""Seconds: longer than a launch and a listing take on a busy machine."""
_clients: dict[str, Calls] = {}


class AwsPlane(ControlPlane):
    """An empty region. `settings` are laid over those of a small cell: one family, one zone, no prices asked."""

    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {Fault.LONG_PAUSE: "EC2 says that there are too many calls, and not how long to pause"}
    )

    def __init__(self, region: Region, zones: str = "a", **settings: str) -> None:
        self.region = region
        self.world: Mapping[str, Any] = region.control("forget")
        self.own = MappingProxyType(settings)
        self.zones = zones
        self.unreachable = False
        self.tls: BreakingTls | None = None
        self.changed: Mapping[str, str] = {}
        self.skew = 0.0
        """Seconds by which the providers' clock is ahead."""

    def like(self, zones: str, **settings: str) -> AwsPlane:
        """The same region with other settings laid over these."""
        other = copy(self)
        other.zones, other.own = zones, MappingProxyType({**self.own, **settings})
        return other

    def values(self) -> dict[str, str]:
        """The environment of the provider."""
        subnets = [self.world["subnets"][f"us-east-1{letter}"] for letter in self.zones]
        given = {
            "region": "us-east-1",
            "endpoint": NOWHERE if self.unreachable else self.tls.address if self.tls else self.region.address,
            "image": self.world["image"],
            "subnets": ",".join(subnets),
            "families": "c5",
            "prices": "catalog",
            "calls_per_second": "1000",
            **self.own,
            **self.changed,
        }
        return {f"{PREFIX}{name.upper()}": value for name, value in given.items()}

    def connect(self, cell: str) -> AwsProvider:
        """A client takes botocore a third of a second to make and knows nothing of what was asked: all share one."""
        settings = read_settings(AwsSettings, self.values())
        calls = (
            Calls(settings) if self.tls else _clients.setdefault(self.values()[f"{PREFIX}ENDPOINT"], Calls(settings))
        )
        calls.settings = settings
        calls.rate_limiter = RateLimiter(
            rate=1000, burst=1000, patience=0.3
        )  # the contract waits for the end of our patience
        return AwsProvider(settings, cell=cell, calls=calls, clock=lambda: time.monotonic() + self.skew)

    def settle(self) -> None:
        super().settle()
        self.skew += 60

    def billable(self) -> Collection[str]:
        found: list[str] = self.region.control("billable")["billable"]
        return found

    def inject(self, fault: Fault) -> None:
        match fault:
            case Fault.OUT_OF_CAPACITY:
                self.region.control("stock", left={"*/*/*": 0})
            case Fault.PARTIAL:
                self.region.control("stock", left={"*/*/*": 2})
            case Fault.QUOTA:
                self.region.control("stock", vcpus=0)
            case Fault.THROTTLED:
                self.fault_launches(kind="error", code="RequestLimitExceeded", status=503)
            case Fault.REFUSED:
                self.fault_launches(kind="error", code="UnauthorizedOperation", status=403)
            case Fault.ADVICE:
                names = (
                    "DescribeInstanceStatus",
                    "DescribeSpotInstanceRequests",
                    "DescribeSpotPriceHistory",
                    "GetProducts",
                    "ReceiveMessage",
                )
                refused = {"kind": "error", "code": "UnauthorizedOperation", "status": 403}
                self.region.fault(*({"operation": name, **refused} for name in names))
                self.changed = {"event_queue": f"{self.region.address}/123456789012/events", "prices": "ask"}
            case Fault.CREDENTIALS:
                words = "AWS was not able to validate the provided access credentials"
                self.fault_launches(kind="error", code="AuthFailure", status=401, message=words)
            case Fault.UNREACHABLE:
                self.unreachable = True
            case Fault.MALFORMED:
                self.region.fault({"kind": "garbage", "operation": "DescribeInstances"})
            case Fault.NO_IDS:
                self.region.fault(
                    *({"operation": name, "kind": "nameless"} for name in (*LAUNCHES, "DescribeInstances"))
                )
            case Fault.CUT_LISTING:
                self.region.control("page", size=1)
                self.region.fault({"kind": "garbage", "operation": "DescribeInstancesNext"})
            case Fault.LOST_ANSWER:
                self.fault_launches(kind="lost", times=1)
            case Fault.BROKEN_TLS:
                os.environ["AWS_CA_BUNDLE"] = str(certificate()[0])
                self.tls = BreakingTls(self.region.address, _is_launch)
            case Fault.LOST_THEN_THROTTLED:
                lost = [{"operation": name, "kind": "lost", "times": 1} for name in LAUNCHES]
                limit = {"kind": "error", "code": "RequestLimitExceeded", "status": 503}
                self.region.fault(*lost, *({"operation": name, **limit} for name in LAUNCHES))
            case Fault.CHANGED_SETTINGS:
                subnets = [self.world["subnets"][f"us-east-1{letter}"] for letter in self.zones]
                self.changed = {"disk": "77", "subnets": ",".join(subnets[:1])}
            case Fault.HIDE_NEW:
                self.region.control("hide_new")
            case Fault.LAG:
                self.region.control("lag", seconds=LAG)
            case Fault.ACCEPTED_THEN_DEAD:
                self.region.control("doom", code="Client.InternalError", message="Client error on launch")
            case Fault.IMAGE_DISKS:
                self.region.control("image_disk", device="/dev/sdf")
            case Fault.STOPPED | Fault.ENDED_OUTSIDE | Fault.FORGOTTEN | Fault.LONG_PAUSE:
                raise NotImplementedError

    def stop(self, worker_id: str) -> None:
        self.region.control("stop", id=worker_id)

    def end(self, worker_id: str) -> None:
        self.region.control("end", id=worker_id, code="Client.UserInitiatedShutdown")

    def forget(self, worker_id: str) -> None:
        self.region.control("forget_machine", id=worker_id)

    def fault_launches(self, **fault: Any) -> None:
        """Every launch meets this fault, however it is asked for."""
        self.region.fault(*({"operation": name, **fault} for name in LAUNCHES))

    def heal(self) -> None:
        self.region.fault()
        self.region.control("stock", left={}, vcpus=None)
        self.region.control("lag", seconds=0)
        self.region.control("doom")
        self.unreachable, self.changed = False, {}
        if self.tls is not None:
            self.tls.close()
            self.tls = None
            del os.environ["AWS_CA_BUNDLE"]


def _is_launch(method: str, path: str, body: bytes) -> bool:
    return any(f"Action={name}".encode() in body for name in LAUNCHES)
