"""Machines on this very host: a worker is a host of namespaces on the master's network that runs the real boot script.

It plays the cloud in the demo and in tests: sizes and prices of the catalogue, a boot delay, and, on request, the
faults of clouds. Its control plane is a state directory (`machines`), its machines hosts of the cell's tree (`hosts`).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from autoscaler.core.model.fleet import Bucket, BucketKey, Ending, FailureKind, Interruption, MachineState, Worker
from autoscaler.errors import AutoscalerError
from autoscaler.namespaces import NamespaceError, Tree
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.ending import each, raise_errors
from autoscaler.providers.interface import (
    GROUP_ID,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    Problem,
    ProviderError,
    QuotaReached,
    Refused,
    Unreachable,
)
from autoscaler.providers.local.failures import Notices
from autoscaler.providers.local.hosts import BROKEN_BOOT, INIT, Hosts, TreeHosts, boot_argv, boot_environment
from autoscaler.providers.local.machines import Machine, Records, Timeout, machine_id
from autoscaler.providers.local.settings import LocalSettings

LISTED_AFTER_END = 600.0
"""Seconds that a terminated machine is still listed."""
LAST_LINE = 200
"""Characters of a console's last line that a message shows."""
START_GRACE = 60.0
"""Seconds after which a machine whose host was never started counts as ended: its launch was cut short."""
ARCHITECTURES = {"x86_64": "lx-amd64", "aarch64": "lx-arm64"}


