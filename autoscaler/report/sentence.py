"""A pass in one sentence: the log line, the history's line and what tests assert on.

`pass 812: 14 jobs wait, 9 fit; launching 2 c5.4xlarge; disabling ip-10-0-3-7 (idle 11m > 10m); keeping ip-10-0-3-9
(job 4411 runs)`. A few hosts are named and the rest counted, so that it stays one line with a thousand workers.

A reason takes two or three words here. Every short form also exists without its durations: two passes that differ only
in those have the same news.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from autoscaler.core.actions import AskGridEngine, JobAction, Launch, Renumber, WorkerAction, subject_of
from autoscaler.core.model.reasons import Code, Fact, Reason
from autoscaler.core.snapshot import JobCategoryVerdict, Plan
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.wording import NAMED, duration, few, filled, so_far, text, whole_set

_UNREAD = frozenset({Code.IGNORED, Code.CANNOT_BE_READ})
_NOT_READ = _UNREAD | {Code.JOBS_NOT_READ}
_ASIDE = _NOT_READ | {Code.BUDGET_LEVEL}
"""Notes that have a part of their own in the sentence, and are never the reason for doing nothing."""
_LATER = frozenset({Code.IN_ALARM, Code.QUEUE_OPENS_SOON})
"""Reasons of jobs that fit on a host which starts nothing yet."""
_LISTED = ("waiting for", "keeping", "leaving alone")
"""Verdicts without an action that the sentence lists, in this order (`Row.listed`). It lists no persistent hosts, and
no machines that are gone: clouds go on listing those for an hour.
"""
_UNHELPED = frozenset({Code.LAUNCHES_DID_NOT_HELP, Code.PROTECTED_MODE})
"""Notes that are shown beside actions, too."""


def sentence(plan: Plan, pass_number: int | None = None) -> str:
    """The whole line; without a number it is of a plan that is not carried out."""
    return f"{'plan' if pass_number is None else f'pass {pass_number}'}: {_sentence(plan, times=True)}"


def news(plan: Plan) -> str:
    """The sentence without times: a pass with the same news as the last one is not logged."""
    return _DURATION.sub("…", _sentence(plan, times=False))


def without_counts(told: str) -> str:
    """News without its numbers. Levels in per cent stay, and so do the numbers in names."""
    return _NUMBER.sub("…", told)


_DURATION = re.compile(r"(?<![\w./:-])(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+(?![\w-])")
_NUMBER = re.compile(r"(?<![\w./:-])\d+(?![\w-]|\.\w| ?%)")


def _sentence(plan: Plan, *, times: bool) -> str:
    done = list(_actions(plan, times=times)) or [_nothing(plan, times=times)]
    parts = [*_demand(plan), *_failed(plan), *done]
    if plan.actions:
        parts += [text(note) if times else note.code for note in plan.notes if note.code in _UNHELPED]
    parts += (*_kept(plan, times=times), *_unread(plan))
    parts += [brief(note) for note in plan.notes if note.code is Code.BUDGET_LEVEL]
    line = "; ".join(parts)
    to_correct = [
        words for note in plan.notes if needs_person(note) and (words := _without_stop(text(note))) not in line
    ]
    return "; ".join((line, *(f"to fix: {words}" for words in dict.fromkeys(to_correct))))


def _demand(plan: Plan) -> Iterator[str]:
    unread = jobs_not_read(plan.notes)
    if plan.waiting or not unread:
        yield _waiting(plan) if plan.waiting else "no job waits"
    if unread:
        yield unread


def jobs_not_read(notes: Iterable[Reason]) -> str:
    """`365 jobs could not be read: 300 it has no state, 65 not a list of tasks: '9-1'`; '' if all could be read."""
    causes = [note for note in notes if note.code is Code.JOBS_NOT_READ]
    if len(causes) < 2:
        return "".join(map(text, causes))
    counts = [count if isinstance(count := note["count"], int) else 0 for note in causes]
    reasons = [f"{count} {note['why']}" for count, note in zip(counts, causes, strict=True)][:NAMED]
    other = [f"{sum(counts[NAMED:])} other"] if counts[NAMED:] else []
    return f"{sum(counts)} jobs could not be read: {', '.join((*reasons, *other))}"


def _waiting(plan: Plan) -> str:
    parts = [f"{plan.waiting} job{'s wait' if plan.waiting > 1 else ' waits'}"]
    if plan.fitting:
        parts.append(f"{plan.fitting} fit{'' if plan.fitting > 1 else 's'}")
    if uncounted := plan.waiting - plan.counted:
        parts.append(f"{uncounted} {'do' if uncounted > 1 else 'does'} not count ({_causes(plan)})")
    return ", ".join(parts)


def _unread(plan: Plan) -> Iterator[str]:
    """Objects that could not be read, by name; jobs included."""
    names = [
        f"job {job}"
        for category in plan.job_categories
        if category.reason.code is Code.CANNOT_BE_READ
        for job in category.jobs
    ]
    names += [str(dict(note.facts).get("what", "something")) for note in plan.notes if note.code in _UNREAD]
    if names:
        yield f"cannot read {few(names)}"


def _causes(plan: Plan) -> str:
    """Why jobs do not count: first every cause that a person must correct, then the most frequent ones."""
    urgent: Counter[str] = Counter()
    counts: Counter[Code] = Counter()
    phrases: dict[Code, str] = {}
    for category in plan.job_categories:
        if category.counted:
            continue
        if needs_person(category.reason):
            urgent[brief(category.reason, times=False)] += category.count
        else:
            counts[category.reason.code] += category.count
            phrases.setdefault(category.reason.code, brief(category.reason, times=False))
    most = sorted(counts, key=lambda code: (-counts[code], code))
    if len(urgent) + len(most) == 1:
        return next(iter((*urgent, *phrases.values())))
    shown = [f"{count} {words}" for words, count in sorted(urgent.items(), key=lambda each: (-each[1], each[0]))]
    shown += [f"{counts[code]} {phrases[code]}" for code in most[:NAMED]]
    return ", ".join((*shown, f"{sum(counts[code] for code in most[NAMED:])} other") if most[NAMED:] else shown)


def _actions(plan: Plan, *, times: bool) -> Iterator[str]:
    launches = [action for action in plan.actions if isinstance(action, Launch)]
    several = len({launch.node_array for launch in launches}) > 1
    for launch in launches:
        first = whole_set((offer.count, offer.type.name) for offer in launch.candidates[0].offers)
        whose = f" for {launch.group_id or launch.node_array}" if several or launch.group_id else ""
        asked = f" ({brief(launch.reason)})" if launch.reason.code in (Code.REQUESTED, Code.NODE_REQUESTED) else ""
        yield f"{launch.verb} {first}{whose}{asked}{_limits(launch.reason, times=times)}"
    on_workers = [action for action in plan.actions if isinstance(action, WorkerAction)]
    for kind in get_args(WorkerAction):
        some = [(subject_of(action), action.reason) for action in on_workers if isinstance(action, kind)]
        if some:
            yield f"{kind.verb} {_named(some, 'host', times=times)}"
    on_jobs = [action for action in plan.actions if isinstance(action, JobAction)]
    for kind in get_args(JobAction):
        jobs = [(f"job {job}", one.reason) for one in on_jobs if isinstance(one, kind) for job in one.jobs]
        if jobs:
            yield f"{kind.verb} {_named(jobs, 'job', times=times)}"
    for action in plan.actions:
        if isinstance(action, AskGridEngine):
            count = len(action.questions)
            yield f"{action.verb} {f'{count} jobs' if count > 1 else f'job {subject_of(action)}'}"
        elif isinstance(action, Renumber):
            yield f"{action.verb} {action.queue}"


def _failed(plan: Plan) -> Iterator[str]:
    """Machines that ended before they joined: each cause once, in the pass that observes it."""
    causes = Counter((each.bucket.instance_type, each.message) for each in plan.failures)
    for (type_, message), count in causes.most_common(NAMED):
        yield f"{count} {type_} ended before {'it' if count == 1 else 'they'} joined ({_without_stop(message)})"
    if len(causes) > NAMED:
        yield f"{sum(causes.values())} in all ended before they joined"


def _limits(reason: Reason, *, times: bool) -> str:
    """` (wanted 6; capped by max_workers; 1 at a time)`, or nothing if everything is launched."""
    if not any(link.code in (Code.CAPPED, Code.SCALE_UP_BATCH, Code.LAUNCH_RATE_LIMIT) for link in reason.trail):
        return ""
    limits = (Code.LAUNCH_WANTED, Code.CAPPED, Code.SCALE_UP_BATCH, Code.LAUNCH_RATE_LIMIT)
    links = [brief(link, times=times) for link in reason.trail if link.code in limits]
    return f" ({'; '.join(links)})"


def _kept(plan: Plan, *, times: bool) -> Iterator[str]:
    acted = {action.worker_id for action in plan.actions if isinstance(action, WorkerAction)}
    for verb in _LISTED:
        some = [
            (worker.name, worker.reason)
            for worker in plan.workers
            if worker.id is not None and worker.id not in acted and REASONS[worker.reason.code].listed == verb
        ]
        if some:
            yield f"{verb} {_named(some, 'worker', times=times)}"


def _named(some: Sequence[tuple[str, Reason]], noun: str, *, times: bool) -> str:
    """`w1 (idle 11m > 10m), w2 (…)`, or for many `12 hosts (9 idle, 3 empty)`."""
    if len(some) <= NAMED:
        return ", ".join(f"{name} ({brief(reason, times=times)})" for name, reason in some)
    counts = Counter(brief(Reason(reason.code), times=False) for _, reason in some)
    urgent = {brief(Reason(reason.code), times=False) for _, reason in some if needs_person(reason)}
    order = sorted(counts, key=lambda phrase: (phrase not in urgent, -counts[phrase]))
    named = order[: max(NAMED, len(urgent))]
    causes = [(f"{counts[phrase]} " if len(counts) > 1 else "") + phrase for phrase in named]
    return f"{len(some)} {noun}s ({', '.join(causes)}{', …' if len(order) > len(named) else ''})"


def _nothing(plan: Plan, *, times: bool) -> str:
    """The reason for doing nothing."""
    for note in plan.notes:
        if note.code not in _ASIDE:
            return f"nothing to do: {_without_stop(text(note)) if times else note.code}"
    if not plan.waiting:
        return "nothing to do"
    if not plan.counted:
        return "nothing to do: no waiting job counts"
    if plan.fitting >= plan.counted:
        later = next(
            (
                category.reason
                for category in plan.job_categories
                if category.counted and category.reason.code in _LATER
            ),
            None,
        )
        return "nothing to do: all fit" + ("" if later is None else f" ({brief(later, times=times)})")
    waits: Counter[Code] = Counter()
    longest: dict[Code, JobCategoryVerdict] = {}
    for category in plan.job_categories:
        if category.counted and category.reason.code not in (Code.FITS, Code.COUNTED, Code.EXPIRED):
            waits[category.reason.code] += category.count
            longest[category.reason.code] = max(
                category, longest.get(category.reason.code, category), key=lambda one: one.waited
            )
    if not waits:
        return "nothing to do"
    code = max(sorted(waits), key=lambda one: waits[one])
    limit = dict(longest[code].reason.facts).get("limit_s")
    if code is Code.NOT_EXPIRED and isinstance(limit, int | float) and times:
        return f"nothing to do: not expired, {so_far(longest[code].waited, limit)}"
    return f"nothing to do: {brief(longest[code].reason, times=times)}"


def _without_stop(words: str) -> str:
    return words.rstrip(".")


def needs_person(reason: Reason) -> bool:
    """Whether a person must change settings, Grid Engine or the provider's account before this ends. A wrong
    request does not count, since its caller corrects it.
    """
    links = (reason, *reason.trail)
    nothing = [link for link in links if link.code is Code.NOTHING_TO_LAUNCH]
    if any(all(why.code is Code.BUCKET_TOO_SMALL for why in link.trail) for link in nothing):
        return True  # no allowed type is large enough; the trail would name types in backoff or sold out
    return any(REASONS[link.code].needs_person for link in links)


_AGE = ("idle_s", "age_s", "waited_s", "silent_s", "vouched_s")
_LIMIT = ("limit_s", "timeout_s")


def brief(reason: Reason, *, times: bool = True) -> str:
    """A short phrase for brackets after a name: `idle 11m > 10m`, `job 4411 runs`."""
    facts = dict(reason.facts)
    jobs = facts.get("jobs")
    if reason.code is Code.RUNS_JOBS and isinstance(jobs, tuple) and jobs:
        return f"job {jobs[0]} runs" if len(jobs) == 1 else f"{len(jobs)} jobs run"
    short = REASONS[reason.code].short
    if short is None:
        return text(Reason(reason.code, reason.facts))
    return filled(short, facts) + (_compared(facts) if times else "")


def _compared(facts: dict[str, Fact]) -> str:
    """` 11m > 10m`, ` 20s of 30s`, or only the one that is known."""
    age = _first(facts, _AGE)
    limit = _first(facts, _LIMIT)
    if age is None:
        return ""
    if limit is None:
        return f" {duration(age)}"
    if age < limit:
        return f" {so_far(age, limit)}"
    return f" {duration(age)} {'>' if age > limit else '≥'} {duration(limit)}"


def _first(facts: dict[str, Fact], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = facts.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None
