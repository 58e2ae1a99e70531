"""What the bench of worker-hours by `PACK` gives to both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.estimates.run_times import Likeness
from autoscaler.store.run_time_history import RunTimeHistory
from bench.fidelity import command_of
from bench.packing import KINDS, OWNER, accounting_of, earlier_jobs, jobs_of

NOW = 1_700_000_000.0


def test_the_service_estimates_by_the_jobs_that_ran_before(tmp_path: Path) -> None:
    accounting = tmp_path / "accounting"
    accounting.write_text(accounting_of(earlier_jobs(1), NOW))
    history = RunTimeHistory(accounting)
    for limit, usual, _ in KINDS[:2]:  # of the third kind there are too few to say so
        found = history.estimate(Likeness(OWNER, slots=1, requested=float(limit)))
        assert found is not None
        assert found.median == pytest.approx(usual, rel=0.4), limit


def test_jobs_that_ran_before_had_ended_and_are_others() -> None:
    assert all(job.submitted + job.seconds < 0.0 and job.number < 0 for job in earlier_jobs(1))
    assert [job.seconds for job in earlier_jobs(1)[:9]] != [job.seconds for job in jobs_of(400, 60.0, 1)[:9]]


def test_a_job_requests_its_limit_and_does_not_pass_it() -> None:
    jobs = jobs_of(200, 6.0, 2)
    assert jobs == jobs_of(200, 6.0, 2)
    assert all(f"h_rt={job.requested:.0f}" in command_of(job) for job in jobs)
    assert all(job.requested is not None and 0.0 < job.seconds <= job.requested for job in jobs)
