"""A pass in one sentence: the log line, the history's line and what tests assert on.

`pass 812: 14 jobs wait, 9 fit; launching 2 c5.4xlarge; disabling ip-10-0-3-7 (idle 11m > 10m); keeping ip-10-0-3-9
(job 4411 runs)`. Few things are named, many are counted, so that it stays a line on a cluster of a thousand workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from autoscaler.core.actions import (
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    JobAction,
    Kill,
    Launch,
    PushBack,
    Release,
    Remove,
    Terminate,
    WorkerAction,
    subject_of,
)
from autoscaler.core.model import Plan, ShapeVerdict
from autoscaler.core.reasons import Code, Reason
from autoscaler.report.brief import brief
from autoscaler.report.wording import duration, text

NAMED = 3
"""At most so many hosts or causes are named in one part of the sentence."""

_VERBS: tuple[tuple[type[WorkerAction], str], ...] = (
    (Enrol, "enrolling"),
    (Enable, "enabling"),
    (Disable, "disabling"),
    (Remove, "removing"),
    (Terminate, "terminating"),
)
_JOB_VERBS: tuple[tuple[type[JobAction], str], ...] = (
    (PushBack, "pushing back"),
    (Kill, "killing"),
    (Hold, "holding"),
    (Release, "releasing"),
    (Annotate, "telling the owner of"),
)
_KEPT: tuple[tuple[str, frozenset[Code]], ...] = (
    ("waiting for", frozenset({Code.BOOTING, Code.JOINING, Code.SETTLING, Code.ENDING})),
    (
        "keeping",
        frozenset({Code.RUNS_JOBS, Code.RESERVED, Code.NEEDED, Code.IDLE_NOT_LONG_ENOUGH, Code.QUEUE_NOT_EMPTY})
        | {Code.MIN_WORKERS, Code.KEPT_BY_COMMAND, Code.KEPT_BY_RULES, Code.DRAINING, Code.SHRINK_BATCH}
        | {Code.KEPT_BY_REQUEST, Code.REQUESTED, Code.CREATED_NODE},
    ),
    (
        "leaving alone",
        frozenset({Code.DISABLED_BY_HAND, Code.ENABLED_BY_HAND, Code.INSTANCE_IN_ERROR, Code.UNHEARD})
        | {Code.UNKNOWN_ARRAY, Code.SILENT, Code.INTERRUPTED, Code.NOT_LISTED, Code.LOST_JOBS_STAY},
    ),
)
"""Verdicts without an action that a person may wonder about. Persistent hosts are none, nor are machines that are gone:
clouds go on listing those for an hour.
"""


def sentence(plan: Plan, pass_number: int | None = None) -> str:
    """The whole line; without a number it is told of a plan that nobody carries out."""
    return f"{'plan' if pass_number is None else f'pass {pass_number}'}: {_told(plan, times=True)}"


def news(plan: Plan) -> str:
    """What the sentence says, times excluded: a pass whose news are those of the last one says nothing new."""
    return _told(plan, times=False)


def _told(plan: Plan, *, times: bool) -> str:
    acts = list(_actions(plan, times=times))
    parts = [_demand(plan), *(acts or [_nothing(plan, times=times)]), *_kept(plan, times=times)]
    return "; ".join(parts)


def _demand(plan: Plan) -> str:
    if not plan.waiting:
        return "no job waits"
    parts = [f"{plan.waiting} job{'s wait' if plan.waiting > 1 else ' waits'}"]
    if plan.fitting:
        parts.append(f"{plan.fitting} fit{'' if plan.fitting > 1 else 's'}")
    if uncounted := plan.waiting - plan.counted:
        parts.append(f"{uncounted} {'do' if uncounted > 1 else 'does'} not count ({_causes(plan)})")
    return ", ".join(parts)


def _causes(plan: Plan) -> str:
    counts: Counter[Code] = Counter()
    phrases: dict[Code, str] = {}
    for shape in plan.shapes:
        if not shape.counted:
            counts[shape.reason.code] += shape.count
            phrases.setdefault(shape.reason.code, brief(shape.reason, times=False))
    most = sorted(counts, key=lambda code: (-counts[code], code))
    if len(most) == 1:
        return phrases[most[0]]
    shown = [f"{counts[code]} {phrases[code]}" for code in most[:NAMED]]
    return ", ".join((*shown, f"{sum(counts[code] for code in most[NAMED:])} other") if most[NAMED:] else shown)


def _actions(plan: Plan, *, times: bool) -> Iterator[str]:
    launches = [action for action in plan.actions if isinstance(action, Launch)]
    several = len({launch.node_array for launch in launches}) > 1
    for launch in launches:
        first = launch.candidates[0]
        whose = f" for {launch.group_id or launch.node_array}" if several or launch.group_id else ""
        asked = f" ({brief(launch.reason)})" if launch.reason.code in (Code.REQUESTED, Code.NODE_WANTED) else ""
        yield f"launching {first.count} {first.type.name}{whose}{asked}{_limits(launch.reason, times=times)}"
    for kind, verb in _VERBS:
        some = [(subject_of(action), action.reason) for action in plan.actions if isinstance(action, kind)]
        if some:
            yield f"{verb} {_named(some, 'host', times=times)}"
    for job_kind, verb in _JOB_VERBS:
        jobs = [(f"job {job}", a.reason) for a in plan.actions if isinstance(a, job_kind) for job in a.jobs]
        if jobs:
            yield f"{verb} {_named(jobs, 'job', times=times)}"
    for action in plan.actions:
        if isinstance(action, AskGridEngine):
            count = len(action.questions)
            yield f"asking Grid Engine about {f'{count} jobs' if count > 1 else f'job {subject_of(action)}'}"


def _limits(reason: Reason, *, times: bool) -> str:
    """` (wanted 6; capped by max_workers; 1 at a time)`, or nothing where all that was wanted is launched."""
    if not any(link.code in (Code.CAPPED, Code.BATCHED) for link in reason.trail):
        return ""
    limits = (Code.LAUNCH_WANTED, Code.CAPPED, Code.BATCHED)
    told = [brief(link, times=times) for link in reason.trail if link.code in limits]
    return f" ({'; '.join(told)})"


def _kept(plan: Plan, *, times: bool) -> Iterator[str]:
    acted = {action.worker_id for action in plan.actions if isinstance(action, WorkerAction)}
    for verb, codes in _KEPT:
        some = [
            (worker.name, worker.reason)
            for worker in plan.workers
            if worker.id is not None and worker.id not in acted and worker.reason.code in codes
        ]
        if some:
            yield f"{verb} {_named(some, 'worker', times=times)}"


def _named(some: Sequence[tuple[str, Reason]], noun: str, *, times: bool) -> str:
    """`w1 (idle 11m > 10m), w2 (…)`, or for many `12 hosts (9 idle, 3 empty)`."""
    if len(some) <= NAMED:
        return ", ".join(f"{name} ({brief(reason, times=times)})" for name, reason in some)
    counts = Counter(brief(Reason(reason.code), times=False) for _, reason in some)
    causes = [(f"{count} " if len(counts) > 1 else "") + phrase for phrase, count in counts.most_common(NAMED)]
    return f"{len(some)} {noun}s ({', '.join(causes)}{', …' if len(counts) > NAMED else ''})"


def _nothing(plan: Plan, *, times: bool) -> str:
    """Doing nothing has a reason like everything else."""
    for note in plan.notes:
        if note.code is not Code.SET_ASIDE:
            return f"nothing to do: {_without_stop(text(note)) if times else note.code}"
    if not plan.waiting:
        return "nothing to do"
    if not plan.counted:
        return "nothing to do: no waiting job counts"
    if plan.fitting >= plan.counted:
        return "nothing to do: all fit"
    waits: Counter[Code] = Counter()
    longest: dict[Code, ShapeVerdict] = {}
    for shape in plan.shapes:
        if shape.counted and shape.reason.code not in (Code.FITS, Code.COUNTED, Code.EXPIRED):
            waits[shape.reason.code] += shape.count
            longest[shape.reason.code] = max(shape, longest.get(shape.reason.code, shape), key=lambda one: one.waited)
    if not waits:
        return "nothing to do"
    code = max(sorted(waits), key=lambda one: waits[one])
    limit = dict(longest[code].reason.facts).get("limit_s")
    if code is Code.NOT_EXPIRED and isinstance(limit, int | float) and times:
        return f"nothing to do: not expired, {duration(longest[code].waited)} of {duration(limit)}"
    return f"nothing to do: {brief(longest[code].reason, times=times)}"


def _without_stop(words: str) -> str:
    return words.rstrip(".")
