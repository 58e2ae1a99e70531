"""What the last passes said: those that had news."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.report import SCHEMA
from autoscaler.report.events import at_zone, query_number
from autoscaler.report.wording import instant_of
from autoscaler.store.history import History

MOST, LAST = 200, 20


def find_passes(history: History, query: Mapping[str, str], now: float) -> dict[str, Any]:
    """The newest so many (`last`), oldest first. Raises SettingsError."""
    found = history.passes(min(max(query_number(query, "last", LAST), 1), MOST))
    passes = [{"pass": one.number, "at": at_zone(one.at), "sentence": one.sentence} for one in reversed(found)]
    return {"schema": SCHEMA, "now": at_zone(now), "passes": passes}


def passes_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    for one in document["passes"]:
        yield f"{instant_of(one['at'])} {one['sentence']}"
