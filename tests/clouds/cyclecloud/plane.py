"""The control plane of the CycleCloud provider for tests: a server process on loopback that plays faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, cast

import requests
from requests.auth import HTTPBasicAuth

from autoscaler.providers.contract import ControlPlane, Fault
from autoscaler.providers.cyclecloud.provider import CycleCloudProvider
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.rest import Limits, Rest
from autoscaler.providers.settings import read_settings
from tests.clouds.cyclecloud.server import PASSWORD, USER
from tests.clouds.tls import BreakingTls, certificate
from tests.deadlines import Deadline

PREFIX = "CP_CAP_AUTOSCALE_CYCLECLOUD_"
LIMITS = Limits(connect=30.0, read=60.0, total=120.0, tries=2, pause=0.01)
CHOSEN = {"array": "execute", "type": "Standard_D2s_v5"}
"""The bucket that the contract's tests order from."""


class CycleCloudPlane(ControlPlane):
    """A server with one started cluster, `demo`, and its faults."""

    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {
            Fault.LAG: "the listing is CycleCloud's own: a node stands in it before its creation is answered",
            Fault.HIDE_NEW: "the same",
            Fault.ADVICE: "one call answers all",
            Fault.CUT_LISTING: "one answer lists all nodes",
            Fault.IMAGE_DISKS: "CycleCloud makes a node's disks and takes them away; we describe none",
        }
    )

    def __init__(self, url: str) -> None:
        self.url = url
        self.tls: BreakingTls | None = None
        self.changed: Mapping[str, str] = {}
        self.control(do="reset")

    def control(self, **command: Any) -> dict[str, Any]:
        """Send a command of the control path; returns the state of the server afterwards."""
        answer = requests.post(f"{self.url}/_control", json=command, timeout=120)
        return cast("dict[str, Any]", answer.json())

    def faults(self, **faults: Any) -> None:
        self.control(do="faults", faults=faults)

    def settings(self, **values: str) -> CycleCloudSettings:
        given = {"url": self.url, "username": USER, "password": PASSWORD, "cluster": "demo", **self.changed, **values}
        if self.tls is not None:
            given |= {"url": self.tls.address, "ca": str(certificate()[0])}
        return read_settings(CycleCloudSettings, {PREFIX + name.upper(): value for name, value in given.items()})

    def connect(self, cell: str, *, limits: Limits = LIMITS, **values: str) -> CycleCloudProvider:
        settings = self.settings(**values)
        password = settings.password.get_secret_value()
        rest = Rest(
            settings.url,
            auth=HTTPBasicAuth(settings.username, password),
            limits=limits,
            verify=settings.ca or settings.verify,
            hidden=lambda: (password,),
            rate_limiter=RateLimiter(rate=1000, burst=1000, patience=0.3),
        )
        return CycleCloudProvider(settings, cell=cell, rest=rest)

    def billable(self) -> Collection[str]:
        return cast("list[str]", self.control()["billable"])

    def calls(self) -> list[str]:
        """Every call that arrived since the start, as METHOD PATH."""
        return cast("list[str]", self.control()["calls"])

    def inject(self, fault: Fault) -> None:
        match fault:
            case Fault.OUT_OF_CAPACITY:
                self.control(do="bucket", **CHOSEN, set={"throttled": True})
            case Fault.PARTIAL:
                self.control(do="bucket", **CHOSEN, set={"max_count": len(self.billable()) + 2})
            case Fault.QUOTA:
                self.control(do="cluster", set={"regional_quota": 100, "consumed_by_others": 100})
            case Fault.THROTTLED:
                self.faults(status=429, on="create", retry_after="1")
            case Fault.REFUSED:
                self.faults(status=403, on="create")
            case Fault.LONG_PAUSE:
                self.faults(status=429, on="create", retry_after="1200")
            case Fault.CREDENTIALS:
                self.faults(status=401, on="create")
            case Fault.UNREACHABLE:
                self.faults(reset="before")
            case Fault.MALFORMED:
                self.faults(body='{"nodes": [')
            case Fault.NO_IDS:
                self.control(do="cluster", set={"nameless": True})
            case Fault.LOST_ANSWER:
                self.faults(reset="after", on="create")
            case Fault.ACCEPTED_THEN_DEAD:
                self.control(do="cluster", set={"failing": "Creating VM: the disk encryption set cannot be used"})
            case Fault.BROKEN_TLS:
                self.tls = BreakingTls(self.url, lambda method, path, _: path.endswith("/nodes/create"))
            case Fault.LOST_THEN_THROTTLED:
                self.faults(reset="once", status=429, on="create", retry_after="1")
            case Fault.CHANGED_SETTINGS:
                self.changed = {"boot": "none"}
            case Fault.STOPPED | Fault.ENDED_OUTSIDE | Fault.FORGOTTEN:
                pass
            case Fault.LAG | Fault.CUT_LISTING | Fault.IMAGE_DISKS | Fault.HIDE_NEW | Fault.ADVICE:
                raise NotImplementedError

    def stop(self, worker_id: str) -> None:
        self._manage("deallocate", worker_id)

    def end(self, worker_id: str) -> None:
        self._manage("terminate", worker_id)

    def forget(self, worker_id: str) -> None:
        """An ended node leaves the cluster, and with it its id."""
        self.end(worker_id)
        limit = Deadline(self.deadline)
        while worker_id in self.billable():
            assert not limit.over()
            self.settle()

    def _manage(self, verb: str, worker_id: str) -> None:
        """By CycleCloud's own REST."""
        url = f"{self.url}/clusters/demo/nodes/{verb}"
        requests.post(url, json={"ids": [worker_id]}, auth=HTTPBasicAuth(USER, PASSWORD), timeout=60).raise_for_status()

    def heal(self) -> None:
        self.faults()
        self.changed = {}
        if self.tls is not None:
            self.tls.close()
            self.tls = None
        self.control(do="bucket", **CHOSEN, set={"throttled": False, "max_count": 2000})
        usual = {"regional_quota": 50_000, "consumed_by_others": 0, "failing": None, "nameless": False}
        self.control(do="cluster", set=usual)
