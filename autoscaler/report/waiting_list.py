"""The answer to `waiting`: the job categories that wait, a page at a time, found by number, owner, project or cause.

Its size does not grow with the cell: only the rows of the page are made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.core.model.complexes import has_task
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot
from autoscaler.report.document import reason_part
from autoscaler.report.events import at_zone, query_number
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.waiting_cause import cause_part

MOST, LAST = 500, 100
"""Rows of one answer: at most, and by default."""
_FACT = re.compile(r"(?: (?:by|of|for|from|in|on|to))? ?\{\w+\}")
"""A fact in a short text: the rows of one reason may differ in it."""
NAMED = 5
"""Jobs of a category that a row names."""
NEVER = frozenset(
    {
        Code.TOO_LARGE_FOR_ONE_HOST,
        Code.TOO_MANY_SLOTS,
        Code.TOO_MANY_HOSTS,
        Code.TOO_MUCH_ON_ONE_HOST,
        Code.TOO_MUCH_TOGETHER,
        Code.TOO_MUCH_FOR_CELL,
        Code.TOO_MUCH_FOR_QUOTA,
        Code.NO_SUCH_RESOURCE,
        Code.NO_SUCH_HOST,
        Code.UNKNOWN_RESOURCE,
        Code.PE_RULE,
        Code.PE_SLOTS,
    }
)
"""Causes that time does not end: the job never starts as it is, unless one of the following stands beside them."""
PROVEN = frozenset({Code.UNSATISFIABLE, Code.UNSATISFIABLE_HELD})
"""Grid Engine was asked, and agrees that nothing allowed can run the job."""
PERHAPS = frozenset({Code.FITS_WHEN_FREE, Code.GRID_ENGINE_DISAGREES, Code.RUNNING_TASKS})


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """What is asked for; '' asks for all."""

    search: str = ""
    """A job's number or task (`12`, `12.3`), or a part of an owner's, project's or job's name."""
    owner: str = ""
    code: str = ""
    first: int = 0
    """How many rows to leave out."""
    last: int = LAST
    """How many rows to return at most."""


def read_waiting_query(query: Mapping[str, str]) -> WaitingQuery:
    """Read a query. Raises SettingsError."""
    return WaitingQuery(
        query.get("search", "").strip(),
        query.get("owner", ""),
        query.get("code", ""),
        query_number(query, "first", 0),
        min(max(query_number(query, "last", LAST), 1), MOST),
    )


def waiting_rows(
    snapshot: Snapshot,
    plan: Plan,
    query: WaitingQuery,
    *,
    asker: str,
    only: str | None,
    named: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """The rows of one page, those of the asker first, then those that have waited longest. `only`: the only owner whose
    jobs are shown; None: all. `named`: names of jobs that have the text that is searched for; None: not known.
    """
    visible = [verdict for verdict in plan.job_categories if only is None or verdict.ask.owner == only]
    of_owner = [verdict for verdict in visible if not query.owner or verdict.ask.owner == query.owner]
    by_name: Mapping[int, str] = {} if named is None else named
    found = [verdict for verdict in of_owner if _matches(verdict, query.search, by_name)]
    shown = [verdict for verdict in found if not query.code or cause_of(verdict.reason).code.value == query.code]
    shown.sort(key=lambda one: (one.ask.owner != asker, -one.waited, one.jobs[:1]))
    page = shown[query.first : query.first + query.last]
    return {
        "found": len(shown),
        "tasks": sum(verdict.count for verdict in shown),
        "first": query.first,
        "not_shown": sum(verdict.count for verdict in plan.job_categories) - sum(verdict.count for verdict in visible),
        "names_read": named is not None,
        "codes": list(_codes(found)),
        "categories": [_row(verdict, snapshot.now, query.search, by_name) for verdict in page],
    }


def _matches(verdict: JobCategoryVerdict, search: str, by_name: Mapping[int, str]) -> bool:
    if not search:
        return True
    if search[0].isdecimal() and _named(verdict, search):
        return True
    words = search.lower()
    names = verdict.ask.owner, verdict.ask.project or ""
    return any(words in name.lower() for name in names) or not by_name.keys().isdisjoint(verdict.jobs)


def _named(verdict: JobCategoryVerdict, search: str) -> str:
    """The job or task of this category that a search names; '': none."""
    number, _, task = search.partition(".")
    if not number.isdecimal() or len(number) > 18 or int(number) not in verdict.jobs:
        return ""
    tasks = verdict.tasks[verdict.jobs.index(int(number))]
    if task and not (task.isdecimal() and len(task) <= 18 and tasks and has_task(tasks, int(task))):
        return ""
    return f"{number}.{task}" if task else f"{number}.{tasks}" if tasks else number


def _codes(verdicts: Sequence[JobCategoryVerdict]) -> Iterator[dict[str, Any]]:
    """The innermost causes among them, those of most tasks first. `never`: how many of the tasks fit nowhere as they
    are; `unsatisfiable`: for how many of these that is proven; `longest_wait_s`: seconds for which the first of them
    has been able to run.
    """
    tasks: Counter[Code] = Counter()
    never: Counter[Code] = Counter()
    proven: Counter[Code] = Counter()
    longest: dict[Code, float] = {}
    # Most categories of a queue have the same links, and there may be 50,000.
    known: dict[tuple[object, ...], tuple[Code, bool, bool]] = {}
    for verdict in verdicts:
        reason = verdict.reason
        alike = (reason.code, *map(id, reason.trail))
        if alike not in known:
            code, within = cause_of(reason).code, frozenset(_codes_in(reason))
            forever = code in NEVER and PERHAPS.isdisjoint(within)
            known[alike] = code, forever, forever and not PROVEN.isdisjoint(within)
        code, forever, certain = known[alike]
        tasks[code] += verdict.count
        if forever:
            never[code] += verdict.count
            proven[code] += verdict.count if certain else 0
        longest[code] = max(longest.get(code, 0.0), verdict.waited)
    for code, count in sorted(tasks.items(), key=lambda each: (-each[1], each[0].value)):
        yield {
            "code": code.value,
            "short": _FACT.sub("", REASONS[code].short or code.value.replace("_", " ").lower()),
            "tasks": count,
            "never": never[code],
            "unsatisfiable": proven[code],
            "longest_wait_s": round(longest[code], 3),
        }


def _codes_in(reason: Reason) -> Iterator[Code]:
    yield reason.code
    for link in reason.trail:
        yield from _codes_in(link)


def _row(verdict: JobCategoryVerdict, now: float, search: str, by_name: Mapping[int, str]) -> dict[str, Any]:
    named = _named(verdict, search) if search[:1].isdecimal() else ""
    pairs = list(zip(verdict.jobs, verdict.tasks, strict=True)) if by_name else []
    pairs = [pair for pair in pairs if pair[0] in by_name][:NAMED]
    pairs = pairs or list(zip(verdict.jobs[:NAMED], verdict.tasks[:NAMED], strict=True))
    jobs = [f"{job}.{tasks}" if tasks else str(job) for job, tasks in pairs]
    return {
        "jobs": [named] if named else jobs,
        "names": [] if named or not by_name else [by_name.get(job) for job, _ in pairs],
        "count": len(verdict.jobs),
        "tasks": verdict.count,
        "slots": verdict.ask.slots_min,
        "pe": verdict.ask.pe,
        "requests": dict(verdict.ask.hard),
        "queues": list(verdict.ask.queues),
        "owner": verdict.ask.owner or None,
        "project": verdict.ask.project,
        "counted": verdict.counted,
        "waited_s": round(verdict.waited, 3),
        "since": at_zone(now - verdict.waited),
        "cause": cause_part(verdict.reason),
        "reason": reason_part(verdict.reason),
    }
