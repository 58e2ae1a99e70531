"""The results of launches for waiting jobs: whether a job started on one of their workers.

A job has started if it ran for a while or to its end and nothing shows that it failed to start: a job whose prolog
fails is listed as running until its queue instance shows state E.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.categories import Categories
from autoscaler.core.hosts.job_faults import fault_of
from autoscaler.core.hosts.load_reports import LONGEST_GAP
from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.evidence import JobFailure
from autoscaler.core.model.fleet import Assignment, Ending, Order, OrderState
from autoscaler.core.model.memory import LaunchTrial
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.placement import takes_part
from autoscaler.core.requests.arrays import family_of
from autoscaler.core.requests.orders import outstanding, whole
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.marks import EXCUSES
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.overdue import counts_as_coming
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState, same_host

SURE = 30.0
"""Seconds after which a running job has started: earlier failures (prolog, PE start) mostly come at once."""
CATEGORIES = 32
"""How many categories of one launch are followed, those with the most tasks."""
_JOINED_WITH = frozenset({None, Condition.SILENT, Condition.DISABLED_BY_HAND})
"""A ready worker with one of these conditions has joined, whether it takes jobs just now or not."""
_TAKEN_AWAY = frozenset({Condition.DISABLED_BY_HAND, Condition.INTERRUPTED, Condition.UNKNOWN_ARRAY})
_STATES = {
    "a": "alarm (a)",
    "E": "error (E)",
    "D": "disabled by calendar (D)",
    "s": "suspended (s)",
    "c": "ambiguous (c)",
}


class Ended(StrEnum):
    """How a launch ended for the jobs that it was for."""

    HELPED = "helped"
    HELPED_NO_JOB = "helped no job"
    UNKNOWN = "unknown"
    """The order gave no worker, or its workers were taken away."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One launch trial after this observation."""

    trial: LaunchTrial
    ended: Ended | None = None
    """None: still open."""
    useless: int = 0
    """How many of its workers have come or gone and cannot take a job now."""
    idle: tuple[Host, ...] = ()
    """Its workers that have joined, have room for jobs and run none."""

    def unfit_for(self, demand: Demand) -> int:
        """How many of its idle workers can take no part of such a job, because their type had promised more."""
        return sum(not takes_part(demand, host) for host in self.idle)


def watch(
    snapshot: Snapshot,
    observed: ObservedWorkers,
    pass_context: PassContext,
    categories: Categories,
    usable: Mapping[str, Host],
    since: float,
) -> dict[str, Watched]:
    """Every trial by order id, those included that begin now. `usable`: hosts with room for jobs, by name. Orders from
    before `since` have no trial any more.
    """
    orders = whole(snapshot.fleet.orders)
    trials = _trials(snapshot, orders, since)
    if all(trial.closed for trial in trials.values()):
        return {order_id: Watched(trial) for order_id, trial in trials.items() if order_id in orders}
    machines = observed.by_order
    due = {order.id for order, _ in outstanding(snapshot.fleet, snapshot.policy, pass_context.now)}
    observation = _Observation(snapshot, pass_context, categories, usable)
    found: dict[str, Watched] = {}
    for order_id, trial in trials.items():
        if trial.closed:
            if order_id in orders:
                found[order_id] = Watched(trial)
            continue
        found[order_id] = observation.at(trial, machines.get(order_id, ()), orders.get(order_id), due=order_id in due)
    return found


def _trials(snapshot: Snapshot, orders: Mapping[str, Order], since: float) -> dict[str, LaunchTrial]:
    before = snapshot.memory.trials
    arrays = {array.name: family_of(array) for array in snapshot.policy.node_arrays}
    begun = {
        order.id: LaunchTrial(
            arrays.get(order.node_array, order.node_array),
            order.ordered_at,
            _most(order.assignment),
            ordered_for=order.ordered_for,
        )
        for order in orders.values()
        if order.assignment and order.id not in before and order.state is not OrderState.FAILED
    }
    return {key: trial for key, trial in {**before, **begun}.items() if trial.ordered_at > since}


def _most(assignment: Assignment) -> Assignment:
    return tuple(sorted(sorted(assignment, key=lambda part: (-part[1], part[0]))[:CATEGORIES]))


