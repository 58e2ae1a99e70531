"""The answer to `decisions`: passes that changed something or had news, newest first, each with its actions, their
reasons, and what was considered for a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from autoscaler.core.actions import Action, Launch
from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import Plan
from autoscaler.errors import SettingsError
from autoscaler.report import SCHEMA
from autoscaler.report.cost import moment
from autoscaler.report.document import bucket_part
from autoscaler.report.events import at_zone, query_number
from autoscaler.report.owners import of_owner
from autoscaler.report.passes import without_names
from autoscaler.report.wording import count, instant_of, workers_of
from autoscaler.store.history import History, PassRecord

MOST, LAST = 200, 50
KINDS: tuple[str, ...] = tuple(sorted(each.kind for each in get_args(Action)))
"""The kinds of actions."""
MOST_CONSIDERED = 12
"""Offers that are kept of a pass that launches: the chosen ones first. With their reasons some 4 kB a pass, for the 30
days for which passes are kept.
"""
_OF_ALL = frozenset(
    {"kind", "node_array", "instance_type", "count", "candidates", "zone", "price_type", "worker_id", "host", "name"}
)
"""Fields of an action that name no job and no owner."""


def considered(plan: Plan) -> list[dict[str, Any]]:
    """What was considered for the launches of a plan: the offers that were chosen, then those that were not, with the
    reason; [] if it launches nothing. Offers that the settings do not allow are left out.
    """
    if not any(isinstance(action, Launch) for action in plan.actions):
        return []
    offered = [verdict for verdict in plan.buckets if verdict.reason.code is not Code.BUCKET_NOT_ALLOWED]
    ordered = sorted(offered, key=lambda verdict: not verdict.chosen)  # else as they were tried
    return [bucket_part(verdict) for verdict in ordered[:MOST_CONSIDERED]]


def find_decisions(history: History, query: Mapping[str, str], now: float, owner: str | None) -> dict[str, Any]:
    """A page of the decisions: `kind` of an action, `since` and `until` (dates, or lengths of time to look back),
    `before` (number of a row), `last`. `owner`: the only one whose jobs may be named; None: all. Raises SettingsError.
    """
    kind = query.get("kind", "")
    if kind and kind not in KINDS:
        raise SettingsError(f"kind: {kind!r} is none of {', '.join(KINDS)}")
    since = moment(query["since"], "since", now) if query.get("since") else 0.0
    until = moment(query["until"], "until", now) if query.get("until") else now + 60.0
    last = min(max(query_number(query, "last", LAST), 1), MOST)
    before = query_number(query, "before", 0) or None
    rows, more = history.passes_between(since, until, kind=kind, before=before, limit=last)
    return {
        "schema": SCHEMA,
        "now": at_zone(now),
        "decisions": [_part(row, record, owner) for row, record in rows],
        "before": more,
    }


def _part(row: int, record: PassRecord, owner: str | None) -> dict[str, Any]:
    actions, offers = record.document.get("actions", []), record.document.get("considered", [])
    if owner is not None:
        actions = [_of_owner(action, owner) for action in actions]
        offers = of_owner(offers, owner)
    return {
        "id": row,
        "pass": record.number,
        "at": at_zone(record.at),
        "sentence": record.sentence if owner is None else without_names(record.sentence),
        "waiting": record.document.get("waiting"),
        "counted": record.document.get("counted"),
        "workers": record.document.get("workers"),
        "actions": actions,
        "considered": offers,
    }


def _of_owner(action: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """An action without what it says of others' jobs."""
    kept = {name: value for name, value in action.items() if name in _OF_ALL}
    return kept | {"reason": _nameless(of_owner(action["reason"], owner))}


def _nameless(reason: Mapping[str, Any]) -> dict[str, Any]:
    trail = [_nameless(link) for link in reason["trail"]]
    return {"code": reason["code"], "text": without_names(reason["text"]), "facts": {}, "trail": trail}


def decision_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    for one in document["decisions"]:
        yield f"{instant_of(one['at'])} {one['sentence']}"
        for action in one["actions"]:
            what = f" {workers}" if (workers := workers_of(action)) else ""
            yield f"  {action['kind']}{what}: {action['reason']['text']} [{action['reason']['code']}]"
        if one["considered"]:
            yield f"  {count(len(one['considered']), 'offer')} considered:"
        for offer in one["considered"]:
            chosen = "chosen" if offer["chosen"] else "not chosen"
            yield f"    {offer['instance_type']} {offer['price_type']}: {chosen}: {offer['reason']['text']}"
