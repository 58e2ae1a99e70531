"""Grid Engine's notations."""

from __future__ import annotations

import math
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from autoscaler.sge.units import Clock, count_tasks, read_boolean, read_duration, read_memory, read_slot_range


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("4G", 4 * 1024**3),
        ("4g", 4 * 1000**3),
        ("1.5M", 1.5 * 1024**2),
        ("489.848M", 489.848 * 1024**2),
        ("2k", 2000.0),
        ("2K", 2048.0),
        ("1T", 1024.0**4),
        ("0.000", 0.0),
        ("4294967296", 2.0**32),
        ("infinity", math.inf),
        ("INFINITY", math.inf),
        ("-", None),
    ),
)
def test_upper_case_memory_suffixes_are_powers_of_1024_and_lower_case_of_1000(
    text: str, expected: float | None
) -> None:
    assert read_memory(text) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    (
        ("360", 360),
        ("0:0:2", 2),
        ("00:44:30", 2670),
        ("30:00:00:00", 30 * 86400),
        ("10:30", 630),
        (":30:", 1800),
        ("INFINITY", math.inf),
    ),
)
def test_a_duration_is_read_from_its_right_end(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ("TRUE", "true", "1", "1.000000", "yes"))
def test_every_notation_of_true_is_true(text: str) -> None:
    assert read_boolean(text) is True


@pytest.mark.parametrize("text", ("FALSE", "0", "0.000000", "no"))
def test_every_notation_of_false_is_false(text: str) -> None:
    assert read_boolean(text) is False


@pytest.mark.parametrize(
    ("text", "count"),
    (("7", 1), ("1-100:3", 34), ("5-19:2", 8), ("1-3:1", 3), ("1-3", 3), ("8,9", 2), ("1-3:1,7,10-20:5", 7)),
)
def test_tasks_are_counted_with_their_step(text: str, count: int) -> None:
    assert count_tasks(text) == count


def test_a_huge_task_range_is_counted_without_expansion() -> None:
    assert count_tasks("1-1000000000000:1") == 10**12


@pytest.mark.parametrize(
    ("text", "ends"),
    (
        ("8", (8, 8)),
        ("4-12", (4, 12)),
        ("4,5", (4, 5)),
        ("4,5,9", (4, 9)),
        ("4-", (4, 9_999_999)),
        ("4-9999999", (4, 9_999_999)),
        ("-8", (1, 8)),
        ("2-8:2", (2, 8)),
    ),
)
def test_a_slot_range_has_a_minimum_and_a_maximum(text: str, ends: tuple[int, int]) -> None:
    assert read_slot_range(text) == ends


@pytest.mark.parametrize(
    ("reader", "text"),
    (
        (read_memory, "lots"),
        (read_memory, "4GB"),
        (read_duration, "soon"),
        (read_duration, "1:2:3:4:5"),
        (read_duration, ""),
        (read_boolean, "perhaps"),
        (count_tasks, "9-1"),
        (count_tasks, "1-9:0"),
        (count_tasks, ""),
        (read_slot_range, "few"),
        (read_slot_range, "-"),
    ),
)
def test_an_unknown_notation_is_refused(reader, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"^not "):
        reader(text)


def test_a_time_without_a_zone_is_local_to_qmaster() -> None:
    assert Clock(ZoneInfo("Europe/Berlin")).read(b"2019-05-15T13:16:51") == Clock(UTC).read(b"2019-05-15T11:16:51")


@pytest.mark.parametrize(
    "text", (b"2019-05-15T13:16:51.092", b"2019-05-15T13:16:51.092000", b"1557926211092", b"1557926211092000")
)
def test_a_time_in_any_dialect_is_the_same_time(text: bytes) -> None:
    assert Clock(UTC).read(text) == pytest.approx(1557926211.092)


def test_epoch_seconds_need_no_zone() -> None:
    assert Clock(ZoneInfo("Asia/Tokyo")).read(b"1557926211") == 1557926211


def test_times_within_one_minute_keep_their_seconds() -> None:
    clock = Clock(UTC)
    assert clock.read(b"2026-11-21T09:04:59") - clock.read(b"2026-11-21T09:04:01") == 58


def test_the_change_to_summer_time_is_exact() -> None:
    clock = Clock(ZoneInfo("Europe/Berlin"))
    assert clock.read(b"2026-03-29T03:00:00") - clock.read(b"2026-03-29T01:59:59") == 1


@pytest.mark.parametrize("text", (b"yesterday", b"2026-13-01T00:00:00", b"2026-11-21T09:04", b""))
def test_a_text_that_is_not_a_time_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a time"):
        Clock(UTC).read(text)
