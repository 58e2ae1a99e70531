"""Workers on their way are looked for soon, and less often the longer they take."""

from __future__ import annotations

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.engine.arrivals import LEAST, PASSES, SHARE, Arrivals


def verdict(code: Code, worker: str = "w") -> WorkerVerdict:
    return WorkerVerdict(worker, worker, "wait", because(code))


def test_a_machine_that_was_just_ordered_is_looked_for_at_once() -> None:
    assert Arrivals().next_observation([verdict(Code.BOOTING)], 100.0, 0.01) == LEAST


def test_the_longer_a_machine_boots_the_rarer_it_is_looked_for() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING)], 400.0, 0.01) == SHARE * 300.0


def test_once_booted_it_is_waited_for_anew() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.JOINING)], 400.0, 0.01) == LEAST


def test_the_one_that_came_last_decides() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING, "old")], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING, "old"), verdict(Code.BOOTING, "new")], 400.0, 0.01) == LEAST


def test_passes_that_take_long_are_not_made_more_often_than_this_machine_bears() -> None:
    assert Arrivals().next_observation([verdict(Code.BOOTING)], 100.0, 1.0) == PASSES


def test_a_worker_in_service_is_no_reason_to_look() -> None:
    assert Arrivals().next_observation([verdict(Code.IDLE)], 100.0, 0.01) is None


def test_a_clock_set_back_does_no_harm() -> None:
    arrivals = Arrivals()
    arrivals.next_observation([verdict(Code.BOOTING)], 100.0, 0.01)
    assert arrivals.next_observation([verdict(Code.BOOTING)], 40.0, 0.01) == LEAST


def test_a_worker_is_expected_from_the_look_that_saw_it_come_until_none_does() -> None:
    arrivals = Arrivals()
    told = [arrivals.expected]
    for code in (Code.BOOTING, Code.IDLE):
        arrivals.next_observation([verdict(code)], 100.0, 0.01)
        told.append(arrivals.expected)
    assert told == [False, True, False]
