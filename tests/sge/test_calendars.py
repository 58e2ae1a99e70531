"""Calendars as Grid Engine prints them, and when they close a queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from autoscaler.core.model.calendars import CalendarState
from autoscaler.sge.calendars import read_calendar

ON, OFF, SUSPENDED = CalendarState.ON, CalendarState.OFF, CalendarState.SUSPENDED
SUNDAY = "2026-11-22T13:00:00"
"""When a real queue (8.1.9) showed the states below."""
MIDDAY = datetime(2026, 11, 22, 12, tzinfo=UTC)
"""Of that Sunday."""


def calendar(year: str, week: str) -> str:
    return f"calendar_name nights\nyear {year}\nweek {week}\n"


def at(text: str, zone: tzinfo = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("year", "week", "state"),
    (
        ("NONE", "NONE", ON),
        ("NONE", "off", OFF),
        ("NONE", "mon-sun", OFF),
        ("NONE", "mon-sun=0-24=off", OFF),
        ("NONE", "sat-sun=suspended", SUSPENDED),
        ("NONE", "sat-mon", OFF),
        ("NONE", "mon-sat", ON),
        ("NONE", "suspended", SUSPENDED),
        ("22.11.2026=on", "mon-sun=off", ON),
        ("22.nov.2026=0-23=on", "mon-sun=off", ON),
        ("22.11.2026=0-3=on", "mon-sun=off", OFF),
        ("off", "NONE", OFF),
        ("22.11.2026=0-3=on", "0-24=suspended", SUSPENDED),
        ("NONE", "20-6", ON),
        ("NONE", "12-6", OFF),
        ("NONE", "14-13:00:00,15-2=on off", OFF),
        ("NONE", "mon-fri=6-20 sat-sun=suspended", SUSPENDED),
        ("1.1.2026-31.12.2026=12-18,20-21:30=suspended", "NONE", SUSPENDED),
        ("22.11.2026 22.11.2026=0-24=on", "NONE", ON),
        ("22.11.2026=off 22.11.2026=on", "NONE", ON),
        ("22.11.2026=off 22.11.2026=suspended", "NONE", SUSPENDED),
    ),
)
def test_a_calendar_has_the_state_that_grid_engine_showed(year: str, week: str, state: CalendarState) -> None:
    assert read_calendar(calendar(year, week)).state(at(SUNDAY) + 900, UTC) is state


@pytest.mark.parametrize(
    ("year", "week", "state"),
    (
        ("NONE", "0-6:30=off", OFF),
        ("NONE", "0-6,7-8=suspended", SUSPENDED),
        ("NONE", "0-6,23-24=off", ON),
        ("NONE", "sat-thu=0-6:30=off", OFF),
        ("NONE", "sun=0-4=off", ON),
        ("NONE", "mon-thu=0-6:30=off", ON),
        ("NONE", "wed-tue=1-2=off", ON),
        ("NONE", "mon-sun=20-22=off", ON),
        ("22.11.2026-23.11.2026=0-6=off", "NONE", OFF),
        ("22.11.2026=0-6=off", "NONE", ON),
        ("25.11.2026-28.11.2026=0-6=off", "NONE", OFF),
        ("25.11.2026=0-6=off", "NONE", ON),
        ("25.11.2026-28.11.2026=1-6=off", "NONE", ON),
    ),
)
def test_after_the_last_time_range_of_a_day_a_calendar_has_its_state_of_midnight(
    year: str, week: str, state: CalendarState
) -> None:
    assert read_calendar(calendar(year, week)).state(at("2026-11-22T22:25:00"), UTC) is state


@pytest.mark.parametrize(
    ("days", "closed"),
    (
        ("sun,mon", "sun"),
        ("mon,sun", "sun"),
        ("sat,sun", "sun sat"),
        ("mon,wed", "mon wed"),
        ("sun,mon,tue", "sun tue"),
        ("mon,tue,wed,thu,fri", "mon wed fri"),
        ("sun,mon,wed,thu", "sun wed"),
        ("fri,sat,sun", "sun fri"),
        ("sun,mon-tue", "sun mon tue"),
        ("sat-sun,mon", "sun mon sat"),
        ("sun-mon", "sun mon"),
        ("wed,tue,mon", "mon"),
    ),
)
def test_of_consecutive_single_days_grid_engine_applies_every_other_one(days: str, closed: str) -> None:
    read = read_calendar(calendar("NONE", f"{days}=off"))
    week = {f"{day:%a}".lower(): read.state(day.timestamp(), UTC) for day in (MIDDAY + timedelta(n) for n in range(7))}
    assert [day for day, state in week.items() if state is OFF] == closed.split()


@pytest.mark.parametrize(
    ("year", "week", "opens"),
    (
        ("NONE", "mon-sun=9-18", "2026-11-22T18:00:00"),
        ("NONE", "12-8:30:15", "2026-11-23T08:30:15"),
        ("NONE", "sat-sun", "2026-11-23T00:00:00"),
        ("NONE", "sun=20-21=on off", "2026-11-22T20:00:00"),
        ("22.11.2026-31.12.2026", "NONE", "2027-01-01T00:00:00"),
        ("1.6.2030=on", "off", "2030-06-01T00:00:00"),
        ("22.11.2026=12-14", "14-16", "2026-11-22T16:00:00"),
        ("NONE", "off", None),
    ),
)
def test_a_closed_calendar_knows_when_it_opens(year: str, week: str, opens: str | None) -> None:
    found = read_calendar(calendar(year, week)).opens(at(SUNDAY), UTC)
    assert found == (None if opens is None else at(opens))


def test_a_calendar_is_evaluated_in_the_time_zone_of_qmaster() -> None:
    nights = read_calendar(calendar("NONE", "mon-sun=9-18"))
    assert nights.state(at(SUNDAY), timezone(timedelta(hours=9))) is ON
    assert nights.opens(at(SUNDAY), timezone(timedelta(hours=-3))) == at("2026-11-22T21:00:00")


def test_an_opening_after_the_change_to_summer_time_is_in_summer_time() -> None:
    zone = ZoneInfo("Europe/Berlin")
    weekend = read_calendar(calendar("NONE", "sat-sun"))
    assert weekend.opens(at("2027-03-27T12:00:00", zone), zone) == at("2027-03-28T22:00:00")


def test_a_continued_line_is_one_line() -> None:
    text = "calendar_name nights\nyear 1.1.1999,6.1.1999, \\\n    22.11.2026=on\nweek mon-sun=6-20\n"
    assert read_calendar(text).state(at(SUNDAY), UTC) is ON


@pytest.mark.parametrize(
    ("year", "week"),
    (
        ("maybe", "NONE"),
        ("1.13.2026", "NONE"),
        ("1.foo.2026", "NONE"),
        ("NONE", "noday"),
        ("NONE", "mon=25-26"),
        ("NONE", "mon=9"),
        ("NONE", "mon=9-9"),
        ("NONE", "mon=9-10=off=on"),
        ("NONE", "mon-fri=perhaps"),
    ),
)
def test_a_text_that_is_not_a_calendar_is_refused(year: str, week: str) -> None:
    with pytest.raises(ValueError, match=r"is no|has parts|beyond|must be in"):
        read_calendar(calendar(year, week))
