"""The documents of `explain` as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from autoscaler.core.model.reasons import Code
from autoscaler.report.events import event_line
from autoscaler.report.explain import MOMENTS
from autoscaler.report.job_cost import cost_lines
from autoscaler.report.reasons.remedies import remedy_for
from autoscaler.report.requests import cap_lines
from autoscaler.report.rules import rule_lines
from autoscaler.report.run_time_estimate import estimate_lines
from autoscaler.report.waiting_cause import THAT_FIT
from autoscaler.report.wording import count, duration, instant_of, shown, workers_of

_LETTERS = {
    "a": "load alarm",
    "A": "suspend alarm",
    "u": "no load report",
    "d": "disabled",
    "D": "off by calendar",
    "E": "error",
    "s": "suspended",
    "S": "suspended for another queue",
    "C": "suspended by calendar",
    "P": "preempted",
    "c": "configuration ambiguous",
    "o": "orphaned",
}

REMEMBERED = {
    "first_seen": "first seen {}",
    "made_at": "made {}",
    "idle_since": "idle since {}",
    "disabled_at": "disabled by the autoscaler {}",
    "disabling": "disabled because of: {}",
    "left_disabled": "disabled there by a person before that: {}",
    "seen_disabled": "seen disabled after that",
    "disabled_queues": "queues seen disabled after that: {}",
    "tried": "disabling it had no effect, because of: {}",
    "tried_at": "that was tried {}",
    "retired_at": "removal from Grid Engine planned {}",
    "enrolling_since": "enrolment began {}",
    "joined_at": "first load report {}",
    "opened": "was open for jobs",
    "empty_since": "disabled and empty since {}",
    "enabled_at": "enabled by the autoscaler {}",
    "terminated_at": "termination planned {}",
    "missing_since": "not in the provider's list since {}",
    "silent_s": "no load report for {}, while other hosts sent some",
    "unvouched_s": "of its silence, {} while no other worker vouched for its network",
    "fenced_at": "end planned while it was still an execution host {}",
    "gone": "the provider confirmed its end",
    "left": "seen to be no execution host any more",
    "only_ended": "never seen alive",
    "on_their_way": "jobs that were being sent to it: {}",
    "uncertain_jobs": "jobs that it or an older machine of its name may have begun: {}",
    "moved": "lost jobs that were rescheduled or deleted: {}",
    "moved_at": "lost jobs rescheduled or deleted {}",
    "moves": "the same lost jobs were rescheduled or deleted this many times: {}",
    "failed": "counted as a failed launch",
    "stopped": "stopped from outside",
    "quarantined": "quarantined: {}",
    "trusted_at": "enabled by a person after a quarantine {}",
    "order_id": "order {}",
    "group_id": "group {}",
    "vcpus": "vCPUs: {}",
    "price_per_hour": "price per hour {}",
    "completed_at": "missing values last set {}",
    "asked_to_stop_at": "last asked to stop {}",
    "stop_undone": "enabled by a person after it asked to stop",
    "alarm_since": "in alarm since {}",
}
"""The fields of a worker's memory, in words."""


def in_words(states: str) -> str:
    """Letters of a queue instance with what they mean: `au (load alarm, no load report)`."""
    meanings = [_LETTERS[letter] for letter in states if letter in _LETTERS]
    return f"{states} ({', '.join(meanings)})" if meanings else states


def job_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """`explain JOB` for people."""
    if document["state"] == "unseen":
        judged = ", to judge by its number" if document["by_number"] else ""
        yield (
            f"job {document['job']}: submitted after the last pass{judged}; the next one, in about "
            f"{duration(document['next_pass_s'])}, looks at it"
        )
    if document["state"] == "ended":
        yield f"job {document['job']} neither waits nor runs; what is known of it, as of {instant_of(document['now'])}:"
    for row in (*document["waiting"], *document["waited"]):
        yield from _waiting_lines(row, past=document["state"] == "ended" or row in document["waited"])
    for order in document["launched"]:
        workers = f": {', '.join(order['workers'])}" if order["workers"] else ", and none came"
        what = f"{workers_of(order)} of {order['node_array']}"
        yield f"launched for jobs such as it at {instant_of(order['at'])}: {what}{workers}{_message(order)}"
    for run in document["running"]:
        yield from _run_lines(document["job"], run)
    for end in document["ended"]:
        yield _ended_line(document["job"], end)
    yield from estimate_lines(document)
    yield from cost_lines(document)
    for action in document["actions"]:
        yield f"in this pass: {action['kind']}:"
        yield from _reason_lines(action["reason"])
    for done in document["done"]:
        yield f"{done['kind']} at {instant_of(done['at'])}: {done['result'] or 'not ended'}{_message(done)}:"
        yield from _reason_lines(done["reason"])
    for launch in document["launches"]:
        what = f"{workers_of(launch)} for {launch['node_array']}"
        yield f"it would get a worker of this launch: {what}:"
        yield from _reason_lines(launch["reason"])
    if document["events"]:
        yield "what happened to it, oldest first:"
    for event in document["events"]:
        yield f"  {event_line(event)}"
    yield from rule_lines(document.get("rules", ()))
    yield from cap_lines(document.get("caps", ()), datetime.fromisoformat(document["now"]).tzinfo)


