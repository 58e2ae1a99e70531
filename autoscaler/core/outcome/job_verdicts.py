"""The verdict on every waiting category: its tasks fit now, on coming supply, or not yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from autoscaler.core.capacity.forecast import PlacementResult
from autoscaler.core.demand.demand import PendingDemand
from autoscaler.core.demand.eligibility import CategoryPart
from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.snapshot import JobCategoryVerdict

_NOTHING_COMES = frozenset(
    {
        Code.CAPPED,
        Code.AUTOSCALING_OFF,
        Code.FITS_WHEN_FREE,
        Code.NOTHING_TO_LAUNCH,
        Code.NODE_ARRAY_STOPPED,
        Code.LAUNCHES_DID_NOT_HELP,
        Code.LAUNCH_AWAITED,
        Code.PROTECTED_MODE,
        Code.PAUSED,
    }
)


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """What verdicts on waiting jobs depend on besides placement."""

    at: float
    growth: Mapping[str, Reason]
    """By queue, what is launched or why nothing is; for groups under the queue's name and a colon."""
    blocked: Reason | None
    """Why nothing may be launched at all, also for jobs that have not waited long enough."""
    unsatisfiable: Mapping[int, Reason]
    """By job that may be unsatisfiable: its verdict."""
    later: Mapping[str, Reason]
    """By queue, why its hosts start nothing yet."""
    held_back: Mapping[int, Reason]
    """By position of a wanted demand, why nothing is launched for it although not all of it fits."""
    unhelped: Mapping[int, Reason]
    """By position: that no launch for it has helped so far."""
    unstarted: Mapping[int, Reason]
    """By position: that it fits on free hosts and does not start, and what the scheduler says."""
    expected_at: Callable[[frozenset[str]], float | None]
    """When the coming supply for these pools is expected."""
    own: Callable[[CategoryDemand, str, Reason], Reason]
    """From a demand, its queue and what holds for the queue to what holds for this demand."""
    starving: Callable[[], Mapping[int, Reason]]
    """By position: that smaller jobs take the hosts that could run it. Only used if no other host can come."""

    @property
    def lasting(self) -> tuple[object, ...]:
        """All of it that reasons depend on, except who is starving. Methods are equal if those of one object."""
        return (
            self.growth,
            self.blocked,
            self.unsatisfiable,
            self.later,
            self.held_back,
            self.unhelped,
            self.unstarted,
            self.expected_at,
            self.own,
        )


def job_verdicts(
    reading: PendingDemand, results: Sequence[PlacementResult], policy: Policy, context: VerdictContext
) -> tuple[JobCategoryVerdict, ...]:
    """A verdict for every part of every job category. Of equal arguments only how long jobs have waited differs."""
    arguments = (reading, results, policy)
    told = _TOLD.value_of(arguments, lambda: _tell(reading, results, policy, context), context.lasting)
    if told.starving is not None:
        starving = context.starving()
        told = _TOLD_STARVING.value_of(
            arguments,
            lambda: told if told.starving == starving else _tell(reading, results, policy, context),
            (context.lasting, starving),
        )
    at = context.at
    return tuple(
        [
            JobCategoryVerdict(
                part.jobs,
                part.tasks,
                part.ask,
                part.count,
                counted,
                at - part.oldest if part.oldest < at else 0.0,
                reason,
            )
            for part, reason, counted in told.verdicts
        ]
    )


_Verdict = tuple[CategoryPart, Reason, bool]
"""A part with its reason, and whether it counts."""


@dataclass(frozen=True, slots=True)
class _Told:
    """All verdicts, except for the time."""

    verdicts: tuple[_Verdict, ...]
    starving: Mapping[int, Reason] | None
    """What `VerdictContext.starving` said; None: it was not asked."""


_TOLD, _TOLD_STARVING = LastObjects[_Told](), LastObjects[_Told]()


def _tell(reading: PendingDemand, results: Sequence[PlacementResult], policy: Policy, context: VerdictContext) -> _Told:
    asked: list[Mapping[int, Reason]] = []

    def starving() -> Mapping[int, Reason]:
        asked[:] = [context.starving()]
        return asked[0]

    noted = replace(context, starving=starving, expected_at=cache(context.expected_at))
    verdicts: list[_Verdict] = []
    for position, (want, parts, result) in enumerate(zip(reading.wanted, reading.counted, results, strict=True)):
        besides = partial(_besides, position, noted)
        verdicts += _counted(parts, result, _reasons_of(want, position, policy, noted, besides), besides, noted)
    verdicts += [
        verdict
        for part in reading.uncounted
        if part.reason is not None
        for verdict in _uncounted(
            part, part.reason, noted.unsatisfiable if part.reason.code in _MAYBE_UNSATISFIABLE else {}
        )
    ]
    return _Told(_by_job(verdicts), asked[0] if asked else None)


def _by_job(verdicts: list[_Verdict]) -> tuple[_Verdict, ...]:
    """Sorted by first job, then first tasks, then counted ones first. If all first jobs differ, a sort by them is
    enough; else three sorts by one value are faster than one by all of them.
    """
    firsts = [part.jobs[0] if part.jobs else -1 for part, _, _ in verdicts]
    if len(set(firsts)) == len(firsts):
        return tuple(map(dict(zip(firsts, verdicts, strict=True)).__getitem__, sorted(firsts)))
    verdicts.sort(key=lambda verdict: not verdict[2])
    verdicts.sort(key=lambda verdict: verdict[0].tasks[0] if verdict[0].tasks else "")
    verdicts.sort(key=lambda verdict: verdict[0].jobs[0] if verdict[0].jobs else -1)
    return tuple(verdicts)


