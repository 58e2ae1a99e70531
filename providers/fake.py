"""A provider in memory, for tests and simulation: it passes the contract, and can play every fault of a cloud.

`FakeCloud` is the cloud: machines, stock, faults, a clock that is passed in. `FakeProvider` is one client of it, tagged
with one cell; two clients of one cloud play a restart, two tags two clusters. Nothing outlives the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from autoscaler.core.model.fleet import Bucket, BucketKey, Ending, FailureKind, MachineState, PriceType, Worker
from autoscaler.providers.catalog import Catalog, load_catalog
from autoscaler.providers.interface import (
    GROUP_ID,
    Interruption,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    Problem,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.settings import ExtensionSettings

LISTED_AFTER_END = 600.0
"""Seconds that a terminated machine is still listed."""


@dataclass(slots=True)
class Faults:
    """Faults, until they are set back. Counts are of calls that will still fail."""

    out_of_capacity: set[str] = field(default_factory=set)
    """Instance types, or `type/zone`, of which none is left."""
    stock: int | None = None
    """This many more machines can be had of all types together; then out of capacity."""
    quota: int | None = None
    """This many machines may exist at once for this account."""
    throttled: int = 0
    dies_at_once: str | None = None
    """Launches are accepted, and each machine ends before it is up, for this cause."""
    refused: str | None = None
    """Every launch is refused for good, with these words."""
    unreachable: int = 0
    """Calls that never arrive."""
    malformed: int = 0
    """Listings that cannot be understood."""
    lost_answers: int = 0
    """Launches that happen, but whose answer never arrives."""
    crash: type[BaseException] = Unreachable
    """The error after a lost answer: another one than Unreachable plays the death of the process between call and
    answer.
    """
    listing_lag: float = 0.0
    """Seconds after which a launch or an end shows in listings."""
    hidden_from: float | None = None
    """What was launched since then shows in no listing."""
    answer_delay: float = 0.0
    """Seconds that each call takes, by the cloud's `sleep`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of the cloud. `cell` None: somebody else's, without our tag."""

    id: str
    cell: str | None
    token: str
    order: LaunchOrder
    bucket: Bucket
    name: str
    created_at: float
    ended_at: float | None = None
    message: str | None = None
    ending: Ending = Ending.UNKNOWN
    failure: FailureKind | None = None


@dataclass(slots=True)
class FakeCloud:
    """The cloud itself. Safe to be called from several threads."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = lambda _: None
    catalog: Catalog = field(default_factory=load_catalog)
    boot_delay: float = 0.0
    faults: Faults = field(default_factory=Faults)
    machines: dict[str, Machine] = field(default_factory=dict)
    notices: list[Interruption] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Names of the calls that arrived, in order."""
    guard: threading.RLock = field(default_factory=threading.RLock)
    _made: int = 0

    def living(self, cell: str | None) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.cell == cell and machine.ended_at is None]

    def billable(self) -> Collection[str]:
        """Ids of all machines that cost money now, whoever's."""
        return [machine.id for machine in self.machines.values() if machine.ended_at is None]

    def kill(self, worker_id: str, message: str = "ended by the cloud", ending: Ending = Ending.UNKNOWN) -> None:
        """Sudden death of a machine, the end of one by request, and (with its `ending`) its own or an announced end."""
        with self.guard:
            machine = self.machines[worker_id]
            if machine.ended_at is None:
                self.machines[worker_id] = replace(machine, ended_at=self.clock(), message=message, ending=ending)

    def come_true(self) -> None:
        """End the machines whose notices are due."""
        with self.guard:
            for notice in self.notices:
                if notice.kind != "rebalance" and notice.at <= self.clock():
                    self.kill(notice.worker_id, "taken back, as its notice said", Ending.INTERRUPTED)

    def create(self, order: LaunchOrder, cell: str | None) -> Launched:
        """Make the missing machines of an order: each token's machines are made once, however often requested."""
        with self.guard:
            ids = [
                machine.id for machine in self.machines.values() if (machine.cell, machine.token) == (cell, order.token)
            ]
            if ids:
                return Launched(tuple(ids))
            errors: dict[BucketKey, ProviderError] = {}
            for bucket in order.buckets:
                while len(ids) < order.count:
                    if error := self._shortage(bucket.key):
                        errors[bucket.key] = error
                        break
                    ids.append(self._make(order, cell, bucket).id)
            return Launched(tuple(ids), tuple(errors.items()) if len(ids) < order.count else ())

    def _shortage(self, key: BucketKey) -> ProviderError | None:
        faults, name = self.faults, key.instance_type
        if faults.quota is not None and len(self.billable()) >= faults.quota:
            return QuotaReached(f"quota of {faults.quota} machines is full")
        if name not in self.catalog.offers:
            return Refused(f"there is no instance type {name}")
        if name in faults.out_of_capacity or f"{name}/{key.zone}" in faults.out_of_capacity:
            return OutOfCapacity(f"no {name} is left")
        if faults.stock is not None:
            if faults.stock <= 0:
                return OutOfCapacity(f"no {name} is left")
            faults.stock -= 1
        return None

    def _make(self, order: LaunchOrder, cell: str | None, bucket: Bucket) -> Machine:
        self._made += 1
        number = self._made
        machine = Machine(f"fake-{number:06d}", cell, order.token, order, bucket, f"fake-{number}", self.clock())
        if self.faults.dies_at_once is not None:
            machine = replace(
                machine, ended_at=self.clock(), message=self.faults.dies_at_once, failure=FailureKind.BOOT
            )
        self.machines[machine.id] = machine
        return machine


class FakeSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_FAKE_`."""

    env_prefix = "CP_CAP_AUTOSCALE_FAKE_"

    boot_delay: float = Field(0.0, ge=0, description="Seconds from launch to running.")
    catalog: Path | None = Field(None, description="Your own catalogue file, which overrides the included one.")


class FakeProvider:
    """One client of a `FakeCloud`."""

    name: ClassVar[str] = "fake"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[FakeSettings]] = FakeSettings

    def __init__(self, settings: FakeSettings, *, cell: str, cloud: FakeCloud | None = None) -> None:
        self.cell = cell
        self.cloud = cloud or FakeCloud(catalog=load_catalog(settings.catalog), boot_delay=settings.boot_delay)

    def buckets(self) -> Sequence[Bucket]:
        self._call("buckets")
        return self.cloud.catalog.buckets()

    def workers(self) -> Sequence[Worker]:
        self._call("workers")
        if self.cloud.faults.malformed > 0:
            self.cloud.faults.malformed -= 1
            raise Unreachable("the listing could not be understood")
        seen_at = self.cloud.clock() - self.cloud.faults.listing_lag
        with self.cloud.guard:
            ours = [machine for machine in self.cloud.machines.values() if machine.cell == self.cell]
        hidden = self.cloud.faults.hidden_from
        shown = ours if hidden is None else [machine for machine in ours if machine.created_at < hidden]
        return [self._worker(machine, seen_at) for machine in shown if _listed(machine, seen_at)]

    def launch(self, order: LaunchOrder) -> Launched:
        self._call("launch")
        faults = self.cloud.faults
        if faults.refused is not None:
            raise Refused(faults.refused)
        launched = self.cloud.create(order, self.cell)
        if faults.lost_answers > 0:
            faults.lost_answers -= 1
            raise faults.crash("the answer to a launch was lost")
        for _, error in launched.shortfalls:
            if isinstance(error, Refused) and not launched.ids:
                raise error
        return launched

    def terminate(self, ids: Sequence[str]) -> None:
        self._call("terminate")
        machines = [self.cloud.machines[worker_id] for worker_id in ids if worker_id in self.cloud.machines]
        for machine in machines:
            if machine.cell != self.cell:
                raise Refused(f"{machine.id} does not carry the tag of {self.cell}: left alone")
        for machine in machines:
            self.cloud.kill(machine.id, "ended by request")

    def check(self) -> Sequence[Problem]:
        if self.cloud.faults.refused is not None:
            return [Problem(self.cloud.faults.refused, "set `faults.refused` back to None")]
        return []

    def console(self, worker_id: str) -> str:
        machine = self.cloud.machines.get(worker_id)
        return "" if machine is None or machine.cell != self.cell else f"{machine.name} booted\n"

    def interruptions(self) -> Sequence[Interruption]:
        ours = {machine.id for machine in self.cloud.living(self.cell)}
        return [notice for notice in self.cloud.notices if notice.worker_id in ours]

    def _call(self, name: str) -> None:
        cloud, faults = self.cloud, self.cloud.faults
        cloud.calls.append(name)
        cloud.sleep(faults.answer_delay)
        if faults.unreachable > 0:
            faults.unreachable -= 1
            raise Unreachable("the cloud did not answer")
        if faults.throttled > 0:
            faults.throttled -= 1
            error = Throttled if name == "launch" else Unreachable
            raise error("too many calls")

    def _worker(self, machine: Machine, seen_at: float) -> Worker:
        key, ended = machine.bucket.key, machine.ended_at is not None and machine.ended_at <= seen_at
        running = seen_at >= machine.created_at + self.cloud.boot_delay
        alive = MachineState.RUNNING if running else MachineState.PENDING
        return Worker(
            id=machine.id,
            type=machine.bucket.type,
            node_array=machine.order.node_array,
            state=MachineState.TERMINATED if ended else alive,
            created_at=machine.created_at,
            name=machine.name,
            zone=key.zone,
            price_type=PriceType(key.price_type),
            placement_group=key.placement_group,
            price_per_hour=machine.bucket.price_per_hour,
            order_id=machine.order.order_id,
            group_id=machine.order.tags.get(GROUP_ID),
            message=machine.message if ended else None,
            ending=machine.ending if ended else Ending.UNKNOWN,
            failure=machine.failure if ended else None,
        )


def _listed(machine: Machine, seen_at: float) -> bool:
    if machine.created_at > seen_at:
        return False
    return machine.ended_at is None or machine.ended_at > seen_at - LISTED_AFTER_END
