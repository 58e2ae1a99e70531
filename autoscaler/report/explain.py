"""Answers `explain`: why a job waits or does not count, which launch may serve it, why a host stays or leaves.

It reads the verdicts of a plan and judges nothing itself. Answers are plain values, printed as JSON or for people by
`explain_lines`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, tzinfo
from fnmatch import fnmatchcase
from typing import Any

from autoscaler.core.actions import Action, AskGridEngine, JobAction, Launch, Reschedule, WorkerAction
from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobRequest
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.outcome.constraint_verdicts import rules_for_job, rules_of_host
from autoscaler.core.policy import Policy
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot
from autoscaler.report import SCHEMA
from autoscaler.report.document import action_part, document, reason_part, worker_part
from autoscaler.report.events import at_zone, event_part
from autoscaler.report.fleet import phase_and_conditions
from autoscaler.report.requests import caps_of
from autoscaler.report.rules import rule_rows
from autoscaler.report.waiting_cause import cause_part
from autoscaler.report.wording import text
from autoscaler.sge.accounting import JobEnd
from autoscaler.store import encoding
from autoscaler.store.events import KeptEvent
from autoscaler.store.history import Explanation, Lifetime
from autoscaler.store.journal import OrderRecord

_STARTS_WITHOUT = frozenset({Code.FITS, Code.WAITS_FOR_COMING})
"""Reasons of jobs that start without a further launch."""


@dataclass(frozen=True, slots=True)
class Past:
    """The past of a job: the last verdict while it waited, and how it ended."""

    last: Explanation | None = None
    launched: Sequence[OrderRecord] = ()
    """Orders that were made for jobs such as this one while it waited."""
    ended: Sequence[JobEnd] = ()
    events: Sequence[Mapping[str, Any]] = ()
    """Its events, as `events` shows them."""
    cost: Mapping[str, Any] | None = None
    """As `job_cost` returns it."""


def explain_job(
    snapshot: Snapshot,
    plan: Plan,
    job: int,
    zone: tzinfo | None = None,
    done: Iterable[Mapping[str, Any]] = (),
    past: Past | None = None,
) -> dict[str, Any] | None:
    """All that is known of a waiting or running job; None if Grid Engine shows no such job. `done`: the journal's
    rows of actions on it.
    """
    past = past or Past()
    verdicts = [verdict for verdict in plan.job_categories if job in verdict.jobs]
    rows = [
        row for row in document(snapshot, _only(plan, verdicts), {}, by_job=True)["job_categories"] if _is(row, job)
    ]
    runs = [_run_part(plan, host, queue, run, zone) for host, queue, run in _runs(snapshot, job)]
    if not rows and not runs:
        return None
    return {
        "schema": SCHEMA,
        "job": str(job),
        "state": "waiting" if rows else "running",
        "now": at_zone(snapshot.now, zone),
        "waiting": rows,
        "running": runs,
        "launches": [action_part(launch) for launch in _launches_for(snapshot.policy, plan, verdicts)],
        "actions": [_action_on(action, job) for action in plan.actions if _is_about(action, job)],
        **_past_parts(past, done, zone),
        "waited": [_past_part(job, past.last.verdict, past.ended)] if past.last is not None and not rows else [],
        "rules": rule_rows(rules_for_job(snapshot, job)),
        "caps": _caps(snapshot, verdicts),
    }


def _runs(snapshot: Snapshot, job: int) -> Iterator[tuple[str, str, HostJob]]:
    """Host and queue of each of its running tasks."""
    for host in snapshot.cluster.hosts:
        for instance in host.instances:
            yield from ((host.name, instance.queue, run) for run in instance.jobs if run.number == job)


def _run_part(plan: Plan, host: str, queue: str, run: HostJob, zone: tzinfo | None) -> dict[str, Any]:
    return {
        "host": host,
        "queue": queue,
        "state": run.state,
        "slots": run.slots,
        "task": run.task,
        "started_at": None if run.started is None else at_zone(run.started, zone),
        "worker": _verdict_of(plan, host),
    }


def _launches_for(policy: Policy, plan: Plan, verdicts: Iterable[JobCategoryVerdict]) -> list[Launch]:
    """The launches of this pass that may serve the job, if it cannot start without one."""
    asks = [each.ask for each in verdicts if each.counted and each.reason.code not in _STARTS_WITHOUT]
    launches = [action for action in plan.actions if isinstance(action, Launch)]
    return [launch for launch in launches if any(_serves(policy, launch.node_array, ask) for ask in asks)]


def _caps(snapshot: Snapshot, verdicts: Iterable[JobCategoryVerdict]) -> list[dict[str, Any]]:
    """The limits that callers set for node arrays that may serve the job."""
    asks = [verdict.ask for verdict in verdicts]
    rows = caps_of(snapshot.requests, snapshot.now)
    return [row for row in rows if any(_serves(snapshot.policy, row["node_array"], ask) for ask in asks)]


def _verdict_of(plan: Plan, host: str) -> dict[str, Any] | None:
    """The verdict on the worker on which it runs; None: it is no worker."""
    found = next((verdict for verdict in plan.workers if verdict.name == host and verdict.id is not None), None)
    return None if found is None else worker_part(found)


def _order_part(order: OrderRecord, zone: tzinfo | None) -> dict[str, Any]:
    number = order.attempts[-1].candidate if order.attempts else 0
    ids = [worker for attempt in order.attempts for worker in attempt.ids]
    candidate = order.candidates[number]
    return {
        "at": at_zone(order.ordered_at, zone),
        "node_array": order.node_array,
        "instance_type": candidate.type.name,
        "count": candidate.count,
        "besides": [{"instance_type": each.type.name, "count": each.count} for each in candidate.besides],
        "workers": ids,
        "message": order.attempts[-1].message if order.attempts else "",
    }


def _ended_part(end: JobEnd, zone: tzinfo | None) -> dict[str, Any]:
    moments = ("submitted_at", "started_at", "ended_at")
    return {
        "task": str(end.task) if end.task else "",
        **{name: getattr(end, name) for name in ("queue", "host", "slots")},
        **{name: None if (at := getattr(end, name)) is None else at_zone(at, zone) for name in moments},
        "ran": end.ran,
        "how": end.how,
    }


def explain_host(snapshot: Snapshot, plan: Plan, name: str, zone: tzinfo | None = None) -> dict[str, Any] | None:
    """All that is known of a worker or host, by host name (also its first label) or worker id; None: there is none."""
    named = [w for w in plan.workers if name in (w.name, w.id)]
    again = next((w for w in named if w.reason.code is Code.HOST_OF_LEFT_WORKER), None)
    verdict = (
        again
        or next(iter(named), None)
        or next((w for w in plan.workers if w.name.lower().partition(".")[0] == name.lower().partition(".")[0]), None)
    )
    if verdict is None:
        return None
    host = next((host for host in snapshot.cluster.hosts if host.name == verdict.name), None)
    worker = next((worker for worker in snapshot.fleet.workers if worker.id == verdict.id), None)
    return {
        "schema": SCHEMA,
        "host": verdict.name,
        "now": at_zone(snapshot.now, zone),
        **worker_part(verdict),
        **phase_and_conditions(snapshot, verdict.id, zone),
        "actions": [
            action_part(action)
            for action in plan.actions
            if isinstance(action, WorkerAction | Reschedule) and action.worker_id == verdict.id
        ],
        "instances": [] if host is None else list(_instances(host)),
        "machine": None
        if worker is None
        else {
            "instance_type": worker.type.name,
            "node_array": worker.node_array,
            "group_id": worker.group_id,
            "state": worker.state.value,
            "created_at": at_zone(worker.created_at, zone),
            "price_per_hour": worker.price_per_hour,
            "currency": snapshot.policy.currency,
            "message": worker.message,
        },
        "remembered": _remembered(plan, verdict.id, zone),
        "rules": rule_rows(rules_of_host(snapshot, verdict.name)),
    }


def explain_past(
    job: int, past: Past, done: Iterable[Mapping[str, Any]], zone: tzinfo | None = None
) -> dict[str, Any] | None:
    """The past of a job that neither waits nor runs: its last verdict, launches for it, actions on it, and how it
    ended; None if nothing is known.
    """
    acts = list(done)
    if past.last is None and not acts and not past.ended and not past.events:
        return None
    known = [past.last.at] if past.last else [row["at"] for row in acts[:1]]
    known += [at for end in past.ended for at in (end.ended_at, end.submitted_at) if at is not None]
    known = known or [datetime.fromisoformat(event["seen_at"]).timestamp() for event in past.events]
    return {
        "schema": SCHEMA,
        "job": str(job),
        "state": "ended",
        "now": at_zone(max(known), zone),
        "waiting": [] if past.last is None else [_past_part(job, past.last.verdict, past.ended)],
        "running": [],
        "launches": [],
        "actions": [],
        **_past_parts(past, acts, zone),
    }


def explain_unseen(
    job: int, observed_at: float, next_pass: float, zone: tzinfo | None = None, *, by_number: bool = False
) -> dict[str, Any]:
    """A job that was submitted after the last pass observed Grid Engine. `next_pass`: seconds to the next.
    `by_number`: only its number says so, as Grid Engine did not answer.
    """
    return {
        "schema": SCHEMA,
        "job": str(job),
        "state": "unseen",
        "now": at_zone(observed_at, zone),
        "next_pass_s": round(next_pass, 3),
        "by_number": by_number,
        "waiting": [],
        "running": [],
        "launches": [],
        "actions": [],
        **_past_parts(Past(), (), zone),
    }


def _past_parts(past: Past, done: Iterable[Mapping[str, Any]], zone: tzinfo | None) -> dict[str, Any]:
    return {
        "done": [_done_part(row, zone) for row in done],
        "waited": [],
        "launched": [_order_part(order, zone) for order in past.launched],
        "ended": [_ended_part(end, zone) for end in past.ended],
        "cost": past.cost,
        "events": list(past.events),
    }


def _past_part(job: int, verdict: JobCategoryVerdict, ended: Iterable[JobEnd]) -> dict[str, Any]:
    """The last verdict; the job's own time from its submission to its last start, if the accounting tells both."""
    waits = [
        end.started_at - end.submitted_at
        for end in ended
        if end.started_at is not None and end.submitted_at is not None
    ]
    return {
        "jobs": [str(job)],
        "slots": verdict.ask.slots_min,
        "counted": verdict.counted,
        "waited_s": round(max(waits, default=verdict.waited), 3),
        "cause": cause_part(verdict.reason),
        "reason": reason_part(verdict.reason),
    }


