"""Groups of workers on a real cell: an MPI job has all its hosts in one group, groups are launched and removed as a
whole, and nothing of them is left in Grid Engine.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autoscaler.core.model.request_sets import ArrayDefinition, Target
from autoscaler.lab.cell import Cell
from autoscaler.sge.admin import Administrator
from autoscaler.sge.groups import Groups
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.test_requests import serving, written
from tests.grid_engine.test_sigkill import STARTED_AGAIN
from tests.grid_engine.waiting import Shown, Until

IN_GROUPS = {"CP_CAP_AUTOSCALE_GROUP_PES": "mpi", "CP_CAP_AUTOSCALE_WORKERS": "4"}
"""Two groups of two workers of two slots each."""


def prepare(autoscaling: Autoscaling, *more: str) -> None:
    """As an operator does: the queue itself no longer offers the PE of groups."""
    done = autoscaling.command("init", "--yes", "--apply", "main.q", *more)
    assert done.returncode == 0, done.stderr.decode()
    assert "mpi" not in pe_list(autoscaling.cell)[0]


def pe_list(cell: Cell) -> list[list[str]]:
    """The queue's parallel environments: those of all its hosts, then those of each host group."""
    joined = cell.out("qconf", "-sq", "main.q").replace("\\\n", " ")
    (line,) = (line for line in joined.splitlines() if line.startswith("pe_list"))
    return [part.strip("[]").split() for part in line.removeprefix("pe_list").strip().split(",")]


def groups_left(cell: Cell) -> list[str]:
    """Host groups and parallel environments of groups, and what the queue has for them."""
    named = [*cell.out("qconf", "-shgrpl").split(), *cell.out("qconf", "-spl").split()]
    return [name for name in named if "execute" in name] + [" ".join(words) for words in pe_list(cell)[1:]]


def hosts_of(file: Path) -> set[str]:
    """The hosts of a copied PE_HOSTFILE."""
    return {line.split()[0] for line in file.read_text().splitlines()}


def submit_mpi(cell: Cell, name: str, gate: Gate) -> tuple[str, Path]:
    """A job of four slots that copies its PE_HOSTFILE, in one step, and runs until the gate opens."""
    script, hostfile = cell.home / name, cell.output / f"{name}.hosts"
    script.write_text(f"#!/bin/sh\ncat $PE_HOSTFILE > {hostfile}.new\nmv {hostfile}.new {hostfile}\n. {gate.script}\n")
    script.chmod(0o755)
    return cell.submit("-b", "y", "-pe", "mpi*", "4", str(script)), hostfile


def test_each_mpi_job_has_all_its_hosts_in_one_group_and_groups_leave_as_a_whole(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, IN_GROUPS)
    show_on_failure["autoscaler"] = autoscaling.log_text
    prepare(autoscaling)
    gate = Gate(empty_cell)
    first, second, third = (submit_mpi(empty_cell, name, gate) for name in ("one", "two", "three"))

    with autoscaling.running():
        until(lambda: first[1].exists() and second[1].exists(), 30, "two jobs did not start")
        groups = [set(autoscaling.running_on(job)) for job, _ in (first, second)]
        assert [len(hosts) for hosts in groups] == [2, 2]
        assert groups[0].isdisjoint(groups[1])
        assert [hosts_of(file) for _, file in (first, second)] == groups
        assert len(groups_left(empty_cell)) == 6
        gate.open()
        until(lambda: autoscaling.ended_well(third[0]), 30, "the third job did not end well")
        until(autoscaling.all_gone, 40, "the groups did not leave")
        assert hosts_of(third[1]) in groups
        until(lambda: not groups_left(empty_cell), 30, "something of the groups is left")

    assert len(autoscaling.lifetimes()) == 4


