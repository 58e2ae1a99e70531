"""Which jobs held slots of which worker: from passes and accounting, over restarts, rotation and a lost store."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from autoscaler.errors import StateNotKept
from tests.core.building import NOW
from tests.cost_world import PAYER, CostWorld, Job, Machine, line_of

HOUR = 3600.0
BEN = PAYER._replace(user="ben", project="")


@pytest.fixture
def one_worker(tmp_path: Path) -> CostWorld:
    return CostWorld(tmp_path / "one_worker", [Machine("w1", 0)])


def test_a_running_job_is_charged_for_its_slots_so_far(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, slots=2)]
    one_worker.see(0)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 500_000, "(idle)": 500_000}
    assert one_worker.costs(HOUR, "department") == {"(known when its jobs end)": 500_000, "(idle)": 500_000}


def test_on_a_worker_without_known_slots_a_job_is_charged_for_all(one_worker: CostWorld) -> None:
    one_worker.machines, one_worker.jobs = [Machine("w1", 0, slots=0)], [Job(1, "w1", 0)]
    one_worker.see(0)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 1_000_000}


def test_an_unreadable_job_is_not_charged(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(0, "w1", 0, slots=4)]
    one_worker.see(0)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"(idle)": 1_000_000}


def test_after_a_failed_write_the_owner_of_a_job_is_stored_again(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, slots=2)]
    with contextlib.suppress(StateNotKept), one_worker.store.database.transaction():
        one_worker.see(0)
        raise StateNotKept("the disk is full")
    one_worker.jobs = [Job(2, "w1", 0, slots=1, payer=BEN), Job(1, "w1", 0, slots=2)]
    one_worker.see(1)
    one_worker.see(HOUR)
    costs = one_worker.costs(HOUR)
    assert (costs["ann"], costs["ben"]) == (500_000, 250_000)


def test_an_ended_job_is_charged_until_its_end_in_accounting(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, HOUR / 2, slots=4)]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 500_000, "(idle)": 500_000}
    assert one_worker.costs(HOUR, "department") == {"physics": 500_000, "(idle)": 500_000}
    assert one_worker.costs(HOUR, "project") == {"wind": 500_000, "(idle)": 500_000}


def test_jobs_that_no_pass_observed_come_from_accounting(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(number, "w1", number * 10.0, number * 10.0 + 9, slots=4) for number in range(1, 101)]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 250_000, "(idle)": 750_000}
    assert len(one_worker.report(HOUR, "job").tables[0].rows) == 100


def test_a_part_of_a_parallel_job_that_has_its_own_record_is_not_charged_again(one_worker: CostWorld) -> None:
    """A tightly integrated job leaves a record of each task that it started, beside that of the whole job."""
    job = Job(5, "w1", 0, HOUR, slots=2)
    one_worker.see(0)
    part = line_of(job).replace(":0.0:NONE:0.0:0:0", ":0.0:1.w1:0.0:0:0")
    assert part != line_of(job)
    one_worker.accounting.write_text(part)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"(idle)": 1_000_000}


def test_tasks_of_an_array_are_rows_of_their_own_or_one_row(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(7, "w1", 0, HOUR, slots=1, task=task) for task in (1, 2)]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR, "job") == {"7.1": 250_000, "7.2": 250_000, "(idle)": 500_000}
    assert one_worker.costs(HOUR, "array") == {"7": 500_000, "(idle)": 500_000}


def test_a_parallel_job_is_charged_on_each_host_for_its_slots_there(one_worker: CostWorld) -> None:
    """Accounting names one host, with the slots of all hosts."""
    one_worker.machines.append(Machine("w2", 0))
    one_worker.jobs = [Job(1, "w1", 0, HOUR / 2, slots=1, others=(("w2", 3),))]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 125_000 + 375_000, "(idle)": 1_500_000}


def test_a_job_that_ran_twice_on_its_host_is_charged_for_both_times(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, 900, slots=4)]
    one_worker.see(0)
    one_worker.jobs.append(Job(1, "w1", 1800, 2700, slots=4))
    one_worker.see(1800)  # accounting is late
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 500_000, "(idle)": 500_000}


def test_a_job_missing_from_accounting_is_charged_until_it_was_last_observed(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, 1000, slots=4)]
    for at in (0, 900, 1800, HOUR):
        one_worker.see(at)
    assert one_worker.costs(HOUR) == {"ann": 250_000, "(idle)": 750_000}


def test_later_jobs_do_not_change_the_charge_of_one_observed_before(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, 1000, slots=4), Job(2, "w1", 1800, payer=BEN), Job(3, "w1", 2700, payer=BEN)]
    for at in (0, 900, 1800, 2700, HOUR):
        one_worker.see(at)
    assert one_worker.costs(HOUR) == {"ann": 250_000, "ben": 125_000 + 62_500, "(idle)": 562_500}


def test_another_process_continues_the_accounting(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(1, "w1", 0, 900, slots=4), Job(2, "w1", 900, slots=4, payer=BEN)]
    one_worker.see(0)
    one_worker.account(1800)  # while no process runs
    one_worker.restart()
    one_worker.see(1800)
    one_worker.restart()
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == {"ann": 250_000, "ben": 750_000}


def test_after_a_lost_store_living_workers_are_charged_from_their_launch(
    one_worker: CostWorld,
) -> None:
    one_worker.machines.append(Machine("w2", 0, 1000))
    one_worker.jobs = [Job(1, "w1", 0, 900, slots=4), Job(2, "w2", 0, 900, slots=4)]
    one_worker.see(0)
    one_worker.see(1000)
    one_worker.account(1800)
    one_worker.see(1800)
    assert one_worker.costs(HOUR)["ann"] == 250_000 + 249_999
    one_worker.restart(lost=True)
    one_worker.see(1800)  # w2 had ended by then
    assert one_worker.costs(HOUR) == {"ann": 250_000, "(starting)": 250_000, "(idle)": 500_000}
    assert one_worker.report(HOUR).known_since == NOW + 1800


def test_a_worker_lost_between_distant_passes_has_uncertain_cost(one_worker: CostWorld) -> None:
    one_worker.machines = [Machine("w1", 0, 1000)]
    one_worker.see(0)
    one_worker.see(900)
    one_worker.see(HOUR)
    report = one_worker.report(HOUR)
    assert (report.tables[0].total.cost, report.unseen) == (1_000_000, 750_000)


def test_a_reused_host_name_is_another_worker(one_worker: CostWorld) -> None:
    one_worker.machines = [Machine("w1", 0, 900), Machine("w1", 1000, id="i-second")]
    one_worker.jobs = [Job(1, "w1", 0, 800, slots=4), Job(2, "w1", 1100, 1900, slots=4, payer=BEN)]
    for at in (0, 900, 1000):
        one_worker.see(at)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR, "worker") == {"i-w1": 250_000, "i-second": 722_222}
    assert one_worker.costs(HOUR) == {"ann": 222_222, "ben": 222_222, "(idle)": 527_778}


@pytest.mark.parametrize("how", ("renamed", "copied", "renamed twice"))
def test_rotated_accounting_is_read(one_worker: CostWorld, how: str) -> None:
    one_worker.jobs = [Job(number, "w1", number * 100.0, number * 100.0 + 90, slots=4) for number in range(1, 9)]
    one_worker.see(0)
    one_worker.account(200)
    one_worker.see(200)
    file, old = one_worker.accounting, one_worker.accounting.with_name("accounting.1")
    one_worker.account(400)  # unread
    if how == "copied":
        shutil.copy2(file, old)
        os.truncate(file, 0)
    else:
        file.rename(old)
        file.touch()
    one_worker.account(600)
    if how == "renamed twice":
        old.rename(one_worker.accounting.with_name("accounting.2"))
        file.rename(old)
        file.touch()
        os.utime(old, (NOW, NOW))
        os.utime(one_worker.accounting.with_name("accounting.2"), (NOW - 9, NOW - 9))
    one_worker.account(900)
    for _ in range(6):
        one_worker.see(900)
    assert one_worker.costs(900) == {"ann": 200_000, "(idle)": 50_000}


def test_records_read_twice_count_once(one_worker: CostWorld) -> None:
    one_worker.machines.append(Machine("w2", 0))
    one_worker.jobs = [Job(1, "w1", 0, HOUR / 2, slots=1, others=(("w2", 3),))]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    before = one_worker.costs(HOUR)
    one_worker.store.database.execute("UPDATE usage_marks SET inode = NULL")
    one_worker.restart()
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR) == before


def test_a_worker_of_unknown_price_is_reported_and_costs_once_its_price_is_known(one_worker: CostWorld) -> None:
    one_worker.machines = [Machine("w1", 0, price=None)]
    one_worker.see(0)
    report = one_worker.report(HOUR)
    assert (report.tables, report.unpriced.workers, report.unpriced.rented_ms) == ([], 1, 3_600_000)
    one_worker.machines = [Machine("w1", 0, price=0.5)]
    one_worker.see(10)
    assert one_worker.costs(HOUR) == {"(idle)": 500_000}


def test_a_record_with_absurd_numbers_is_skipped(one_worker: CostWorld) -> None:
    one_worker.see(0)
    with one_worker.accounting.open("a") as file:
        for job in (Job(9 * 10**18, "w1", 0, 900), Job(10**19 - 1, "w1", 0, 900), Job(1, "w1", 0, 900, 10**15)):
            file.write(line_of(job))
        file.write(line_of(Job(1, "w1", 0, 900, task=10**18)))
    one_worker.jobs = [Job(7, "w1", 0, HOUR, slots=4)]
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    assert one_worker.costs(HOUR, "job") == {"7": 1_000_000}


def test_old_usage_is_forgotten(one_worker: CostWorld) -> None:
    one_worker.machines = [Machine("w1", 0, 1000), Machine("w2", 0)]
    one_worker.jobs = [Job(1, "w1", 0, 900, slots=4), Job(2, "w2", 0, 900, slots=4)]
    one_worker.see(0)
    one_worker.account(1000)
    one_worker.see(1000)
    one_worker.store.forget_old(NOW + 40 * 86400, 35 * 86400.0)
    assert one_worker.costs(1000, "worker") == {"i-w2": 277_777}
    assert one_worker.costs(1000) == {"(idle)": 277_777}
    rows = [one_worker.store.database.rows(f"SELECT * FROM {table}") for table in ("usages", "payers")]
    assert rows == [[], []]


def test_beyond_the_maximum_the_oldest_usages_are_forgotten(one_worker: CostWorld) -> None:
    one_worker.jobs = [Job(number, "w1", number * 10.0, number * 10.0 + 9, slots=4) for number in range(1, 101)]
    one_worker.see(0)
    one_worker.account(HOUR)
    one_worker.see(HOUR)
    one_worker.store.usages.forget(0.0, most=40)
    assert {int(key) for key in one_worker.report(HOUR, "job").tables[0].rows} == set(range(61, 101))
    assert one_worker.report(HOUR).known_since == NOW + 609
