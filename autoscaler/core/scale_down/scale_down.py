"""Which workers in service may leave: a list of motives, a verdict for every worker.

A worker is needed if waiting demand would use it. To find out, all counted demand is placed with the workers that could
leave at the end of the supply; a second placement without them checks the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from autoscaler.core.actions import Disable
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.placement.needs import wants_of
from autoscaler.core.placement.placement import as_shares, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.scale_down.floors import Floor
from autoscaler.core.scale_down.motives import MOTIVES, Judged, Motive, ServingWorker, judged, still_idle
from autoscaler.core.scale_down.quarantine import Suspect
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.core.workers.group_verdict import GroupVerdict, group_verdict_of
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.step import (
    PassContext,
    Rule,
    Transition,
    WorkerStep,
    always,
    disable,
    first_step,
    keep,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState


def needed_hosts(
    demands: Sequence[CategoryDemand],
    fixed: Sequence[Host],
    leaving: Sequence[tuple[WorkerState, Host]],
    unplaceable: frozenset[int] = frozenset(),
    last: Sequence[Host] = (),
) -> frozenset[str]:
    """Names among `leaving` that waiting demand would use. `fixed` capacity is used first; `last`: capacity that is
    used last.

    Demand over several hosts that does not fit as a whole keeps the hosts that it could use, because it may wait for
    the rest. Demands at the `unplaceable` positions keep none: there is no room for the rest beside the present
    workers.
    """
    if not leaving or not demands:
        return frozenset()
    wants = wants_of(demands)
    hosts = [*fixed, *(host for _, host in leaving), *last]
    full = place(wants, hosts)
    spread = [
        (demand, unmet)
        for at, ((demand, _), unmet) in enumerate(zip(wants, full.unmet, strict=True))
        if unmet and not demand.one_host and not demand.together and at not in unplaceable
    ]
    names = frozenset(host.name for _, host in leaving)
    needed = full.used & names
    if spread:
        fitting = [(demand, placed) for (demand, _), placed in zip(wants, full.placed, strict=True)]
        needed |= place((*fitting, *as_shares(spread)), hosts).used & names
    without = place(wants, [host for host in hosts if host.name not in names or host.name in needed])
    return needed if sum(without.unmet) <= sum(full.unmet) else names


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The facts for and against the removal of workers in service, besides the workers themselves."""

    pass_context: PassContext
    needed: frozenset[str]
    """Names of workers that waiting demand would use."""
    floors: Mapping[str, Floor]
    queue_not_empty: Mapping[str, Reason]
    """By queue: why `scale_down_timeout` keeps its workers."""
    under_way: Mapping[str, int]
    """By array, the number of workers that were disabled and that no observation has shown disabled yet."""
    swapped_out: Mapping[str, Reason]
    """By worker id, workers that leave for a stronger one, whatever floor and batch."""
    suspects: Mapping[str, Suspect]
    """By worker id, workers that seem broken."""
    held: Mapping[str, Reason]
    """By worker id, workers that stay for a request."""
    group_verdicts: Mapping[str, GroupVerdict]
    """By group id, the verdict on all its workers."""

    @property
    def timeless(self) -> tuple[PassContext, tuple[object, ...]]:
        """All of it, the context of the pass without its time."""
        facts = self.needed, self.floors, self.queue_not_empty, self.under_way, self.swapped_out, self.suspects
        return replace(self.pass_context, now=0.0), (*facts, self.held, self.group_verdicts)

    @property
    def spoken_of(self) -> frozenset[str]:
        """Names and ids of the workers of which a fact does not hold for all their array, but for groups."""
        return self.needed.union(self.swapped_out, self.suspects, self.held)

    def about_array(self, array: NodeArrayPolicy) -> tuple[object, ...]:
        """The facts in the steps of all its workers."""
        floor = self.floors[array.name]
        not_empty = self.queue_not_empty.get(array.queue)
        return floor.min_workers, floor.staying, self.under_way.get(array.name, 0), not_empty

    def about(self, worker: WorkerState) -> tuple[object, ...]:
        """The facts in the step of one worker, but for those of its array."""
        worker_id = worker.worker.id
        return (
            worker.name in self.needed,
            self.swapped_out.get(worker_id),
            self.suspects.get(worker_id),
            self.held.get(worker_id),
            group_verdict_of(worker, self.group_verdicts),
        )

    def serving_worker(
        self, worker: WorkerState, array: NodeArrayPolicy, *, disabled: int, stopped: int
    ) -> ServingWorker:
        """That worker with all facts. `disabled`, `stopped`: how many others of its array were disabled before, as idle
        or because they asked to stop.
        """
        floor, worker_id = self.floors[array.name], worker.worker.id
        return ServingWorker(
            worker,
            array,
            self.pass_context,
            needed=worker.name in self.needed,
            floor=Floor(floor.min_workers, floor.staying - disabled - stopped),
            batch=array.scale_down_batch - self.under_way.get(array.name, 0) - disabled,
            queue_not_empty=self.queue_not_empty.get(array.queue),
            swapped_out=self.swapped_out.get(worker_id),
            suspect=self.suspects.get(worker_id),
            held=self.held.get(worker_id),
            group_verdict=group_verdict_of(worker, self.group_verdicts),
        )