@pytest.mark.thorough
def test_a_removal_of_a_group_that_is_killed_leaves_nothing_of_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    before = StandIn(empty_cell, "qconf")
    autoscaling = Autoscaling(empty_cell, {**IN_GROUPS, "PATH": before.path})
    show_on_failure["autoscaler"] = autoscaling.log_text
    prepare(autoscaling)
    before.kill_caller_around("-dp*")
    gate = Gate(empty_cell)
    job, hostfile = submit_mpi(empty_cell, "one", gate)
    gate.open()

    with empty_cell.start(STARTED_AGAIN, env=autoscaling.environment, output=autoscaling.log):
        until(lambda: autoscaling.ended_well(job), 40, "the job did not end well")
        until(autoscaling.all_gone, 40, "the group did not leave")
        until(lambda: not groups_left(empty_cell), 30, "something of the group is left")

    assert before.killed() == {"before", "after"}
    assert hosts_of(hostfile) == {str(one.name) for one in autoscaling.lifetimes()}
    assert len(autoscaling.lifetimes()) == 2


def test_a_partially_launched_group_is_terminated_and_the_next_type_is_tried(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """The cloud has only one machine: two of m5.large are not available, one of m5.xlarge is."""
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_LOCAL_MAX_MACHINES": "1"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    target = Target("execute:4", groups=1, group_cores=4)
    types = ("m5.large", "m5.xlarge")
    array = ArrayDefinition("execute:4", dynamic=True, extends="execute", machine_types=types, group_cores=4)

    with autoscaling.running():
        until(lambda: list(autoscaling.state.glob("*.sqlite")), 15, "the autoscaler did not start")
        with written(autoscaling) as store:
            store.requests.update("standard", "ann", time.time(), None, [target], [array])
        until(lambda: list(serving(autoscaling).values()) == [4], 30, "no complete group was launched")
        values = empty_cell.out("qhost", "-F", "group_id")

    lives = autoscaling.lifetimes()
    assert [life.instance_type for life in lives] == ["m5.large", "m5.xlarge"]
    assert lives[0].joined_at is None
    assert lives[0].ended_at is not None
    assert "hf:group_id=execute:4-" in values


def test_a_group_that_a_waiting_job_still_requests_is_swept_later(cell: Cell) -> None:
    """Grid Engine deletes no parallel environment that a waiting job's request matches."""
    groups = Groups(Administrator(cell.runner))
    groups.prepare("execute:4-1", queue="main.q", host_group="@allhosts", pes=("mpi",))
    job = cell.submit("-h", "-b", "y", "-pe", "mpi*", "400", "/bin/true")

    (refusal,) = groups.clear("execute:4-1")

    assert f"still referenced in job {job}" in refusal
    assert groups_left(cell) == ["@sge-autoscaler-execute_4-1", "mpi_execute_4-1"]
    cell.out("qdel", job)
    assert groups.sweep() == ()
    assert groups.swept
    assert groups_left(cell) == []


def test_a_group_prepared_twice_is_as_prepared_once(cell: Cell) -> None:
    groups = Groups(Administrator(cell.runner))
    for _ in range(2):
        groups.prepare("execute:4-1", queue="main.q", host_group="@allhosts", pes=("mpi",))

    assert pe_list(cell)[1:] == [["@sge-autoscaler-execute_4-1=local", "mpi_execute_4-1"]]
    assert cell.out("qconf", "-sc").count("\ngroup_id ") == 1


def test_with_the_verifier_a_job_that_requests_the_plain_pe_may_run_in_any_group(cell: Cell) -> None:
    autoscaling = Autoscaling(cell, IN_GROUPS)
    prepare(autoscaling, "--jsv")
    assert autoscaling.command("once").returncode == 0

    cell.submit("-h", "-b", "y", "-pe", "mpi", "4-8", "true")
    cell.submit("-h", "-b", "y", "-pe", "local", "2", "true")

    asked = [line.split()[2:] for line in cell.out("qstat", "-r").splitlines() if "Requested PE" in line]
    assert asked == [["mpi*", "4-8"], ["local", "2"]]