def _done_part(row: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """One action on a job as the journal has it."""
    reason = encoding.read(json.dumps(json.loads(row["action"])["reason"]), Reason)
    return {
        "at": at_zone(row["at"], zone),
        "kind": row["kind"],
        "result": row["result"],
        "message": row["message"],
        "reason": reason_part(reason),
    }


def _is_about(action: Action, job: int) -> bool:
    if isinstance(action, AskGridEngine):
        return any(question.job == job for question in action.questions)
    return isinstance(action, JobAction | Reschedule) and any(one.partition(".")[0] == str(job) for one in action.jobs)


def _action_on(action: Action, job: int) -> dict[str, Any]:
    """The action without the other jobs that it is for."""
    part = action_part(action)
    return part | {"jobs": [one for one in part["jobs"] if one.partition(".")[0] == str(job)]}


def explain_gone(life: Lifetime, events: Iterable[KeptEvent], now: float, zone: tzinfo | None = None) -> dict[str, Any]:
    """A worker that is gone, from the history."""
    return {
        "schema": SCHEMA,
        "host": life.name,
        "id": life.worker_id,
        "now": at_zone(now, zone),
        "verdict": None,
        "instance_type": life.instance_type,
        "node_array": life.node_array,
        "price_per_hour": life.price_per_hour,
        "currency": life.currency or "USD",
        "cost": life.cost(now),
        **{
            name: None if (at := getattr(life, name)) is None else at_zone(at, zone)
            for name in ("created_at", "joined_at", "removed_at", "ended_at")
        },
        "events": [event_part(each, zone) for each in events],
    }


def _only(plan: Plan, verdicts: list[JobCategoryVerdict]) -> Plan:
    return Plan(actions=(), memory=plan.memory, job_categories=tuple(verdicts))


def _is(row: Mapping[str, Any], job: int) -> bool:
    return str(row["jobs"][0]).partition(".")[0] == str(job)


def _serves(policy: Policy, node_array: str, ask: JobRequest) -> bool:
    """Whether a node array's queue is one that the job may run in, by its own queue request."""
    array = policy.node_array(node_array) or policy.node_array(node_array.rpartition(GROUPS)[0])
    if array is None:
        return False
    if not ask.queues:
        queue = policy.queue(array.queue)
        return queue is None or queue.default
    return any(fnmatchcase(array.queue, requested.partition("@")[0]) for requested in ask.queues)


def _instances(host: ExecutionHost) -> Iterator[dict[str, Any]]:
    for instance in host.instances:
        yield {
            "queue": instance.queue,
            "slots": instance.slots,
            "used": instance.used,
            "reserved": instance.reserved,
            "states": instance.states,
            "jobs": [f"{job.number}.{job.task}" if job.task else str(job.number) for job in instance.jobs],
        }


MOMENTS = tuple(
    each.name for each in fields(WorkerNote) if each.name == "first_seen" or each.name.endswith(("_at", "_since"))
)


_NOT_SHOWN = frozenset({"host", "bucket", "ordered_for"})
"""The last names owners of jobs, whom only they may see where details are their owners'."""


def _remembered(plan: Plan, worker_id: str | None, zone: tzinfo | None) -> dict[str, Any] | None:
    note = plan.memory.workers.get(worker_id) if worker_id else None
    if note is None:
        return None
    remembered = {name: value for name, value in asdict(note).items() if name not in _NOT_SHOWN}
    remembered["quarantined"] = None if note.quarantined is None else text(note.quarantined)
    return remembered | {name: at_zone(remembered[name], zone) for name in MOMENTS if remembered[name] is not None}
