"""The accounting file is read on from where the last reading ended, even if it is moved, cut or replaced meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.sge.accounting import OLD_NEWS, WORDS, Start, read_on, read_starts

RECORDED = Path(__file__).parent / "recorded" / "accounting" / "starts.txt"


def a_line(job: int, failed: int = 1, host: str = "w1", owner: str = "ann") -> str:
    return f"main.q:{host}:staff:{owner}:true:{job}:sge:0:0:0:0:{failed}:0:0:0.0:NONE\n"


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    file = tmp_path / "accounting"
    file.write_text("# Version: 8.1.9\n")
    return file


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def jobs(starts: tuple[Start, ...]) -> list[int]:
    return [start.job for start in starts]


def test_every_start_has_its_host_owner_job_and_failure() -> None:
    starts = read_starts(RECORDED.read_bytes())
    assert [(start.job, start.words) for start in starts] == [
        (1, "28 : changing to working directory"),
        (2, "26 : opening output file"),
        (3, "27 : searching requested shell"),
        (4, "0"),
        (5, "100 : assumedly after job"),
        (6, "37 : qmaster enforced h_rt, h_cpu, or h_vmem limit"),
        (7, "25 : rescheduling"),
        (8, "1 : assumedly before job"),
    ]
    assert {(start.host, start.owner, start.task) for start in starts} == {("ip-10-1-0-200", "root", 0)}


def test_a_start_of_an_array_task_has_its_task_number() -> None:
    line = RECORDED.read_text().splitlines()[-1].split(":")
    line[35] = "7"
    assert [(start.job, start.task) for start in read_starts(":".join(line).encode())] == [(8, 7)]


def test_a_failure_number_without_a_known_text_is_shown_as_the_number() -> None:
    assert (Start("w1", "ann", 1, 77).words, 77 in WORDS) == ("77", False)


@pytest.mark.parametrize(
    "text", ("", "\n", "# a comment\n", "main.q:w1:staff", "a:b:c:d:e:no number:g:h:i:j:k:0:0\n", "\xff\x00:::\n")
)
def test_lines_that_are_not_records_are_skipped(text: str) -> None:
    assert read_starts(text.encode("latin-1")) == ()


def test_records_written_before_the_first_reading_are_skipped(accounting: Path) -> None:
    append(accounting, a_line(1))
    offset, first = read_on(accounting, None)
    append(accounting, a_line(2))
    assert (first, jobs(read_on(accounting, offset)[1])) == ((), [2])


def test_nothing_is_read_twice(accounting: Path) -> None:
    offset, _ = read_on(accounting, 0)
    append(accounting, a_line(1))
    offset, one = read_on(accounting, offset)
    append(accounting, a_line(2))
    assert (jobs(one), jobs(read_on(accounting, offset)[1])) == ([1], [2])


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(accounting: Path) -> None:
    line = a_line(1)
    append(accounting, line[:-20])
    offset, cut = read_on(accounting, 0)
    append(accounting, line[-20:])
    assert (cut, jobs(read_on(accounting, offset)[1])) == ((), [1])


def test_a_file_that_appears_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "accounting"
    offset, nothing = read_on(file, None)
    file.write_text(a_line(1))
    assert (nothing, jobs(read_on(file, offset)[1])) == ((), [1])


def test_a_file_that_is_missing_for_a_moment_is_not_read_again(accounting: Path) -> None:
    append(accounting, a_line(1))
    offset, _ = read_on(accounting, 0)
    accounting.rename(accounting.with_suffix(".away"))
    offset, _ = read_on(accounting, offset)
    accounting.with_suffix(".away").rename(accounting)
    assert read_on(accounting, offset)[1] == ()


@pytest.mark.parametrize("moved", (True, False), ids=("moved away", "cut to nothing"))
def test_a_rotated_file_is_read_from_its_beginning(accounting: Path, moved: bool) -> None:
    append(accounting, a_line(1) * 3)
    offset, _ = read_on(accounting, 0)
    if moved:
        accounting.rename(accounting.with_suffix(".1"))
    accounting.write_text(a_line(2))
    assert jobs(read_on(accounting, offset)[1]) == [2]


def test_a_copy_with_the_same_lines_is_not_read_again(accounting: Path) -> None:
    append(accounting, a_line(1))
    offset, _ = read_on(accounting, 0)
    copy = accounting.with_suffix(".copy")
    copy.write_bytes(accounting.read_bytes())
    copy.rename(accounting)
    assert read_on(accounting, offset)[1] == ()


def test_a_long_file_is_read_in_parts(accounting: Path) -> None:
    append(accounting, "".join(a_line(job) for job in range(100)))
    offset, readings = 0, 0
    found: list[int] = []
    while readings < 100 and (part := read_on(accounting, offset, most=1000))[0] != offset:
        offset, readings, found = part[0], readings + 1, found + jobs(part[1])
    assert (found, 5 < readings < 10) == (list(range(100)), True)


def test_records_too_far_behind_the_end_of_the_file_are_skipped(accounting: Path) -> None:
    with accounting.open("ab") as opened:
        opened.truncate(OLD_NEWS + 1000)
    append(accounting, "\n" + a_line(1))
    assert jobs(read_on(accounting, 0, most=10_000)[1]) == [1]


def test_a_line_without_an_end_does_not_block_reading(accounting: Path) -> None:
    append(accounting, "x" * 5000)
    offset, _ = read_on(accounting, 0, most=1000)
    later, _ = read_on(accounting, offset, most=1000)
    assert later > offset


def test_a_file_that_cannot_be_read_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        read_on(tmp_path, 0)