def _waiting_lines(row: Mapping[str, Any], *, past: bool) -> Iterator[str]:
    job, waited, slots = row["jobs"][0], duration(row["waited_s"]), f"{_slots(row['slots'])} a task"
    if past:  # without the accounting, the time when the verdict was kept: when it last changed
        counts = "counted" if row["counted"] else "did not count"
        yield f"last verdict on job {job} while it waited, after {waited}: {slots}, and it {counts} as demand:"
    else:
        counts = "counts" if row["counted"] else "does not count"
        yield f"job {job} waits {waited}, {slots}, and {counts} as demand:"
    yield from _bare_lines(row["reason"])
    cause = row["cause"]
    if row["reason"]["trail"]:
        yield f"  it waits because: {cause['text']} [{cause['code']}]"
    if cause["owner_remedy"]:
        yield f"  → {cause['owner_remedy']}"
    if cause["remedy"]:
        yield f"  → {'for administrators: ' if cause['owner_remedy'] else ''}{cause['remedy']}"


def _run_lines(job: str, run: Mapping[str, Any]) -> Iterator[str]:
    since = f" since {instant_of(run['started_at'])}" if run["started_at"] else ""
    yield f"{_task(job, run)} is on {run['queue']}@{run['host']}{since}: {_slots(run['slots'])}, state {run['state']}"
    if run["worker"] is not None:
        yield f"{run['host']} ({run['worker']['id']}): {run['worker']['verdict']}:"
        yield from _reason_lines(run["worker"]["reason"])


def _ended_line(job: str, end: Mapping[str, Any]) -> str:
    where = f"{end['queue']}@{end['host']}, {_slots(end['slots'])}"
    if end["started_at"] is None:
        # Grid Engine writes no time of start for a job that it reschedules from a host that is gone.
        if end["how"].endswith("rescheduling"):
            return f"{_task(job, end)} was rescheduled from {where}: {end['how']}"
        if end["ran"]:
            return f"{_task(job, end)} ran on {where}, at times that Grid Engine does not tell: {end['how']}"
        return f"{_task(job, end)} was not started on {where}: {end['how']}"
    ended = instant_of(end["ended_at"]) if end["ended_at"] else "a time that is not known"
    return f"{_task(job, end)} ran on {where}, from {instant_of(end['started_at'])} to {ended}: {end['how']}"


def _since(at: str | None) -> str:
    return "" if at is None else f" since {instant_of(at)}"


def host_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """`explain HOST` for people."""
    machine = document["machine"]
    kind = f"{machine['instance_type']} of {machine['node_array']}, {document['id']}" if machine else "persistent"
    yield f"{document['name']} ({kind}): {document['verdict']}:"
    yield from _reason_lines(document["reason"])
    for action in document["actions"]:
        if action["reason"] == document["reason"]:
            yield f"in this pass: {action['kind']}"
        else:
            yield f"in this pass: {action['kind']}:"
            yield from _reason_lines(action["reason"])
    if document["phase"]:
        held = (f"{one['name']}{_since(one['since'])}" for one in document["conditions"])
        yield "; ".join((f"phase {document['phase']}", *held))
    for instance in document["instances"]:
        jobs = ", ".join(instance["jobs"]) or "none"
        state = f", state {in_words(instance['states'])}" if instance["states"] else ""
        yield (
            f"{instance['queue']}: {instance['used']} of {_slots(instance['slots'])} used, "
            f"{instance['reserved']} reserved{state}; jobs: {jobs}"
        )
    if machine and machine["message"]:
        yield f"the provider says: {machine['message']}"
    for name, value in (document["remembered"] or {}).items():
        if value:
            text = instant_of(value) if name in MOMENTS else shown(name, value)
            yield REMEMBERED[name].format(text)
    yield from rule_lines(document["rules"])


def gone_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """`explain` of a worker that is gone, for people."""
    yield (
        f"{document['host'] or document['id']} ({document['instance_type']} of {document['node_array']}, "
        f"{document['id']}) is gone:"
    )
    for name in ("created_at", "joined_at", "removed_at", "ended_at"):
        if document[name]:
            yield f"  {name.removesuffix('_at')} {instant_of(document[name])}"
    if document["cost"] is not None:
        yield f"  it cost {document['cost']:.3f} {document['currency']}"
    if document["events"]:
        yield "what happened, oldest first:"
    for event in document["events"]:
        yield f"  {event_line(event)}"


def _task(job: str, row: Mapping[str, Any]) -> str:
    """`job 12.3`; `job` may be a task's name (`12.3`) already."""
    number = job.partition(".")[0]
    return f"job {number}.{row['task']}" if row["task"] else f"job {number}"


def _message(row: Mapping[str, Any]) -> str:
    return f" ({row['message']})" if row["message"] else ""


def _slots(number: int) -> str:
    return count(number, "slot")


def _reason_lines(reason: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    """A reason and what led to it, each with what an administrator can do."""
    yield _own_line(reason, indent)
    for link in reason["trail"]:
        yield from _reason_lines(link, indent + "  ")
    if remedy := remedy_for(Code(reason["code"]), reason.get("facts", {})):
        yield f"{indent}→ {remedy}"


def _bare_lines(reason: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    """The same without remedies, also those that are links: the lines of the cause tell them."""
    yield _own_line(reason, indent)
    for link in reason["trail"]:
        if link["code"] not in THAT_FIT:
            yield from _bare_lines(link, indent + "  ")


def _own_line(reason: Mapping[str, Any], indent: str) -> str:
    added = "".join(f"; {link['text']}" for link in reason["trail"])
    return f"{indent}{reason['text'].removesuffix(added)} [{reason['code']}]"
