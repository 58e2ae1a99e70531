"""What became of every waiting shape, in the order its tasks would find room: now, on what is coming, or not yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.asking.arrays import GROUPS
from autoscaler.core.demand import Reading
from autoscaler.core.eligibility import Part
from autoscaler.core.model import ShapeVerdict, Wanted
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.resources import task_count


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one wanted demand: tasks that fit now, that fit on what is coming, and why the rest does not launch anything,
    if so.
    """

    now: int
    coming: int
    refusal: Reason | None = None


def shape_verdicts(
    reading: Reading,
    fates: Sequence[Fate],
    policy: Policy,
    growth: Mapping[str, Reason],
    doubts: Mapping[int, Reason],
    at: float,
) -> tuple[ShapeVerdict, ...]:
    """A verdict for every part of every shape. `growth`: by queue, what is done or why nothing is (for groups of its
    workers under the queue's name and a colon). `doubts`: by job,
    what is said of one that nothing allowed could ever run.
    """
    verdicts = [
        verdict
        for want, parts, fate in zip(reading.wanted, reading.counted, fates, strict=True)
        for verdict in _counted(want, parts, fate, policy, growth, doubts, at)
    ]
    verdicts += [
        verdict
        for part in reading.uncounted
        if part.reason is not None
        for verdict in _doubted(part, part.reason, doubts if part.reason.code in _HELD else {}, at)
    ]
    return tuple(sorted(verdicts, key=lambda verdict: (verdict.jobs[:1], verdict.tasks[:1], not verdict.counted)))


def _counted(
    want: Wanted,
    parts: Sequence[Part],
    fate: Fate,
    policy: Policy,
    growth: Mapping[str, Reason],
    doubts: Mapping[int, Reason],
    at: float,
) -> list[ShapeVerdict]:
    verdicts: list[ShapeVerdict] = []
    left_now, left_coming = fate.now, fate.coming
    for part in parts:
        now = min(part.count, left_now)
        coming = min(part.count - now, left_coming)
        left_now, left_coming = left_now - now, left_coming - coming
        lacking = part.count - now - coming
        if lacking and fate.refusal is not None:
            verdicts += _doubted(part, fate.refusal, doubts, at)
        else:
            verdicts.append(_verdict(part, _fitting(want, now, coming, lacking, policy, growth), at, counted=True))
    return verdicts


_HELD = frozenset({Code.HELD, Code.DEPENDENT})


def _doubted(part: Part, reason: Reason, doubts: Mapping[int, Reason], at: float) -> list[ShapeVerdict]:
    """One verdict for those jobs of a part that stand alike."""
    if doubts.keys().isdisjoint(part.jobs):
        return [_verdict(part, reason, at, counted=False)]
    groups: dict[Reason, list[tuple[int, str]]] = {}
    for job, tasks in zip(part.jobs, part.tasks, strict=True):
        groups.setdefault(doubts.get(job, reason), []).append((job, tasks))
    alike = {
        why: replace(
            part,
            jobs=tuple(job for job, _ in some),
            tasks=tuple(tasks for _, tasks in some),
            count=sum(task_count(tasks) for _, tasks in some),
        )
        for why, some in groups.items()
    }
    return [_verdict(some, why, at, counted=False) for why, some in alike.items()]


def _fitting(want: Wanted, now: int, coming: int, lacking: int, policy: Policy, growth: Mapping[str, Reason]) -> Reason:
    if not lacking:
        return because(Code.WAITS_FOR_COMING, tasks=coming) if coming else because(Code.FITS)
    if not policy.queue_demand:
        return because(Code.QUEUE_DEMAND_OFF)
    if not want.launches:
        return because(Code.COUNTED)
    queue = policy.queue(want.launches[0])
    limit = queue.scale_up_timeout if queue else 0.0
    reason = because(
        Code.EXPIRED if want.expired else Code.NOT_EXPIRED, lacking=lacking, fit=now + coming, limit_s=limit
    )
    if not want.expired:
        return reason
    names = (f"{name}{GROUPS}" if want.demand.together else name for name in want.launches)
    links = [growth[name] for name in names if name in growth]
    return reason.then(links[0]) if links else reason


def _verdict(part: Part, reason: Reason, at: float, *, counted: bool) -> ShapeVerdict:
    return ShapeVerdict(part.jobs, part.tasks, part.ask, part.count, counted, max(at - part.oldest, 0.0), reason)
