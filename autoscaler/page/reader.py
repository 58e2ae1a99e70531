"""Reads answers for the page: the same as commands and programs get, with the rights of who looks.

An answer is kept for a moment, since several people or tabs show the same: after a pass all of them load it at once.
One that is the same for every asker, as the autoscaler says, is asked for once. Few questions of the page are under way
at once, so that it takes no place from those who ask or command.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from autoscaler.api.answers import Answering, Asker

AT_ONCE = 4
"""Questions of the page under way at once, of the 12 that the autoscaler answers or keeps waiting."""
PATIENCE = 20.0
"""Seconds that a view waits for a place."""
FRESH = 1.0
"""Seconds for which an answer is used again."""
MOST_KEPT, LARGEST_KEPT = 64, 4 << 20
"""Answers that are kept, and bytes of the largest one."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_Key = tuple[str, ...]


class Unavailable(Exception):
    """There is no answer. `status`: that of the answer, as 403, 404 or 503."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer: its document, and the pass that it is of."""

    document: Mapping[str, Any]
    number: int | None
    as_of: str | None
    trouble: str
    for_all: bool = False
    """Whether every asker gets the same."""
    stored: bool = False
    """Whether the autoscaler did not answer, but its store."""
    late: bool = False
    """Whether the autoscaler answers, but makes no passes any more."""


@dataclass(slots=True)
class Reader:
    """For one process. Any thread may call."""

    answering: Answering
    stopwatch: Callable[[], float] = time.monotonic
    _places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _kept: dict[_Key, tuple[float, Reading]] = field(default_factory=dict)
    _same_for_all: set[str] = field(default_factory=set)
    """Questions whose last answer was the same for every asker."""
    _under_way: dict[_Key, threading.Event] = field(default_factory=dict)

    def read(self, question: str, asker: Asker, query: Mapping[str, str] = _NOTHING, mark: str = "") -> Reading:
        """The answer to a question. `mark`: the state of the store; an answer of an earlier one is not used again.
        Raises Unavailable.
        """
        query = {name: value for name, value in query.items() if value}
        of_all = (mark, question, *(f"{name}={query[name]}" for name in sorted(query)))
        # What a user may see follows from these.
        own = (asker.name, str(asker.of_cell), *of_all)
        with self._guard:
            found = self._found(of_all, own)
            key = of_all if question in self._same_for_all else own
            before = None if found is not None else self._under_way.get(key)
            ended = threading.Event()
            if found is None and before is None:
                self._under_way[key] = ended
        if found is not None:
            return found
        if before is not None:
            before.wait(PATIENCE)
            with self._guard:
                found = self._found(of_all, own)
            return self._ask(question, asker, query, of_all, own) if found is None else found
        try:
            return self._ask(question, asker, query, of_all, own)
        finally:
            with self._guard:
                del self._under_way[key]
            ended.set()

    def _found(self, *keys: _Key) -> Reading | None:
        """An answer that was kept a moment ago."""
        for key in keys:
            found = self._kept.get(key)
            if found is not None and self.stopwatch() - found[0] < FRESH:
                return found[1]
        return None

    def _ask(self, question: str, asker: Asker, query: Mapping[str, str], of_all: _Key, own: _Key) -> Reading:
        if not self._places.acquire(timeout=PATIENCE):
            raise Unavailable(503, "many people look at this page now: it is loaded again in a moment")
        try:
            reply = self.answering.answer(question, query, asker)
        finally:
            self._places.release()
        body = b"".join(reply.parts)
        reading = _read(reply.status, body)
        with self._guard:
            (self._same_for_all.add if reading.for_all else self._same_for_all.discard)(question)
            now = self.stopwatch()
            self._kept = {key: kept for key, kept in self._kept.items() if now - kept[0] < FRESH}
            if len(body) <= LARGEST_KEPT:
                self._kept[of_all if reading.for_all else own] = now, reading
                if len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        return reading


def _read(status: int, body: bytes) -> Reading:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unavailable(503, "the autoscaler gave no answer that can be read: is it another version?")
    if status != 200:
        raise Unavailable(status, str(answer.get("error") or f"status {status}"))
    return Reading(
        answer["document"],
        answer["pass"],
        answer["as_of"],
        answer["trouble"],
        answer.get("for_all") is True,
        answer.get("stored") is True,
        answer.get("late") is True,
    )
