"""What one pass records for the history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, QueueInstance
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.request_sets import Requests, RequestSet, Target
from autoscaler.core.outcome.sample import ArraySample, Sample, Starts, arrived, merged, sample_of, starts
from autoscaler.core.outcome.sample import running as all_running
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.worker_observation import observe_workers
from tests.core.building import (
    NOW,
    Thing,
    a_bucket,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    an_order,
    jobs,
)


def sampled(*things: Thing) -> Sample:
    return taken(a_snapshot(*things))


def taken(snapshot: Snapshot) -> Sample:
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    return sample_of(snapshot, plan(snapshot), observed, all_running(snapshot.cluster))


def began(before: Cluster, after: Cluster) -> Starts:
    return starts(before, NOW - 50, all_running(before), all_running(after))


def stages(*things: Thing) -> dict[str, float]:
    """By stage, how many workers of `execute` stand there."""
    array = sampled(*things).arrays["execute"]
    found = {name: getattr(array, name) for name in ("coming", "busy", "idle", "leaving", "aside")}
    return {name: count for name, count in found.items() if count}


def running(*jobs: HostJob) -> ExecutionHost:
    return ExecutionHost("h1", (QueueInstance("main.q", "h1", 9, len(jobs), 0, "", jobs),))


@pytest.mark.parametrize(
    ("thing", "stage"),
    (
        (a_machine(None), "coming"),
        (a_worker(mark=Disabling.ENROL), "coming"),
        (an_order(), "coming"),
        (a_worker(used=1), "busy"),
        (a_worker(idle=10), "idle"),
        (a_worker(mark=Disabling.IDLE, used=1), "leaving"),
        (a_worker(states="d"), "aside"),
        (a_worker(heard=False), "aside"),
    ),
)
def test_a_worker_is_counted_by_its_stage(thing: Thing, stage: str) -> None:
    assert stages(thing) == {stage: 1}


@pytest.mark.parametrize(("state", "count"), ((MachineState.RUNNING, 1), (MachineState.TERMINATED, 0)))
def test_a_job_on_a_machine_that_is_gone_does_not_count_as_running(state: MachineState, count: int) -> None:
    """qmaster lists it until a person deletes it."""
    assert sampled(a_worker(used=1, state=state)).running == count


@pytest.mark.parametrize(("passes", "known", "price"), ((7, False, 0.048), (7, True, 0.0), (0, False, 0.0)))
def test_a_machine_that_came_since_the_last_sample_costs_from_its_creation(
    passes: int, known: bool, price: float
) -> None:
    """m5.large costs 0.096 an hour, and was there for 30 of 60 s. Lost memory does not say which machines are new."""
    seen = a_snapshot(a_machine("w1", age=30, price_per_hour=0.096))
    notes = {"i-w1": WorkerNote(NOW - 25)} if known else {}
    seen = replace(seen, memory=replace(seen.memory, passes=passes, workers=notes))
    assert arrived(Sample(NOW - 60), seen, NOW).price_per_hour == pytest.approx(price)


def test_a_sample_has_the_plans_job_counts() -> None:
    sample = sampled(a_host("h1", slots=2), jobs(3, waited=70), a_job(9, state="hqw", waited=999))
    assert (sample.waiting, sample.counted, sample.fitting, sample.longest_wait) == (4, 3, 2, 70)


def test_slots_are_those_of_autoscaled_queues() -> None:
    other = QueueInstance("other.q", "h1", 50, 7, 0)
    sample = sampled(a_host("h1", slots=4, used=3, more=(other,)))
    assert (sample.slots, sample.slots_used, sample.running, sample.persistent) == (4, 3, 3, 1)


def test_a_samples_price_is_the_providers_or_else_the_catalogues() -> None:
    things = (a_worker("w1", price_per_hour=0.3), a_worker("w2"), a_bucket(price=0.1))
    array = sampled(*things).arrays["execute"]
    assert (round(array.price_per_hour, 9), array.unknown_prices, array.cores) == (0.4, 0, 4)


def test_workers_of_unknown_price_are_counted() -> None:
    array = sampled(a_worker("w1"), a_bucket(price=-1)).arrays["execute"]
    assert (array.price_per_hour, array.unknown_prices) == (0.0, 1)


def test_targets_of_all_sets_add_up_with_whole_groups() -> None:
    targets = (Target("execute", count=3), Target("execute", cores=8), Target("execute", groups=2, group_cores=64))
    snapshot = a_snapshot()
    sets = tuple(RequestSet(f"set{n}", "ann", NOW, None, (target,)) for n, target in enumerate(targets))
    array = taken(replace(snapshot, requests=Requests(sets=sets))).arrays["execute"]
    assert (array.target_workers, array.target_cores) == (3, 136)


def test_a_started_jobs_waiting_time_begins_at_its_submission() -> None:
    before = a_snapshot(jobs(2, waited=100)).cluster
    after = a_snapshot(running(HostJob(1, "", "r", 1, started=NOW - 60), HostJob(2, "", "r", 1, started=NOW - 80)))
    assert began(before, after.cluster) == Starts(2, 60.0, 40.0, (40.0, 20.0))


def test_a_held_job_is_able_to_run_from_its_release_on() -> None:
    before = a_snapshot(jobs(2, waited=100)).cluster
    after = a_snapshot(running(HostJob(1, "", "r", 1, started=NOW - 60), HostJob(2, "", "r", 1, started=NOW - 80)))
    runs = all_running(after.cluster)
    assert starts(before, NOW - 50, {}, runs, {1: NOW - 65}).able == (5.0, 20.0)


def test_a_job_that_ran_before_does_not_count_as_started() -> None:
    old, unseen = (HostJob(number, "", "r", 1, started=NOW - 500) for number in (1, 7))
    before = a_snapshot(a_job(1, waited=600), running(old)).cluster
    assert began(before, a_snapshot(running(old, unseen)).cluster) == Starts()


def test_an_unobserved_jobs_waiting_time_begins_at_the_previous_observation_at_the_earliest() -> None:
    quick, quicker = (HostJob(number, "", "r", 1, started=NOW - ago) for number, ago in ((7, 20), (8, 50.5)))
    assert began(a_snapshot().cluster, a_snapshot(running(quick, quicker)).cluster) == Starts(
        2, 30.0, 30.0, (30.0, 0.0)
    )


def test_a_job_on_several_hosts_counts_as_started_once() -> None:
    job = HostJob(1, "", "r", 2, started=NOW)
    hosts = [replace(running(job), name=name) for name in ("h1", "h2")]
    assert began(a_snapshot(a_job(waited=30)).cluster, a_snapshot(*hosts).cluster).count == 1


def test_samples_are_weighted_by_their_seconds() -> None:
    long = Sample(0.0, 30.0, waiting=2, most_waiting=4, started=1, arrays={"execute": ArraySample(busy=4, most=5)})
    short = Sample(60.0, 10.0, waiting=6, most_waiting=6, started=2)
    one = merged((long, short), 0.0)
    figures = (one.seconds, one.waiting, one.most_waiting, one.started)
    assert (figures, one.arrays["execute"]) == ((40.0, 3.0, 6, 3), ArraySample(busy=3.0, most=5))