class LocalProvider:
    """The local control plane for the machines of one cell."""

    name: ClassVar[str] = "local"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[LocalSettings]] = LocalSettings

    def __init__(
        self,
        settings: LocalSettings,
        *,
        cell: str,
        hosts: Hosts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.cell, self.clock = settings, cell, clock
        self.hosts: Hosts = hosts or TreeHosts(Tree(settings.network))
        self.machines = Records(settings.state or settings.network / "machines")
        self.notices = Notices(self.machines)
        arch = ARCHITECTURES.get(platform.machine(), "lx-amd64")
        offered = load_catalog(settings.catalog).buckets()
        self._buckets = tuple(replace(bucket, type=replace(bucket.type, arch=arch)) for bucket in offered)

    def buckets(self) -> Sequence[Bucket]:
        return self._buckets

    def workers(self) -> Sequence[Worker]:
        seen_at = self.clock() - self.settings.listing_lag
        return [self._worker(machine, seen_at) for machine in self.records() if _listed(machine, seen_at)]

    def records(self) -> Sequence[Machine]:
        """Every machine this cell had, ended ones included: worker-seconds and price are summed from these."""
        now = self.clock()
        try:
            return [self._updated(machine, now) for machine in self.machines.all() if machine.cell == self.cell]
        except (NamespaceError, OSError) as error:
            raise Unreachable(f"the machines of {self.machines.directory} cannot be read: {error}") from error

    def interruptions(self) -> Sequence[Interruption]:
        living = [machine for machine in self.records() if machine.ended_at is None]
        return [notice for machine in living if (notice := self.notices.of(machine.id)) is not None]

    def launch(self, order: LaunchOrder) -> Launched:
        unknown = {bucket.type.name for bucket in order.buckets} - {bucket.type.name for bucket in self._buckets}
        if unknown:
            raise Refused(f"there is no instance type {', '.join(sorted(unknown))} in the catalogue")
        try:
            with self.machines.lock():
                return self._launch(order)
        except (Timeout, OSError) as error:
            raise Unreachable(f"the state directory {self.machines.directory} cannot be used: {error}") from error

    def _launch(self, order: LaunchOrder) -> Launched:
        now = self.clock()
        self.machines.forget_ended_before(now - self.settings.keep_records)
        known = [self._updated(machine, now) for machine in self.machines.all()]
        existing = [machine for machine in known if (machine.cell, machine.token) == (self.cell, order.token)]
        made = [machine for machine in existing if not machine.never_started]
        if made:
            return Launched(tuple(machine.id for machine in made if self._is_started(machine)))
        errors: dict[BucketKey, ProviderError] = {}
        for bucket in order.buckets:
            while len(made) < order.count and bucket.key not in errors:
                try:
                    made.append(self._make(order, bucket, len(existing) + len(made), [*known, *made]))
                except (OutOfCapacity, QuotaReached) as error:
                    errors[bucket.key] = error
        return Launched(tuple(machine.id for machine in made), tuple(errors.items()) if len(made) < order.count else ())

    def _is_started(self, machine: Machine) -> bool:
        """Start a machine that an interrupted launch had only recorded; False if that fails."""
        if machine.born is None:
            try:
                self._start(machine)
            except OutOfCapacity:
                return False
        return True

    def _make(self, order: LaunchOrder, bucket: Bucket, index: int, known: Sequence[Machine]) -> Machine:
        """Make one more machine. Raises OutOfCapacity, QuotaReached or Refused."""
        settings, number = self.settings, max((machine.number for machine in known), default=0) + 1
        living = [machine for machine in known if machine.ended_at is None]
        if bucket.type.name in settings.out_of_capacity:
            raise OutOfCapacity(f"no {bucket.type.name} is left")
        if settings.max_machines is not None and len(living) >= settings.max_machines:
            raise QuotaReached(f"{len(living)} of {settings.max_machines} machines exist")
        machine = Machine(
            id=machine_id(self.cell, order.token, index),
            cell=self.cell,
            token=order.token,
            index=index,
            number=number,
            name=self._free_name(known),
            order_id=order.order_id,
            node_array=order.node_array,
            type=bucket.type,
            price_type=bucket.key.price_type,
            price_per_hour=bucket.price_per_hour,
            created_at=self.clock(),
            zone=bucket.key.zone,
            placement_group=bucket.key.placement_group,
            group_id=order.tags.get(GROUP_ID),
        )
        script = BROKEN_BOOT if settings.boot_fails(bucket.type.name, number) else order.boot_script
        self.machines.create(machine, {"boot.sh": script, "init.sh": INIT})
        return self._start(machine)

    def _free_name(self, known: Sequence[Machine]) -> str:
        """A name that is not in use, longest unused first: Grid Engine may still have a machine that just died under
        its name.
        """
        taken = {machine.name for machine in known if machine.ended_at is None}
        last_used = {machine.name: machine.number for machine in known}
        free = [name for name in self.hosts.free_names() if name not in taken]
        if not free:
            raise OutOfCapacity("every address of the network is taken")
        return min(free, key=lambda name: last_used.get(name, 0))

    def _start(self, machine: Machine) -> Machine:
        """Start the host of a recorded machine; one that a launch left half made is made anew.

        Raises OutOfCapacity, or Refused if no host could be started here at all.
        """
        argv = boot_argv(self.machines.folder(machine.id), self.settings.boot_delay)
        try:
            if self.hosts.born(machine.name) is not None:
                self.hosts.end(machine.name)
            born = self.hosts.start(machine.name, argv, boot_environment(machine.id, machine.type.name))
            address = self.hosts.address(machine.name)
        except AutoscalerError as error:
            self._record_end(machine, f"its host could not be started: {error}")
            if problem := self.hosts.problem():
                raise Refused(problem) from error
            raise OutOfCapacity(f"the host {machine.name} could not be started: {error}") from error
        started = replace(machine, born=born, address=address)
        self.machines.save(started)
        return started

    def terminate(self, ids: Sequence[str]) -> None:
        looked_up, unknown = each(ids, self.machines.find, 1)
        machines = {machine.id: machine for machine in looked_up.values() if machine is not None}
        for machine in machines.values():
            if machine.cell != self.cell:
                raise Refused(f"{machine.id} does not carry the tag of {self.cell}: left alone")

        def end(worker_id: str) -> None:
            try:
                if machines[worker_id].ended_at is None:
                    self._end(machines[worker_id], "ended by request")
            except (OSError, AutoscalerError) as error:
                raise Unreachable(f"{worker_id} could not be terminated: {error}") from error

        try:
            with self.machines.lock():
                _, failed = each(machines, end, 1)
        except (Timeout, OSError) as error:
            raise Unreachable(f"not all of {', '.join(ids)} could be terminated: {error}") from error
        raise_errors({**unknown, **failed})

    def check(self) -> Sequence[Problem]:
        problems = []
        if said := self.hosts.problem():
            problems.append(Problem(said, "run as root in a cell: sge-autoscaler cell up, then cell exec"))
        elif not self.hosts.free_names():
            problems.append(Problem("every address of the network is taken", "end machines that are not needed"))
        try:
            self.machines.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problems.append(Problem(f"no state directory: {error}", "set CP_CAP_AUTOSCALE_LOCAL_STATE"))
        return problems

    def console(self, worker_id: str) -> str:
        """The machine's output while it booted; '' for one that is not ours or has printed nothing."""
        machine = self.machines.find(worker_id)
        if machine is None or machine.cell != self.cell:
            return ""
        console = self.machines.folder(worker_id) / "console.log"
        return console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""

    def _updated(self, machine: Machine, now: float) -> Machine:
        """The machine as it is now; changes are recorded."""
        if machine.ended_at is not None:
            return machine
        born = self.hosts.born(machine.name)
        if machine.born is None:
            if born is not None and self.machines.booted(machine.id):
                machine = replace(machine, born=born)
            elif now < machine.created_at + START_GRACE:
                return machine
            else:
                return self._end(machine, "its launch was cut short")
        if born is None or born != machine.born:
            if self.notices.released(machine.id):
                return self._record_end(machine, "ended by itself", Ending.RELEASED)
            return self._record_end(machine, f"ended by itself{self._last_line(machine)}", failure=FailureKind.BOOT)
        notice = self.notices.of(machine.id)
        if notice is not None and notice.kind != "rebalance" and now >= notice.at:
            return self._end(machine, "taken back, as its notice said", Ending.INTERRUPTED)
        lifetime = self.settings.sudden_death
        if lifetime is not None and now >= machine.created_at + self.settings.boot_delay + lifetime:
            return self._end(machine, "died suddenly, as asked", failure=FailureKind.BOOT)
        return machine

    def _end(
        self, machine: Machine, message: str, ending: Ending = Ending.UNKNOWN, *, failure: FailureKind | None = None
    ) -> Machine:
        born = self.hosts.born(machine.name)
        if born is not None and machine.born in (born, None):
            self.hosts.end(machine.name)
        return self._record_end(machine, message, ending, failure=failure)

    def _last_line(self, machine: Machine) -> str:
        """Its last output: often the only trace of the cause."""
        printed = self.console(machine.id).split("\n")
        last = next((line.strip() for line in reversed(printed) if line.strip()), "")
        return f"; it printed last: {last[-LAST_LINE:]}" if last else ""

    def _record_end(
        self, machine: Machine, message: str, ending: Ending = Ending.UNKNOWN, *, failure: FailureKind | None = None
    ) -> Machine:
        ended = replace(machine, ended_at=self.clock(), message=message, ending=ending, failure=failure)
        self.machines.save(ended)
        return ended

    def _worker(self, machine: Machine, seen_at: float) -> Worker:
        ended = machine.ended_at is not None and machine.ended_at <= seen_at
        booted = machine.born is not None and seen_at >= machine.created_at + self.settings.boot_delay
        living = MachineState.RUNNING if booted else MachineState.PENDING
        return Worker(
            id=machine.id,
            type=machine.type,
            node_array=machine.node_array,
            state=MachineState.TERMINATED if ended else living,
            created_at=machine.created_at,
            name=machine.name,
            address=machine.address,
            zone=machine.zone,
            price_type=machine.price_type,
            placement_group=machine.placement_group,
            price_per_hour=machine.price_per_hour,
            order_id=machine.order_id,
            group_id=machine.group_id,
            message=machine.message if ended else None,
            ending=machine.ending if ended else Ending.UNKNOWN,
            failure=machine.failure if ended else None,
        )


def _listed(machine: Machine, seen_at: float) -> bool:
    """A record whose host was never started is no machine yet: if it were listed, its launch could not be finished."""
    if machine.created_at > seen_at or (machine.born is None and machine.ended_at is None):
        return False
    return machine.ended_at is None or machine.ended_at > seen_at - LISTED_AFTER_END
