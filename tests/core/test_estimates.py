"""Estimates of run times: by the jobs that are most like it and told its run time best, with their basis; bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from autoscaler.core.estimates.estimates import NO_ESTIMATES, RunTime
from autoscaler.core.estimates.estimator import Estimator
from autoscaler.core.estimates.run_times import (
    KEPT,
    LEAST_JUDGED,
    MOST_OWNERS,
    WIDEST,
    Estimate,
    Likeness,
    RunTimes,
    quantile,
)
from autoscaler.core.model.cluster import Cluster, HostJob
from tests.core.building import NOW, a_host, a_job, a_snapshot, jobs

ALIGN = Likeness("ann", "align_17", "genes", "main.q", 4, 86_400.0)


def history(*runs: tuple[Likeness, float], most_keys: int = 1_000) -> RunTimes:
    made = RunTimes(most_keys)
    for like, seconds in runs:
        made.add(like, seconds)
    return made


def known(times: RunTimes, like: Likeness, running: float = 0.0) -> Estimate:
    found = times.estimate(like, running)
    assert found is not None
    return found


def test_without_any_history_there_is_no_estimate() -> None:
    assert RunTimes().estimate(ALIGN) is None


def test_numbers_in_a_name_do_not_tell_jobs_apart() -> None:
    runs = [(Likeness("ann", f"align_{n}", "genes", "main.q", 4, 86_400.0), 300.0 + n) for n in range(20)]
    found = known(history(*runs), ALIGN)
    assert 300 <= found.low <= found.median <= found.high <= 320
    assert (found.earlier, found.basis) == (20, "owner, name, project, queue, slots and requested time")


def test_a_new_owner_is_estimated_by_slots_and_request_or_by_any_job() -> None:
    runs = [(ALIGN, 300.0)] * 10
    assert known(history(*runs), Likeness("bob", "x", slots=4, requested=86_400.0)).basis.startswith("slots")
    assert known(history(*runs), Likeness("bob", "x", slots=9)).basis.startswith("nothing")


def test_the_likeness_that_was_least_off_is_taken() -> None:
    """The narrow likeness says nothing of these jobs, whose run time is the owner's, whatever the name."""
    chance, runs = Random(1), []
    for n in range(400):
        runs.append((Likeness("ann", "steady", slots=n % 7 + 1), 100.0))
        runs.append((Likeness("bob", f"wild{'x' * (n % 3)}", slots=1), chance.choice((5.0, 5_000.0))))
    times = history(*runs)
    steady = known(times, Likeness("ann", "steady", slots=3))
    assert steady.median == 100
    assert steady.error == pytest.approx(1.0)
    wild = known(times, Likeness("bob", "wild", slots=1))
    assert wild.error is not None
    assert wild.error > 3
    assert (wild.low, wild.high) == (5.0, 5_000.0)


def test_of_a_running_job_only_longer_ones_count() -> None:
    times = history(*((ALIGN, seconds) for seconds in (10.0, 20.0, 600.0, 700.0)))
    assert known(times, ALIGN, running=60).low == 600
    assert known(times, ALIGN, running=60).earlier == 2
    assert times.estimate(ALIGN, running=701) is None


def test_what_ran_lately_weighs_most() -> None:
    assert known(history(*[(ALIGN, 10.0)] * 60, *[(ALIGN, 1_000.0)] * 20), ALIGN).median == 1_000
    assert quantile([10.0] * 30 + [1_000.0] * 20, 0.5) == 1_000


def held(seconds: Sequence[float]) -> float:
    """The share of these jobs, one after the other, that their range held."""
    times, within = RunTimes(), 0
    for each in seconds:
        found = times.estimate(ALIGN)
        within += found is not None and found.low <= each <= found.high
        times.add(ALIGN, each)
    return within / len(seconds)


