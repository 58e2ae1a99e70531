"""How a job ended, from Grid Engine's accounting file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.sge.accounting import JobEnd, read_ends, read_on_ends

HEAD = "main.q:w1:root:ann:name:{job}:sge:0:1795252000:{start}:{end}:{failed}:{status}:60:1:1"
REST = ":0" * 15 + ":NONE:defaultdepartment:mpi:2:{task}:0:0:0:NONE:0:NONE:0:0\n"


def line(job: int = 45, *, start: int = 1795252300, failed: int = 0, status: int = 0, task: int = 0) -> str:
    end = start + 60 if start else 0
    return (HEAD + REST).format(job=job, start=start, end=end, failed=failed, status=status, task=task)


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    written = tmp_path / "accounting"
    written.write_text(
        "# Version: 8.1.9\n" + line(44) + line(45, status=3) + line(145) + line(45, failed=8, start=0, task=2)
    )
    return written


def test_every_end_of_the_job_is_read_and_of_no_other_job(accounting: Path) -> None:
    first, second = read_ends(accounting, 45)
    times = 1795252000.0, 1795252300.0, 1795252360.0
    expected = JobEnd("main.q", "w1", 0, *times, 0, 3, 2, "ann", 45, "root", "", "defaultdepartment", "sge")
    assert first == replace(expected, name="name", pe="mpi")
    assert (second.task, second.started_at, second.how) == (2, None, "exit status 0, failed: in prolog")


def test_a_name_in_another_encoding_hides_no_end(tmp_path: Path) -> None:
    written = tmp_path / "accounting"
    written.write_bytes(line(45).replace(":name:", ":na\xefve:").encode("latin-1"))
    assert [end.job for end in read_on_ends(written, 0)[1]] == [45]


def test_a_missing_file_has_no_job_ends(tmp_path: Path) -> None:
    assert read_ends(tmp_path / "accounting", 45) == ()


@pytest.mark.parametrize(
    "broken",
    (
        "45",
        "a:b:c:d:e:45:x:y:z",
        line(45)[:60],
        line(45).replace("1795252000", "soon"),
        line(45).replace("1795252000", "١٧٩٥٢٥٢٠٠٠"),
    ),
)
def test_broken_lines_are_skipped(tmp_path: Path, broken: str) -> None:
    written = tmp_path / "accounting"
    written.write_text(broken + "\n")
    assert read_ends(written, 45) == ()
