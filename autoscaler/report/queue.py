"""Waiting tasks by reason: their number, for how long, and the jobs that have waited longest. Its size does not grow
with the number of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.core.model.complexes import task_count
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot
from autoscaler.report.document import able_times, job_wait, reason_part
from autoscaler.report.reasons.table import REASONS

FIRST = 50
"""Jobs of a reason that are listed: those of the categories that have waited longest."""


def queue_rows(snapshot: Snapshot, plan: Plan, owner: str | None = None) -> tuple[list[dict[str, Any]], int]:
    """A row for each reason, those of most tasks first, and how many tasks are not shown. `owner`: the only owner
    whose jobs are shown; None: all.
    """
    groups: dict[tuple[str, bool], list[JobCategoryVerdict]] = {}
    hidden = 0
    for verdict in plan.job_categories:
        if owner is not None and verdict.ask.owner != owner:
            hidden += verdict.count
        else:
            groups.setdefault((verdict.reason.code.value, verdict.counted), []).append(verdict)
    able = able_times(snapshot, plan)
    rows = [_row(sorted(group, key=lambda one: -one.waited), able, snapshot.now) for group in groups.values()]
    return sorted(rows, key=lambda row: (-row["tasks"], row["reason"]["code"])), hidden


def _row(verdicts: Sequence[JobCategoryVerdict], able: Mapping[int, float], now: float) -> dict[str, Any]:
    longest = verdicts[0]
    return {
        "reason": reason_part(longest.reason),
        "remedy": REASONS[longest.reason.code].remedy,
        "owner_remedy": REASONS[longest.reason.code].owner_remedy,
        "counted": longest.counted,
        "jobs": sum(len(verdict.jobs) for verdict in verdicts),
        "tasks": sum(verdict.count for verdict in verdicts),
        "longest_wait_s": round(longest.waited, 3),
        "first": _first(verdicts, able, now),
    }


def _first(verdicts: Sequence[JobCategoryVerdict], able: Mapping[int, float], now: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for verdict in verdicts:
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
                }
            )
    return found
