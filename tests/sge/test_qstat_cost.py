"""A small run of the benchmark: reading costs by shapes, not by jobs or tasks. The bars are generous; `make bench`
has the real ones.
"""

from __future__ import annotations

import time
import tracemalloc

import pytest

from bench.generate import Mix, generate
from bench.run import measure, read
from sge.cluster import Outputs

JOBS = 5_000
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def outputs() -> Outputs:
    return generate(Mix(jobs=JOBS, hosts=10))


def test_reading_costs_at_most_three_times_the_bare_walk(outputs: Outputs) -> None:
    measured = measure(outputs, rounds=3, clock=time.process_time)  # other work on this machine does not count
    assert measured.cluster <= 3 * measured.walk


def test_reading_needs_a_fraction_of_its_input_in_memory(outputs: Outputs) -> None:
    tracemalloc.start()
    try:
        read(outputs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEGABYTE


def test_a_million_tasks_weigh_no_more_than_one() -> None:
    with_arrays, without = (read(generate(Mix(jobs=JOBS, hosts=1, arrays=arrays))) for arrays in (True, False))
    assert (sum(s.count for s in without.shapes), sum(s.count for s in with_arrays.shapes) > 100_000) == (JOBS, True)


def test_every_generated_job_is_understood(outputs: Outputs) -> None:
    cluster = read(outputs)
    assert (sum(len(s.jobs) for s in cluster.shapes), sum(len(h.jobs) for h in cluster.hosts), cluster.set_aside) == (
        JOBS,
        160,
        (),
    )


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert generate(Mix(jobs=50, hosts=2)) == generate(Mix(jobs=50, hosts=2))
