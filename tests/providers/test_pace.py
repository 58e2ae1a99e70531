"""All calls to a cloud keep one pace, and one that is told to slow down slows all."""

import threading
from collections.abc import Callable

import pytest

from providers.interface import Throttled, Unreachable
from providers.rate_limiter import FIRST_WAIT, RateLimiter, rate_limiter_of


class Clock:
    """Simulated time that passes by sleeping only."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rate_limiter(clock: Clock, *, rate: float = 10, burst: int = 1, patience: float = 8) -> RateLimiter:
    return RateLimiter(rate, burst, patience, clock, clock.sleep)


def throttled(times: int, retry_after: float | None = None) -> Callable[[], str]:
    left = [times]

    def ask() -> str:
        if left[0] > 0:
            left[0] -= 1
            error = Throttled("too many calls")
            error.retry_after = retry_after
            raise error
        return "answer"

    return ask


def test_calls_start_no_oftener_than_the_rate(clock: Clock) -> None:
    kept = rate_limiter(clock, rate=10)

    starts = [kept.call(lambda: clock.now) for _ in range(4)]

    assert starts == pytest.approx([100.0, 100.1, 100.2, 100.3])


def test_after_a_rest_a_burst_starts_at_once_and_no_more(clock: Clock) -> None:
    kept = rate_limiter(clock, rate=10, burst=3)
    clock.now += 1000

    starts = [kept.call(lambda: clock.now) for _ in range(4)]

    assert starts == pytest.approx([1100.0, 1100.0, 1100.0, 1100.1])


def test_a_throttled_call_is_asked_again_and_waits_longer_each_time(clock: Clock) -> None:
    assert rate_limiter(clock).call(throttled(3)) == "answer"
    assert len(clock.slept) >= 3


def test_patience_ends(clock: Clock) -> None:
    with pytest.raises(Throttled):
        rate_limiter(clock, patience=8).call(throttled(1000))
    assert clock.now - 100 <= 8


def test_a_cloud_that_names_a_wait_longer_than_our_patience_is_not_asked_again(clock: Clock) -> None:
    with pytest.raises(Throttled):
        rate_limiter(clock, patience=8).call(throttled(1, retry_after=60))
    assert clock.slept == []


def test_the_wait_that_the_cloud_asks_for_is_kept(clock: Clock) -> None:
    rate_limiter(clock).call(throttled(1, retry_after=3))
    assert clock.now == pytest.approx(103.0, abs=0.3)


def test_one_throttled_call_slows_every_other(clock: Clock) -> None:
    kept = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        kept.call(throttled(1000, retry_after=5))
    quiet_until = clock.now + 5

    assert kept.call(lambda: clock.now) == pytest.approx(quiet_until)


def test_any_other_error_is_not_asked_again(clock: Clock) -> None:
    asked = []

    def ask() -> None:
        asked.append(clock.now)
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        rate_limiter(clock).call(ask)
    assert len(asked) == 1


def test_threads_share_the_pace() -> None:
    kept, starts = RateLimiter(rate=200, burst=1), list[float]()
    threads = [threading.Thread(target=lambda: kept.call(lambda: starts.append(kept.clock()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(starts) - min(starts) >= 5 / 200 * 0.9


def test_a_cloud_has_one_pace_in_a_process() -> None:
    assert rate_limiter_of("somewhere") is rate_limiter_of("somewhere")
    assert rate_limiter_of("somewhere") is not rate_limiter_of("elsewhere")


def test_nobody_waits_out_a_quiet_that_is_longer_than_our_patience(clock: Clock) -> None:
    kept = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        kept.call(throttled(1, retry_after=60))

    with pytest.raises(Throttled) as told:
        kept.call(lambda: "answer")

    assert clock.slept == []
    assert told.value.retry_after == pytest.approx(60)


def test_a_quiet_of_less_than_a_second_is_not_told_as_none(clock: Clock) -> None:
    kept = rate_limiter(clock, patience=0.1)
    with pytest.raises(Throttled):
        kept.call(throttled(1, retry_after=0.3))
    with pytest.raises(Throttled, match=r"wait 1 s$"):
        kept.call(lambda: "answer")


def test_it_is_called_again_when_that_quiet_is_over(clock: Clock) -> None:
    kept = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        kept.call(throttled(1, retry_after=60))
    clock.now += 60

    assert kept.call(lambda: "answer") == "answer"


def test_a_cloud_that_names_no_wait_is_asked_again_soon(clock: Clock) -> None:
    rate_limiter(clock).call(throttled(1))
    assert FIRST_WAIT / 5 <= clock.now - 100 <= 2 * FIRST_WAIT


def test_its_budget_tells_what_is_left_and_what_it_came_to(clock: Clock) -> None:
    kept = rate_limiter(clock, rate=10, burst=3)
    assert kept.budget().left == 3
    kept.call(lambda: None)
    assert (kept.budget().left, kept.budget().calls) == (2, 1)
    for _ in range(3):
        kept.call(lambda: None)
    spent = kept.budget()
    assert (spent.left, spent.calls, spent.waiting) == (0, 4, 0)
    assert spent.waited_s == pytest.approx(0.1)
    clock.now += 1000
    assert kept.budget().left == 3


def test_its_budget_counts_throttled_calls_and_leaves_none_while_the_cloud_wants_quiet(clock: Clock) -> None:
    kept = rate_limiter(clock, rate=10, burst=3)
    kept.call(throttled(2))
    assert (kept.budget().throttled, kept.budget().calls) == (2, 3)
    with pytest.raises(Throttled):
        kept.call(throttled(9, retry_after=60))
    assert kept.budget().left == 0


def test_while_a_call_waits_its_budget_says_so(clock: Clock) -> None:
    seen: list[int] = []

    def sleep(seconds: float) -> None:
        seen.append(kept.budget().waiting)
        clock.sleep(seconds)

    kept = RateLimiter(10, 1, 8, clock, sleep)
    kept.call(lambda: None)
    kept.call(lambda: None)
    assert seen == [1]
    assert kept.budget().waiting == 0
