"""What `events` shows: each event as a line for people, and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, assert_never

from autoscaler.core.events.event import EventKind
from autoscaler.report.wording import count, instant
from autoscaler.store.events import KeptEvent


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
    }


def event_line(kept: KeptEvent) -> str:
    """For people: `29/11 12:29:22 job 4 of ann started on main.q@w1`."""
    event = kept.event
    when = instant(event.at)
    if event.until - event.at >= 1:
        when += f" to {instant(event.until)}"
    if event.kind is EventKind.ORDERED:
        whom = f" for {count(event.count, 'task')} of {_jobs(event.jobs, '')}" if event.jobs else ""
        return f"{when} launch of {event.message} was ordered{whom} (order {event.order_id})"
    if event.kind is EventKind.JOINED:
        order = f" (order {event.order_id})" if event.order_id else ""
        return f"{when} worker {' '.join(event.hosts)} joined: {event.message}, {event.worker_id}{order}"
    several = not event.jobs.isdigit()
    match event.kind:
        case EventKind.SUBMITTED:
            what = "submitted"
        case EventKind.COUNTED:
            what = f"{'count' if several else 'counts'} as demand [{event.code}]"
        case EventKind.NOT_COUNTED:
            what = f"{'do' if several else 'does'} not count as demand [{event.code}]"
        case EventKind.STARTED:
            what = f"started on {_where(event.queue, event.hosts)}"
        case EventKind.ENDED:
            what = f"ended{f' on {_where(event.queue, event.hosts)}' if event.hosts else ''}: {event.message}"
        case _:
            assert_never(event.kind)
    owner = f" of {event.owner}" if event.owner else ""
    project = f" in project {event.project}" if event.project else ""
    return f"{when} {_jobs(event.jobs, event.tasks)}{owner}{project} {what}"


def _jobs(jobs: str, tasks: str) -> str:
    if tasks:
        return f"job {jobs}.{tasks}"
    return f"{'jobs' if '-' in jobs or ',' in jobs else 'job'} {jobs}"


def _where(queue: str, hosts: tuple[str, ...]) -> str:
    return ", ".join(f"{queue}@{host}" for host in hosts)


def at_zone(seconds: float, zone: tzinfo | None = None) -> str:
    """ISO 8601 with offset; None: of this machine."""
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat()
