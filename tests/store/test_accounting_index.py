"""The records of a job are found by an index that grows with the accounting file and survives its rotation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from autoscaler.sge.accounting import JobEnd, ends_among
from autoscaler.store import accounting_index
from autoscaler.store.accounting_index import AccountingIndex
from autoscaler.store.database import Database
from tests.sge.test_accounting_json import line as object_line
from tests.sge.test_job_ends import line

BLOCK = 2048
"""Some ten lines, so that a short file has many blocks."""
ALL = 1 << 30


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    written = tmp_path / "common" / "accounting"
    written.parent.mkdir()
    written.write_text("# Version: 8.1.9\n#\n" + "".join(line(job) for job in range(1, 201)))
    return written


@pytest.fixture
def index(accounting: Path, tmp_path: Path) -> Iterator[AccountingIndex]:
    made = opened(accounting, tmp_path)
    yield made
    made.close()


def opened(file: Path, tmp_path: Path, most_blocks: int = 8192) -> AccountingIndex:
    database = Database.open(tmp_path / "index", (accounting_index.TABLES,))
    return AccountingIndex(database, file, BLOCK, most_blocks)


def jobs_found(index: AccountingIndex, *jobs: int) -> list[int]:
    return [job for job in jobs if index.find(job, most=ALL).ends]


def add(file: Path, *jobs: int) -> None:
    with file.open("a") as written:
        written.writelines(line(job) for job in jobs)


def test_every_recorded_job_is_found_and_no_other(index: AccountingIndex) -> None:
    assert jobs_found(index, *range(300)) == [*range(1, 201)]


def test_a_step_indexes_a_bounded_part_newest_first(index: AccountingIndex) -> None:
    newest, oldest = index.find(200, most=BLOCK), index.find(1, most=BLOCK)
    assert (len(newest.ends), newest.unread > 0, oldest.ends, oldest.unread > 0) == (1, True, (), True)


def test_the_file_is_indexed_step_by_step_to_its_beginning(index: AccountingIndex, accounting: Path) -> None:
    left = [index.advance(BLOCK)]
    while left[-1]:
        left.append(index.advance(BLOCK))
        assert left[-1] < left[-2]
    assert len(index.find(1, most=0).ends) == 1


def test_appended_records_are_found_and_nothing_is_read_twice(index: AccountingIndex, accounting: Path) -> None:
    assert jobs_found(index, 201) == []
    for job in range(201, 260):
        add(accounting, job)
        assert jobs_found(index, job) == [job]
    assert index.find(200, most=0).unread == 0
    assert jobs_found(index, *range(1, 260)) == [*range(1, 260)]


def test_another_process_continues_the_index(index: AccountingIndex, accounting: Path, tmp_path: Path) -> None:
    index.advance(ALL)
    second = opened(accounting, tmp_path)
    assert (len(second.find(7, most=0).ends), second.advance(0)) == (1, 0)
    second.close()


def test_an_incomplete_last_line_is_read_once_complete(index: AccountingIndex, accounting: Path) -> None:
    whole = line(777)
    with accounting.open("a") as written:
        written.write(whole[:80])
    assert jobs_found(index, 777) == []
    with accounting.open("a") as written:
        written.write(whole[80:])
    assert jobs_found(index, 777, 200) == [777, 200]


@pytest.mark.parametrize("indexed", (True, False))
def test_a_renamed_file_is_found_under_its_new_name(index: AccountingIndex, accounting: Path, indexed: bool) -> None:
    index.advance(ALL if indexed else BLOCK)
    add(accounting, 500)  # between the last reading and the rotation
    accounting.rename(accounting.with_name("accounting.1"))
    accounting.write_text("")
    add(accounting, 501, 502)
    assert jobs_found(index, 1, 200, 500, 501, 502) == [1, 200, 500, 501, 502]
    accounting.with_name("accounting.1").rename(accounting.with_name("accounting.2"))
    assert jobs_found(index, 1, 502) == [1, 502]


@pytest.mark.parametrize("grown", (0, 400))
def test_a_copied_and_truncated_file_is_found_in_its_copy(index: AccountingIndex, accounting: Path, grown: int) -> None:
    """Also if it has grown beyond its former length since."""
    index.advance(ALL)
    shutil.copy(accounting, accounting.with_name("accounting-20261101"))
    os.truncate(accounting, 0)
    add(accounting, 501, *range(1000, 1000 + grown))
    assert jobs_found(index, 1, 200, 501) == [1, 200, 501]
    assert len(index.find(200, most=ALL).ends) == 1


def test_records_truncated_without_a_copy_are_forgotten(index: AccountingIndex, accounting: Path) -> None:
    index.advance(ALL)
    os.truncate(accounting, 0)
    add(accounting, 501)
    assert jobs_found(index, 1, 200, 501) == [501]


def test_a_deleted_rotated_file_is_forgotten(index: AccountingIndex, accounting: Path) -> None:
    index.advance(ALL)
    accounting.rename(accounting.with_name("accounting.1"))
    add(accounting, 501)
    assert jobs_found(index, 1, 501) == [1, 501]
    accounting.with_name("accounting.1").unlink()
    assert jobs_found(index, 1, 501) == [501]


def test_the_index_is_bounded_and_does_not_read_dropped_parts_again(accounting: Path, tmp_path: Path) -> None:
    index = opened(accounting, tmp_path, most_blocks=5)
    assert index.advance(ALL) == 0
    assert index.advance(ALL) == 0
    assert jobs_found(index, 1, 200) == [200]
    add(accounting, *range(300, 400))
    assert (jobs_found(index, 399), index.advance(ALL)) == ([399], 0)
    index.close()


def test_one_task_of_an_array_is_found_and_of_all_tasks_the_newest_thousand(
    index: AccountingIndex, accounting: Path
) -> None:
    with accounting.open("a") as written:
        written.writelines(line(900, task=task) for task in range(1, 2001))
    assert [end.task for end in index.find(900, 7, most=ALL).ends] == [7]
    assert [end.task for end in index.find(900, most=ALL).ends] == [*range(1001, 2001)]


def test_of_a_very_large_array_only_the_newest_tasks_are_read(
    index: AccountingIndex, accounting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all of them would block every other request."""
    with accounting.open("a") as written:
        written.writelines(line(900, task=task) for task in range(1, 20_001))
    index.advance(ALL)
    read = []

    def counted(lines: Iterable[bytes], job: int, *task: int | None) -> Iterator[JobEnd]:
        every = list(lines)
        read.append(len(every))
        return ends_among(every, job, *task)

    monkeypatch.setattr(accounting_index, "ends_among", counted)
    assert [end.task for end in index.find(900, most=ALL).ends] == [*range(19_001, 20_001)]
    assert sum(read) < 1100


def test_json_records_are_indexed_like_lines(index: AccountingIndex, accounting: Path) -> None:
    accounting.with_name("accounting.jsonl").write_text(object_line(job_number=950) + object_line(job_number=951))
    assert jobs_found(index, 1, 950, 951, 952) == [1, 950, 951]


def test_a_cell_without_accounting_has_no_records(tmp_path: Path) -> None:
    index = opened(tmp_path / "none" / "accounting", tmp_path)
    assert (index.find(1).ends, index.find(1).unread) == ((), 0)
    index.close()


def test_a_line_longer_than_a_block_hides_no_other_record(index: AccountingIndex, accounting: Path) -> None:
    with accounting.open("a") as written:
        written.write("x" * 3 * BLOCK + "\n" + line(960))
    assert jobs_found(index, 200, 960) == [200, 960]
