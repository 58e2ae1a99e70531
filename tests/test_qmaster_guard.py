"""The autoscaler's own commands use only a small share of qmaster's time, and it is noticed when qmaster is slow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoscaler.engine.qmaster_guard import (
    ENOUGH,
    LONGEST_PAUSE,
    MOST_SLOWED,
    PAUSE_OF_POLL,
    SHARE,
    WINDOW,
    QmasterGuard,
)
from autoscaler.errors import CommandTimedOut
from autoscaler.process import Completed

POLL = 10.0
HOUR = 3600.0


class Slow:
    """A Runner whose commands take the given time, on a clock of its own."""

    def __init__(self) -> None:
        self.now, self.takes, self.busy = 0.0, 0.1, 0.0
        self.fails: Exception | None = None

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        self.now += self.takes
        self.busy += self.takes
        if self.fails is not None:
            raise self.fails
        return Completed(tuple(argv), 0, b"", b"", self.takes)


class Played:
    """Passes of some commands, as close together as the guard allows."""

    def __init__(self) -> None:
        self.runner = Slow()
        self.guard = QmasterGuard(self.runner, lambda: self.runner.now)
        self.pauses: list[float] = []

    def passes(self, seconds: float, *, poll: float = POLL, commands: int = 3) -> int:
        """Pass after pass, woken all the time, for so long; returns how many."""
        until, made = self.runner.now + seconds, 0
        while self.runner.now < until:
            for _ in range(commands):
                self.guard(("qstat", "-f"), timeout=30.0)
            made += 1
            self.pauses.append(self.guard.pause(poll))
            self.runner.now += max(self.pauses[-1], 0.2)
        return made


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.mark.parametrize("takes", (0.01, 0.1, 0.5, 0.9))
def test_in_a_burst_of_events_commands_take_a_twentieth_of_the_time(played: Played, takes: float) -> None:
    played.runner.takes = takes
    played.passes(HOUR)
    assert played.runner.busy <= SHARE * (HOUR + WINDOW) + 3 * takes


def test_a_burst_after_a_quiet_time_is_not_delayed(played: Played) -> None:
    played.passes(20.0)
    assert max(played.pauses) == 0.0


def test_no_pause_is_longer_than_a_minute_however_slow_qmaster_is(played: Played) -> None:
    played.runner.takes = 30.0
    played.passes(HOUR)
    assert max(played.pauses) == LONGEST_PAUSE


def test_frequent_polling_is_never_starved(played: Played) -> None:
    played.runner.takes = 0.3
    assert played.passes(600.0, poll=0.3) > 100
    assert max(played.pauses) <= PAUSE_OF_POLL * 0.3


def test_an_outage_is_paid_off_within_minutes(played: Played) -> None:
    """A hundred commands that hung for 30 s each must not pause the autoscaler for a day."""
    played.runner.takes, played.runner.fails = 30.0, CommandTimedOut("qstat did not end within 30 s")
    for _ in range(100):
        with pytest.raises(CommandTimedOut):
            played.guard(("qstat",), timeout=30.0)
    played.runner.now += WINDOW
    assert played.guard.pause(POLL) == pytest.approx(0.0)


def listings(played: Played, takes: float, count: int) -> None:
    played.runner.takes = takes
    for _ in range(count):
        played.guard(("qstat", "-f"), timeout=30.0)


def test_a_listing_at_three_times_its_median_slows_polling_and_is_reported(played: Played) -> None:
    listings(played, 1.0, ENOUGH)
    usual = (played.guard.slowed(POLL), played.guard.trouble(POLL))
    listings(played, 3.1, 1)
    assert (usual, played.guard.slowed(POLL), played.guard.trouble(POLL)) == (
        (POLL, ""),
        2 * POLL,
        "qmaster is slow (qstat took 3.1 s, 3 times its usual 1 s): it is polled every 20 s instead of 10 s",
    )


def test_polling_returns_to_normal_with_the_listings(played: Played) -> None:
    listings(played, 1.0, ENOUGH)
    listings(played, 9.0, 2)
    slowest = played.guard.slowed(POLL)
    listings(played, 1.0, 2)
    assert (slowest, played.guard.slowed(POLL), played.guard.trouble(POLL)) == (4 * POLL, POLL, "")


def test_polling_slows_down_only_to_a_limit(played: Played) -> None:
    listings(played, 1.0, 20)
    listings(played, 90.0, 9)
    assert played.guard.slowed(POLL) == MOST_SLOWED * POLL


def test_a_qmaster_that_stays_slow_is_not_reported_at_every_listing(played: Played) -> None:
    listings(played, 1.0, 30)
    result = set()
    for takes in (9.0, 9.1, 9.2, 9.3, 9.4, 9.5):
        listings(played, takes, 1)
        result.add(played.guard.trouble(POLL))
    assert len(result) == 3, "as often as polling slows down"


def test_small_delays_are_not_reported(played: Played) -> None:
    listings(played, 0.01, ENOUGH)
    listings(played, 0.2, 3)
    assert played.guard.trouble(POLL) == ""


def test_a_query_of_single_jobs_does_not_count_as_a_listing(played: Played) -> None:
    listings(played, 1.0, ENOUGH)
    played.runner.takes = 20.0
    played.guard(("qstat", "-j", "7", "-xml"), timeout=30.0)
    assert played.guard.trouble(POLL) == ""


def test_a_qmaster_that_stays_slow_for_long_is_polled_normally_again(played: Played) -> None:
    listings(played, 1.0, 50)
    listings(played, 4.0, 60)
    assert played.guard.trouble(POLL) == ""
