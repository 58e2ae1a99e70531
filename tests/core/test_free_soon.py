"""When running jobs end at the latest, and what is free then: only what a time limit promises."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob
from autoscaler.core.replace.free_soon import empty_at, freed_host
from tests.core.building import COMPLEXES, GIB, MAIN, NOW, PES, a_host

CELL = Cluster((), (), {"main.q": MAIN}, PES, COMPLEXES)
BOUND = replace(CELL, queues={"main.q": replace(MAIN, limits={"h_rt": "0:5:0"})})


RENAMED = replace(CELL, complexes={**COMPLEXES, "h_rt": replace(COMPLEXES["h_rt"], shortcut="hr")})


def running(
    *limits: str | None, started: float | None = NOW - 100, slots: int = 1, memory: str = "", gpus: str = ""
) -> ExecutionHost:
    """A host of 4 slots and 16 GiB with one job for each of these `h_rt`; None: it has none."""
    host = a_host("h1", slots=4, used=len(limits) * slots)
    hard = [(("h_rt", limit),) if limit else () for limit in limits]
    more = tuple((name, value) for name, value in (("h_vmem", memory), ("gpus", gpus)) if value)
    jobs = tuple(HostJob(n, "", "r", slots, started=started, hard=(*one, *more)) for n, one in enumerate(hard))
    left = 4 - len(limits) * slots
    values = {"slots": str(left), "h_vmem": f"{16 - 4 * slots * len(limits)}G"}
    return replace(host, instances=(replace(host.instances[0], jobs=jobs),), consumables=values)


def shortly(limit: str) -> ExecutionHost:
    """The same, where the job gives its limit by the complex's shortcut."""
    host = running(limit)
    (instance,) = host.instances
    (job,) = instance.jobs
    return replace(host, instances=(replace(instance, jobs=(replace(job, hard=(("hr", limit),)),)),))


@pytest.mark.parametrize(
    ("host", "cell", "end"),
    (
        pytest.param(a_host(), CELL, 0.0, id="empty: now"),
        pytest.param(running("600", "0:5:0"), CELL, NOW + 500, id="the last of its jobs"),
        pytest.param(running("600", None), CELL, inf, id="a job without a limit may run for ever"),
        pytest.param(running("INFINITY"), CELL, inf, id="and so may one with an endless one"),
        pytest.param(running("600", gpus="1"), CELL, NOW + 500, id="what else it requests is no limit"),
        pytest.param(running("600"), RENAMED, NOW + 500, id="the limit by its name"),
        pytest.param(shortly("600"), RENAMED, NOW + 500, id="the limit by its shortcut"),
        pytest.param(running("600"), replace(CELL, complexes={}), NOW + 500, id="the list of complexes is unknown"),
        pytest.param(running("600", started=None), CELL, inf, id="its start is unknown"),
        pytest.param(running(None), BOUND, NOW + 200, id="its queue's limit binds it"),
        pytest.param(running("600"), BOUND, NOW + 200, id="the tighter one holds"),
        pytest.param(a_host(reserved=1), CELL, inf, id="a reservation promises nothing"),
        pytest.param(
            replace(running("600"), instances=(replace(running("600").instances[0], reserved=1),)),
            CELL,
            inf,
            id="nor does one beside a job",
        ),
    ),
)
def test_the_time_at_which_a_host_is_empty(host: ExecutionHost, cell: Cluster, end: float) -> None:
    assert empty_at(host, cell) == end


def test_slots_and_memory_of_jobs_that_end_in_time_count_as_free() -> None:
    freed = freed_host(running("150", None, memory="4G"), NOW + 60, CELL, frozenset({"h_vmem"}))
    assert freed is not None
    assert (dict(freed.slots), dict(freed.free)) == ({"main.q": 3}, {"slots": 3, "h_vmem": 12 * GIB})


def test_a_job_that_ends_in_time_gives_back_what_each_of_its_slots_holds() -> None:
    freed = freed_host(running("150", None, slots=2, memory="2G"), NOW + 60, CELL, frozenset({"h_vmem"}))
    assert freed is not None
    assert dict(freed.free) == {"slots": 2, "h_vmem": 4 * GIB}


def test_a_host_whose_jobs_all_end_in_time_counts_as_empty() -> None:
    freed = freed_host(running("150", "100"), NOW + 60, CELL, frozenset())
    assert freed is not None
    assert (dict(freed.slots), freed.empty) == ({"main.q": 4}, True)


def test_slots_of_jobs_that_end_later_do_not_count_as_free() -> None:
    assert freed_host(running("600", "600", slots=2), NOW + 60, CELL, frozenset()) is None
