"""Reading workloads: what each format says is kept, what it does not say is stated, and a damaged one is an error."""

from __future__ import annotations

import gzip
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from autoscaler.sge.accounting_category import fields_of, read_category
from autoscaler.simulation.accounting import AccountingOptions, read_accounting
from autoscaler.simulation.generated import Generated, generate
from autoscaler.simulation.swf import SwfOptions, read_swf
from autoscaler.simulation.workload import LOCAL, SPREAD, Workload, WorkloadError, WorkloadJob
from tests.simulation.playing import a_workload

SWF = """; UnixStartTime: 1400000000
; MaxJobs: 4
 1  0  5  100  4  -1 -1  4  3600 2097152 1 7 3 2 1 -1 -1 -1
 2 10  5   -1  4  -1 -1  4  3600      -1 0 7 3 2 1 -1 -1 -1
 3 20  5   60  1  -1 -1 -1    -1      -1 1 8 3 2 1 -1  1 -1
 4 30  5   60 64  -1 -1 64    -1      -1 1 8 3 2 1 -1 -1 -1
"""
LINE = (
    "main.q:{host}:users:{owner}:{name}:{job}:sge:0:{submit}:{start}:{end}:0:0:1.5:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:"
    "{project}:defaultdepartment:{pe}:{slots}:0:1.0:0.0:0.0:{category}:0.000000:{part}:0.0:0:0"
)


def a_line(job: int, submit: int, start: int, end: int, **fields: object) -> str:
    values = {"host": "w1", "owner": "ann", "name": "sim", "project": "NONE", "pe": "NONE", "slots": 1, "part": "NONE"}
    times = {"job": job, "submit": submit, "start": start, "end": end, "category": "NONE"}
    return LINE.format(**values | times | fields)


def accounting_of(path: Path, *lines: str, **options: Any) -> Workload:
    (path / "accounting").write_text("# a comment\n" + "\n".join(lines) + "\n")
    return read_accounting(path / "accounting", AccountingOptions(16, **options))


def test_a_standard_workload_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.swf"
    file.write_text(SWF)
    read = read_swf(file, SwfOptions(16, memory_complex="ram"))
    first, third, fourth = read
    assert (read.started_at, read.expected) == (1_400_000_000.0, 4)
    assert first == WorkloadJob(
        1, 0.0, 100.0, 4, LOCAL, (("ram", "2097152K"),), owner="user7", project="group3", name="app2", requested=3600.0
    )
    assert (third.slots, third.pe, third.after) == (1, None, 1)
    assert (fourth.number, fourth.pe) == (4, SPREAD)


