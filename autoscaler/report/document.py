"""A plan as the JSON that `plan`, `once` and the loop's log print: `schema` declares it, this fills it in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from autoscaler.core.model.actions import Action
from autoscaler.core.model.reasons import Reason
from autoscaler.core.snapshot import BucketVerdict, JobCategoryVerdict, Plan, Snapshot, WorkerVerdict
from autoscaler.report import SCHEMA
from autoscaler.report.action_fields import json_fields
from autoscaler.report.sentence import sentence
from autoscaler.report.wording import text
from sge.units import count_tasks


def document(
    snapshot: Snapshot,
    plan: Plan,
    timings: Mapping[str, float],
    *,
    by_job: bool = False,
    pass_number: int | None = None,
    zone: tzinfo | None = None,
) -> dict[str, Any]:
    """Schema 1 as plain values. `timings`: seconds by `read`, `parse`, `decide`, as far as measured.

    `by_job` gives each job a row of its own; `zone` is that of `now` (default: this machine's).
    """
    return without_verdicts(snapshot, plan, timings, pass_number=pass_number, zone=zone) | {
        "shapes": list(_job_parts(snapshot, plan) if by_job else map(_shape_part, plan.shapes)),
        "workers": [worker_part(verdict) for verdict in plan.workers],
        "buckets": [_bucket_part(verdict) for verdict in plan.buckets],
    }


def without_verdicts(
    snapshot: Snapshot,
    plan: Plan,
    timings: Mapping[str, float],
    *,
    pass_number: int | None = None,
    zone: tzinfo | None = None,
) -> dict[str, Any]:
    """The same without what became of every job category, worker and bucket: its size does not grow with the cell's."""
    return {
        "schema": SCHEMA,
        "now": datetime.fromtimestamp(snapshot.now, UTC).astimezone(zone).isoformat(),
        "sentence": sentence(plan, pass_number),
        "actions": [action_part(action) for action in plan.actions],
        "notes": [reason_part(note) for note in plan.notes],
        "waiting": plan.waiting,
        "counted": plan.counted,
        "fitting": plan.fitting,
        "timings": {name: _rounded(timings.get(name)) for name in ("read", "parse", "decide")},
    }


def reason_part(reason: Reason) -> dict[str, Any]:
    """A reason with its sentence, facts and trail."""
    return {
        "code": reason.code.value,
        "text": text(reason),
        "facts": {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in reason.facts},
        "trail": [reason_part(link) for link in reason.trail],
    }


def action_part(action: Action) -> dict[str, Any]:
    """One action, `kind` first."""
    kind: Any = type(action)
    fields = {field.key: field.of(action) for field in json_fields(kind)}
    return {"kind": action.kind, **fields, "reason": reason_part(action.reason)}


def worker_part(verdict: WorkerVerdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "id": verdict.id,
        "verdict": verdict.verdict,
        "reason": reason_part(verdict.reason),
    }


def _shape_part(verdict: JobCategoryVerdict) -> dict[str, Any]:
    return {
        "jobs": [_job_name(job, tasks) for job, tasks in zip(verdict.jobs, verdict.tasks, strict=True)],
        "count": len(verdict.jobs),
        "slots": verdict.ask.slots_min,
        "tasks": verdict.count,
        "counted": verdict.counted,
        "waited_s": _rounded(verdict.waited),
        "reason": reason_part(verdict.reason),
    }


def _job_parts(snapshot: Snapshot, plan: Plan) -> Iterator[dict[str, Any]]:
    able_since = able_times(snapshot, plan)
    for verdict in plan.shapes:
        reason = reason_part(verdict.reason)
        for job, tasks in zip(verdict.jobs, verdict.tasks, strict=True):
            since = able_since.get(job)
            yield {
                "jobs": [_job_name(job, tasks)],
                "count": 1,
                "slots": verdict.ask.slots_min,
                "tasks": count_tasks(tasks) if tasks else 1,
                "counted": verdict.counted,
                "waited_s": _rounded(verdict.waited if since is None else max(0.0, snapshot.now - since)),
                "reason": reason,
            }


def able_times(snapshot: Snapshot, plan: Plan) -> dict[int, float]:
    """Since when each waiting job could run, as Unix seconds: its submission, unless it was held or given a start."""
    since = {
        job: at for shape in snapshot.cluster.shapes for job, at in zip(shape.jobs, shape.submitted, strict=True)
    } | dict(plan.memory.able_since)
    for job, detail in plan.memory.details.items():
        if job in since and detail.start_after is not None and detail.start_after <= snapshot.now:
            since[job] = max(since[job], detail.start_after)
    return since


def _bucket_part(verdict: BucketVerdict) -> dict[str, Any]:
    key = verdict.bucket
    return {
        "instance_type": key.instance_type,
        "node_array": key.node_array,
        "zone": key.zone,
        "price_type": key.price_type.value,
        "placement_group": key.placement_group,
        "chosen": verdict.chosen,
        "reason": reason_part(verdict.reason),
    }


def _job_name(job: int, tasks: str) -> str:
    return f"{job}.{tasks}" if tasks else str(job)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
