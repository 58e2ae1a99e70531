"""A worker that is in use is never removed, however and whenever its use began.

Each time two workers become free together and may leave together: that the other one has left shows that idle time had
passed for both.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

TWO_AT_ONCE = {
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.xlarge",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "2",
    "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE": "2",
}
OF_ITS_OWN = {"qname", "hostlist", "slots"}
Release = Callable[[], object]
Protect = Callable[[Cell, str, str, Until], Release]


def two_busy_workers(autoscaling: Autoscaling, gate: Gate, until: Until) -> dict[str, str]:
    """Two jobs and the worker of four slots that each has to itself, with one slot left."""
    jobs = [gate.submit("-pe", "local", "3") for _ in range(2)]
    until(lambda: all(autoscaling.running_on(job) for job in jobs), 30, "the two jobs did not start")
    return {job: next(iter(autoscaling.running_on(job))) for job in jobs}


def suspend(cell: Cell, job: str, _host: str, _until: Until) -> Release:
    cell.out("qmod", "-sj", job)
    return lambda: cell.out("qmod", "-usj", job)


def occupy_another_queue(cell: Cell, _job: str, host: str, until: Until) -> Release:
    lines = [line for line in cell.out("qconf", "-sq", "main.q").splitlines() if line.split()[0] not in OF_ITS_OWN]
    file, gate = cell.home / "queue", Gate(cell, "other")
    file.write_text("\n".join([*lines, "qname other.q", f"hostlist {host}", "slots 1"]) + "\n")
    cell.out("qconf", "-Aq", str(file))
    gate.submit("-q", "other.q")
    until(lambda: Autoscaling(cell).instances()[f"other.q@{host}"].jobs, message="nothing started in the other queue")
    return gate.open


def reserve(cell: Cell, _job: str, host: str, until: Until) -> Release:
    cell.out("qrsub", "-d", "3600", "-q", f"main.q@{host}")
    until(lambda: Autoscaling(cell).instances()[f"main.q@{host}"].reserved, message="nothing was reserved")
    return lambda: cell.out("qrdel", "1")


@pytest.mark.parametrize(
    "protect",
    (
        pytest.param(suspend, id="a suspended job", marks=pytest.mark.thorough),
        pytest.param(occupy_another_queue, id="a job in another queue", marks=pytest.mark.thorough),
        pytest.param(reserve, id="a reserved slot", marks=pytest.mark.thorough),
    ),
)
def test_a_worker_is_not_removed_while_it_has(
    empty_cell: Cell, until: Until, show_on_failure: Shown, protect: Protect
) -> None:
    autoscaling = Autoscaling(empty_cell, TWO_AT_ONCE)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)

    with autoscaling.running():
        (job, kept), (other_job, other) = two_busy_workers(autoscaling, gate, until).items()
        release = protect(empty_cell, job, kept, until)
        gate.open()
        until(lambda: autoscaling.rented() == {kept}, 30, "the other worker did not leave")
        there = autoscaling.execution_hosts()
        release()
        until(autoscaling.all_gone, 30, "it did not leave when it was free")

    assert there == {kept}
    assert autoscaling.ended_well(job)
    assert autoscaling.ended_well(other_job)
    assert ends_in_order(autoscaling) == [other, kept]


@pytest.mark.thorough
def test_a_job_dispatched_while_its_host_is_disabled_runs_to_its_end(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, {**TWO_AT_ONCE, "PATH": path_with_own(empty_cell)})
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate, late = Gate(empty_cell), Gate(empty_cell, "late")

    with autoscaling.running():
        (_, kept), (_, other) = two_busy_workers(autoscaling, gate, until).items()
        before(empty_cell, "qmod", f"'-d '*'@{kept}'*", start_on(kept, late))
        gate.open()
        until(lambda: autoscaling.rented() == {kept}, 30, "the other worker did not leave")
        (instance,) = autoscaling.instances().values()
        late.open()
        until(autoscaling.all_gone, 30, "it did not leave when it was free")

    assert ("d" in instance.states, [job.number for job in instance.jobs]) == (True, [3])
    assert autoscaling.ended_well("3")
    assert ends_in_order(autoscaling) == [other, kept]


def test_a_host_whose_removal_is_refused_is_restored_and_its_job_runs_to_its_end(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, {**TWO_AT_ONCE, "PATH": path_with_own(empty_cell)})
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate, late = Gate(empty_cell), Gate(empty_cell, "late")

    with autoscaling.running():
        (_, kept), (_, other) = two_busy_workers(autoscaling, gate, until).items()
        steps = f"qmod -e '*@{kept}'\n{start_on(kept, late)}\nqmod -d '*@{kept}'"
        before(empty_cell, "qconf", f"'-dattr hostgroup hostlist '*{kept}*' @allhosts'", steps)
        gate.open()
        until(lambda: "still referenced" in autoscaling.log_text(), 30, "Grid Engine did not refuse")
        until(lambda: autoscaling.rented() == {kept}, 30, "the other worker did not leave")
        instance = autoscaling.instances()[f"main.q@{kept}"]
        late.open()
        until(autoscaling.all_gone, 30, "it did not leave when it was free")

    assert ("d" in instance.states, instance.slots, [job.number for job in instance.jobs]) == (True, 4, [3])
    assert autoscaling.ended_well("3")
    assert ends_in_order(autoscaling) == [other, kept]


def ends_in_order(autoscaling: Autoscaling) -> list[str | None]:
    """Names of the workers in the order of their ends."""
    return [one.name for one in sorted(autoscaling.lifetimes(), key=lambda one: one.ended_at or 0.0)]


def own(cell: Cell) -> Path:
    """Programs that replace Grid Engine's in the PATH."""
    return cell.home / "own"


def path_with_own(cell: Cell) -> str:
    return f"{own(cell)}:{cell.environment['PATH']}"


def before(cell: Cell, program: str, arguments: str, steps: str) -> None:
    """Once, just before the autoscaler calls `program` with these arguments (a shell pattern), do `steps`."""
    real = shutil.which(program, path=cell.environment["PATH"])
    draft = own(cell) / f".{program}"
    draft.parent.mkdir(exist_ok=True)
    draft.write_text(f'#!/bin/sh\ncase "$*" in {arguments}) rm "$0"\n{steps};;\nesac\nexec {real} "$@"\n')
    draft.chmod(0o755)
    draft.rename(own(cell) / program)


def start_on(host: str, gate: Gate) -> str:
    """Shell: submit a job for this host and wait until it is there."""
    return f"qsub -b y -q main.q@{host} {gate.script}\nuntil qstat -u '*' -s r | grep -q {host}; do sleep 0.1; done"
