"""The answer to `events`: each event as a line for people, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, assert_never

from autoscaler.core.events.event import FAILED, OF_WORKERS, TERMINATED, EventKind, JobEvent
from autoscaler.errors import SettingsError
from autoscaler.report import SCHEMA
from autoscaler.report.wording import count, instant
from autoscaler.store.events import KEPT_FOR, EventTable, KeptEvent

MOST = 1000
"""The most events in one answer."""
LAST = 100
NONE = "nothing of the kind happened in the last 30 days"
_JOB = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")
_NUMBER = re.compile(r"[0-9]{1,18}")


def find_events(table: EventTable, query: Mapping[str, str], now: float) -> tuple[KeptEvent, ...]:
    """The events of a query: `job` (`12`, `12.3`), `host`, `since` (seconds to look back), `after` (the number of an
    event), `last` (the most to return). Raises SettingsError.
    """
    named = query.get("job", "")
    job = _JOB.fullmatch(named)
    if named and job is None:
        raise SettingsError(f"job: {named!r} is not a job: write 12, or 12.3 for a task")
    since = query_number(query, "since", int(KEPT_FOR))
    return table.read(
        job=int(job[1]) if job else None,
        task=int(job[2]) if job and job[2] else None,
        host=query.get("host", ""),
        after=query_number(query, "after", 0),
        since=now - since if query.get("since") else 0.0,
        last=min(max(query_number(query, "last", LAST), 1), MOST),
    )


def query_number(query: Mapping[str, str], name: str, default: int) -> int:
    value = query.get(name) or str(default)
    if not _NUMBER.fullmatch(value.removesuffix(".0")):
        raise SettingsError(f"{name}: {value!r} is not a whole number")
    return int(value.removesuffix(".0"))


def shown_to(owner: str | None, events: Iterable[KeptEvent]) -> Iterator[KeptEvent]:
    """The events that this owner may see; None: all. Every user may see launches and workers, but not the jobs that
    they were ordered for.
    """
    for kept in events:
        if owner is None or kept.event.owner == owner or kept.event.kind in OF_WORKERS:
            yield kept
        elif kept.event.kind is EventKind.ORDERED:
            yield replace(kept, event=replace(kept.event, jobs="", count=0, owner="", project=""))


def events_document(events: Iterable[KeptEvent], now: float) -> dict[str, Any]:
    """As JSON."""
    return {"schema": SCHEMA, "now": at_zone(now), "events": [event_part(one) for one in events]}


def events_lines(document: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    return [event_line(part) for part in document["events"]] or [NONE]


def event_part(kept: KeptEvent, zone: tzinfo | None = None) -> dict[str, Any]:
    """As JSON. `zone`: None is this machine's."""
    event = kept.event
    return {
        "id": kept.id,
        "kind": event.kind.value,
        "at": at_zone(event.at, zone),
        "until": at_zone(event.until, zone),
        "seen_at": at_zone(event.seen_at, zone),
        "jobs": event.jobs,
        "tasks": event.tasks or None,
        "count": event.count,
        "owner": event.owner or None,
        "project": event.project or None,
        "hosts": list(event.hosts),
        "queue": event.queue or None,
        "worker_id": event.worker_id or None,
        "order_id": event.order_id or None,
        "code": event.code or None,
        "message": event.message or None,
        "text": _text(event),
    }


def event_line(part: Mapping[str, Any]) -> str:
    """For people: `2026-11-29 12:29:22 UTC job 4 of ann started on main.q@w1`."""
    at, until = (datetime.fromisoformat(part[name]).timestamp() for name in ("at", "until"))
    when = f"{instant(at)} to {instant(until)}" if until - at >= 1 else instant(at)
    return f"{when} {part['text']}"


def _text(event: JobEvent) -> str:
    if event.kind is EventKind.ORDERED:
        whom = f" for {count(event.count, 'task')} of {_jobs(event.jobs, '')}" if event.jobs else ""
        return f"launch of {event.message} was ordered{whom} (order {event.order_id})"
    order = f" (order {event.order_id})" if event.order_id else ""
    if event.kind is EventKind.FAILED:
        return f"{f'worker {event.hosts[0]} never joined' if event.hosts else 'launch failed'}: {event.message}{order}"
    code = f" [{event.code}]" if event.code else ""
    machine = ", ".join(filter(None, (event.message, event.worker_id)))
    several = not event.jobs.isdigit()
    match event.kind:
        case EventKind.JOINED | EventKind.DISABLED | EventKind.ENABLED | EventKind.GONE:
            what = {EventKind.JOINED: "joined", EventKind.GONE: f"is gone{code}"}.get(
                event.kind, f"was {event.kind}{code}"
            )
            what = "was terminated" if event.code == TERMINATED else what
            return f"worker {' '.join(event.hosts)} {what}: {machine}{order}"
        case EventKind.SUBMITTED:
            what = "submitted"
        case EventKind.COUNTED:
            what = f"{'count' if several else 'counts'} as demand [{event.code}]"
        case EventKind.NOT_COUNTED:
            what = f"{'do' if several else 'does'} not count as demand [{event.code}]"
        case EventKind.STARTED:
            what = f"started on {_where(event.queue, event.hosts)}"
        case EventKind.ENDED:
            verb = "failed on" if event.code == FAILED else "ended on"
            verb = "was rescheduled from" if event.message.endswith("rescheduling") else verb
            what = f"{f'{verb} {_where(event.queue, event.hosts)}' if event.hosts else 'ended'}: {event.message}"
        case _:
            assert_never(event.kind)
    owner = f" of {event.owner}" if event.owner else ""
    project = f" in project {event.project}" if event.project else ""
    return f"{_jobs(event.jobs, event.tasks)}{owner}{project} {what}"


def _jobs(jobs: str, tasks: str) -> str:
    if tasks:
        return f"job {jobs}.{tasks}"
    return f"{'jobs' if '-' in jobs or ',' in jobs else 'job'} {jobs}"


def _where(queue: str, hosts: tuple[str, ...]) -> str:
    return ", ".join(f"{queue}@{host}" if queue else host for host in hosts)


def at_zone(seconds: float, zone: tzinfo | None = None) -> str:
    """ISO 8601 with offset; None: of this machine."""
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat()