class _StayingWorkers:
    """The steps of workers that stay because they are busy, or not idle long enough, from one pass to the next. Only
    how long a worker has been idle depends on the time.
    """

    def __init__(self) -> None:
        self._pass_context: PassContext | None = None
        self._before: dict[str, tuple[WorkerStep, object]] = {}
        self._now: dict[str, tuple[WorkerStep, object]] = {}
        self._all: tuple[ObservedWorkers, object, tuple[WorkerStep, ...], tuple[int, ...]] | None = None
        """The last observation, its context, the steps of all workers if all stay, and the positions of empty ones."""

    def turn(self, pass_context: PassContext) -> None:
        """`pass_context`: of this pass, without its time."""
        self._before, self._now = (self._now if pass_context == self._pass_context else {}), {}
        self._pass_context = pass_context

    def step_of(self, worker: WorkerState, about: object, now: float) -> WorkerStep | None:
        """Its step, if worker and facts about it are those of the last pass."""
        entry = self._before.get(worker.worker.id)
        if entry is None or entry[0].worker is not worker or entry[1] != about:
            return None
        step = _still_idle(entry[0], now) if worker.empty else entry[0]
        if step is not None:
            self._now[worker.worker.id] = step, about
        return step

    def keep(self, step: WorkerStep, about: object) -> None:
        idle = not step.worker.worker.group_id and step.verdict.reason.code is Code.IDLE_NOT_LONG_ENOUGH
        if step.action is None and (idle or not step.worker.empty):
            self._now[step.worker.worker.id] = step, about

    def all_of(self, observed: ObservedWorkers, context: object, now: float) -> list[WorkerStep] | None:
        """All steps, if each stays and nothing but the time has changed since the last call; else None."""
        if self._all is None or self._all[0] is not observed or self._all[1] != context:
            return None
        steps = [*self._all[2]]
        for at in self._all[3]:
            step = _still_idle(steps[at], now)
            if step is None:
                return None
            steps[at] = step
        return steps

    def keep_all(self, observed: ObservedWorkers, context: object, steps: Sequence[WorkerStep]) -> None:
        """`context`: without its time, and no worker seems broken."""
        self._all = None
        if len(self._now) == len(steps):
            idle = tuple([at for at, step in enumerate(steps) if step.worker.empty])
            self._all = observed, context, tuple(steps), idle


def _still_idle(step: WorkerStep, now: float) -> WorkerStep | None:
    """The step of a worker that still is not idle long enough; None: it may be, or has no such step."""
    last, reason = step.verdict, still_idle(step.worker, now)
    if reason is None:
        return None
    verdict = WorkerVerdict(last.name, last.id, last.verdict, reason)
    return WorkerStep(step.worker, verdict, step.note, None, step.rule, step.row)


_STAYING = _StayingWorkers()


def scale_down(observed: ObservedWorkers, context: ServiceContext) -> list[WorkerStep]:
    """One step for every worker in service."""
    timeless, now = context.timeless, context.pass_context.now
    if (known := _STAYING.all_of(observed, timeless, now)) is not None:
        return known
    steps: list[WorkerStep] = []
    disabled, stopped = dict.fromkeys(context.floors, 0), dict.fromkeys(context.floors, 0)
    _STAYING.turn(timeless[0])
    of_arrays = {name: context.about_array(array) for name, array in observed.arrays.items()}
    spoken_of = context.spoken_of
    for worker in _in_removal_order(observed, context.pass_context.stop_requests):
        array, machine = worker.array, worker.worker
        if array is None:
            continue
        so_far = disabled[array.name], stopped[array.name]
        alone = machine.group_id or machine.id in spoken_of or worker.name in spoken_of
        about = so_far, of_arrays[array.name], context.about(worker) if alone else ()
        step = _STAYING.step_of(worker, about, now)
        if step is None:
            step = judge(context.serving_worker(worker, array, disabled=so_far[0], stopped=so_far[1]))
            _STAYING.keep(step, about)
        if step.action is not None:
            disabled[array.name] += step.note.disabling is Disabling.IDLE
            stopped[array.name] += step.note.disabling is Disabling.AUTO_STOP
        steps.append(with_suspect(step, context.suspects[machine.id]) if machine.id in context.suspects else step)
    if not context.suspects:
        _STAYING.keep_all(observed, timeless, steps)
    return steps


def _in_removal_order(observed: ObservedWorkers, stop_requests: Set[str]) -> Sequence[WorkerState]:
    """Those in service, the one that leaves first at the beginning."""
    workers = observed.in_removal_order
    if not stop_requests:
        return workers
    return [
        *[worker for worker in workers if worker.worker.id in stop_requests],
        *[worker for worker in workers if worker.worker.id not in stop_requests],
    ]


def with_suspect(step: WorkerStep, suspect: Suspect) -> WorkerStep:
    """The same step, with a suspect that is only reported."""
    if suspect.acts:
        return step
    return replace(step, verdict=replace(step.verdict, reason=step.verdict.reason.then(suspect.reason)))


def judge(serving: ServingWorker) -> WorkerStep:
    """The step of one worker in service: it is disabled for the first motive that no keeper stops, or stays."""
    return first_step(RULES, judged(serving))


def _rule(motive: Motive) -> Rule[Judged]:
    def disabled(one: Judged) -> WorkerStep:
        return _disable(one, motive)

    row = Transition("", always, disabled, Disable, Phase.DRAINING, reasons=motive.reasons)
    return Rule(motive.name, motive.why, lambda one: one.motive is motive, (row,))


def _disable(one: Judged, motive: Motive) -> WorkerStep:
    step = disable(one.worker, one.serving.pass_context, motive.mark, one.reason, by_person=motive.by_person)
    if step.action is None or motive.mark is not Disabling.BROKEN:
        return step
    return replace(step, note=replace(step.note, quarantined=one.reason))


def _stay(one: Judged) -> WorkerStep:
    return wait(one.worker, one.reason) if one.reason.code is Code.SCALE_DOWN_BATCH else keep(one.worker, one.reason)


RULES: tuple[Rule[Judged], ...] = (
    *map(_rule, MOTIVES),
    Rule("stay", "Something keeps it.", always, (Transition("", always, _stay),)),
)
"""The transitions of a worker in service."""
