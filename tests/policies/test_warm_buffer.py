"""The warm buffer: the mornings of working days in local time."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from autoscaler.errors import SettingsError
from autoscaler.policies.policy_requests import Recorded
from autoscaler.policies.registry import load
from autoscaler.policies.warm_buffer import days_of
from autoscaler.store.store import Store
from tests.core.building import a_snapshot

PREFIX = "CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_"
VIENNA = {"ZONE": "Europe/Vienna", "BEGIN": "07:30", "END": "10:00", "COUNT": "3", "NODE_ARRAY": "big"}
NIGHT = {**VIENNA, "BEGIN": "22:00", "END": "06:00", "DAYS": "mon-fri"}


def wants(at: str, options: dict[str, str], zone: str = "Europe/Vienna") -> list[dict[str, object]]:
    now = datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(zone)).timestamp()
    policy = load(("warm_buffer",), {f"{PREFIX}{name}": text for name, text in options.items()})["warm_buffer"]
    return [dict(array) for array in policy.requests(a_snapshot(now=now), Recorded(Store.open(None).samples, now))]


def test_the_policy_requests_the_set_number_of_workers_of_its_array() -> None:
    assert wants("2026-11-23 08:00", VIENNA) == [{"Name": "big", "TargetCount": 3}]


@pytest.mark.parametrize(
    ("at", "open_"),
    (
        ("2026-11-23 07:29:59", False),  # a Monday
        ("2026-11-23 07:30", True),
        ("2026-11-23 09:59:59", True),
        ("2026-11-23 10:00", False),
        ("2026-11-21 08:00", False),  # a Saturday
        ("2027-03-29 07:30", True),  # the first working day of summer time
        ("2027-03-29 07:29", False),
    ),
)
def test_the_buffer_is_open_on_the_mornings_of_working_days(at: str, open_: bool) -> None:
    assert bool(wants(at, VIENNA)) is open_


@pytest.mark.parametrize(
    ("at", "open_"),
    (
        ("2026-11-23 23:00", True),
        ("2026-11-24 05:59", True),
        ("2026-11-27 23:00", True),  # a Friday
        ("2026-11-28 05:00", True),
        ("2026-11-28 23:00", False),
        ("2026-11-29 05:00", False),
        ("2026-11-23 05:00", False),  # a Monday, whose Sunday is free
    ),
)
def test_a_night_belongs_to_the_day_on_which_it_began(at: str, open_: bool) -> None:
    assert bool(wants(at, NIGHT)) is open_


def test_on_a_holiday_nothing_is_requested() -> None:
    assert wants("2026-12-25 08:00", {**VIENNA, "HOLIDAYS": "2026-12-24 2026-12-25"}) == []


def test_hours_are_those_of_the_time_zone() -> None:
    assert wants("2026-11-23 08:00", VIENNA, zone="Asia/Tokyo") == []


@pytest.mark.parametrize(
    ("options", "words"),
    (
        ({"DAYS": "mon-fry"}, "DAYS.*mon-fry.* is not a day"),
        ({"ZONE": "Europe/Vienn"}, "ZONE.*does not know the time zone"),
        ({"BEGIN": "half past"}, "BEGIN"),
        ({"COUNT": "-1"}, "COUNT"),
        ({"COUNTS": "2"}, "WARM_BUFFER_COUNTS is not a setting; did you mean CP_CAP_.*_COUNT"),
        ({"HOLIDAYS": "christmas"}, "HOLIDAYS"),
    ),
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=f"(?s)the autoscale policy warm_buffer are wrong.*{words}"):
        wants("2026-11-23 08:00", options)


@pytest.mark.parametrize(
    ("text", "days"), (("mon-fri", {0, 1, 2, 3, 4}), ("fri-mon", {4, 5, 6, 0}), ("Sat, sun", {5, 6}), ("wed", {2}))
)
def test_days_are_names_and_ranges(text: str, days: set[int]) -> None:
    assert days_of(text) == days
