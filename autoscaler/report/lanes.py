"""The answer to `lanes`: each worker of a period from its order to its end, and when it had jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from autoscaler.core.cost.shares import Use
from autoscaler.errors import SettingsError
from autoscaler.report import SCHEMA
from autoscaler.report.cost import moment
from autoscaler.report.events import at_zone, query_number
from autoscaler.report.wording import count, duration
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store

MOST, LAST = 200, 50
MOST_PARTS = 200
"""Parts of one lane: beyond it the shortest gaps between jobs are not shown."""
BOOT, BUSY, IDLE, LEAVING = "boot", "busy", "idle", "leaving"
"""What a worker did: until it joined; with jobs; without; removed from Grid Engine and not yet ended."""


def find_lanes(store: Store, query: Mapping[str, str], now: float) -> dict[str, Any]:
    """A page of lanes, the latest worker first: `since` and `until` (dates, or lengths of time to look back), `search`
    (a part of a name, id, type or node array), `first`, `last`. Raises SettingsError.
    """
    since = moment(query.get("since") or "6h", "since", now)
    until = min(moment(query["until"], "until", now) if query.get("until") else now, now)
    if until <= since:
        raise SettingsError("until: the time ends before it begins")
    search = query.get("search", "").strip().lower()
    first, last = query_number(query, "first", 0), min(max(query_number(query, "last", LAST), 1), MOST)
    lives = [life for life in store.history.lifetimes(since) if life.created_at < until and search in _words(life)]
    lives.sort(key=lambda life: (life.ended_at is not None, -life.created_at, life.worker_id))
    return {
        "schema": SCHEMA,
        "now": at_zone(now),
        "since": at_zone(since),
        "until": at_zone(until),
        "found": len(lives),
        "first": first,
        "lanes": [_lane(store, life, since, until, now) for life in lives[first : first + last]],
    }


def _words(life: Lifetime) -> str:
    return f"{life.name or ''} {life.worker_id} {life.instance_type} {life.node_array}".lower()


def _lane(store: Store, life: Lifetime, since: float, until: float, now: float) -> dict[str, Any]:
    uses = store.usages.of_worker(life.worker_id, since, until)
    parts = [
        {"what": what, "from": at_zone(begin), "to": at_zone(end), "jobs": jobs}
        for what, begin, end, jobs in _parts(life, uses, since, until)
    ]
    times = ("created_at", "joined_at", "removed_at", "ended_at")
    return {
        "id": life.worker_id,
        "name": life.name,
        "instance_type": life.instance_type,
        "node_array": life.node_array,
        "price_type": life.price_type,
        "price_per_hour": life.price_per_hour,
        "currency": life.currency or "USD",
        "cost": life.cost(now),
        **{name: None if (at := getattr(life, name)) is None else at_zone(at) for name in times},
        "jobs": len({(use.job, use.task) for use in uses}),
        "parts": parts,
    }


_Part = tuple[str, float, float, int]


def _parts(life: Lifetime, uses: Iterable[Use], since: float, until: float) -> Iterator[_Part]:
    """What it did, from when to when, with how many jobs at most; only what is within the period."""
    end = until if life.ended_at is None else life.ended_at
    joined = end if life.joined_at is None else life.joined_at
    removed = end if life.removed_at is None else life.removed_at
    at = joined
    found: list[_Part] = [(BOOT, life.created_at, joined, 0)]
    for begin, stop, jobs in _merged(uses, end, (until - since) / MOST_PARTS):
        found += [(IDLE, at, begin, 0), (BUSY, max(begin, at), stop, jobs)]
        at = max(at, stop)
    found += [(IDLE, at, max(removed, at), 0), (LEAVING, max(removed, at), end, 0)]
    for what, begin, stop, jobs in found:
        begin, stop = max(begin, since), min(stop, until)
        if stop > begin:
            yield what, begin, stop, jobs


def _merged(uses: Iterable[Use], end: float, gap: float) -> Iterator[tuple[float, float, int]]:
    """Stretches with jobs, in order: begin, end, the most jobs at once. Shorter gaps than `gap` seconds are closed."""
    changes = sorted(
        change
        for use in uses
        for change in ((use.began / 1000, 1), (end if use.ended is None else use.ended / 1000, -1))
    )
    begin, held, most, stopped = 0.0, 0, 0, float("-inf")
    for at, change in changes:
        if change > 0 and held == 0 and at - stopped > gap:
            if most:
                yield begin, stopped, most
            begin, most = at, 0
        held += change
        most = max(most, held)
        if held == 0:
            stopped = at
    if most:
        yield begin, stopped if held == 0 else end, most


def lane_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    if not document["lanes"]:
        yield "no worker was there in this time"
    for lane in document["lanes"]:
        shares: dict[str, float] = {}
        for part in lane["parts"]:
            shares[part["what"]] = shares.get(part["what"], 0.0) + _seconds(part)
        shown = ", ".join(f"{what} {duration(seconds)}" for what, seconds in shares.items())
        yield f"{lane['name'] or lane['id']} {lane['instance_type']}: {shown}; {count(lane['jobs'], 'job')}"


def _seconds(part: Mapping[str, Any]) -> float:
    return (datetime.fromisoformat(part["to"]) - datetime.fromisoformat(part["from"])).total_seconds()
