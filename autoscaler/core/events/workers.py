"""Events of launches that failed, and of workers that had joined: disabled by the autoscaler, enabled again, gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from autoscaler.core.events.event import TERMINATED, EventKind, JobEvent
from autoscaler.core.events.known import KnownEvents
from autoscaler.core.model.fleet import Ending, Worker
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.marks import MARKS
from autoscaler.core.workers.worker_state import same_host

_NEVER_JOINED = "never joined; "
_ENDINGS = {
    Ending.UNKNOWN: Code.GONE,
    Ending.RELEASED: Code.SHUT_ITSELF_DOWN,
    Ending.INTERRUPTED: Code.RECLAIMED,
    Ending.STOPPED: Code.STOPPED_FROM_OUTSIDE,
}


def launch_failures(snapshot: Snapshot) -> list[JobEvent]:
    """Launches that gave no worker and machines that never joined, in the pass that first counts them."""
    names = {worker.id: worker.name for worker in snapshot.fleet.workers}
    found: dict[tuple[str, str, str], JobEvent] = {}
    for each in snapshot.fleet.failures:
        if each.at <= snapshot.memory.failures_seen:
            continue
        cause = " | ".join(each.message.removeprefix(_NEVER_JOINED).splitlines())
        of = f" of {each.bucket.node_array}" if each.bucket.node_array else ""
        message = f"{each.bucket.instance_type}{of}: {cause}"
        name = names.get(each.worker_id) or each.worker_id
        event = JobEvent(
            EventKind.FAILED,
            each.at,
            each.at,
            snapshot.now,
            hosts=(name,) if name else (),
            worker_id=each.worker_id,
            order_id=each.order_id,
            code=each.kind.value,
            message=message,
        )
        found.setdefault((each.order_id, each.worker_id, message), event)  # the same in several zones
    return list(found.values())


def worker_changes(known: KnownEvents, snapshot: Snapshot, plan: Plan) -> tuple[KnownEvents, list[JobEvent]]:
    """Workers that were seen disabled by us, enabled again, or gone. The first pass of a process compares with the
    memory that the one before left.
    """
    left, notes = snapshot.memory.workers, plan.memory.workers
    before = {each: _kind(note) for each, note in left.items()} if known.workers is None else known.workers
    now = {each: _kind(note, before.get(each)) for each, note in notes.items()}
    if now == before:
        return replace(known, workers=now), []
    changed = [each for each, kind in now.items() if before.get(each, kind) is not kind]
    changed += [each for each, kind in before.items() if each not in now and kind is not EventKind.GONE]
    joined = ((each, note) for each in changed if (note := notes.get(each) or left.get(each)) and note.joined_at)
    return replace(known, workers=now), list(_events(joined, now, snapshot))


def _events(
    joined: Iterable[tuple[str, WorkerNote]], now: Mapping[str, EventKind], snapshot: Snapshot
) -> Iterator[JobEvent]:
    machines = {worker.id: worker for worker in snapshot.fleet.workers}
    for each, note in joined:
        kind, machine = now.get(each, EventKind.GONE), machines.get(each)
        at = note.disabled_at if kind is EventKind.DISABLED and note.disabled_at else snapshot.now
        by = _by_whom(note, each, machine, snapshot)
        codes = {EventKind.DISABLED: _why_disabled(note), EventKind.GONE: _how_gone(note, machine)}
        yield JobEvent(
            kind,
            at,
            at,
            snapshot.now,
            hosts=((machine.name if machine else None) or note.host or each,),
            worker_id=each,
            order_id=note.order_id or "",
            code=codes.get(kind, ""),
            message=", ".join(filter(None, (_what(machine), by if kind is EventKind.DISABLED else ""))),
        )


def _kind(note: WorkerNote, before: EventKind | None = None) -> EventKind:
    """The last event of a worker, as far as its memory shows; ENABLED also before it joins."""
    if note.gone:
        return EventKind.GONE
    if note.disabling in (None, Disabling.ENROL):
        return EventKind.ENABLED
    return EventKind.DISABLED if note.seen_disabled else before or EventKind.ENABLED


def _how_gone(note: WorkerNote, machine: Worker | None) -> str:
    ending = Ending.UNKNOWN if machine is None else machine.ending
    if note.stopped:
        return Code.STOPPED_FROM_OUTSIDE.value
    return TERMINATED if note.terminated_at is not None else _ENDINGS[ending].value


def _what(machine: Worker | None) -> str:
    return f"{machine.type.name} of {machine.node_array}" if machine else ""


def _by_whom(note: WorkerNote, worker_id: str, machine: Worker | None, snapshot: Snapshot) -> str:
    """Who commanded that it is drained; '' if nobody did, or it is not known."""
    if note.disabling is not Disabling.COMMAND:
        return ""
    name = (machine.name if machine else None) or note.host or ""
    drained = (asked for asked in sorted(snapshot.overrides.drain) if asked == worker_id or same_host(asked, name))
    who = snapshot.overrides.asked_by.get(next(drained, ""), "")
    return f"by command of {who}" if who else ""


def _why_disabled(note: WorkerNote) -> str:
    if note.disabling is Disabling.BROKEN and note.quarantined is not None:
        return note.quarantined.code.value
    return MARKS[note.disabling].reason.code.value if note.disabling is not None else ""
