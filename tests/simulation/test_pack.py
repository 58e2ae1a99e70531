"""What it saves that the scheduler fills one worker after the other."""

from __future__ import annotations

import pytest

from autoscaler.core.policy import PACK_FIXED, PACK_OFF, PACK_PREDICTED
from autoscaler.simulation.candidates import Candidate, Conditions, try_policy
from autoscaler.simulation.results import Document
from tests.simulation.playing import a_policy, a_workload, buckets


def played(pack: str, seed: int) -> Document:
    policy = a_policy(instance_type="m5.4xlarge", max_workers=40, scale_up_batch=10, pack=pack, idle_timeout=60.0)
    return try_policy(Candidate(pack, policy), a_workload(150, seed, days=0.2), Conditions(buckets()))


@pytest.mark.parametrize(("pack", "most"), ((PACK_FIXED, 0.95), (PACK_PREDICTED, 0.96)))
@pytest.mark.parametrize("seed", (1, 2))
def test_workers_with_numbers_are_paid_for_fewer_hours_and_the_jobs_end_as_soon(
    seed: int, pack: str, most: float
) -> None:
    """The jobs' run times are drawn by chance, so that estimates tell little of them."""
    spread, packed = (played(each, seed) for each in (PACK_OFF, pack))
    assert packed["busy_core_hours"] == pytest.approx(spread["busy_core_hours"])
    assert packed["rented_core_hours"]["all"] <= most * spread["rented_core_hours"]["all"]
    assert packed["makespan_s"] <= spread["makespan_s"] + 30.0
