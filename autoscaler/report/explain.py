"""Answers `explain`: why a job waits or does not count and what it would get, why a host stays or leaves.

Made of a plan's verdicts, never of a judgement of its own. Answers are plain values, printed as JSON or by `lines`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, tzinfo
from fnmatch import fnmatchcase
from typing import Any

from autoscaler.core.actions import Action, AskGridEngine, JobAction, Launch, PushBack, WorkerAction
from autoscaler.core.asking.arrays import GROUPS
from autoscaler.core.cluster import Ask, ExecutionHost
from autoscaler.core.memory import WorkerNote
from autoscaler.core.model import Plan, ShapeVerdict, Snapshot
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason
from autoscaler.core.ruled.verdicts import rules_for_job, rules_of_host
from autoscaler.report.document import action_part, document, reason_part, worker_part
from autoscaler.report.remedies import REMEDIES
from autoscaler.report.rules import rule_lines, rule_rows
from autoscaler.report.schema import SCHEMA
from autoscaler.report.wording import count, duration, instant, shown, text
from autoscaler.store import notation
from autoscaler.store.history import Explanation, Lifetime


def explain_job(
    snapshot: Snapshot, plan: Plan, job: int, zone: tzinfo | None = None, done: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any] | None:
    """All that is known of a waiting or running job; None where Grid Engine shows no such job. `done`: the journal's
    rows of what was done with it.
    """
    verdicts = [verdict for verdict in plan.shapes if job in verdict.jobs]
    rows = [row for row in document(snapshot, _only(plan, verdicts), {}, by_job=True)["shapes"] if _is(row, job)]
    runs = [
        {"host": host.name, "queue": instance.queue, "state": run.state, "slots": run.slots, "task": run.task}
        for host in snapshot.cluster.hosts
        for instance in host.instances
        for run in instance.jobs
        if run.number == job
    ]
    if not rows and not runs:
        return None
    launches = [
        action_part(action)
        for action in plan.actions
        if isinstance(action, Launch)
        and any(v.counted and _serves(snapshot.policy, action.node_array, v.ask) for v in verdicts)
    ]
    return {
        "schema": SCHEMA,
        "job": str(job),
        "state": "waiting" if rows else "running",
        "now": _at(snapshot.now, zone),
        "waiting": rows,
        "running": runs,
        "launches": launches,
        "actions": [action_part(action) for action in plan.actions if _is_about(action, job)],
        "done": [_done_part(row, zone) for row in done],
        "rules": rule_rows(rules_for_job(snapshot, job)),
    }


def explain_host(snapshot: Snapshot, plan: Plan, name: str, zone: tzinfo | None = None) -> dict[str, Any] | None:
    """All that is known of a worker or host, by host name (also its first label) or worker id; None: there is none."""
    verdict = next((w for w in plan.workers if name in (w.name, w.id)), None) or next(
        (w for w in plan.workers if w.name.lower().partition(".")[0] == name.lower().partition(".")[0]), None
    )
    if verdict is None:
        return None
    host = next((host for host in snapshot.cluster.hosts if host.name == verdict.name), None)
    worker = next((worker for worker in snapshot.fleet.workers if worker.id == verdict.id), None)
    return {
        "schema": SCHEMA,
        "host": verdict.name,
        "now": _at(snapshot.now, zone),
        **worker_part(verdict),
        "actions": [
            action_part(action)
            for action in plan.actions
            if isinstance(action, WorkerAction | PushBack) and action.worker_id == verdict.id
        ],
        "instances": [] if host is None else list(_instances(host)),
        "machine": None
        if worker is None
        else {
            "instance_type": worker.type.name,
            "node_array": worker.node_array,
            "group_id": worker.group_id,
            "state": worker.state.value,
            "created_at": _at(worker.created_at, zone),
            "price_per_hour": worker.price_per_hour,
            "message": worker.message,
        },
        "remembered": _remembered(plan, verdict.id, zone),
        "rules": rule_rows(rules_of_host(snapshot, verdict.name)),
    }


def explain_past(
    job: int, past: Explanation | None, done: Iterable[Mapping[str, Any]], zone: tzinfo | None = None
) -> dict[str, Any] | None:
    """What was last said of a job that no longer waits, and what was done with it; None where nothing is known."""
    acts = list(done)
    if past is None and not acts:
        return None
    return {
        "schema": SCHEMA,
        "job": str(job),
        "state": "ended",
        "now": _at(past.at if past else acts[0]["at"], zone),
        "waiting": [] if past is None else [_past_part(job, past.verdict)],
        "running": [],
        "launches": [],
        "actions": [],
        "done": [_done_part(row, zone) for row in acts],
    }


def _past_part(job: int, verdict: ShapeVerdict) -> dict[str, Any]:
    return {
        "jobs": [str(job)],
        "slots": verdict.ask.slots_min,
        "counted": verdict.counted,
        "waited_s": round(verdict.waited, 3),
        "reason": reason_part(verdict.reason),
    }


def _done_part(row: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """One action on a job as the journal has it."""
    reason = notation.read(json.dumps(json.loads(row["action"])["reason"]), Reason)
    return {
        "at": _at(row["at"], zone),
        "kind": row["kind"],
        "result": row["result"],
        "message": row["message"],
        "reason": reason_part(reason),
    }


def _is_about(action: Action, job: int) -> bool:
    if isinstance(action, AskGridEngine):
        return any(question.job == job for question in action.questions)
    return isinstance(action, JobAction) and any(one.partition(".")[0] == str(job) for one in action.jobs)


def explain_gone(life: Lifetime, now: float, zone: tzinfo | None = None) -> dict[str, Any]:
    """A worker that is no more, from the history."""
    return {
        "schema": SCHEMA,
        "host": life.name,
        "id": life.worker_id,
        "now": _at(now, zone),
        "verdict": None,
        "instance_type": life.instance_type,
        "node_array": life.node_array,
        "price_per_hour": life.price_per_hour,
        "cost": life.cost(now),
        **{
            name: None if (at := getattr(life, name)) is None else _at(at, zone)
            for name in ("created_at", "joined_at", "removed_at", "ended_at")
        },
    }


def gone_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    yield f"{told['host'] or told['id']} ({told['instance_type']} of {told['node_array']}, {told['id']}) is no more:"
    for name in ("created_at", "joined_at", "removed_at", "ended_at"):
        if told[name]:
            yield f"  {name.removesuffix('_at')} {_when(told[name])}"
    if told["cost"] is not None:
        yield f"  it cost {told['cost']:.3f}"


def job_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """`explain JOB` for people."""
    if told["state"] == "ended":
        yield f"job {told['job']} neither waits nor runs; what is known of it, as of {_when(told['now'])}:"
    for row in told["waiting"]:
        verb = "waited" if told["state"] == "ended" else "waits"
        counts = "counts as demand" if row["counted"] else "does not count as demand"
        yield f"job {row['jobs'][0]} {verb} {duration(row['waited_s'])}, {_slots(row['slots'])} a task, and {counts}:"
        yield from _reason_lines(row["reason"])
    for run in told["running"]:
        task = f".{run['task']}" if run["task"] else ""
        where = f"{run['queue']}@{run['host']}"
        yield f"job {told['job']}{task} is on {where}: {_slots(run['slots'])}, state {run['state']}"
    for action in told["actions"]:
        yield f"in this pass: {action['kind']}:"
        yield from _reason_lines(action["reason"])
    for done in told["done"]:
        said = f" ({done['message']})" if done["message"] else ""
        yield f"{done['kind']} at {_when(done['at'])}: {done['result'] or 'not ended'}{said}:"
        yield from _reason_lines(done["reason"])
    for launch in told["launches"]:
        what = f"{launch['count']} {launch['instance_type']} for {launch['node_array']}"
        yield f"it would get a worker of this launch: {what}:"
        yield from _reason_lines(launch["reason"])
    yield from rule_lines(told.get("rules", ()))


def host_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """`explain HOST` for people."""
    machine = told["machine"]
    kind = f"{machine['instance_type']} of {machine['node_array']}, {told['id']}" if machine else "persistent"
    yield f"{told['name']} ({kind}): {told['verdict']}:"
    yield from _reason_lines(told["reason"])
    for action in told["actions"]:
        if action["reason"] == told["reason"]:
            yield f"in this pass: {action['kind']}"
        else:
            yield f"in this pass: {action['kind']}:"
            yield from _reason_lines(action["reason"])
    for instance in told["instances"]:
        jobs = ", ".join(instance["jobs"]) or "none"
        state = f", state {instance['states']}" if instance["states"] else ""
        yield (
            f"{instance['queue']}: {instance['used']} of {_slots(instance['slots'])} used, "
            f"{instance['reserved']} reserved{state}; jobs: {jobs}"
        )
    if machine and machine["message"]:
        yield f"the provider says: {machine['message']}"
    for name, value in (told["remembered"] or {}).items():
        if value not in (None, False, (), 0, ""):
            said = _when(value) if name in _MOMENTS else shown(name, value)
            what = name.removesuffix("_s").replace("_", " ")
            yield f"remembered: {what}{'' if value is True else f' {said}'}"
    yield from rule_lines(told["rules"])


def _slots(number: int) -> str:
    return count(number, "slot")


def _when(told: str) -> str:
    """A moment of an answer, as reasons say theirs."""
    return instant(datetime.fromisoformat(told).timestamp())


def _reason_lines(reason: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    added = "".join(f"; {link['text']}" for link in reason["trail"])
    yield f"{indent}{reason['text'].removesuffix(added)} [{reason['code']}]"
    for link in reason["trail"]:
        yield from _reason_lines(link, indent + "  ")
    if remedy := REMEDIES.get(Code(reason["code"])):
        yield f"{indent}→ {remedy}"


def _only(plan: Plan, verdicts: list[ShapeVerdict]) -> Plan:
    return Plan(actions=(), memory=plan.memory, shapes=tuple(verdicts))


def _is(row: Mapping[str, Any], job: int) -> bool:
    return str(row["jobs"][0]).partition(".")[0] == str(job)


def _serves(policy: Policy, node_array: str, ask: Ask) -> bool:
    """Whether a node array's queue is one that the job may run in, as far as its own queue request tells."""
    array = policy.node_array(node_array) or policy.node_array(node_array.rpartition(GROUPS)[0])
    if array is None:
        return False
    if not ask.queues:
        queue = policy.queue(array.queue)
        return queue is None or queue.default
    return any(fnmatchcase(array.queue, wanted.partition("@")[0]) for wanted in ask.queues)


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


_MOMENTS = tuple(
    each.name for each in fields(WorkerNote) if each.name == "first_seen" or each.name.endswith(("_at", "_since"))
)


def _remembered(plan: Plan, worker_id: str | None, zone: tzinfo | None) -> dict[str, Any] | None:
    note = plan.memory.workers.get(worker_id) if worker_id else None
    if note is None:
        return None
    told = {name: value for name, value in asdict(note).items() if name not in ("host", "bucket")}
    told["quarantined"] = None if note.quarantined is None else text(note.quarantined)
    return told | {name: _at(told[name], zone) for name in _MOMENTS if told[name] is not None}


def _at(seconds: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat()
