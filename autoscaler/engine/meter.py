"""Measures passes for `/metrics` by values that they computed anyway, and stores them with each pass."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import PurePath

from autoscaler.core.actions import Action, Launch
from autoscaler.core.model.fleet import FailureKind, LaunchFailure
from autoscaler.core.model.memory import Disabling
from autoscaler.core.notifications.causes import ended_unasked
from autoscaler.core.outcome.innermost import cause_code
from autoscaler.core.outcome.sample import Sample, Starts
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.worker_state import WorkerState
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.errors import NotObservable, ProviderNotObservable, StateNotKept
from autoscaler.report.metrics import BY_NAME
from autoscaler.store.journal import Outcome, Result
from autoscaler.store.measures import Labels, Measures, MeasureTable

WHOLE, GRID_ENGINE, PROVIDER, STATE, DEFECT = (
    "whole",
    "grid_engine_not_observed",
    "provider_not_observed",
    "state_not_kept",
    "defect",
)
"""How a pass ends."""
PROGRAMS = frozenset({"qalter", "qconf", "qdel", "qhold", "qhost", "qmod", "qping", "qrls", "qstat", "qsub"})
LOST = frozenset({Condition.SILENT_TOO_LONG, Condition.FENCED})
OTHER = "other"
MOST_COUNTED = 10**18
PRICES_HOLD = 3600.0
"""Seconds between two readings of the date of the oldest price."""


@dataclass(slots=True)
class Meter(PassListener):
    """One for the life of a process. `command` any thread may call."""

    title = "the metrics"
    in_dry_run = True

    table: MeasureTable
    oldest_price: Callable[[], date | None] | None = None
    elsewhere: Callable[[Measures], None] | None = None
    """Adds other measurements (`engine.measured_elsewhere`)."""
    _measures: Measures = field(init=False)
    _commands: list[tuple[str, float, bool]] = field(default_factory=list, init=False)
    """Since the last pass."""
    _sample: Sample | None = field(default=None, init=False)
    _passed: bool = field(default=False, init=False)
    """Whether a pass of this process has observed workers: workers of the first observation came at an unknown time."""
    _booting: frozenset[str] = field(default=frozenset(), init=False)
    """Ids of workers that were booting in the last pass."""
    _lost: frozenset[str] = field(default=frozenset(), init=False)
    """Ids of workers that the last pass found lost."""
    _up_at: dict[str, float] = field(default_factory=dict, init=False)
    """The time at which each machine was first observed to be up, by worker id, until it is in service."""
    _price_seen_at: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._measures = self.table.load()
        for result in (WHOLE, GRID_ENGINE, PROVIDER, STATE, DEFECT):
            self._measures.count("passes_total", result, by=0.0)
        for kind in FailureKind:
            self._measures.count("launch_failures_total", kind, by=0.0)
        for name in ("started_tasks_total", "price_total", "lost_workers_total"):
            self._measures.count(name, by=0.0)
        for name in ("task_wait_seconds", "worker_boot_seconds", "worker_join_seconds", "pass_duration_seconds"):
            self._observe(name, ())

    def command(self, program: str, seconds: float, answered: bool) -> None:
        """A command of Grid Engine ended; `answered`: with success."""
        name = PurePath(program).name
        with self._lock:
            self._commands.append((name if name in PROGRAMS else OTHER, seconds, answered))

    def sampled(self, sample: Sample, begun: Starts, cost: float) -> None:
        """The sample of a pass, and what began and what machines cost since the one before."""
        self._sample = sample
        self._measures.count("price_total", by=cost)
        self._measures.count("started_tasks_total", by=float(begun.count))
        self._observe("task_wait_seconds", begun.able)

    def keep(self, done: Pass) -> None:
        """A whole pass. Raises StateNotKept."""
        snapshot, plan, measures, observed = done.observation.snapshot, done.plan, self._measures, done.observed
        measures.set("last_pass_timestamp_seconds", snapshot.now)
        measures.set("polling_delay_seconds", done.next_in)
        measures.set("failed_passes_in_a_row", 0.0)
        measures.count("passes_total", WHOLE)
        self._observe("pass_duration_seconds", [sum(done.timings.values())])
        for part, seconds in done.timings.items():
            self._observe("pass_part_duration_seconds", [seconds], part)
        measures.set_all(
            "waiting_tasks",
            _summed(((cause_code(category.reason).value,), category.count) for category in plan.job_categories),
        )
        if self._sample is not None:
            self._show(self._sample)
        self._show_workers(snapshot, observed)
        self._count_lost(observed.known, snapshot)
        self._time_arrivals(observed.workers, snapshot.now)
        self._count_actions(plan.actions, done.outcomes)
        self._count_failures(snapshot.fleet.failures, snapshot.memory.failures_seen)
        self._show_limits(snapshot, plan)
        self._show_price_date(snapshot.now)
        self._store(snapshot.now)

    def failed(self, failure: FailedPass) -> None:
        """A pass that did not observe, or was ended by a defect."""
        self._measures.count("passes_total", _result(failure.error))
        failed = self._measures.values.get("failed_passes_in_a_row", {}).get((), 0.0)
        self._measures.set("failed_passes_in_a_row", failed + 1)
        with contextlib.suppress(StateNotKept):  # the pass itself reports it; counts are kept later
            self._store(failure.at)

    def _store(self, at: float) -> None:
        with self._lock:
            commands, self._commands = self._commands, []
        for program, seconds, answered in commands:
            self._observe("grid_engine_command_duration_seconds", [seconds], program)
            self._measures.count("grid_engine_command_failures_total", program, by=float(not answered))
        if self.elsewhere is not None:
            self.elsewhere(self._measures)
        self.table.keep(self._measures, at)

    def _observe(self, name: str, values: Iterable[float], *labels: str) -> None:
        self._measures.observe(name, values, BY_NAME[name].buckets, *labels)

    def _show(self, sample: Sample) -> None:
        arrays = sample.arrays.values()
        for name, value in (
            ("counted_tasks", sample.counted),
            ("fitting_tasks", sample.fitting),
            ("running_tasks", sample.running),
            ("longest_wait_seconds", sample.longest_wait),
            ("slots", sample.slots),
            ("used_slots", sample.slots_used),
            ("persistent_hosts", sample.persistent),
            ("price_per_hour", sample.price_per_hour),
            ("worker_cores", sum(array.cores for array in arrays)),
            ("workers_of_unknown_price", sum(array.unknown_prices for array in arrays)),
        ):
            self._measures.set(name, value)

    def _show_workers(self, snapshot: Snapshot, observed: ObservedWorkers) -> None:
        there = [machine for machine in observed.workers if not machine.gone]
        phases = [((machine.phase.value, machine.worker.type.name), 1) for machine in there]
        ordered = outstanding(snapshot.fleet, snapshot.policy, snapshot.now)
        phases += [((Phase.ORDERED.value, order.type.name), count) for order, count in ordered if count]
        self._measures.set_all("workers", _summed(phases))
        conditions = [machine.decisive for machine in observed.known if not machine.gone]
        known = {(condition.value,): 0.0 for condition in Condition}
        present = _summed(((condition.value,), 1) for condition in conditions if condition is not None)
        self._measures.set_all("workers_with_condition", known | present)

    def _count_lost(self, machines: Sequence[WorkerState], snapshot: Snapshot) -> None:
        """Count lost workers. A worker is lost for a few passes only, and a scrape may miss them."""
        there = [machine for machine in machines if not machine.gone]
        lost = {each.worker.id for each in there if not LOST.isdisjoint(each.conditions)}
        notes = snapshot.memory.workers
        ended = {each.id for each in snapshot.fleet.workers if ended_unasked(each, notes.get(each.id))}
        new = (lost | ended) - self._lost
        if not self._passed:  # an earlier process counted those that it fenced, and those whose end it observed
            new -= {each.worker.id for each in there if Condition.FENCED in each.conditions}
            new -= {each for each in ended if notes[each].disabling is Disabling.LOST}
        self._measures.count("lost_workers_total", by=float(len(new)))
        self._lost = frozenset(lost | ended)

    def _time_arrivals(self, machines: Sequence[WorkerState], now: float) -> None:
        for machine in machines:
            worker_id = machine.worker.id
            up = machine.phase in (Phase.JOINING, Phase.READY)
            came = worker_id in self._booting or (self._passed and machine.before is None)
            if came and up:
                self._observe("worker_boot_seconds", [now - machine.made_at])
                self._up_at[worker_id] = now
            if machine.in_service and worker_id in self._up_at:
                self._observe("worker_join_seconds", [now - self._up_at[worker_id]])
        self._passed = True
        self._booting = frozenset(machine.worker.id for machine in machines if machine.phase is Phase.BOOTING)
        joining = {machine.worker.id for machine in machines if machine.coming}
        self._up_at = {worker_id: at for worker_id, at in self._up_at.items() if worker_id in joining}

    def _count_actions(self, planned: Sequence[Action], outcomes: Sequence[Outcome]) -> None:
        """Each action counts once, as it ended; each order when it is given, however its provider answers."""
        for outcome in outcomes:
            if outcome.result is not Result.UNDER_WAY:
                labels = (outcome.action.kind, outcome.action.reason.code.value, outcome.result.value)
                self._measures.count("actions_total", *labels)
        begun = bool(outcomes)  # else the autoscaler is stopped, or only shows
        not_begun = [outcome.action for outcome in outcomes if outcome.result is Result.NOT_BEGUN]
        for action in planned:
            if begun and isinstance(action, Launch) and action not in not_begun:
                self._measures.count("ordered_workers_total", action.instance_type, by=float(action.count))

    def _count_failures(self, failures: Sequence[LaunchFailure], seen: float) -> None:
        """One of an order and kind counts once, however many places were tried."""
        new = {(each.kind, each.order_id, each.worker_id) for each in failures if each.at > seen}
        for kind, _, _ in new:
            self._measures.count("launch_failures_total", kind)

    def _show_limits(self, snapshot: Snapshot, plan: Plan) -> None:
        overrides, memory = snapshot.overrides, plan.memory
        allowed = not (overrides.paused or overrides.stop or memory.circuit_breaker)
        self._measures.set("launches_allowed", float(allowed))
        self._measures.set("paused", float(bool(overrides.paused)))
        self._measures.set("circuit_breaker_open", float(memory.circuit_breaker is not None))
        self._measures.set("offers_in_backoff", float(len({backoff.bucket for backoff in memory.backoffs})))
        stopped: dict[Labels, float] = {}
        for array in snapshot.policy.node_arrays:
            protected = memory.protected.get(array.name)
            stopped[array.name, "refused"] = float(array.name in memory.stopped)
            if array.extends is None:
                stopped[array.name, "protected_mode"] = float(protected is not None and protected.stopped is not None)
        self._measures.set_all("node_array_stopped", stopped)

    def _show_price_date(self, now: float) -> None:
        if self.oldest_price is None or (self._price_seen_at is not None and now - self._price_seen_at < PRICES_HOLD):
            return
        self._price_seen_at, day = now, self.oldest_price()
        dates: dict[Labels, float] = {} if day is None else {(): datetime.combine(day, time(), UTC).timestamp()}
        self._measures.set_all("oldest_price_timestamp_seconds", dates)


def _result(error: Exception) -> str:
    match error:
        case ProviderNotObservable():
            return PROVIDER
        case NotObservable():
            return GRID_ENGINE
        case StateNotKept():
            return STATE
        case _:
            return DEFECT


def _summed(counts: Iterable[tuple[Labels, int]]) -> dict[Labels, float]:
    sums: Counter[Labels] = Counter()
    for labels, count in counts:
        sums[labels] += count
    # Of an order as its journal has it: a damaged one may have any number.
    return {labels: float(min(count, MOST_COUNTED)) for labels, count in sums.items()}
