"""The server as a fixture process, and the control plane that the provider contract plays against."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import requests

from autoscaler.providers.cloud_pipeline.provider import CloudPipelineProvider
from autoscaler.providers.contract import ControlPlane, Fault
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.settings import read_settings
from tests.clouds.played import served
from tests.clouds.tls import BreakingTls, certificate


class Process:
    """The server in a process of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._session = requests.Session()

    def control(self, name: str, **asked: Any) -> Any:
        """Change the platform; returns its state, or what the change made."""
        answer = self._session.post(f"{self.address}/control/{name}", json=asked, timeout=120)
        answer.raise_for_status()
        return answer.json()

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.control("state")
        return state

    def close(self) -> None:
        self._session.close()


@contextlib.contextmanager
def started() -> Iterator[Process]:
    """The server, until the end of the block."""
    with served("cloud_pipeline", "--until-input-ends") as line:
        process = Process(json.loads(line)["address"])
        try:
            yield process
        finally:
            process.close()


class CloudPipelinePlane(ControlPlane):
    """A platform with a master run, empty of workers."""

    cannot: ClassVar[Mapping[Fault, str]] = MappingProxyType(
        {
            Fault.OUT_OF_CAPACITY: "the platform accepts every run; one without a machine fails later, and says why",
            Fault.IMAGE_DISKS: "the platform makes a run's disks and takes them away",
            Fault.FORGOTTEN: "the platform keeps the record of every run",
        }
    )

    def __init__(self, process: Process) -> None:
        self.process = process
        self.process.control("reset")
        self.environment: dict[str, str] = self.process.state["environment"]
        self.broken: dict[str, str] = {}
        self.tls: BreakingTls | None = None
        self.launcher: dict[str, str] = {}
        """The launcher's environment."""
        self.skew = 0.0
        """Seconds by which the providers' clock is ahead."""

    def connect(self, cell: str, **given: str) -> CloudPipelineProvider:
        values = {**self.environment, **self.broken, **given}
        settings = read_settings(CloudPipelineProvider.Settings, values)
        limiter = RateLimiter(rate=1000.0, burst=1000)
        provider = CloudPipelineProvider(settings, cell=cell, rate_limiter=limiter, environment=self.launcher)
        provider.orders.clock = lambda: time.monotonic() + self.skew
        return provider

    def settle(self) -> None:
        super().settle()
        self.skew += 10

    def billable(self) -> Collection[str]:
        living: list[str] = self.process.state["billable"]
        return living

    def inject(self, fault: Fault) -> None:
        match fault:
            case Fault.PARTIAL:
                self.process.control("set", limit=len(self.billable()) + 2)
            case Fault.QUOTA:
                self.process.control("set", limit=0)
            case Fault.THROTTLED:
                headers = {"Retry-After": "30"}
                self.process.control("fault", call="POST run", kind="status", times=9999, status=429, headers=headers)
            case Fault.REFUSED:
                self.process.control("set", refusal="Access is denied")
            case Fault.ADVICE:
                for call in ("POST pipeline/price", "GET run/*/task"):
                    self.process.control("fault", call=call, kind="status", times=9999, status=500)
            case Fault.LONG_PAUSE:
                headers = {"Retry-After": "1200"}
                self.process.control("fault", call="POST run", kind="status", times=9999, status=429, headers=headers)
            case Fault.CREDENTIALS:
                self.process.control("fault", call="POST run", kind="status", times=9999, status=401)
            case Fault.UNREACHABLE:
                self.broken = {"API": "http://127.0.0.1:1/"}
            case Fault.MALFORMED:
                self.process.control("fault", call="POST run/filter", kind="garbage", times=9999)
            case Fault.NO_IDS:
                for call in ("POST run", "POST run/filter"):
                    self.process.control("fault", call=call, kind="nameless", times=9999)
            case Fault.CUT_LISTING:
                self.broken = {f"{CloudPipelineProvider.Settings.env_prefix}PAGE_SIZE": "1"}
                self.process.control("fault", call="POST run/filter", kind="garbage", times=9999, later_pages=True)
            case Fault.LOST_ANSWER:
                self.process.control("fault", call="POST run", kind="lost")
            case Fault.BROKEN_TLS:
                address = self.process.address
                self.tls = BreakingTls(address, lambda method, path, _: method == "POST" and path.endswith("/run"))
                base = self.environment["API"].replace(address, self.tls.address)
                prefix = CloudPipelineProvider.Settings.env_prefix
                self.broken = {"API": base, f"{prefix}CERTIFICATES": str(certificate()[0])}
            case Fault.LOST_THEN_THROTTLED:
                self.process.control("fault", call="POST run", kind="lost")
                self.process.control("fault", call="POST run", kind="status", times=9999, status=429)
            case Fault.CHANGED_SETTINGS:
                self.broken = {"CP_CAP_AUTOSCALE_INSTANCE_IMAGE": "registry/library/other:1", "instance_disk": "77"}
            case Fault.HIDE_NEW:
                self.process.control("set", hidden_from=time.time())
            case Fault.LAG:
                self.process.control("set", lag=3600.0)
            case Fault.ACCEPTED_THEN_DEAD:
                self.process.control("set", short_of=["c5.large", "m5.large"])
            case _:
                raise NotImplementedError(fault)

    def stop(self, worker_id: str) -> None:
        self.process.control("run", id=int(worker_id), status="PAUSED")

    def end(self, worker_id: str) -> None:
        self.process.control("end", id=int(worker_id), status="STOPPED")

    def heal(self) -> None:
        self.broken = {}
        if self.tls is not None:
            self.tls.close()
            self.tls = None
        self.process.control("heal")
