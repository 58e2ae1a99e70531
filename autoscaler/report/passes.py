"""The sentences of the last passes that had news."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.report import SCHEMA
from autoscaler.report.events import at_zone, query_number
from autoscaler.report.owner_names import without_owners
from autoscaler.report.wording import instant_of
from autoscaler.store.history import History

MOST, LAST = 200, 20
_JOB = r"\d+(?:\.[\d:,-]*\d)?"
_JOBS = re.compile(rf"\b(?:(job)|jobs) {_JOB}((?:, {_JOB})*)")


def find_passes(history: History, query: Mapping[str, str], now: float) -> dict[str, Any]:
    """The newest `last` passes, oldest first. Raises SettingsError."""
    found = history.passes(min(max(query_number(query, "last", LAST), 1), MOST))
    passes = [{"pass": one.number, "at": at_zone(one.at), "sentence": one.sentence} for one in reversed(found)]
    return {"schema": SCHEMA, "now": at_zone(now), "passes": passes}


def without_names(sentence: str) -> str:
    """The sentence of a pass without job numbers and owners, for users who may not see others' jobs."""
    return without_owners(without_numbers(sentence))


def without_numbers(sentence: str) -> str:
    """The same without numbers of jobs."""
    return _JOBS.sub(lambda found: "a job" if found[1] and not found[2] else "jobs", sentence)


def passes_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    for one in document["passes"]:
        yield f"{instant_of(one['at'])} {one['sentence']}"
