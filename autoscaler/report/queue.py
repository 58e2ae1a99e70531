"""Waiting tasks by the innermost cause: their number, for how long, and the jobs that have waited longest. Its size
does not grow with the number of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.reasons import Reason
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.outcome.waiting_notes import named
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot
from autoscaler.report.document import able_times, job_wait, reason_part
from autoscaler.report.waiting_cause import cause_part, sentence_of
from autoscaler.report.wording import shown

FIRST = 50
"""Jobs of a cause that are listed: those of the categories that have waited longest."""

_Group = tuple[str, Reason | None, bool]
"""Code, what it names (a limit, a quota, a queue …), and whether the jobs count."""


def queue_rows(snapshot: Snapshot, plan: Plan, owner: str | None = None) -> tuple[list[dict[str, Any]], int]:
    """A row for each cause, those of most tasks first, and how many tasks are not shown. `owner`: the only owner whose
    jobs are shown; None: all.
    """
    groups: dict[_Group, list[tuple[JobCategoryVerdict, Reason]]] = {}
    hidden = 0
    for verdict in plan.job_categories:
        if owner is not None and verdict.ask.owner != owner:
            hidden += verdict.count
        else:
            cause = cause_of(verdict.reason)
            groups.setdefault((cause.code.value, named(cause), verdict.counted), []).append((verdict, cause))
    able = able_times(snapshot, plan)
    rows = [
        {"key": _key(key), **_row(sorted(group, key=lambda one: -one[0].waited), able, snapshot.now)}
        for key, group in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row["tasks"], row["cause"]["code"], row["cause"]["text"])), hidden


def _key(group: _Group) -> str:
    """The same in every pass, whatever the figures in the sentence."""
    code, names, counted = group
    facts = () if names is None else (shown(*fact) for fact in names.facts)
    return " ".join((code, *facts, "counted" if counted else "not counted"))


def _row(group: Sequence[tuple[JobCategoryVerdict, Reason]], able: Mapping[int, float], now: float) -> dict[str, Any]:
    longest, _ = group[0]
    cause = cause_part(longest.reason)
    return {
        "cause": cause,
        "same": len({why for _, why in group}) == 1,
        "reason": reason_part(longest.reason),
        "remedy": cause["remedy"],
        "owner_remedy": cause["owner_remedy"],
        "counted": longest.counted,
        "jobs": sum(len(verdict.jobs) for verdict, _ in group),
        "tasks": sum(verdict.count for verdict, _ in group),
        "longest_wait_s": round(longest.waited, 3),
        "first": _first(group, able, now),
    }


def _first(
    group: Sequence[tuple[JobCategoryVerdict, Reason]], able: Mapping[int, float], now: float
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for verdict, cause in group:
        sentence = sentence_of(cause)
        for job, tasks in zip(verdict.jobs, verdict.tasks, strict=True):
            if len(found) == FIRST:
                return found
            found.append(
                {
                    "job": str(job),
                    "owner": verdict.ask.owner,
                    "tasks": task_count(tasks),
                    "slots": verdict.ask.slots_min,
                    "waited_s": round(job_wait(verdict, able.get(job), now), 3),
                    "cause": sentence,
                }
            )
    return found
