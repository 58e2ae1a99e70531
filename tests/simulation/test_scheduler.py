"""The simulated scheduler follows sge_pe(5), complex(5) and qsub(1): what starts where, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.cluster import ParallelEnvironment
from autoscaler.simulation.cell import CellConfiguration, Weights
from autoscaler.simulation.grid_engine import GridEngine
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.workload import LOCAL, SPREAD, WorkloadJob


class Cell:
    """A simulated Grid Engine without autoscaler; `hosts` are always there."""

    def __init__(self, *hosts: int, **configuration: Any) -> None:
        self.runs: list[Run] = []
        persistent = tuple((f"h{number}", slots) for number, slots in enumerate(hosts, start=1))
        made = CellConfiguration(persistent=persistent)
        self.engine = GridEngine(replace(made, **configuration), 0.0, self.runs.append, lambda _: None)

    def submit(self, *jobs: WorkloadJob) -> Cell:
        for job in jobs:
            self.engine.submit(job)
        self.engine.schedule()
        return self

    def end(self, job: int) -> Cell:
        run = next(run for run in self.runs if run.job.number == job)
        self.runs.remove(run)
        self.engine.end(run)
        self.engine.schedule()
        return self

    @property
    def started(self) -> list[tuple[int, dict[str, int]]]:
        """Jobs in the order of their start, with their slots by host."""
        return [(run.job.number, {host.name: slots for host, slots in run.shares}) for run in self.runs]


def a_job(number: int, slots: int = 1, **job: Any) -> WorkloadJob:
    pe = None if slots == 1 else LOCAL
    return WorkloadJob(
        **{"number": number, "submitted": float(number), "seconds": 60.0, "slots": slots, "pe": pe} | job
    )


def test_the_least_loaded_host_is_filled_first() -> None:
    assert Cell(2, 2).submit(a_job(1), a_job(2)).started == [(1, {"h1": 1}), (2, {"h2": 1})]


def test_with_a_fixed_order_one_host_is_filled_before_the_next() -> None:
    cell = Cell(2, 2, fixed_order=True).submit(a_job(1), a_job(2), a_job(3))
    assert [hosts for _, hosts in cell.started] == [{"h1": 1}, {"h1": 1}, {"h2": 1}]


def test_pe_slots_needs_all_slots_on_one_host() -> None:
    assert Cell(2, 2).submit(a_job(1, 3)).started == []


def test_fill_up_takes_whole_hosts_and_round_robin_one_slot_each() -> None:
    assert Cell(2, 2).submit(a_job(1, 3, pe=SPREAD)).started == [(1, {"h1": 2, "h2": 1})]
    pes = {SPREAD: ParallelEnvironment(SPREAD, 99, "$round_robin")}
    assert Cell(3, 3, pes=pes).submit(a_job(1, 3, pe=SPREAD)).started == [(1, {"h1": 2, "h2": 1})]


def test_a_number_of_slots_for_each_host_is_never_split() -> None:
    pes = {SPREAD: ParallelEnvironment(SPREAD, 99, "2")}
    assert Cell(3, 1, 2, pes=pes).submit(a_job(1, 4, pe=SPREAD)).started == [(1, {"h3": 2, "h1": 2})]


def test_a_small_later_job_starts_where_a_large_earlier_one_does_not_fit() -> None:
    assert [job for job, _ in Cell(2).submit(a_job(1, 4), a_job(2)).started] == [2]


def test_priority_comes_before_the_time_of_submission() -> None:
    assert [job for job, _ in Cell(1).submit(a_job(1), a_job(2, priority=5.0)).started] == [2]


def test_no_more_tasks_run_at_once_than_tc_allows() -> None:
    cell = Cell(4).submit(a_job(1, tasks=3, concurrency=2))
    assert [run.task for run in cell.runs] == [1, 2]
    assert [run.task for run in cell.end(1).runs] == [2, 3]


def test_a_dependent_job_is_listed_and_started_once_its_predecessor_has_ended() -> None:
    cell = Cell(4).submit(a_job(1), a_job(2, after=1))
    assert [job for job, _ in cell.started] == [1]
    assert [job for job, _ in cell.end(1).started] == [2]


@pytest.mark.parametrize(("memory", "started"), (("16G", [1, 2]), ("20G", [1])))
def test_a_consumable_is_taken_a_slot(memory: str, started: list[int]) -> None:
    cell = Cell(consumables=("ram",))
    cell.engine.add_host("w1", 8, {"ram": "64G"}, {})
    cell.engine.change("w1", disabled=False, heard=True)
    jobs = [a_job(number, 2, hard=(("ram", memory),)) for number in (1, 2)]
    assert [job for job, _ in cell.submit(*jobs).started] == started


def test_nothing_starts_on_a_host_that_is_disabled_or_was_not_heard() -> None:
    cell = Cell()
    cell.engine.add_host("w1", 8, {}, {})
    assert cell.submit(a_job(1)).started == []
    cell.engine.change("w1", heard=True)
    assert cell.submit().started == []
    cell.engine.change("w1", disabled=False)
    assert [job for job, _ in cell.submit().started] == [1]


def test_a_host_with_a_job_cannot_be_removed() -> None:
    cell = Cell(1).submit(a_job(1))
    assert not cell.engine.remove_host("h1")
    assert cell.end(1).engine.remove_host("h1")


def test_waiting_jobs_of_one_request_are_one_category() -> None:
    cluster = Cell(1).submit(*(a_job(number, 2) for number in (3, 1, 2)), a_job(4, tasks=7)).engine.cluster()
    (two, seven) = cluster.job_categories
    assert (two.jobs, two.count) == ((1, 2, 3), 3)
    assert (seven.tasks, seven.count) == (("2-7:1",), 6)


def test_an_unchanged_part_of_a_reading_is_the_same_object() -> None:
    cell = Cell(2, 2).submit(a_job(1), a_job(2, 4))
    before, after = cell.engine.cluster(), cell.submit(a_job(3)).engine.cluster()
    assert before.job_categories[0] is after.job_categories[0]
    assert before.hosts[0] is after.hosts[0]
    assert before.hosts[1] is not after.hosts[1]


# Eight jobs on a private cell of Grid Engine 8.1.9, none of which could start, as `qstat -pri` listed them.
ASKED = ((1, 100), (1, 0), (1, -100), (20, 0), (4, -100), (2, 100), (4, 0), (1, 0))
"""Slots and `-p` of jobs 1 to 8."""
LISTED = (
    (Weights(1.0, 0.1, 0.0), [4, 6, 1, 7, 2, 8, 5, 3]),
    (Weights(0.0, 0.5, 0.278), [4, 5, 7, 6, 1, 2, 3, 8]),
)


@pytest.mark.parametrize(("weights", "listed"), LISTED, ids=["as shipped", "of Debian"])
def test_jobs_start_in_the_order_in_which_qstat_listed_them(weights: Weights, listed: list[int]) -> None:
    cell = Cell(100, weights=weights)
    for number, (slots, priority) in enumerate(ASKED, start=1):
        cell.engine.submit(a_job(number, slots, submitted=0.0, priority=float(priority)))
    cell.engine.schedule()
    assert [job for job, _ in cell.started] == listed


# A private cell of Grid Engine 8.1.9 with SIMULATE_EXECDS: where jobs went that were submitted one after the other.
ADDED = (("m5-large-2", 2), ("m5-2xlarge-1", 8), ("m5-2xlarge-10", 8), ("m5-xlarge-3", 4))
"""Hosts with their slots, in this order."""
L2, X1, X10, M3 = (name for name, _ in ADDED)
ONE_AFTER_ANOTHER = [L2, X1, X10, M3, L2, X1, X10, M3, X1, X10, M3]
WITH_AN_END = [X1, X10, M3, X1, L2, X10, X1, L2, X10]
"""After the first had started on m5-large-2, the second on m5-2xlarge-1, the first ended; the fourth took 4 slots."""


def without_loads() -> Cell:
    cell = Cell(loads=False)
    for name, slots in ADDED:
        cell.engine.add_host(name, slots, {}, {})
        cell.engine.change(name, disabled=False, heard=True)
    return cell


def test_hosts_without_load_values_take_turns() -> None:
    cell = without_loads()
    for number in range(1, 12):
        cell.submit(a_job(number))
    assert [next(iter(hosts)) for _, hosts in cell.started] == ONE_AFTER_ANOTHER


def test_a_host_without_load_values_is_last_again_when_a_job_of_it_ends() -> None:
    cell = without_loads().submit(a_job(1)).submit(a_job(2)).end(1)
    for number in range(3, 11):
        cell.submit(a_job(number, 4 if number == 4 else 1))
    assert [next(iter(hosts)) for _, hosts in cell.started] == WITH_AN_END
