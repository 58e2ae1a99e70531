"""A small run of the benchmark: reading costs by new jobs and job categories, not by tasks. The limits are generous;
`make bench` measures against the real ones.
"""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC

import pytest

from autoscaler.sge.cluster import Outputs
from autoscaler.sge.qstat import ListingReader, read_qstat
from bench.generate import Mix, generate
from bench.passes import read, walk
from bench.run import measure

JOBS = 5_000
MEGABYTE = 1024 * 1024
BUSY = Mix(jobs=JOBS, hosts=10)
UNIQUE = replace(BUSY, arrays=False, unique=True)


@pytest.fixture(scope="module")
def outputs() -> Outputs:
    return generate(BUSY)


def best(work: Callable[[], object]) -> float:
    """CPU seconds: other work on this machine does not count."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize(("mix", "most"), ((BUSY, 3), (UNIQUE, 6)))
def test_reading_takes_at_most_a_few_times_the_time_of_a_bare_walk(mix: Mix, most: float) -> None:
    printed = generate(mix)
    assert best(lambda: read(printed)) <= most * best(lambda: walk(printed))


@pytest.mark.parametrize("mix", (BUSY, UNIQUE))
def test_jobs_that_changed_only_in_priority_are_not_read_again(mix: Mix, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, turns = ListingReader(), [generate(replace(mix, turn=turn)).qstat for turn in (0, 1)]
    first = reader.read(turns[0], UTC)
    monkeypatch.setattr("autoscaler.sge.job_categories.JobReader._read_stretch", None)
    again = reader.read(turns[1], UTC)
    assert turns[0] != turns[1]
    assert again.job_categories is first.job_categories


def test_jobs_with_the_submission_time_of_open_cluster_scheduler_are_read_the_fast_way(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls that of waiting jobs JAT_submission_time, and prints microseconds."""
    time_of = re.compile(rb"<JB_submission_time>([^<]*)</JB_submission_time>")
    printed = time_of.sub(rb"<JAT_submission_time>\1.250000</JAT_submission_time>", outputs.qstat)
    carefully = read_qstat(printed, UTC, fast=False).job_categories
    monkeypatch.setattr("autoscaler.sge.job_categories.JobReader._wait_carefully", None)
    quickly = read_qstat(printed, UTC).job_categories
    assert quickly == carefully
    assert {when % 1 for category in quickly for when in category.submitted} == {0.25}


def test_reading_needs_little_memory(outputs: Outputs) -> None:
    tracemalloc.start()
    try:
        read(outputs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * MEGABYTE


def test_generated_arrays_have_many_tasks_and_other_jobs_have_one() -> None:
    with_arrays, without = (read(generate(Mix(jobs=JOBS, hosts=1, arrays=arrays))) for arrays in (True, False))
    assert (
        sum(s.count for s in without.job_categories),
        sum(s.count for s in with_arrays.job_categories) > 100_000,
    ) == (JOBS, True)


def test_every_generated_job_is_understood(outputs: Outputs) -> None:
    cluster = read(outputs)
    assert (
        sum(len(s.jobs) for s in cluster.job_categories),
        sum(len(h.jobs) for h in cluster.hosts),
        cluster.set_aside,
    ) == (
        JOBS,
        160,
        (),
    )


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert generate(Mix(jobs=50, hosts=2)) == generate(Mix(jobs=50, hosts=2))


def test_the_benchmark_measures_floors_and_both_passes() -> None:
    found = measure(Mix(jobs=2_000, hosts=2), rounds=1)
    assert 0 < found.bare < found.walk
    assert min(found.first_cluster, found.next_cluster, found.memory) > 0
    assert (found.first > found.first_cluster, found.next > found.next_cluster) == (True, True)
