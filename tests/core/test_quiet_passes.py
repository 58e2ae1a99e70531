"""What a pass in which nothing changed does for each job category and each worker."""

from __future__ import annotations

import cProfile
import pstats

from autoscaler.core.plan import plan
from bench.plans import nothing_changed, snapshot

SOME, MANY = 40, 240


def calls_of_a_quiet_pass(workers: int, categories: int) -> int:
    """Functions that it calls: a number that no load of the machine changes."""
    seen = snapshot(workers, categories)
    made = plan(seen)
    for _ in range(3):
        seen = nothing_changed(seen, made)
        made = plan(seen)
    profile = cProfile.Profile()
    profile.runcall(plan, nothing_changed(seen, made))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_job_category_that_did_not_change_costs_few_calls() -> None:
    more = calls_of_a_quiet_pass(4, MANY) - calls_of_a_quiet_pass(4, SOME)
    assert more / (MANY - SOME) < 1


def test_a_worker_that_did_not_change_costs_few_calls() -> None:
    more = calls_of_a_quiet_pass(120, 4) - calls_of_a_quiet_pass(20, 4)
    assert more / 100 < 4
