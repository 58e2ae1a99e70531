"""What became of every waiting shape, in the order its tasks would find room: now, on what is coming, or not yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.demand import Reading
from autoscaler.core.eligibility import Part
from autoscaler.core.model import ShapeVerdict, Wanted
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason, because


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one wanted demand: tasks that fit now, that fit on what is coming, and why the rest does not launch anything,
    if so.
    """

    now: int
    coming: int
    refusal: Reason | None = None


def shape_verdicts(
    reading: Reading, fates: Sequence[Fate], policy: Policy, growth: Mapping[str, Reason], at: float
) -> tuple[ShapeVerdict, ...]:
    """A verdict for every part of every shape. `growth`: by queue, what is done or why nothing is."""
    verdicts = [
        verdict
        for want, parts, fate in zip(reading.wanted, reading.counted, fates, strict=True)
        for verdict in _counted(want, parts, fate, policy, growth, at)
    ]
    verdicts += [
        _verdict(part, part.reason, at, counted=False) for part in reading.uncounted if part.reason is not None
    ]
    return tuple(sorted(verdicts, key=lambda verdict: (verdict.jobs[:1], verdict.tasks[:1], not verdict.counted)))


def _counted(
    want: Wanted, parts: Sequence[Part], fate: Fate, policy: Policy, growth: Mapping[str, Reason], at: float
) -> list[ShapeVerdict]:
    verdicts: list[ShapeVerdict] = []
    left_now, left_coming = fate.now, fate.coming
    for part in parts:
        now = min(part.count, left_now)
        coming = min(part.count - now, left_coming)
        left_now, left_coming = left_now - now, left_coming - coming
        lacking = part.count - now - coming
        if lacking and fate.refusal is not None:
            verdicts.append(_verdict(part, fate.refusal, at, counted=False))
        else:
            verdicts.append(_verdict(part, _fitting(want, now, coming, lacking, policy, growth), at, counted=True))
    return verdicts


def _fitting(want: Wanted, now: int, coming: int, lacking: int, policy: Policy, growth: Mapping[str, Reason]) -> Reason:
    if not lacking:
        return because(Code.WAITS_FOR_COMING, tasks=coming) if coming else because(Code.FITS)
    if not want.launches:
        return because(Code.COUNTED)
    queue = policy.queue(want.launches[0])
    limit = queue.scale_up_timeout if queue else 0.0
    reason = because(
        Code.EXPIRED if want.expired else Code.NOT_EXPIRED, lacking=lacking, fit=now + coming, limit_s=limit
    )
    if not want.expired:
        return reason
    links = [growth[name] for name in want.launches if name in growth]
    return reason.then(links[0]) if links else reason


def _verdict(part: Part, reason: Reason, at: float, *, counted: bool) -> ShapeVerdict:
    return ShapeVerdict(part.jobs, part.tasks, part.ask, part.count, counted, max(at - part.oldest, 0.0), reason)
