"""Workers and persistent hosts, as the last pass judged them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.page.views.looking import Looking, Shown

ROWS = 200
STATES = ("idle", "busy", "coming", "leaving", "gone", "persistent")
"""Values of `state` in links."""
_COMING = frozenset({"ordered", "booting", "joining"})
_LEAVING = frozenset({"draining", "leaving", "ending"})
_ON_THE_WAY_IN = frozenset({"silent", "empty", "drained"})
"""Conditions that every worker has until it takes jobs: it is disabled by us, and reports nothing yet."""


def workers(looking: Looking) -> Shown:
    first, search = looking.number("first"), looking.text("search", 100)
    state = looking.choice("state", STATES, "")
    rows = looking.document("workers")["workers"]
    found = [row for row in rows if _matches(row, search) and (not state or state in states_of(row))]
    values = {
        "workers": [_shown(row) for row in found[first : first + ROWS]],
        "found": len(found),
        "first": first,
        "rows": ROWS,
        "search": search,
        "state": state,
        "counts": {name: sum(name in states_of(row) for row in rows) for name in STATES},
    }
    return Shown("workers.html", "Workers", "workers", values)


def _shown(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row without what says nothing of a worker in its phase: one that is gone costs nothing, and nothing holds."""
    if row["phase"] == "gone":
        return {**row, "conditions": [], "price_per_hour": None}
    if row["phase"] in _COMING:
        conditions = [each for each in row["conditions"] if each["name"] not in _ON_THE_WAY_IN]
        return {**row, "conditions": conditions}
    return row


def states_of(row: Mapping[str, Any]) -> frozenset[str]:
    """What a worker is, as links name it."""
    return frozenset(_states(row))


def _states(row: Mapping[str, Any]) -> Iterator[str]:
    if row["id"] is None:
        yield "persistent"
    elif row["phase"] in _COMING:
        yield "coming"
    elif row["phase"] in _LEAVING:
        yield "leaving"
    elif row["phase"] == "gone":
        yield "gone"
    else:
        yield "busy" if row["used"] else "idle"


def _matches(row: Mapping[str, Any], search: str) -> bool:
    words = (row["name"], row["id"], row["instance_type"], row["node_array"], row["group_id"], row["verdict"])
    return search.lower() in " ".join(word for word in words if word).lower()
