"""Workers on their way are observed again soon, and less often the longer they take."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.engine.arrivals import LEAST, PASSES, SHARE, Arrivals


def verdict(code: Code, worker: str = "w") -> WorkerVerdict:
    return WorkerVerdict(worker, worker, "wait", because(code))


def test_a_machine_that_was_just_ordered_is_observed_again_at_once() -> None:
    assert Arrivals().next_observation([verdict(Code.BOOTING)], 100.0, 0.01) == LEAST


def test_observations_become_rarer_the_longer_a_machine_boots() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING)], 400.0, 0.01) == SHARE * 300.0


def test_a_booted_machine_is_observed_often_again() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.JOINING)], 400.0, 0.01) == LEAST


def test_the_newest_worker_decides_when_to_observe() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING, "old")], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING, "old"), verdict(Code.BOOTING, "new")], 400.0, 0.01) == LEAST


def test_slow_passes_are_spaced_by_their_duration() -> None:
    assert Arrivals().next_observation([verdict(Code.BOOTING)], 100.0, 1.0) == PASSES


def test_a_worker_in_service_needs_no_early_observation() -> None:
    assert Arrivals().next_observation([verdict(Code.IDLE)], 100.0, 0.01) is None


def test_a_clock_set_back_does_not_delay_the_observation() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING)], 40.0, 0.01) == LEAST


def test_a_worker_is_expected_while_one_is_booting() -> None:
    arrivals = Arrivals()
    results = [arrivals.expected]
    for code in (Code.BOOTING, Code.IDLE):
        arrivals.next_observation([verdict(code)], 100.0, 0.01)
        results.append(arrivals.expected)
    assert results == [False, True, False]
