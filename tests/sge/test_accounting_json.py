"""`accounting.jsonl`: an object a line, times in microseconds, as Open Cluster Scheduler writes it from 9 on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoscaler.core.model.evidence import JobFailure
from autoscaler.engine.job_failures import Failures
from autoscaler.sge.accounting import JobEnd, Start, files_of, read_ends, read_on, read_starts, written_last
from autoscaler.store.store import Store

NOW = 10_000.0
FIELDS = {
    "job_number": 45,
    "task_number": 0,
    "start_time": 1_795_252_300_250_000,
    "end_time": 1_795_252_360_000_000,
    "owner": "ann",
    "group": "staff",
    "account": "sge",
    "qname": "main.q",
    "hostname": "W1",
    "department": "defaultdepartment",
    "slots": 2,
    "job_name": 'a "job_number":46, b',
    "priority": 0,
    "submission_time": 1_795_252_000_000_000,
    "submit_cmd_line": "qsub job.sh",
    "category": "-l gpu=2",
    "failed": 0,
    "exit_status": 3,
    "usage": {"rusage": {"ru_wallclock": 59}, "usage": {"wallclock": 59.75}},
}


def line(**changes: object) -> str:
    return json.dumps(FIELDS | changes, separators=(",", ":")) + "\n"


def old_line(job: int, failed: int = 0) -> str:
    return f"main.q:w1:staff:ann:job:{job}:sge:0:1795252000:1795252300:1795252360:{failed}:0:60:0.0:NONE\n"


def write(file: Path, text: str, at: int) -> None:
    """Written at this moment."""
    file.write_text(text)
    os.utime(file, (at, at))


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    return tmp_path / "accounting"


def test_every_start_has_its_host_owner_job_and_failure() -> None:
    text = line() + line(job_number=46, failed=28, task_number=7)
    assert read_starts(text.encode()) == (Start("w1", "ann", 45, 0), Start("w1", "ann", 46, 28, 7))


def test_times_of_a_job_end_are_in_seconds(accounting: Path) -> None:
    write(files_of(accounting)[1], line(job_number=44) + line() + line(job_number=145) + line(job_number=450), 1)
    times = 1795252000.0, 1795252300.25, 1795252360.0
    asked = {"name": str(FIELDS["job_name"]), "category": "-l gpu=2"}
    expected = JobEnd(
        "main.q",
        "w1",
        0,
        *times,
        0,
        3,
        2,
        "ann",
        45,
        "staff",
        "",
        "defaultdepartment",
        "sge",
        False,
        asked["name"],
        "",
        asked["category"],
    )
    assert read_ends(accounting, 45) == (expected,)


def test_a_job_that_never_started_has_no_start_and_end_time(accounting: Path) -> None:
    write(files_of(accounting)[1], line(failed=8, start_time=0, end_time=0), 1)
    (end,) = read_ends(accounting, 45)
    assert (end.started_at, end.ended_at, end.how) == (None, None, "exit status 3, failed: in prolog")


def test_blanks_between_names_and_values_are_allowed(accounting: Path) -> None:
    write(files_of(accounting)[1], json.dumps(FIELDS) + "\n", 1)
    assert len(read_ends(accounting, 45)) == 1


def test_ends_of_a_job_are_read_from_both_files(accounting: Path) -> None:
    write(accounting, old_line(45), 1)
    write(files_of(accounting)[1], line(), 2)
    assert [end.started_at for end in read_ends(accounting, 45)] == [1795252300.0, 1795252300.25]


@pytest.mark.parametrize(
    "broken",
    (
        line()[:-40] + "\n",
        "{}\n",
        "[1]\n",
        "{" * 100_000 + "\n",
        '{"job_number":' + "9" * 5000 + "}\n",
        line(job_number="45"),
        line(job_number=True),
        line(job_number=-45),
        line(hostname=None),
        line(failed=1.5),
        line(failed=[]),
        line(owner={"x": 1}),
    ),
)
def test_a_line_that_is_not_a_record_is_skipped_alone(broken: str) -> None:
    assert [start.job for start in read_starts((line(job_number=1) + broken + line(job_number=2)).encode())] == [1, 2]


@pytest.mark.parametrize("field", ("submission_time", "start_time", "end_time"))
@pytest.mark.parametrize("value", (10**30, -1, "soon", None))
def test_an_impossible_time_in_json_loses_only_its_own_line(accounting: Path, field: str, value: object) -> None:
    write(files_of(accounting)[1], line(**{field: value}) + line(), 1)
    assert len(read_ends(accounting, 45)) == 1


@pytest.mark.parametrize("place", (8, 9, 10))
def test_an_impossible_time_in_the_old_format_loses_only_its_own_line(accounting: Path, place: int) -> None:
    words = old_line(45).split(":")
    words[place] = "9" * 18
    write(accounting, ":".join(words) + old_line(45), 1)
    assert len(read_ends(accounting, 45)) == 1


# -- which file is read on ------------------------------------------------------------------------------------


def test_the_file_that_was_written_last_is_chosen(accounting: Path) -> None:
    assert written_last(accounting) == accounting
    write(files_of(accounting)[1], line(), 5)
    assert written_last(accounting) == files_of(accounting)[1]
    write(accounting, old_line(1), 9)
    assert written_last(accounting) == accounting


def test_reading_of_a_json_file_continues_at_its_offset(accounting: Path) -> None:
    json_file = files_of(accounting)[1]
    write(json_file, line(job_number=1), 1)
    offset, _ = read_on(json_file, None)
    write(json_file, line(job_number=1) + line(job_number=2), 2)
    assert [start.job for start in read_on(json_file, offset)[1]] == [2]


@pytest.fixture
def failures(accounting: Path) -> Failures:
    return Failures(accounting, Store.open(None).starts, lambda: NOW)


def failed(failures: Failures) -> list[int]:
    return [failure.job for failure in failures.table.failures(0)]


def test_failures_are_recorded_when_the_file_appears_after_the_first_reading(
    failures: Failures, accounting: Path
) -> None:
    failures.gather(NOW)
    write(files_of(accounting)[1], line(failed=1), 1)
    failures.gather(NOW + 10)
    assert failures.table.failures(0) == (JobFailure("w1", 45, NOW + 10, "1 : assumedly before job", "ann"),)


def test_after_a_change_of_the_file_format_only_later_failures_are_recorded(
    failures: Failures, accounting: Path
) -> None:
    """The offset in the old file means nothing in the new one, which may be an old copy."""
    write(accounting, old_line(1, failed=1), 1)
    failures.gather(NOW)
    write(files_of(accounting)[1], line(job_number=2, failed=1), 2)
    failures.gather(NOW + 10)
    write(files_of(accounting)[1], line(job_number=2, failed=1) + line(job_number=3, failed=1), 3)
    failures.gather(NOW + 20)
    assert failed(failures) == [3]