def test_ranges_hold_eight_of_ten_jobs_whose_run_times_drift() -> None:
    chance = Random(3)
    drifting = [100.0 * 1.01**n * chance.uniform(0.95, 1.05) for n in range(400)]
    assert held(drifting) > 0.8
    assert held(drifting[:LEAST_JUDGED]) < 0.5, "as long as no estimate was judged"


def test_a_range_is_no_wider_than_what_the_owners_last_jobs_need() -> None:
    times = history(*[(ALIGN, seconds) for n in range(30) for seconds in (100.0, 100.0, 100.0)])
    assert (known(times, ALIGN).low, known(times, ALIGN).high) == (100.0, 100.0)
    wild = history(*[(ALIGN, 100.0 if n % 5 else 100_000.0) for n in range(100)], *[(ALIGN, 100.0)] * 60)
    assert known(wild, ALIGN).high <= 100.0 * WIDEST


def test_a_running_job_is_not_estimated_to_end_before_now() -> None:
    times = history(*[(ALIGN, 100.0 * 1.05**n) for n in range(60)])
    assert known(times, ALIGN).low < known(times, ALIGN).median / 1.5
    assert known(times, ALIGN, running=1_500.0).low >= 1_500.0


def test_of_few_owners_ranges_are_remembered() -> None:
    times = RunTimes()
    for n in range(MOST_OWNERS + 50):
        for _ in range(2):
            times.add(Likeness(f"u{n}", "job"), 10.0)
    assert len(times._ranges) == MOST_OWNERS


def test_memory_is_bounded_and_the_longest_unused_likeness_is_forgotten() -> None:
    times = RunTimes(most_keys=50)
    for n in range(1_000):
        for _ in range(4):
            times.add(Likeness(f"u{n}", "job"), (10.0, 10_000.0)[n % 2])
    assert len(times) == 50
    assert known(times, Likeness("u999", "job")).basis.startswith("owner")
    assert not known(times, Likeness("u0", "job")).basis.startswith("owner")
    many = history(*[(ALIGN, 10.0)] * (3 * KEPT))
    assert max(len(each.times) for each in many._known.values()) == KEPT


def running_since(seconds: float, *, job: int = 9) -> Cluster:
    host = a_host("h1", used=1)
    run = HostJob(job, "", "r", 1, "ann", started=NOW - seconds)
    return a_snapshot(replace(host, instances=(replace(host.instances[0], jobs=(run,)),))).cluster


def test_all_waiting_and_running_jobs_of_a_reading_are_estimated() -> None:
    times = history(*[(Likeness("ann"), 600.0)] * 10)
    cluster = replace(running_since(100.0), job_categories=(a_job(1, owner="ann"), jobs(3, first=5)))
    found = Estimator(times).estimates(cluster, NOW)
    assert found.seconds == dict.fromkeys((1, 5, 6, 7), RunTime(600.0, 600.0, 600.0))
    assert found.ends == {"9": NOW + 500.0}


def test_a_job_that_runs_longer_than_any_earlier_one_runs_on_for_half_of_its_time_so_far() -> None:
    estimator = Estimator(history(*[(Likeness("ann"), 600.0)] * 10))
    assert estimator.estimates(running_since(1_000.0), NOW).ends == {"9": NOW + 500.0}


def test_an_estimate_of_a_running_job_holds_until_it_has_passed() -> None:
    times = history(*[(Likeness("ann"), 600.0)] * 10)
    estimator = Estimator(times)
    assert estimator.estimates(running_since(100.0), NOW).ends == {"9": NOW + 500.0}
    for _ in range(40):
        times.add(Likeness("ann"), 300.0)
    assert estimator.estimates(running_since(100.0), NOW).ends == {"9": NOW + 500.0}
    assert Estimator(times).estimates(running_since(100.0), NOW).ends == {"9": NOW + 200.0}


def test_without_any_history_nothing_is_estimated() -> None:
    cluster = replace(running_since(100.0), job_categories=(a_job(1),))
    assert Estimator(RunTimes()).estimates(cluster, NOW) == NO_ESTIMATES
