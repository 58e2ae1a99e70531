"""A plan as the JSON that `plan`, `once` and the loop's log print: `schema` declares it, this fills it in.

Which fields an action shows, and under which keys, follows from its class alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.actions import Action, InJson, in_json
from autoscaler.core.model.reasons import Reason
from autoscaler.core.snapshot import Assigned, BucketVerdict, JobCategoryVerdict, Plan, Snapshot, WorkerVerdict
from autoscaler.report import SCHEMA
from autoscaler.report.sentence import sentence
from autoscaler.report.waiting_cause import cause_part
from autoscaler.report.wording import text
from autoscaler.sge.units import count_tasks


def document(
    snapshot: Snapshot,
    plan: Plan,
    timings: Mapping[str, float],
    *,
    by_job: bool = False,
    pass_number: int | None = None,
    zone: tzinfo | None = None,
) -> dict[str, Any]:
    """Schema 1 as plain values. `timings`: seconds by `read`, `parse`, `decide`, if measured.

    `by_job` gives each job a row of its own; `zone` is that of `now` (default: this machine's).
    """
    found = lazy_document(snapshot, plan, timings, by_job=by_job, pass_number=pass_number, zone=zone)
    return found | {name: list(found[name]) for name in ("job_categories", "workers", "buckets")}


def lazy_document(
    snapshot: Snapshot,
    plan: Plan,
    timings: Mapping[str, float],
    *,
    by_job: bool = False,
    pass_number: int | None = None,
    zone: tzinfo | None = None,
) -> dict[str, Any]:
    """The same with iterators in place of the three long lists: each may be read once."""
    return without_verdicts(snapshot, plan, timings, pass_number=pass_number, zone=zone) | {
        "job_categories": _job_parts(snapshot, plan) if by_job else map(_category_part, plan.job_categories),
        "workers": map(worker_part, plan.workers),
        "buckets": map(bucket_part, plan.buckets),
    }


def assignment_part(assigned: Assigned) -> dict[str, Any]:
    """What one worker of a launch is meant for."""
    return {
        "node_array": assigned.node_array,
        "worker": assigned.worker,
        "category": assigned.category,
        "jobs": [str(job) for job in assigned.jobs],
        "slots": assigned.slots,
    }


def without_verdicts(
    snapshot: Snapshot,
    plan: Plan,
    timings: Mapping[str, float],
    *,
    pass_number: int | None = None,
    zone: tzinfo | None = None,
) -> dict[str, Any]:
    """The same without the verdicts on job categories, workers and buckets: its size does not grow with the cell."""
    return {
        "schema": SCHEMA,
        "now": datetime.fromtimestamp(snapshot.now, UTC).astimezone(zone).isoformat(),
        "sentence": sentence(plan, pass_number),
        "actions": [action_part(action) for action in plan.actions],
        "notes": [reason_part(note) for note in plan.notes],
        "waiting": plan.waiting,
        "counted": plan.counted,
        "fitting": plan.fitting,
        "currency": snapshot.policy.currency,
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


def _category_part(verdict: JobCategoryVerdict) -> dict[str, Any]:
    return {
        "jobs": [_job_name(job, tasks) for job, tasks in zip(verdict.jobs, verdict.tasks, strict=True)],
        "count": len(verdict.jobs),
        "slots": verdict.ask.slots_min,
        "tasks": verdict.count,
        "counted": verdict.counted,
        "waited_s": _rounded(verdict.waited),
        "cause": cause_part(verdict.reason),
        "reason": reason_part(verdict.reason),
    }


def _job_parts(snapshot: Snapshot, plan: Plan) -> Iterator[dict[str, Any]]:
    able_since = able_times(snapshot, plan)
    for verdict in plan.job_categories:
        reason, cause = reason_part(verdict.reason), cause_part(verdict.reason)
        for job, tasks in zip(verdict.jobs, verdict.tasks, strict=True):
            yield {
                "jobs": [_job_name(job, tasks)],
                "count": 1,
                "slots": verdict.ask.slots_min,
                "tasks": count_tasks(tasks) if tasks else 1,
                "counted": verdict.counted,
                "waited_s": _rounded(job_wait(verdict, able_since.get(job), snapshot.now)),
                "cause": cause,
                "reason": reason,
            }


def job_wait(verdict: JobCategoryVerdict, since: float | None, now: float) -> float:
    """How long one job of a category has been able to run, in seconds; its category's time if that is not known."""
    return verdict.waited if since is None else max(0.0, now - since)


def able_times(snapshot: Snapshot, plan: Plan) -> dict[int, float]:
    """Since when each waiting job could run, as Unix seconds: its submission, unless it was held or given a start."""
    since = {
        job: at
        for category in snapshot.cluster.job_categories
        for job, at in zip(category.jobs, category.submitted, strict=True)
    } | dict(plan.memory.able_since)
    for job, detail in plan.memory.details.items():
        if job in since and detail.start_after is not None and detail.start_after <= snapshot.now:
            since[job] = max(since[job], detail.start_after)
    return since


def bucket_part(verdict: BucketVerdict) -> dict[str, Any]:
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


PAIRS = tuple[tuple[str, str], ...]
"""In JSON an object."""


@dataclass(frozen=True, slots=True)
class JsonField:
    """One key of an action, or of a value inside it."""

    key: str
    type: Any
    """The type of its value; with None if `null_if_empty`."""
    description: str
    of: Callable[[Any], Any]
    """Action → plain value."""


@cache
def json_fields(kind: type) -> tuple[JsonField, ...]:
    """Fields and properties of a dataclass that are shown, in the order in which the class has them."""
    return tuple(_fields(kind))


def _fields(kind: type) -> Iterator[JsonField]:
    hints = get_type_hints(kind, include_extras=True)
    found = [(field.name, hints[field.name]) for field in dataclasses.fields(kind) if field.name != "reason"]
    found += [
        (name, get_type_hints(member.fget, include_extras=True)["return"])
        for owner in reversed(kind.__mro__)
        for name, member in vars(owner).items()
        if isinstance(member, property) and in_json(member)
    ]
    for name, hint in found:
        how = next((each for each in get_args(hint)[1:] if isinstance(each, InJson)), InJson())
        if not how.shown:
            continue
        declared = _as_text(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
        to_plain = _to_plain(declared)
        if how.null_if_empty:
            declared = declared | None
        yield JsonField(name, declared, how.description, _getter(name, to_plain, empty_is_null=how.null_if_empty))


def _as_text(declared: Any) -> Any:
    """The same type, with any text instead of an enum of texts: a later version may know more of these."""
    if get_origin(declared) in (Union, UnionType):
        return reduce(or_, map(_as_text, get_args(declared)))
    return str if isinstance(declared, type) and issubclass(declared, StrEnum) else declared


def _getter(name: str, to_plain: Callable[[Any], Any], *, empty_is_null: bool) -> Callable[[Any], Any]:
    def of(action: Any) -> Any:
        value = getattr(action, name)
        return None if empty_is_null and not value else to_plain(value)

    return of


def _to_plain(declared: Any) -> Callable[[Any], Any]:
    """A function that makes a value of this type plain. Raises TypeError for a type without a form in JSON."""
    if declared == PAIRS:
        return dict
    if get_origin(declared) is tuple:
        item = _to_plain(get_args(declared)[0])
        return lambda values: [item(value) for value in values]
    if dataclasses.is_dataclass(declared) and isinstance(declared, type):
        fields = json_fields(declared)
        return lambda value: {field.key: field.of(value) for field in fields}
    options = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    if any(option not in (str, int, float, bool, type(None)) for option in options):
        raise TypeError(f"{declared} has no form in JSON: mark the field ENGINE_ONLY, or say here what it becomes")
    return lambda value: value
