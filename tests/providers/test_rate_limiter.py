"""All calls to a cloud share one rate limiter, and a throttled call delays all."""

import threading
from collections.abc import Callable

import pytest

from autoscaler.providers.interface import Throttled, Unreachable
from autoscaler.providers.rate_limiter import FIRST_WAIT, LONGEST_PAUSE, RateLimiter, rate_limiter_of


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


def test_calls_start_no_faster_than_the_rate(clock: Clock) -> None:
    limiter = rate_limiter(clock, rate=10)

    starts = [limiter.call(lambda: clock.now) for _ in range(4)]

    assert starts == pytest.approx([100.0, 100.1, 100.2, 100.3])


def test_after_a_pause_one_burst_starts_at_once(clock: Clock) -> None:
    limiter = rate_limiter(clock, rate=10, burst=3)
    clock.now += 1000

    starts = [limiter.call(lambda: clock.now) for _ in range(4)]

    assert starts == pytest.approx([1100.0, 1100.0, 1100.0, 1100.1])


def test_a_throttled_call_is_repeated_after_waits_of_growing_limits(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    assert rate_limiter(clock).call(throttled(4)) == "answer"
    assert clock.slept == pytest.approx([FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT, 8 * FIRST_WAIT])


def test_a_call_that_stays_throttled_raises_after_the_patience(clock: Clock) -> None:
    with pytest.raises(Throttled):
        rate_limiter(clock, patience=8).call(throttled(1000))
    assert clock.now - 100 <= 8


def test_a_call_is_not_repeated_if_the_retry_time_exceeds_the_patience(clock: Clock) -> None:
    with pytest.raises(Throttled):
        rate_limiter(clock, patience=8).call(throttled(1, retry_after=60))
    assert clock.slept == []


def test_a_call_is_repeated_after_the_retry_time_of_the_cloud(clock: Clock) -> None:
    rate_limiter(clock).call(throttled(1, retry_after=3))
    assert clock.now == pytest.approx(103.0, abs=0.3)


def test_a_throttled_call_delays_the_other_calls(clock: Clock) -> None:
    limiter = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        limiter.call(throttled(1000, retry_after=5))
    retry_at = clock.now + 5

    assert limiter.call(lambda: clock.now) == pytest.approx(retry_at)


def test_a_call_with_any_other_error_is_not_repeated(clock: Clock) -> None:
    asked = []

    def ask() -> None:
        asked.append(clock.now)
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        rate_limiter(clock).call(ask)
    assert len(asked) == 1


def test_threads_share_the_rate() -> None:
    limiter, starts = RateLimiter(rate=200, burst=1), list[float]()
    threads = [threading.Thread(target=lambda: limiter.call(lambda: starts.append(limiter.clock()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(starts) - min(starts) >= 5 / 200 * 0.9


def test_a_cloud_has_one_rate_limiter_in_a_process() -> None:
    assert rate_limiter_of("somewhere") is rate_limiter_of("somewhere")
    assert rate_limiter_of("somewhere") is not rate_limiter_of("elsewhere")


def test_a_call_fails_at_once_while_the_retry_time_exceeds_the_patience(clock: Clock) -> None:
    limiter = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        limiter.call(throttled(1, retry_after=60))

    with pytest.raises(Throttled) as caught:
        limiter.call(lambda: "answer")

    assert clock.slept == []
    assert caught.value.retry_after == pytest.approx(60)


def test_a_wait_below_one_second_is_reported_as_one_second(clock: Clock) -> None:
    limiter = rate_limiter(clock, patience=0.1)
    with pytest.raises(Throttled):
        limiter.call(throttled(1, retry_after=0.3))
    with pytest.raises(Throttled, match=r"wait 1 s$"):
        limiter.call(lambda: "answer")


def test_a_call_is_made_again_after_the_retry_time(clock: Clock) -> None:
    limiter = rate_limiter(clock, patience=8)
    with pytest.raises(Throttled):
        limiter.call(throttled(1, retry_after=60))
    clock.now += 60

    assert limiter.call(lambda: "answer") == "answer"


def test_without_a_retry_time_a_call_is_repeated_soon(clock: Clock) -> None:
    rate_limiter(clock).call(throttled(1))
    assert FIRST_WAIT / 5 <= clock.now - 100 <= 2 * FIRST_WAIT


def test_the_call_budget_reports_what_is_left_calls_and_waits(clock: Clock) -> None:
    limiter = rate_limiter(clock, rate=10, burst=3)
    assert limiter.budget().left == 3
    limiter.call(lambda: None)
    assert (limiter.budget().left, limiter.budget().calls) == (2, 1)
    for _ in range(3):
        limiter.call(lambda: None)
    spent = limiter.budget()
    assert (spent.left, spent.calls, spent.waiting) == (0, 4, 0)
    assert spent.waited_s == pytest.approx(0.1)
    clock.now += 1000
    assert limiter.budget().left == 3


def test_the_call_budget_counts_throttled_calls_and_is_empty_during_the_retry_time(clock: Clock) -> None:
    limiter = rate_limiter(clock, rate=10, burst=3)
    limiter.call(throttled(2))
    assert (limiter.budget().throttled, limiter.budget().calls) == (2, 3)
    with pytest.raises(Throttled):
        limiter.call(throttled(9, retry_after=60))
    assert limiter.budget().left == 0


def test_the_call_budget_reports_waiting_calls(clock: Clock) -> None:
    seen: list[int] = []

    def sleep(seconds: float) -> None:
        seen.append(limiter.budget().waiting)
        clock.sleep(seconds)

    limiter = RateLimiter(10, 1, 8, clock, sleep)
    limiter.call(lambda: None)
    limiter.call(lambda: None)
    assert seen == [1]
    assert limiter.budget().waiting == 0


def test_a_pause_of_one_kind_of_call_delays_no_other_kind(clock: Clock) -> None:
    limiter = rate_limiter(clock, rate=1000, burst=100)
    with pytest.raises(Throttled):
        limiter.call(throttled(1, retry_after=1200), "launches")
    assert limiter.call(lambda: clock.now, "listings") == 100.0
    with pytest.raises(Throttled, match="launches: it asked to wait"):
        limiter.call(lambda: None, "launches")


def test_a_pause_is_capped_and_told(clock: Clock) -> None:
    limiter = rate_limiter(clock)
    with pytest.raises(Throttled) as caught:
        limiter.call(throttled(1, retry_after=1200), "launches")
    assert caught.value.retry_after == 1200
    assert dict(limiter.budget().paused) == {"launches": pytest.approx(LONGEST_PAUSE)}
    assert list(limiter.troubles()) == ["launches"]
    clock.now += LONGEST_PAUSE
    assert (limiter.call(lambda: "answer", "launches"), limiter.troubles()) == ("answer", {})
