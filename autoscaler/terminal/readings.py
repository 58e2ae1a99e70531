"""The data of `top`, as the running autoscaler answered last. After a new pass, more is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from autoscaler.errors import AutoscalerError

Document = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, str]], Document]
"""Question and query → the whole answer. Raises AutoscalerError."""
MOST_EVENTS = 100
PASSES = 50
SINCE, STEP = 3600, 30
"""Seconds that the line of demand and supply shows, and seconds of one point."""
_NOTHING: Document = MappingProxyType({})
_PASSING = frozenset({"now", "pass_age_s", "sentence_age_s"})
"""Fields that differ in each answer and are not shown."""


class Point(NamedTuple):
    """Demand and supply of a period, in slots; a counted task is at least one."""

    at: float
    demand: float
    supply: float


@dataclass(frozen=True, slots=True)
class Readings:
    """The data of one screen. Equal values look the same."""

    status: Document = field(default_factory=lambda: _NOTHING)
    queue: Document = field(default_factory=lambda: _NOTHING)
    workers: Sequence[Document] = ()
    events: tuple[Document, ...] = ()
    """Oldest first."""
    passes: Sequence[Document] = ()
    """Those with news, oldest first."""
    points: tuple[Point, ...] = ()
    number: int | None = None
    """The pass's number; None: no pass yet."""
    as_of: str = ""
    trouble: str = ""
    """Why nothing was observed since."""
    lost: str = ""
    """Why the autoscaler does not answer; '' if it does."""
    lost_at: float | None = None


class Poller:
    """Polls the autoscaler. One thread calls it."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.time) -> None:
        self._ask, self._clock = ask, clock
        self._readings = Readings()
        self._settled = True
        """Whether all of the last pass has been read: its events are stored after its plan."""

    def read(self) -> Readings:
        """The current data. Raises nothing: if the autoscaler does not answer, `lost` says why."""
        try:
            self._readings = replace(self._fetch(), lost="", lost_at=None)
        except AutoscalerError as error:
            since = self._readings.lost_at
            now = self._clock() if since is None else since
            self._readings = replace(self._readings, lost=str(error), lost_at=now)
        return self._readings

    def _fetch(self) -> Readings:
        before = self._readings
        answer = self._ask("status", {})
        known = replace(
            before,
            status={name: value for name, value in answer["document"].items() if name not in _PASSING},
            as_of=answer["as_of"] or "",
            trouble=answer["trouble"],
        )
        passed = answer["pass"] is not None and (answer["pass"] != before.number or answer["as_of"] != before.as_of)
        if passed:
            queue, workers = self._document("queue"), self._document("workers")["workers"]
            known = replace(known, number=answer["pass"], queue=_lasting(queue), workers=workers)
        if passed or not self._settled or before.lost or not before.points:
            known = self._with_the_past(known)
        self._settled = not passed
        return known

    def _with_the_past(self, known: Readings) -> Readings:
        after = known.events[-1]["id"] if known.events else 0
        query = {"after": str(after), "last": str(MOST_EVENTS)}
        news = self._document("events", query)["events"]
        passes = self._document("passes", {"last": str(PASSES)})["passes"]
        periods = self._document("history", {"since": str(SINCE), "step": str(STEP)})["periods"]
        events = tuple([*known.events, *news][-MOST_EVENTS:])
        return replace(known, events=events, passes=passes, points=tuple(map(_point, periods)))

    def _document(self, question: str, query: Mapping[str, str] = _NOTHING) -> Document:
        document: Document = self._ask(question, query)["document"]
        return document


def _lasting(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in _PASSING}


def _point(period: Document) -> Point:
    at = datetime.fromisoformat(period["at"]).timestamp()
    return Point(at, period["slots_used"] + period["counted"], period["slots"])
