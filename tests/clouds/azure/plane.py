"""The played Azure as a process and as the contract's control plane, and providers that speak to it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from azure.core.credentials import AccessToken

from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.azure.settings import PREFIX, AzureSettings
from autoscaler.providers.contract import ControlPlane, Fault
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.settings import read_settings
from tests.clouds.azure.region import GROUP, LOCATION, SUBSCRIPTION
from tests.clouds.played import Region
from tests.clouds.tls import BreakingTls, certificate

NOWHERE = "http://127.0.0.1:9"
"""A port without a server: calls are refused at once."""
LAG = 3600.0
"""Seconds: longer than a launch and a listing take on a busy machine."""


class Played:
    """A credential whose tokens the played region takes."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("played", 2**33)


class AzurePlane(ControlPlane):
    """An empty region. `settings` are laid over those of a small cell: one family, no zones."""

    tls: BreakingTls | None = None
    changed: Mapping[str, str] = MappingProxyType({})

    def __init__(self, region: Region, **settings: str) -> None:
        self.region = region
        self.region.control("forget")
        self.own = MappingProxyType(settings)
        self.unreachable = False

    def values(self) -> dict[str, str]:
        """The environment of the provider."""
        given = {
            "subscription": SUBSCRIPTION,
            "resource_group": GROUP,
            "location": LOCATION,
            "endpoint": NOWHERE if self.unreachable else self.tls.address if self.tls else self.region.address,
            "price_list": f"{self.region.address}/api/retail/prices",
            "image": "p:o:s:latest",
            "subnet": "net/default",
            "key": "ssh-ed25519 AAAA played",
            "families": "Dsv5",
            **self.own,
            **self.changed,
        }
        return {f"{PREFIX}{name.upper()}": value for name, value in given.items()}

    def connect(self, cell: str) -> AzureProvider:
        settings = read_settings(AzureSettings, self.values())
        rate_limiter = RateLimiter(
            rate=1000, burst=1000, patience=0.3
        )  # the contract waits for the end of our patience
        return AzureProvider(settings, cell=cell, calls=Calls(settings, rate_limiter, Played()))

    def billable(self) -> Collection[str]:
        found: list[str] = self.region.control("billable")["billable"]
        return found

    def inject(self, fault: Fault) -> None:
        creating = "CreateMachine"
        match fault:
            case Fault.OUT_OF_CAPACITY:
                self.region.control("set", stock={"*/*": 0})
            case Fault.PARTIAL:
                self.region.control("set", stock={"*/*": 2})
            case Fault.QUOTA:
                self.region.control("limit", cores=0)
            case Fault.THROTTLED:
                self.region.fault(
                    {"kind": "error", "operation": creating, "code": "TooManyRequests", "status": 429, "seconds": 30}
                )
            case Fault.REFUSED:
                self.region.fault(
                    {"kind": "error", "operation": creating, "code": "AuthorizationFailed", "status": 403}
                )
            case Fault.ADVICE:
                names = ("Usages", "ListStates", "Cards")
                refused = {"kind": "error", "code": "AuthorizationFailed", "status": 403}
                self.region.fault(*({"operation": name, **refused} for name in names))
            case Fault.LONG_PAUSE:
                limit = {"kind": "error", "code": "TooManyRequests", "status": 429, "seconds": 1200}
                self.region.fault({"operation": creating, **limit})
            case Fault.CREDENTIALS:
                self.region.fault(
                    {"kind": "error", "operation": creating, "code": "InvalidAuthenticationToken", "status": 401}
                )
            case Fault.UNREACHABLE:
                self.unreachable = True
            case Fault.MALFORMED:
                self.region.fault({"kind": "garbage", "operation": "ListMachines"})
            case Fault.NO_IDS:
                self.region.fault(*({"kind": "nameless", "operation": name} for name in (creating, "ListMachines")))
            case Fault.CUT_LISTING:
                self.region.control("set", page=1)
                self.region.fault({"kind": "garbage", "operation": "ListMachinesNext"})
            case Fault.LOST_ANSWER:
                self.region.fault({"kind": "lost", "operation": creating, "times": 1})
            case Fault.BROKEN_TLS:
                os.environ["REQUESTS_CA_BUNDLE"] = str(certificate()[0])
                self.tls = BreakingTls(self.region.address, lambda method, path, _: method == "PUT")
            case Fault.LOST_THEN_THROTTLED:
                limit = {"kind": "error", "code": "TooManyRequests", "status": 429, "seconds": 30}
                lost = {"kind": "lost", "operation": creating, "times": 1}
                self.region.fault(lost, {"operation": creating, **limit})
            case Fault.CHANGED_SETTINGS:
                self.changed = {"disk": "77"}
            case Fault.HIDE_NEW:
                self.region.control("set", hidden_from=time.time())
            case Fault.LAG:
                self.region.control("set", lag=LAG)
            case Fault.ACCEPTED_THEN_DEAD:
                self.region.control("set", fails={"Standard_D2s_v5": "OSProvisioningTimedOut"})
            case Fault.IMAGE_DISKS:
                self.region.control("set", image_disks=[0, 3])
            case Fault.STOPPED | Fault.ENDED_OUTSIDE | Fault.FORGOTTEN:
                raise NotImplementedError

    def stop(self, worker_id: str) -> None:
        self.region.control("power", name=worker_id, power="deallocated")

    def end(self, worker_id: str) -> None:
        self.region.control("vanish", name=worker_id)

    def forget(self, worker_id: str) -> None:
        self.end(worker_id)

    def heal(self) -> None:
        self.region.fault()
        self.changed = {}
        if self.tls is not None:
            self.tls.close()
            self.tls = None
            del os.environ["REQUESTS_CA_BUNDLE"]
        self.region.control("set", stock={}, lag=0, hidden_from=None, fails={}, page=100)
        self.region.control("limit", cores=100_000)
        self.unreachable = False
