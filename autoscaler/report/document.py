"""A plan as the JSON that `plan`, `once` and the loop's log print: `schema` declares it, this fills it in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, assert_never

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Candidate,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Launch,
    Phantom,
    PushBack,
    Release,
    Remove,
    Terminate,
    kind_of,
)
from autoscaler.core.model import BucketVerdict, Plan, ShapeVerdict, Snapshot, WorkerVerdict
from autoscaler.core.reasons import Reason
from autoscaler.report.schema import SCHEMA
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
    return {
        "schema": SCHEMA,
        "now": datetime.fromtimestamp(snapshot.now, UTC).astimezone(zone).isoformat(),
        "sentence": sentence(plan, pass_number),
        "actions": [action_part(action) for action in plan.actions],
        "shapes": list(_job_parts(snapshot, plan) if by_job else map(_shape_part, plan.shapes)),
        "workers": [worker_part(verdict) for verdict in plan.workers],
        "buckets": [_bucket_part(verdict) for verdict in plan.buckets],
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
    return {"kind": kind_of(action), **_particulars(action), "reason": reason_part(action.reason)}


def _particulars(action: Action) -> dict[str, Any]:
    """What an action says besides its kind and reason."""
    match action:
        case Launch():
            first = _candidate_part(action.candidates[0])
            return {
                "node_array": action.node_array,
                **{name: first[name] for name in ("instance_type", "count", "price_per_hour")},
                "group_id": action.group_id or None,
                "nodes": list(action.nodes),
                "candidates": [_candidate_part(candidate) for candidate in action.candidates],
            }
        case Enrol():
            return {
                "worker_id": action.worker_id,
                "host": action.host,
                "node_array": action.node_array,
                "queue": action.queue,
                "host_group": action.host_group,
                "slots": action.slots,
                "complex_values": dict(action.complex_values),
                "group_id": action.group_id or None,
                "joined": action.joined,
            }
        case Enable() | Disable() | Remove():
            return {"worker_id": action.worker_id, "host": action.host}
        case Terminate():
            return {"worker_id": action.worker_id, "host": action.host, "failure": action.failure}
        case AskGridEngine():
            return {
                "jobs": [str(question.job) for question in action.questions],
                "phantoms": [_phantom_part(phantom) for phantom in action.phantoms],
            }
        case Annotate() | Hold() | Release():
            return {"jobs": list(action.jobs)}
        case Kill():
            return {"jobs": list(action.jobs), "lost": action.lost}
        case PushBack():
            told = {"worker_id": action.worker_id, "host": action.host, "forced": action.forced}
            return {"jobs": list(action.jobs), **told}
        case _:
            assert_never(action)


def worker_part(verdict: WorkerVerdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "id": verdict.id,
        "verdict": verdict.verdict,
        "reason": reason_part(verdict.reason),
    }


def _candidate_part(candidate: Candidate) -> dict[str, Any]:
    return {
        "instance_type": candidate.type.name,
        "count": candidate.count,
        "price_per_hour": candidate.price_per_hour,
        "price_type": candidate.buckets[0].key.price_type.value,
        "zones": [bucket.key.zone for bucket in candidate.buckets if bucket.key.zone],
    }


def _phantom_part(phantom: Phantom) -> dict[str, Any]:
    return {"queue": phantom.queue, "slots": phantom.slots, "complex_values": dict(phantom.complex_values)}


def _shape_part(verdict: ShapeVerdict) -> dict[str, Any]:
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
