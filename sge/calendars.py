"""`qconf -scal NAME` as a Calendar: the notation of calendar_conf(5). Any other text raises ValueError."""

from __future__ import annotations

import re
from datetime import date

from autoscaler.core.model.calendars import DAY, Calendar, CalendarEntry, CalendarState
from autoscaler.sge.qconf import read_attributes

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_STATES = tuple(state.value for state in CalendarState)
_SHORTEST = 3
"""Names of days, months and states may be cut to this many letters."""
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_DATE = re.compile(r"(\d{1,2})\.(\w+)\.(\d{4})")
_WITHIN_LIST = re.compile(r",[ \t]*\\[ \t]*\r?\n[ \t]*")
"""A line that goes on within a list: the next line belongs to the same entry."""


def read_calendar(text: str) -> Calendar:
    """A calendar with all its entries."""
    attributes = read_attributes(_WITHIN_LIST.sub(",", text))
    if not attributes.get("calendar_name"):
        raise ValueError("it has no line 'calendar_name'")
    return Calendar(
        name=attributes["calendar_name"],
        year=tuple(_year_entry(entry) for entry in attributes.get("year", "").split()),
        week=tuple(_week_entry(entry) for entry in attributes.get("week", "").split()),
    )


def _year_entry(text: str) -> CalendarEntry:
    """`[days=][times=][state]`"""
    parts = text.split("=")
    dates = _dates(parts.pop(0)) if "." in parts[0] else ()
    return CalendarEntry(dates=dates, times=_times(parts), state=_state(parts, text))


def _week_entry(text: str) -> CalendarEntry:
    parts = text.split("=")
    first = re.split("[,-]", parts[0])[0]
    named = first.isalpha() and _named(first, _STATES) is None
    weekdays = _weekdays(parts.pop(0)) if named else frozenset(range(7))
    return CalendarEntry(weekdays=weekdays, times=_times(parts), state=_state(parts, text))


def _dates(text: str) -> tuple[tuple[date, date], ...]:
    ranges = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ranges.append((_date(first), _date(last if dash else first)))
    return tuple(ranges)


def _date(text: str) -> date:
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no day such as 24.12.2026")
    month = int(found[2]) - 1 if found[2].isdigit() else _named(found[2], _MONTHS)
    if month is None:
        raise ValueError(f"{found[2]!r} is no month")
    return date(int(found[3]), month + 1, int(found[1]))


def _weekdays(text: str) -> frozenset[int]:
    """The days of a list that 8.1.9 applies (observed on a real queue)."""
    days: set[int] = set()
    singles: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin, end = _weekday(first), _weekday(last if dash else first)
        if dash:
            days.update((begin + number) % 7 for number in range((end - begin) % 7 + 1))
        else:
            singles.append((begin + 1) % 7)
    return frozenset(days).union((day - 1) % 7 for day in _applied(singles))


def _applied(singles: list[int]) -> list[int]:
    """The single days of a list that qmaster applies; its week begins on Sunday, 0.

    It ignores a day that follows the one before it in the list: `sun,mon` is Sunday only, and `sun,mon,tue` Sunday and
    Tuesday. In a list of another order no day that follows one of the list counts here, since qmaster does not apply
    all of them.
    """
    if singles != sorted(singles):
        return [day for day in singles if day - 1 not in singles]
    applied: list[int] = []
    for day in singles:
        if applied[-1:] != [day - 1]:
            applied.append(day)
    return applied


def _weekday(text: str) -> int:
    found = _named(text, _WEEKDAYS)
    if found is None:
        raise ValueError(f"{text!r} is no day of the week")
    return found


def _times(parts: list[str]) -> tuple[tuple[int, int], ...]:
    """Removes the times from the front of an entry, if it has any."""
    if not parts or not parts[0][:1].isdigit():
        return ((0, DAY),)
    ranges: list[tuple[int, int]] = []
    for part in parts.pop(0).split(","):
        first, dash, last = part.partition("-")
        begin, end = _second(first), _second(last)
        if not dash or begin == end:
            raise ValueError(f"{part!r} is no range of times")
        ranges += [(begin, end)] if begin < end else [(begin, DAY), (0, end)]
    return tuple(ranges)


def _second(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time of day")
    second = int(found[1]) * 3600 + int(found[2] or 0) * 60 + int(found[3] or 0)
    if second > DAY:
        raise ValueError(f"{text!r} is beyond 24:00")
    return second


def _state(parts: list[str], text: str) -> CalendarState:
    """The rest of an entry; without a word it is off."""
    if not parts:
        return CalendarState.OFF
    found = _named(parts[0], _STATES) if len(parts) == 1 else None
    if found is None:
        raise ValueError(f"{text!r} has parts other than days, times and on, off or suspended")
    return CalendarState(_STATES[found])


def _named(text: str, names: tuple[str, ...]) -> int | None:
    """The index of the name, perhaps cut short, in any case."""
    word = text.lower()
    exact = (number for number, name in enumerate(names) if name == word)
    short = (number for number, name in enumerate(names) if len(word) >= _SHORTEST and name.startswith(word))
    return next(exact, next(short, None))
