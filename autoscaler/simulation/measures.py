"""What a simulated run cost and how long jobs waited, gathered while it runs. Bounded a job: three numbers."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autoscaler.simulation.cloud import Cloud, Machine
from autoscaler.simulation.hosts import Run, SimulatedHost
from autoscaler.simulation.series import Series

HOUR = 3600.0


@dataclass(slots=True)
class Shares:
    """Core-hours of rented workers, by what they did; and the same as money."""

    busy: float = 0.0
    stranded: float = 0.0
    """Free slots beside running jobs."""
    idle: float = 0.0
    boot: float = 0.0
    """Paid, not yet in service; and from the last job until the end was ordered if it was disabled."""

    @property
    def all(self) -> float:
        return self.busy + self.stranded + self.idle + self.boot


@dataclass(slots=True)
class _Meter:
    """The slot-seconds of one worker so far."""

    machine: Machine
    at: float
    busy: float = 0.0
    stranded: float = 0.0
    idle: float = 0.0
    boot: float = 0.0
    by_project: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class Measures:
    """Everything that a report shows, added up as events happen."""

    def __init__(self) -> None:
        self.waits, self.runs, self.slots = array("d"), array("d"), array("i")
        self.owners, self.projects = array("i"), array("i")
        """Parallel to `waits`: index into `names`."""
        self.names: dict[str, int] = {}
        self.submitted, self.finished, self.deleted = 0, 0, 0
        self.first: float | None = None
        self.last_end = 0.0
        self.busy_core_seconds = 0.0
        """Of all jobs, wherever they ran."""
        self.hours = Shares()
        self.money = Shares()
        self.price = 0.0
        self.interrupted, self.restarted = 0, 0
        """Machines that the cloud took back; tasks that started once more."""
        self.lost_core_seconds = 0.0
        """Of tasks on machines that were taken, until then."""
        self.worker_seconds = 0.0
        """Paid, of all workers."""
        self.unpriced = 0
        """Workers whose price is not known."""
        self.price_by_type: defaultdict[str, float] = defaultdict(float)
        self.price_by_project: defaultdict[str, float] = defaultdict(float)
        self.launched: Counter[str] = Counter()
        """Workers by type."""
        self.removed: Counter[str] = Counter()
        self.limited: defaultdict[str, float] = defaultdict(float)
        """By limit of the policy: seconds in which it kept waiting tasks from a worker."""
        self._limits: frozenset[str] = frozenset()
        self._limits_since = 0.0
        self.relaunched = 0
        """Launches of a type of which a worker had been removed in the ten minutes before."""
        self.series = Series(("waiting", "workers", "busy_slots", "price_per_hour"))
        """Tasks that wait, workers whose end was not ordered, slots with jobs, and what these workers cost."""
        self.launches_at: list[tuple[float, str, int]] = []
        self.removals_at: list[tuple[float, str]] = []
        self._meters: dict[str, _Meter] = {}
        """By worker id."""
        self._hosts: dict[str, _Meter] = {}
        """By host name."""
        self._removed_at: dict[str, float] = {}

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def starts(self, run: Run, now: float) -> None:
        if run.again:
            self.restarted += 1
            return  # it has waited once
        job = run.job
        if not job.is_counted:
            return
        self.waits.append(now - job.submitted)
        self.runs.append(job.seconds)
        self.slots.append(job.slots)
        self.owners.append(self._index(job.owner))
        self.projects.append(self._index(job.project))
        self.first = job.submitted if self.first is None else min(self.first, job.submitted)

    def ends(self, run: Run, now: float) -> None:
        self.finished += 1
        self.last_end = max(self.last_end, now)
        self.busy_core_seconds += run.job.seconds * run.job.slots

    def loses(self, runs: Iterable[Run], now: float) -> None:
        """A machine ended with these tasks."""
        self.lost_core_seconds += sum((now - run.started) * run.job.slots for run in runs)

    def _index(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    # -- workers -------------------------------------------------------------------------------------------------------

    def launches(self, machine: Machine, now: float) -> None:
        kind = machine.worker.type.name
        self.launched[kind] += 1
        self.relaunched += now - self._removed_at.get(kind, float("-inf")) < 10 * 60
        self.launches_at.append((now, kind, 1))
        self._meters[machine.worker.id] = _Meter(machine, now)

    def joins(self, machine: Machine, host: str) -> None:
        """Its host is known by this name from now on."""
        self._hosts[host] = self._meters[machine.worker.id]

    def host_changes(self, host: SimulatedHost, now: float) -> None:
        """To be called before anything of the host changes."""
        meter = self._hosts.get(host.name)
        if meter is not None:
            self._advance(meter, now, host)

    def _advance(self, meter: _Meter, now: float, host: SimulatedHost | None) -> None:
        elapsed, slots = now - meter.at, meter.machine.worker.type.vcpus
        meter.at = now
        if elapsed <= 0:
            return
        if host is not None and host.used:
            meter.busy += elapsed * host.used
            meter.stranded += elapsed * max(0, slots - host.used)
            for run, share in host.runs.items():
                meter.by_project[run.job.project] += elapsed * share
        elif host is not None and host.heard and not host.disabled:
            meter.idle += elapsed * slots
        else:
            meter.boot += elapsed * slots

    def ends_worker(self, machine: Machine, host: SimulatedHost | None, now: float, cloud: Cloud) -> None:
        """Its end was ordered: what it cost is shared among what it did."""
        meter = self._meters.pop(machine.worker.id)
        if machine.worker.name is not None:
            self._hosts.pop(machine.worker.name, None)
        self._advance(meter, now, host)
        kind = machine.worker.type.name
        self.removed[kind] += 1
        self._removed_at[kind] = now
        self.removals_at.append((now, kind))
        self._share(meter, cloud.paid_seconds(machine, now), cloud.cost(machine, now))

    def _share(self, meter: _Meter, paid: float, cost: float | None) -> None:
        worker = meter.machine.worker
        slots = worker.type.vcpus
        rest = max(0.0, paid * slots - meter.busy - meter.stranded - meter.idle - meter.boot)
        parts = {"busy": meter.busy, "stranded": meter.stranded, "idle": meter.idle + rest, "boot": meter.boot}
        self.worker_seconds += paid
        if cost is None:
            self.unpriced += 1
        price = cost or 0.0
        self.price += price
        self.price_by_type[worker.type.name] += price
        whole = sum(parts.values()) or 1.0
        for name, seconds in parts.items():
            setattr(self.hours, name, getattr(self.hours, name) + seconds / HOUR)
            setattr(self.money, name, getattr(self.money, name) + price * seconds / whole)
        for project, seconds in meter.by_project.items():
            self.price_by_project[project] += price * seconds / whole

    def limits(self, limits: frozenset[str], now: float) -> None:
        """These limits of the policy keep waiting tasks from a worker, until it says otherwise."""
        for name in self._limits:
            self.limited[name] += now - self._limits_since
        self._limits, self._limits_since = limits, now

    def still_rented(self) -> Iterator[Machine]:
        """Workers whose end was not ordered when the run stopped."""
        return (meter.machine for meter in list(self._meters.values()))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the sorted `values` lies, between two of them in proportion (type 7 of
    Hyndman and Fan 1996): the median of two is their mean. 0 of none.
    """
    if not values:
        return 0.0
    whole, part = divmod(share * (len(values) - 1), 1.0)
    low, high = values[int(whole)], values[min(int(whole) + 1, len(values) - 1)]
    return low + (high - low) * part