def _besides(position: int, context: VerdictContext, reason: Reason) -> Reason:
    """A reason with additions: that no launch has helped so far, if the tasks fit; that smaller jobs come first, if no
    worker comes.
    """
    said = context.unstarted.get(position)
    if said is not None:
        reason = reason.then(said)
    unhelped = context.unhelped.get(position)
    if unhelped is not None and reason.code in (Code.FITS, Code.WAITS_FOR_COMING):
        reason = reason.then(unhelped)
    others_first = context.starving().get(position) if _nothing_comes(reason) else None
    return reason if others_first is None else reason.then(others_first)


def _nothing_comes(reason: Reason) -> bool:
    return reason.code in _NOTHING_COMES or any(map(_nothing_comes, reason.trail))


def _reasons_of(
    want: CategoryDemand, position: int, policy: Policy, context: VerdictContext, besides: Callable[[Reason], Reason]
) -> Callable[[int, int, int, int], Reason]:
    """A function from how many tasks of a part fit now, fit on coming supply, or do not fit, and how many jobs it has,
    to its reason; cached, because many parts have the same.
    """
    growth = _growth_for(want, policy, context, context.held_back.get(position))
    delay = next((context.later[pool] for pool in sorted(want.demand.pools) if pool in context.later), None)

    known: dict[tuple[int, int, int, int], Reason] = {}

    def reason_of(now: int, coming: int, unmet: int, jobs: int) -> Reason:
        key = now, coming, unmet, jobs
        if key not in known:
            known[key] = made(*key)
        return known[key]

    def made(now: int, coming: int, unmet: int, jobs: int) -> Reason:
        reason = growth(now, coming, unmet, jobs) if unmet else _without_growth(coming, jobs)
        if reason.code is Code.WAITS_FOR_COMING and (at := context.expected_at(want.demand.pools)) is not None:
            reason = because(Code.WAITS_FOR_COMING, tasks=coming, alike=_alike(jobs), expected_at=at)
        return besides(delay if delay is not None and reason.code is Code.WAITS_FOR_COMING else reason)

    return reason_of


def _counted(
    parts: Sequence[CategoryPart],
    result: PlacementResult,
    reason_of: Callable[[int, int, int, int], Reason],
    besides: Callable[[Reason], Reason],
    context: VerdictContext,
) -> list[_Verdict]:
    verdicts: list[_Verdict] = []
    left_now, left_coming = result.now, result.coming
    for part in parts:
        now = coming = 0
        if left_now or left_coming:
            now = min(part.count, left_now)
            coming = min(part.count - now, left_coming)
            left_now, left_coming = left_now - now, left_coming - coming
        unmet = part.count - now - coming
        if unmet and result.refusal is not None:
            verdicts += _uncounted(part, result.refusal, context.unsatisfiable, besides)
        else:
            verdicts.append((part, reason_of(now, coming, unmet, len(part.jobs)), True))
    return verdicts


_MAYBE_UNSATISFIABLE = frozenset({Code.HELD, Code.DEPENDENT, Code.TOO_MUCH_FOR_CELL, Code.PE_SLOTS})
"""Reasons of uncounted jobs that may be unsatisfiable."""


def _uncounted(
    part: CategoryPart,
    reason: Reason,
    unsatisfiable: Mapping[int, Reason],
    besides: Callable[[Reason], Reason] = lambda reason: reason,
) -> list[_Verdict]:
    """One verdict for each set of jobs of a part with the same reason."""
    if not unsatisfiable or unsatisfiable.keys().isdisjoint(part.jobs):
        return [(part, besides(reason), False)]
    groups: dict[Reason, list[tuple[int, str]]] = {}
    for job, tasks in zip(part.jobs, part.tasks, strict=True):
        groups.setdefault(unsatisfiable.get(job, reason), []).append((job, tasks))
    alike = {
        why: replace(
            part,
            jobs=tuple(job for job, _ in some),
            tasks=tuple(tasks for _, tasks in some),
            count=sum(task_count(tasks) for _, tasks in some),
        )
        for why, some in groups.items()
    }
    return [(some, besides(why), False) for why, some in alike.items()]


def _without_growth(coming: int, jobs: int) -> Reason:
    return because(Code.WAITS_FOR_COMING, tasks=coming, alike=_alike(jobs)) if coming else because(Code.FITS)


def _alike(jobs: int) -> int | None:
    """Of how many jobs the tasks of a reason are; None: of one alone."""
    return jobs if jobs > 1 else None


def _growth_for(
    want: CategoryDemand, policy: Policy, context: VerdictContext, held_back: Reason | None
) -> Callable[[int, int, int, int], Reason]:
    """What the queues of a demand do for tasks without room, or why nothing is done for this demand."""
    if not policy.queue_demand:
        return lambda *_: because(Code.QUEUE_DEMAND_OFF)
    if not want.launches:
        counted = because(Code.COUNTED)
        return lambda *_: counted if want.withheld is None else counted.then(want.withheld)
    queue = policy.queue(want.launches[0])
    limit = queue.scale_up_timeout if queue else 0.0
    link = (held_back or _growth_of(want, context)) if want.expired else context.blocked

    def reason_of(now: int, coming: int, unmet: int, jobs: int) -> Reason:
        code = Code.EXPIRED if want.expired else Code.NOT_EXPIRED
        reason = because(code, lacking=unmet, fit=now + coming, alike=_alike(jobs), limit_s=limit)
        return reason if link is None else reason.then(link)

    return reason_of


def _growth_of(want: CategoryDemand, context: VerdictContext) -> Reason | None:
    """What is launched for the demand, or why nothing is; None: nothing is needed for its queues."""
    for queue in want.launches if want.expired else ():
        found = context.growth.get(f"{queue}{GROUPS}" if want.demand.together else queue)
        if found is not None:
            return context.own(want, queue, found)
    return None
