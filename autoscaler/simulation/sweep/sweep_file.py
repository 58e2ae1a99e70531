"""The TOML file of a sweep: which values of which settings are tried, on which jobs, and how the search goes.

Reads the form alone. Whether settings exist and allow their values, `autoscaler.settings` says; what `[conditions]` may
have, the options of `simulate`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from autoscaler.durations import HOW, seconds_of
from autoscaler.errors import SettingsError, suggestion

MOST_POINTS = 10_000
_TOP = ("search", "points", "seed", "seeds", "judge", "mean_wait", "settings", "workload", "conditions", "grid_engine")
_WORKLOAD = ("source", "windows", "jobs")
_RANGE = ("from", "to", "log")
GRID_ENGINE = ("queue", "project", "request", "memory", "run_time", "address", "shared", "directives")
_SEARCHES = ("grid", "random")


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two numbers, whole ones if both are. `log`: each factor is as likely as the next."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


Values = tuple[str, ...] | Range
"""What is tried of one setting, as texts of the environment."""


@dataclass(frozen=True, slots=True)
class Source:
    """A workload, and how many windows of how many jobs are cut from each of its parts."""

    workload: str
    windows: int = 1
    jobs: int | None = None
    """In each window; None: windows follow each other without a gap."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The file's contents."""

    path: Path
    settings: Mapping[str, Values]
    sources: tuple[Source, ...]
    search: str = "grid"
    points: int = 0
    """How many a random search draws."""
    seed: int = 1
    """Of the random search."""
    seeds: tuple[int, ...] = (1,)
    """Each window is played once with each: boot times, failures and interruptions are drawn by them."""
    judge: float = 0.0
    """The last share of each workload's jobs: points are chosen on the others and judged on these."""
    mean_wait: float | None = None
    """Seconds that the chosen point's jobs may wait on average; None: as long as with the settings of today."""
    conditions: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    grid_engine: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def read_sweep(path: Path) -> Sweep:
    """Raises SettingsError, which names the entry and what may stand there."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; check its path and rights") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML file: {error}") from error
    return _Reader(path).sweep(given)


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path

    def sweep(self, given: Mapping[str, Any]) -> Sweep:
        self._only(given, "the file", _TOP)
        settings = self._table(given, "settings")
        if not settings:
            raise self.error("settings", "it needs at least one, as CP_CAP_AUTOSCALE_IDLE_TIMEOUT = [30, 120, 600]")
        search = given.get("search", "grid")
        if search not in _SEARCHES:
            raise self.error("search", f"{search!r} is none; {suggestion(str(search), _SEARCHES)}")
        values = {name: self._values(value, f"settings.{name}") for name, value in settings.items()}
        grid_engine = self._table(given, "grid_engine")
        self._only(grid_engine, "grid_engine", GRID_ENGINE)
        judge = given.get("judge", 0.0)
        if isinstance(judge, bool) or not isinstance(judge, int | float) or not 0 <= judge < 1:
            raise self.error("judge", f"{judge!r}: write a share of the jobs from 0 to below 1, as 0.5")
        return Sweep(
            self.path,
            values,
            self._sources(given),
            search,
            self._points(given, search, values),
            self._whole(given.get("seed", 1), "seed", 0),
            self._seeds(given.get("seeds", [1])),
            float(judge),
            None if "mean_wait" not in given else self._seconds(given["mean_wait"], "mean_wait"),
            self._table(given, "conditions"),
            grid_engine,
        )

    def _points(self, given: Mapping[str, Any], search: str, values: Mapping[str, Values]) -> int:
        if search == "random":
            if "points" not in given:
                raise self.error("points", "a random search needs them: how many to draw, as points = 64")
            points = self._whole(given["points"], "points", 1)
            if points > MOST_POINTS:
                raise self.error("points", f"{points:,} are more than {MOST_POINTS:,}")
            return points
        if "points" in given:
            raise self.error("points", 'only a random search has them; write search = "random", or leave them out')
        size = 1
        for name, tried in values.items():
            if isinstance(tried, Range):
                raise self.error(
                    f"settings.{name}", 'a grid needs a list of values; write search = "random" for a range'
                )
            size *= len(tried)
        if size > MOST_POINTS:
            raise self.error(
                "settings", f'a grid of {size:,} points, more than {MOST_POINTS:,}; write search = "random" and points'
            )
        return size

    def _values(self, value: Any, where: str) -> Values:
        if isinstance(value, dict):
            return self._range(value, where)
        listed = value if isinstance(value, list) else [value]
        if not listed:
            raise self.error(where, "the list is empty")
        texts = tuple(dict.fromkeys(self._text(one, where) for one in listed))
        if len(texts) < len(listed):
            raise self.error(where, "a value is listed twice")
        return texts

    def _text(self, value: Any, where: str) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float | str):
            return str(value)
        raise self.error(where, f"{value!r} is no value; write numbers, texts, true or false")

    def _range(self, given: Mapping[str, Any], where: str) -> Range:
        self._only(given, where, _RANGE)
        low, high, log = given.get("from"), given.get("to"), given.get("log", False)
        for one in (low, high):
            if isinstance(one, bool) or not isinstance(one, int | float):
                raise self.error(where, "a range needs two numbers, as { from = 10, to = 1200, log = true }")
        assert low is not None
        assert high is not None
        if not low < high:
            raise self.error(where, f"from {low} to {high}: the first must be below the second")
        if not isinstance(log, bool) or (log and low <= 0):
            raise self.error(where, "log is true or false, and needs numbers above 0")
        return Range(low, high, log)

    def _sources(self, given: Mapping[str, Any]) -> tuple[Source, ...]:
        tables = given.get("workload", [])
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            raise self.error("workload", "write [[workload]] before each of them")
        if not tables:
            raise self.error("workload", 'it needs at least one: [[workload]], and below it source = "accounting"')
        return tuple(self._source(one, f"workload {number}") for number, one in enumerate(tables, start=1))

    def _source(self, one: Mapping[str, Any], where: str) -> Source:
        self._only(one, where, _WORKLOAD)
        source = one.get("source")
        if not isinstance(source, str) or not source:
            raise self.error(where, "it needs a source: a file as for simulate, or generated:JOBS")
        jobs = None if "jobs" not in one else self._whole(one["jobs"], f"{where}: jobs", 1)
        return Source(source, self._whole(one.get("windows", 1), f"{where}: windows", 1), jobs)

    def _seeds(self, value: Any) -> tuple[int, ...]:
        if not isinstance(value, list) or not value:
            raise self.error("seeds", "write a list of numbers, as [1, 2, 3]")
        seeds = tuple(self._whole(one, "seeds", 0) for one in value)
        if len(set(seeds)) < len(seeds):
            raise self.error("seeds", "one is listed twice: it would be the same run")
        return seeds

    def _table(self, given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        table = given.get(name, {})
        if not isinstance(table, dict):
            raise self.error(name, f"write [{name}], and what it has below")
        return table

    def _whole(self, value: Any, where: str, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(where, f"{value!r} is no whole number of {least} or more")
        return value

    def _seconds(self, value: Any, where: str) -> float:
        seconds = seconds_of(str(value))
        if seconds is None:
            raise self.error(where, f"{value!r} is no duration: {HOW}")
        return seconds

    def _only(self, given: Mapping[str, Any], where: str, names: Sequence[str]) -> None:
        for name in given:
            if name not in names:
                raise self.error(where, f"{name!r} is not known here; {suggestion(name, names)}")

    def error(self, where: str, what: str) -> SettingsError:
        return SettingsError(f"{self.path}, {where}: {what}")
