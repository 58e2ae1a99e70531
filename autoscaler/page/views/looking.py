"""What a view gets and gives: who looks and what is asked for; the template with its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from autoscaler.api.operations import Operations
from autoscaler.page.reader import Reader, Reading
from autoscaler.page.viewer import Viewer

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class Looking:
    """One look at one view."""

    viewer: Viewer
    reader: Reader
    operations: Operations
    query: Mapping[str, str]
    limit_after: float
    """Seconds after which a cap that keeps all jobs waiting needs a person, as in notifications."""
    mark: str = ""
    """The state of the store when the look began: later news are not shown yet."""
    reading: Reading | None = None
    """The last answer: the page says which pass it is of."""
    problems: list[str] = field(default_factory=list)
    """What of the query does not hold, and what is allowed. It is left out, and the page says so."""

    def document(self, question: str, query: Mapping[str, str] = _NOTHING) -> Any:
        """An answer's document. Raises Unavailable."""
        self.reading = self.reader.read(question, self.viewer.asker, query, self.mark)
        return self.reading.document

    def text(self, name: str, longest: int = 300) -> str:
        return self.query.get(name, "").strip()[:longest]

    def number(self, name: str, default: int = 0, most: int = 10**9) -> int:
        """A whole number of the query; the default where it is none."""
        given = self.query.get(name, "")
        if given.isascii() and given.isdecimal() and len(given) < 12:
            return min(int(given), most)
        if given:
            self.problem(name, given, "a whole number")
        return default

    def choice(self, name: str, choices: Mapping[str, Any] | tuple[str, ...], default: str) -> str:
        given = self.query.get(name, default)
        if given in choices or not given:
            return given if given in choices else default
        self.problem(name, given, f"one of {', '.join(choices)}")
        return default

    def problem(self, name: str, given: str, allowed: str) -> None:
        """Note that a value of the query does not hold."""
        text = f"{name}: {given[:60]} is left out: write {allowed}"
        if text not in self.problems:
            self.problems.append(text)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view shows. `path`: that of the navigation, '' for none; `live`: whether a new pass renews it."""

    template: str
    title: str
    path: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    live: bool = True