def test_a_compressed_workload_is_read_alike(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.swf", tmp_path / "b.swf.gz"
    plain.write_text(SWF)
    packed.write_bytes(gzip.compress(SWF.encode()))
    assert list(read_swf(packed, SwfOptions(16))) == list(read_swf(plain, SwfOptions(16)))


@pytest.mark.parametrize(
    ("text", "message"),
    (
        (SWF + " 5 40 5 60\n", "line 7: 4 columns instead of 18"),
        (SWF.replace("100", "fast"), "line 3: could not convert"),
        (SWF.replace(" 3 20", " 3 -1").replace(" 4 30", " 4 -1").replace(" 1  0", " 1 99"), "sort the workload"),
    ),
)
def test_a_damaged_workload_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.swf"
    file.write_text(text)
    with pytest.raises(WorkloadError, match=message):
        list(read_swf(file, SwfOptions(16)))


def test_a_workload_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.swf.gz"
    file.write_bytes(gzip.compress(SWF.encode())[:-12])
    with pytest.raises(WorkloadError, match="whole"):
        list(read_swf(file, SwfOptions(16)))


def test_accounting_is_read_in_the_order_of_submission(tmp_path: Path) -> None:
    read = accounting_of(tmp_path, a_line(2, 1100, 1200, 1300), a_line(1, 1000, 1250, 1400, project="crash"))
    first, second = read
    assert (first.submitted, first.seconds, first.project, first.owner, first.name) == (
        0.0,
        150.0,
        "crash",
        "ann",
        "sim",
    )
    assert (second.submitted, second.seconds) == (100.0, 100.0)
    assert read.recorded["mean_wait"] == 175.0


def test_accounting_tells_what_a_job_asked_for(tmp_path: Path) -> None:
    category = "-U staff -l h_rt=1:30:00,ram=4G -pe mpi 4-8 -P crash -q main.q"
    read = accounting_of(tmp_path, a_line(1, 1000, 1010, 1020, slots=8, pe="mpi", category=category), requests=("ram",))
    (job,) = read
    assert (job.hard, job.pe, job.slots) == ((("ram", "4G"),), SPREAD, 8)


def test_of_a_rescheduled_job_the_last_start_counts_and_parts_of_parallel_jobs_do_not(tmp_path: Path) -> None:
    (job,) = accounting_of(
        tmp_path,
        a_line(1, 1000, 1010, 1020),
        a_line(1, 1000, 1100, 1500),
        a_line(1, 1000, 1100, 1500, part="1.w2"),
        a_line(9, 1000, 0, 0),
    )
    assert job.seconds == 400.0


def test_a_file_that_is_no_accounting_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(WorkloadError, match="no record of a job"):
        read_accounting(tmp_path / "x", AccountingOptions(16))
    with pytest.raises(WorkloadError, match="cannot read the accounting file"):
        read_accounting(tmp_path / "missing", AccountingOptions(16))


def test_requests_without_a_value_are_true() -> None:
    assert read_category("-l gpu,h_rt=60").hard == (("gpu", "TRUE"), ("h_rt", "60"))
    assert read_category("NONE").hard == ()


def test_generated_jobs_depend_on_the_seed_alone() -> None:
    assert list(a_workload(seed=4)) == list(a_workload(seed=4)) != list(a_workload(seed=5))


def test_generated_jobs_come_within_their_days_and_are_not_all_in_memory() -> None:
    made = generate(Generated(20_000, 3, 16, days=365.0))
    tracemalloc.start()
    last = deque(iter(made), maxlen=1).pop()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 360 * 86_400 < last.submitted < 365 * 86_400
    assert most < 64 * 20_000
    assert last.number == made.expected == 20_000
    assert last == list(made)[-1]


CATEGORIES = (
    "-l h_rt=600",
    "-l h_rt=1:30:00",
    "-l h_rt=0:10:0",
    "-l h_rt=1:30:00,ram=4G -pe mpi 4",
    "-pe mpi 4 -l h_rt=1:0:0 -q main.q",
    "-U staff",
    "NONE",
)


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("iow", ("0", "0.000000", "12.5"))
@pytest.mark.parametrize("part", ("NONE", "1.w2", "1.10.0.0.7"))
def test_a_category_ends_where_the_fields_behind_it_are(category: str, iow: str, part: str) -> None:
    line = a_line(1, 1000, 1010, 1020, category=category, part=part).replace(":0.000000:", f":{iow}:", 1)
    words = fields_of(line)
    assert words[39:42] == [category, iow, part]
    assert len(words) == 45


def test_what_accounting_has_and_no_job_plays_is_counted(tmp_path: Path) -> None:
    read = accounting_of(
        tmp_path,
        a_line(1, 1000, 1010, 1020),
        a_line(1, 1000, 1100, 1500),
        a_line(1, 1000, 1100, 1500, part="1.w2"),
        a_line(8, 1000, 0, 0),
        a_line(9, 1000, 0, 0),
        "hello",
        "",
    )
    assert len(list(read)) == 1
    assert read.said[-1] == (
        "Left out: starts that failed before the job ran (2), lines that are no whole record (1), "
        "starts of tasks that were rescheduled (1)."
    )


def test_jobs_of_a_standard_workload_that_never_ran_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.swf"
    file.write_text(SWF)
    read = read_swf(file, SwfOptions(16))
    assert len(list(read)) == 3
    assert read.said[-1] == "Left out: jobs of run time 0 or unknown, or of no processors (1)."
    file.write_text(SWF.replace("   -1  4", "   9  4"))
    whole = read_swf(file, SwfOptions(16))
    assert len(list(whole)) == 4
    assert whole.said == whole.assumptions


def test_second_0_is_the_first_job(tmp_path: Path) -> None:
    file = tmp_path / "a.swf"
    file.write_text(SWF.replace(" 1  0", " 1  7"))
    read = read_swf(file, SwfOptions(16))
    read.begin_with_first_job()
    assert [job.submitted for job in read] == [0.0, 13.0, 23.0]
    assert read.started_at == 1_400_000_007.0
