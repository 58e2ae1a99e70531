"""How many jobs find a slot within a boot, against a count of single slots that knows no placement."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.estimates.estimates import Estimates, RunTime
from autoscaler.core.plan import plan
from tests.core.building import a_job, a_snapshot, launched
from tests.core.test_free_in_time import busy

SECONDS = st.sampled_from((10.0, 30.0, 60.0, 100.0, 200.0))


def without_slot(ends: list[float], runs: list[float]) -> int:
    """Jobs take free slots at five moments, those first that were submitted first; as many as then have none."""
    free_at, left = list(ends), list(runs)
    for moment in (0.0, 30.0, 60.0, 90.0, 120.0):
        for slot, free in enumerate(free_at):
            if free <= moment and left:
                free_at[slot] = moment + left.pop(0)
    return len(left)


@given(
    ends=st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=3),
    runs=SECONDS,
    waiting=st.integers(min_value=1, max_value=12),
)
def test_as_many_workers_are_launched_as_jobs_find_no_slot_in_time(
    ends: list[tuple[float, float]], runs: float, waiting: int
) -> None:
    workers = [busy(*each, name=f"w{number}") for number, each in enumerate(ends, start=1)]
    jobs = [a_job(number, hard={"h_rt": f"{number}:0:0"}) for number in range(1, waiting + 1)]
    snapshot = a_snapshot(*(worker for worker, _ in workers), *jobs, wait_for_free=300.0)
    known = {job: end for _, of_worker in workers for job, end in of_worker.items()}
    estimates = Estimates({number: RunTime(runs, runs, runs) for number in range(1, waiting + 1)}, known)
    made = plan(replace(snapshot, estimates=estimates))
    unmet = without_slot([end for pair in ends for end in pair], [runs] * waiting)
    assert sum(launched(made).values()) == -(-unmet // 2)
