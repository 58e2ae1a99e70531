"""Answers `explain` of a launch, by the id of its order: what was asked for, what the provider gave, what came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from typing import Any

from autoscaler.report import SCHEMA
from autoscaler.report.events import at_zone, event_line, event_part
from autoscaler.report.wording import count, instant_of
from autoscaler.store.events import KeptEvent
from autoscaler.store.journal import Attempt, OrderRecord


def explain_order(
    order: OrderRecord, events: Iterable[KeptEvent], now: float, zone: tzinfo | None = None
) -> dict[str, Any]:
    """All that is known of a launch."""
    return {
        "schema": SCHEMA,
        "order": order.id,
        "now": at_zone(now, zone),
        "at": at_zone(order.ordered_at, zone),
        "node_array": order.node_array,
        "group_id": order.group_id or None,
        "open": not order.closed,
        "attempts": [_attempt(order, each, zone) for each in order.attempts],
        "events": [event_part(each, zone) for each in events],
    }


def _attempt(order: OrderRecord, attempt: Attempt, zone: tzinfo | None) -> dict[str, Any]:
    offer = order.candidates[attempt.candidate].offers[attempt.offer]
    return {
        "instance_type": offer.type.name,
        "count": offer.count,
        "price_per_hour": offer.price_per_hour,
        "sent_at": at_zone(attempt.sent_at, zone),
        "answered_at": None if attempt.answered_at is None else at_zone(attempt.answered_at, zone),
        "workers": list(attempt.ids),
        "message": attempt.message,
    }


def order_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    state = "is open: more may be asked for" if document["open"] else "is closed"
    group = f", group {document['group_id']}" if document["group_id"] else ""
    yield f"order {document['order']} of {instant_of(document['at'])} for {document['node_array']}{group} {state}"
    for each in document["attempts"]:
        sent = f"{each['count']} {each['instance_type']} asked for at {instant_of(each['sent_at'])}"
        if each["workers"]:
            given = f"gave {count(len(each['workers']), 'worker')}: {', '.join(each['workers'])}"
        else:
            given = "gave none" if each["answered_at"] else "no answer yet"
        message = f" ({each['message']})" if each["message"] else ""
        yield f"  {sent}: {given}{message}"
    if document["events"]:
        yield "what happened, oldest first:"
    for event in document["events"]:
        yield f"  {event_line(event)}"