@dataclass(frozen=True, slots=True)
class _Observation:
    snapshot: Snapshot
    pass_context: PassContext
    categories: Categories
    usable: Mapping[str, Host]

    def at(self, trial: LaunchTrial, machines: Sequence[WorkerState], order: Order | None, *, due: bool) -> Watched:
        coming = due or any(counts_as_coming(worker, self.pass_context) for worker in machines)
        trial = self._joined(trial, machines, order)
        time_left = trial.joined_s < self.snapshot.policy.protected_after or self._waits_for_others(trial)
        stay = [worker for worker in machines if _has_joined(worker)]
        open_ = coming or (bool(stay) and time_left)
        trial = self._ran(trial, machines)
        ended = self._ended(trial, machines, order, open_=open_)
        useless = [worker for worker in stay if worker.name not in self.usable and worker.empty]
        gone = max(trial.workers - len(machines), 0) if not due else 0
        left = [worker for worker in machines if worker not in stay and not counts_as_coming(worker, self.pass_context)]
        idle = tuple(self.usable[worker.name] for worker in stay if worker.empty and worker.name in self.usable)
        trial = changed(trial, closed=ended is not None)
        useless_ = 0 if trial.ran_at is not None else len(useless) + len(left) + gone
        return Watched(trial, ended, useless_, idle)

    def _joined(self, trial: LaunchTrial, machines: Sequence[WorkerState], order: Order | None) -> LaunchTrial:
        """The trial with the workers that have joined, and for how long."""
        observed_at, now = self.snapshot.memory.observed_at, self.pass_context.now
        heard = [worker.note.joined_at for worker in machines if worker.note.joined_at is not None]
        last, seen = max(heard, default=None), dict.fromkeys((*trial.seen, *self._shown(machines)))
        trial = changed(
            trial,
            workers=max(trial.workers, len(machines), len(order.ids) if order else 0),
            seen=tuple(seen)[:4],
            failed_at_start=trial.failed_at_start or any(self._failed(worker, trial) for worker in machines),
            excused=trial.excused or any(self._excused(worker) for worker in machines),
        )
        if last is not None and (trial.joined_at is None or last > trial.joined_at):
            boot = min(heard) - trial.ordered_at if trial.boot_s is None else trial.boot_s
            return replace(trial, boot_s=boot, joined_at=last, joined_s=0.0)
        gap = 0.0 if observed_at is None or trial.joined_at is None else max(now - observed_at, 0.0)
        return changed(trial, joined_s=trial.joined_s + min(gap, LONGEST_GAP))

    def _waits_for_others(self, trial: LaunchTrial) -> bool:
        """Whether a job that spreads over hosts may wait for workers that other launches have yet to bring."""
        others = self.snapshot.fleet.workers
        keys = [key for key, _ in trial.assignment if self.categories.spreads(key)]
        if not keys:
            return False
        kin = {
            order_id
            for order_id, other in self.snapshot.memory.trials.items()
            if not other.closed and other.joined_at is None and not {*keys}.isdisjoint(dict(other.assignment))
        }
        return any(worker.exists and worker.order_id in kin for worker in others)

    def _ran(self, trial: LaunchTrial, machines: Sequence[WorkerState]) -> LaunchTrial:
        """The trial with the time since which jobs run on its workers, unless they failed to start."""
        running = [job for worker in machines for job in _running(worker)]
        if not running:
            return (
                replace(trial, ran_at=None, started=())
                if any(self._fails_to_start_jobs(m, trial) for m in machines)
                else trial
            )
        some = (key for key, _ in trial.assignment if any(self.categories.may_be(job, key) for job in running))
        started = tuple(dict.fromkeys((*trial.started, *some)))
        failed_at = max((one.at for worker in machines for one in self._failures(worker, trial)), default=0.0)
        # Of jobs that fail one after the other one is always seen.
        anew = trial.ran_at is None or failed_at > trial.ran_at
        return replace(trial, ran_at=self.pass_context.now if anew else trial.ran_at, started=started)

    def _ended(
        self, trial: LaunchTrial, machines: Sequence[WorkerState], order: Order | None, *, open_: bool
    ) -> Ended | None:
        ran, now = trial.ran_at, self.pass_context.now
        if (ran is not None and (now - ran >= SURE or not open_)) or any(self._succeeded(m, trial) for m in machines):
            return Ended.HELPED
        if open_:
            return None
        refused = order is not None and order.state is OrderState.FAILED
        return Ended.UNKNOWN if refused or not trial.workers or trial.excused else Ended.HELPED_NO_JOB

    def _excused(self, worker: WorkerState) -> bool:
        """Whether a person or its cloud took it away: then it proves nothing that no job ran there."""
        ended = worker.worker.ending in (Ending.INTERRUPTED, Ending.RELEASED)
        taken = ended or worker.note.stopped or worker.note.disabling in EXCUSES
        return taken or worker.decisive in _TAKEN_AWAY or self.pass_context.drained_by_person(worker) is not None

    def _fails_to_start_jobs(self, worker: WorkerState, trial: LaunchTrial) -> bool:
        """Whether jobs fail to start there: a queue instance is in error, or accounting says so."""
        if worker.host is not None and worker.host.in_error:
            return True
        return self._failed(worker, trial)

    def _failed(self, worker: WorkerState, trial: LaunchTrial) -> bool:
        return any(self._failures(worker, trial))

    def _failures(self, worker: WorkerState, trial: LaunchTrial) -> Iterator[JobFailure]:
        """Jobs that failed at their start there."""
        for failure in self.snapshot.evidence.failures:
            if failure.at >= trial.ordered_at and same_host(failure.host, worker.name) and fault_of(failure.failed):
                yield failure

    def _succeeded(self, worker: WorkerState, trial: LaunchTrial) -> bool:
        successes = self.snapshot.evidence.successes
        return any(one.at >= trial.ordered_at and same_host(one.host, worker.name) for one in successes)

    def _shown(self, machines: Sequence[WorkerState]) -> Iterator[str]:
        """States of joined workers that keep jobs from starting there, in an administrator's words."""
        for worker in machines:
            if worker.host is None or not _has_joined(worker):
                continue
            for instance in worker.host.instances:
                yield from (
                    f"queue instance in state {_STATES[state]}" for state in instance.states if state in _STATES
                )
                if not instance.slots:
                    yield f"no slots in {instance.queue}"


def _has_joined(worker: WorkerState) -> bool:
    ready = worker.phase is Phase.READY and worker.decisive in _JOINED_WITH
    # Its disabling was planned and does not show yet: a plan must not change what the next pass judges.
    still_open = worker.phase is Phase.DRAINING and not worker.note.seen_disabled
    return ready or still_open or worker.decisive is Condition.UNLISTED


def _running(worker: WorkerState) -> list[HostJob]:
    """Jobs that its host has taken, in queue instances that are not in error."""
    instances = worker.host.instances if worker.host is not None else ()
    return [job for each in instances if "E" not in each.states for job in each.jobs if not job.on_its_way]
