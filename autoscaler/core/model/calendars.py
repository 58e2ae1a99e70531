"""When a calendar (calendar_conf(5)) enables, disables or suspends its queues. Pure: the qmaster's time zone is given.

The manual page does not say three things (source/libs/sgeobj/sge_calendar.c, and seen on 8.1.9). If a year entry of the
day does not hold at this time of day, the week decides. Of several entries that hold the mildest wins. Once the last
times of a day are over, an entry has the state of the next midnight already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum

DAY = 86_400
_WEEK = timedelta(days=8)
"""A week's entries repeat: a queue that is on at no time within these days is never on."""


class CalendarState(StrEnum):
    """The state that a calendar gives its queues, mildest first: the first that holds wins."""

    ON = "on"
    SUSPENDED = "suspended"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """One entry of `year` or `week`."""

    state: CalendarState = CalendarState.OFF
    dates: tuple[tuple[date, date], ...] = ()
    """First and last day of each range of a year entry; empty: every day."""
    weekdays: frozenset[int] = frozenset(range(7))
    """Days of a week entry, Monday 0."""
    times: tuple[tuple[int, int], ...] = ((0, DAY),)
    """Seconds of the day, begin and end (not included); none wraps around midnight."""

    def holds(self, moment: datetime) -> bool:
        """Whether the qmaster applies this entry at that local time."""
        day, second = moment.date(), moment.hour * 3600 + moment.minute * 60 + moment.second
        while not self._names(day, second):
            next_day = self._judged_by(day, second)
            if next_day is None:
                return False
            day, second = next_day, 1
        return True

    def _names(self, day: date, second: int) -> bool:
        """Whether this entry covers that time, as the manual page says."""
        return self._names_day(day) and any(begin <= second < end for begin, end in self.times)

    def _names_day(self, day: date) -> bool:
        if self.dates:
            return any(first <= day <= last for first, last in self.dates)
        return day.weekday() in self.weekdays

    def _judged_by(self, day: date, second: int) -> date | None:
        """The day by whose first second qmaster judges a time that the entry does not name; None: it judges the time
        itself.

        In its search for the next change, qmaster steps from a day without further times to the day after, and keeps
        the state that it finds there. For `year` the first second of a range is no change either.
        """
        if self.times[0] == (0, DAY):
            return None
        if self._names_day(day):
            return None if any(second <= begin for begin, _ in self.times) else day + timedelta(1)
        later = [first for first, _ in self.dates if first > day]
        if not later or any(begin > 0 for begin, _ in self.times):
            return None
        return min(later) + timedelta(1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """`qconf -scal NAME`."""

    name: str
    year: tuple[CalendarEntry, ...] = ()
    week: tuple[CalendarEntry, ...] = ()

    def state(self, at: float, zone: tzinfo) -> CalendarState:
        """The state that it gives its queues at a time (Unix seconds)."""
        return self._state(datetime.fromtimestamp(at, zone))

    def opens(self, at: float, zone: tzinfo) -> float | None:
        """When its queues are next on, after a time at which they are not; None: never."""
        return next(
            (moment for moment in self._changes(at, zone) if self.state(moment, zone) is CalendarState.ON), None
        )

    def closes(self, at: float, zone: tzinfo) -> float | None:
        """When its queues are next not on, after a time at which they are; None: never."""
        return next(
            (moment for moment in self._changes(at, zone) if self.state(moment, zone) is not CalendarState.ON), None
        )

    def _state(self, local: datetime) -> CalendarState:
        for entries in (self.year, self.week):
            states = {entry.state for entry in entries if entry.holds(local)}
            if states:
                return next(state for state in CalendarState if state in states)
        return CalendarState.ON

    def _changes(self, at: float, zone: tzinfo) -> Iterator[float]:
        """Every later moment at which some entry begins or ends, in order, as far ahead as the state can change."""
        entries = (*self.year, *self.week)
        seconds = sorted({0, *(second % DAY for entry in entries for times in entry.times for second in times)})
        for day in self._days(datetime.fromtimestamp(at, zone).date()):
            for second in seconds:
                clock = time(second // 3600, second % 3600 // 60, second % 60, tzinfo=zone)
                moment = datetime.combine(day, clock).timestamp()
                if moment > at:
                    yield moment

    def _days(self, today: date) -> list[date]:
        """The days to look at: a week from today on, and one after each end of what `year` names."""
        ends = {day for entry in self.year for range_ in entry.dates for day in (range_[0], range_[1] + timedelta(1))}
        starts = [today, *(day for day in ends if day > today)]
        return sorted({start + timedelta(number) for start in starts for number in range(_WEEK.days)})
