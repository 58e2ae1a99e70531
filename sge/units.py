"""Grid Engine's notations as numbers: memory, durations, booleans, times, task lists and slot ranges.

Every function takes the text as Grid Engine prints it and raises ValueError, naming the text, for any other notation.
Memory is in bytes, durations in seconds, times in Unix seconds.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from autoscaler.core.model.cluster import UNLIMITED_SLOTS
from autoscaler.core.model.complexes import amount

_UNKNOWN = frozenset({"-", "", "none", "undefined"})
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_SLOTS = re.compile(r"(\d*)(?:(-)(\d*)(?::\d+)?)?")
_MILLISECONDS, _MICROSECONDS = 10**11, 10**14
"""Epoch numbers from here on are milliseconds (Univa 8.6) and microseconds (Open Cluster Scheduler 9): as seconds or
milliseconds they would lie after the year 5000.
"""


def read_memory(text: str) -> float | None:
    """Bytes: `4G` (powers of 1024), `4g` (powers of 1000), `489.848M`, `infinity`; None for an unknown value (`-`)."""
    if text.strip().lower() in _UNKNOWN:
        return None
    return _read(text, "MEMORY", "an amount of memory")


def read_duration(text: str) -> float:
    """Seconds: `360`, `0:0:2`, `00:44:30`, `30:00:00:00` (days first), `INFINITY`. Parts may be left empty (`:30:`)."""
    return _read(text, "TIME", "a duration")


def read_boolean(text: str) -> bool:
    """`TRUE`, `true`, `1`, `1.000000`, `YES` and their opposites."""
    return _read(text, "BOOL", "true or false") != 0


def _read(text: str, kind: str, meaning: str) -> float:
    value = amount(text, kind)
    if value is None:
        raise ValueError(f"not {meaning}: {text!r}")
    return value


def count_tasks(text: str) -> int:
    """The number of tasks in a task list, without expanding it: `7`, `1-100:3`, `5-19:2`, `1-3:1,7`."""
    count = 0
    for part in text.split(","):
        found = _TASKS.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"not a list of tasks: {text!r}")
        first = int(found[1])
        last = int(found[2] or first)
        step = int(found[3] or 1)
        if last < first or step < 1:
            raise ValueError(f"not a list of tasks: {text!r}")
        count += (last - first) // step + 1
    return count


def read_slot_range(text: str) -> tuple[int, int]:
    """Fewest and most slots a PE request takes: `8`, `4-12`, `4,5`, `4-` or `4-9999999` (open), `-8` (from one)."""
    # qstat prints a range of two numbers as a list: 4-5 as `4,5`.
    ends: list[int] = []
    for part in text.split(","):
        found = _SLOTS.fullmatch(part.strip())
        if found is None or not part.strip(" -"):
            raise ValueError(f"not a range of slots: {text!r}")
        first = int(found[1] or 1)
        ends += (first, int(found[3] or UNLIMITED_SLOTS) if found[2] else first)
    return min(ends), min(max(ends), UNLIMITED_SLOTS)


LAST = 253_370_764_800.0
"""The year 9999."""


def epoch_seconds(number: int) -> float:
    """A time since 1970 in seconds, given in seconds, milliseconds or microseconds. Raises ValueError for one beyond
    all calendars.
    """
    parts = 10**6 if number >= _MICROSECONDS else 10**3 if number >= _MILLISECONDS else 1
    if not 0 <= number // parts <= LAST:
        raise ValueError(f"not a time: a number of {len(str(abs(number)))} digits")
    return number / parts


class Clock:
    """Reads times that Grid Engine prints without a zone, as local times of the qmaster's.

    Dialects: `2019-05-15T13:16:51`, with `.092` or six digits of fraction, epoch seconds, milliseconds, microseconds. A
    listing names few minutes but many seconds, so the minute is cached. A time that the end of summer time makes
    ambiguous is taken as the earlier one.
    """

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._minutes: dict[bytes, float] = {}

    def read(self, text: bytes) -> float:
        minute = self._minutes.get(text[:16])
        if minute is None or text[16:17] != b":":
            return self._read_first(text)
        seconds = float(text[17:])
        if not 0 <= seconds < 100:  # float takes `nan` and `1e9` as well
            raise ValueError(f"not a time: {text.decode('latin-1')!r}")
        return minute + seconds

    def _read_first(self, text: bytes) -> float:
        try:
            if text.isdigit():
                return epoch_seconds(int(text))
            minute = datetime.fromisoformat(text[:16].decode("ascii")).replace(tzinfo=self.zone).timestamp()
            if text[16:17] != b":":
                raise ValueError
            seconds = float(text[17:])
            if not 0 <= seconds < 100 or minute < 0:
                raise ValueError
        except (ValueError, OverflowError, OSError):  # the last two: a year that this machine's zone knows nothing of
            raise ValueError(f"not a time: {text.decode('latin-1')!r}") from None
        self._minutes[text[:16]] = minute
        return minute + seconds
