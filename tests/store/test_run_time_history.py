"""Estimates read the accounting on from where they were, and `explain` says how long a job will run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.estimates.run_times import Likeness
from autoscaler.report.run_time_estimate import estimate_lines, estimate_part, like_job
from autoscaler.store.run_time_history import RunTimeHistory
from tests.core.building import NOW, a_host, a_job, a_snapshot

ALIGN = Likeness("ann", "align", slots=1, requested=3_600.0)


def line(job: int, seconds: int, *, failed: int = 0, name: str = "align", owner: str = "ann") -> str:
    """A line of `accounting`, as accounting(5) orders its fields."""
    start = 1_700_000_000 + job * 10
    times = (start - 5, start, start + seconds) if failed not in (1, 7, 28) else (start - 5, 0, 0)
    ended = f"{times[0]}:{times[1]}:{times[2]}:{failed}:0:{':'.join(['0'] * 18)}"
    rest = f"defaultdepartment:NONE:1:0:0.0:0.0:0.0:-u {owner} -l h_rt=3600:0.0:NONE:0.0:0:0"
    return f"main.q:host1:users:{owner}:{name}:{job}:sge:0:{ended}:NONE:{rest}\n"


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    file = tmp_path / "accounting"
    file.write_text("".join(line(job, 300 + job) for job in range(1, 21)), encoding="utf-8")
    return file


def test_a_cell_without_accounting_has_no_estimates(tmp_path: Path) -> None:
    assert RunTimeHistory(tmp_path / "accounting").estimate(ALIGN) is None


def test_run_times_come_from_the_accounting_with_owner_name_and_requested_time(accounting: Path) -> None:
    found = RunTimeHistory(accounting).estimate(Likeness("ann", "align", slots=1, requested=3_600.0))
    assert found is not None
    assert 300 < found.low <= found.median <= found.high <= 320
    assert (found.earlier, found.basis) == (20, "owner, name, slots and requested time")


def test_what_is_written_later_is_read_at_the_next_question_and_only_once(accounting: Path) -> None:
    history = RunTimeHistory(accounting)
    before = history.estimate(ALIGN)
    with accounting.open("a", encoding="utf-8") as file:
        file.write(line(30, 900))
    after, again = history.estimate(ALIGN), history.estimate(ALIGN)
    assert before is not None
    assert after is not None
    assert (before.earlier, after.earlier, after) == (20, 21, again)


def test_a_rotated_file_is_read_from_its_beginning(accounting: Path) -> None:
    history = RunTimeHistory(accounting)
    assert history.estimate(ALIGN) is not None
    accounting.rename(accounting.with_suffix(".0"))
    accounting.write_text(line(40, 5_000), encoding="utf-8")
    found = history.estimate(ALIGN)
    assert found is not None
    assert found.earlier == 21


def test_starts_that_never_ran_do_not_count(accounting: Path) -> None:
    with accounting.open("a", encoding="utf-8") as file:
        file.writelines(line(50 + n, 1, failed=28) for n in range(30))
    found = RunTimeHistory(accounting).estimate(ALIGN)
    assert found is not None
    assert found.earlier == 20


def test_starts_after_which_the_job_waits_again_do_not_count(accounting: Path) -> None:
    with accounting.open("a", encoding="utf-8") as file:
        file.writelines(line(50 + n, 30, failed=25) for n in range(30))
    found = RunTimeHistory(accounting).estimate(ALIGN)
    assert found is not None
    assert (found.earlier, found.low > 300) == (20, True)


def test_explain_says_how_long_a_job_will_run_and_what_that_is_based_on(accounting: Path) -> None:
    like = like_job(a_snapshot(a_job(7, hard={"h_rt": "3600"}, owner="ann")), 7)
    assert like == (Likeness("ann", slots=1, requested=3_600.0), 0.0)
    found = RunTimeHistory(accounting).estimate(*like)
    assert found is not None
    (text,) = estimate_lines({"estimate": estimate_part(found)})
    assert text.startswith(
        "it will run for about 5m04s to 5m19s in all, by 20 earlier jobs alike in: owner, slots and requested"
    )
    assert "lately off by a factor of 1." in text


def test_of_a_running_job_the_time_that_it_runs_counts() -> None:
    host = a_host("h1", slots=4, used=1)
    (instance,) = host.instances
    began = replace(instance, jobs=(replace(instance.jobs[0], started=NOW - 90),))
    snapshot = a_snapshot(replace(host, instances=(began,)))
    assert like_job(snapshot, 9000) == (Likeness("ann", queue="main.q", slots=1), 90.0)
    assert like_job(snapshot, 10) is None


def test_without_an_estimate_nothing_is_said() -> None:
    assert list(estimate_lines({"estimate": None})) == []
    alike = {"low_s": 12.1, "high_s": 12.3, "earlier": 4, "like": "owner", "error": None}
    (text,) = estimate_lines({"estimate": alike})
    assert text.startswith("it will run for about 12s in all, by 4 earlier jobs alike")
