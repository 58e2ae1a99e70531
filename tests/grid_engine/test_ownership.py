"""What is not ours is left alone: a cell served by another autoscaler, persistent hosts, what a person disabled."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal, machines
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.waiting import Until


def test_a_second_autoscaler_is_refused_until_the_first_is_dead(cell: Cell, until: Until, tmp_path: Path) -> None:
    scaling = Autoscaling(cell)
    elsewhere = Autoscaling(cell, {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path)})
    with scaling.running():
        until(lambda: "serving cell" in scaling.log_text())
        refused = [one.command("run") for one in (scaling, elsewhere)]
        holders = [re.findall(r"process (\d+) on master, since", done.stderr.decode()) for done in refused]
        cell.out("kill", "-KILL", *holders[0])
        started = until(lambda: scaling.command("once").returncode == 0)
    assert ([done.returncode for done in refused], holders[0], started) == ([5, 5], holders[1], True)


@pytest.mark.thorough
def test_persistent_hosts_are_used_first_and_never_changed(cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = Autoscaling(cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, persistent = Gate(cell), {host.name for host in cell.declared}
    fits = gate.submit("-pe", "mpi", "4")
    with scaling.running():
        until(lambda: scaling.running_on(fits))
        until(lambda: "pass 1: " in scaling.log_text())
        rented_for_nothing = machines(scaling)
        more = gate.submit()
        until(lambda: scaling.running_on(more), 40)
        gate.open()
        until(scaling.all_gone, 40)
        states = {instance.host: instance.states for instance in scaling.instances().values()}
    assert rented_for_nothing == []
    assert states == dict.fromkeys(persistent, "")
    assert not [entry for entry in journal(scaling) if entry.host in persistent]
    assert scaling.ended_well(fits)
    assert scaling.ended_well(more)


@pytest.mark.thorough
def test_a_worker_that_a_person_disabled_is_neither_enabled_nor_removed(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    qstat = StandIn(empty_cell, "qstat")
    scaling = Autoscaling(empty_cell, {"PATH": qstat.path})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)
        until(lambda: f"keeping {worker}" in scaling.log_text())  # it has observed that its own enabling took effect
        empty_cell.out("qmod", "-d", f"main.q@{worker}")
        gate.open()
        until(lambda: scaling.ended_well(job))
        calls = len(qstat.calls())
        until(lambda: len(qstat.calls()) > calls + 4, 20)
        (row,) = json.loads(scaling.command("workers", "--json").stdout)["workers"]
        left = (scaling.instances()[f"main.q@{worker}"].states, scaling.rented(), scaling.execution_hosts())
        kinds = [entry.kind for entry in journal(scaling)]
    assert row["reason"]["code"] == Code.DISABLED_BY_HAND
    assert left == ("d", {worker}, {worker})
    assert kinds == ["launch", "enrol", "enable"]


def test_a_queue_of_a_worker_that_a_person_disabled_stays_disabled_and_the_other_serves_until_stop(
    empty_cell: Cell, until: Until, show_on_failure: Shown, tmp_path: Path
) -> None:
    other = empty_cell.out("qconf", "-sq", "main.q").replace("main.q", "other.q")
    (tmp_path / "other.q").write_text(
        re.sub(r"(?m)^(pe_list|slots) .*", lambda found: f"{found[1]} {_OTHER[found[1]]}", other)
    )
    empty_cell.out("qconf", "-Aq", str(tmp_path / "other.q"))
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "1", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "1")

    def states() -> tuple[str, ...]:
        return tuple(instance.states for _, instance in sorted(scaling.instances().items()))

    with scaling.running() as running:
        (worker,) = until(lambda: scaling.running_on(job), 40)
        until(lambda: f"keeping {worker}" in scaling.log_text())  # it knows that its own enabling took effect
        empty_cell.out("qmod", "-d", f"other.q@{worker}")
        scaling.command("drain", worker)
        until(lambda: states() == ("d", "d"), 20)
        scaling.command("drain", "--undo", worker)
        until(lambda: states() == ("", "d"), 20)
        second = gate.submit("-pe", "local", "1")
        until(lambda: scaling.running_on(second))
        scaling.command("stop", "--now", "--no-wait")
        until(lambda: states() == ("d", "d"), 20)
        gate.open()
        status = running.wait(180)
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, set(), set())
    assert (scaling.ended_well(job), scaling.ended_well(second)) == (True, True)


def test_a_worker_joins_although_somebody_adds_a_queue_over_its_host_group_meanwhile(
    empty_cell: Cell, until: Until, show_on_failure: Shown, tmp_path: Path
) -> None:
    late = empty_cell.out("qconf", "-sq", "main.q").replace("main.q", "late.q")
    (tmp_path / "late.q").write_text(re.sub(r"(?m)^slots .*", "slots 0", late))
    qconf = StandIn(empty_cell, "qconf")
    qconf.run_once_after("-rattr?queue?slots?*", f'"$real" -Aq {tmp_path / "late.q"}')  # the last step of an enrolment
    scaling = Autoscaling(empty_cell, {"PATH": qconf.path, "CP_CAP_AUTOSCALE_WORKERS": "1"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40, "the worker did not come into service")
        until(scaling.all_gone, 40, "the worker did not leave")
    assert "late.q" in empty_cell.out("qconf", "-sql").split()
    assert [entry.kind for entry in journal(scaling)][:3] == ["launch", "enrol", "enable"]


_OTHER = {"pe_list": "NONE", "slots": "1"}


def test_after_the_loss_of_the_store_a_worker_is_found_by_its_tag_and_observed_again(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    settings = {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "0", "CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY": "4"}
    scaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "sleep", "1")
    with scaling.running() as first:
        (machine,) = until(lambda: machines(scaling), 40)
        first.terminate()
    shutil.rmtree(scaling.state)
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
        until(scaling.all_gone, 40)
    steps = {entry.kind: entry.pass_number for entry in journal(scaling)}
    assert [one.id for one in machines(scaling)] == [machine.id]
    assert list(steps) == ["enrol", "enable", "disable", "remove", "terminate"]
    assert steps["remove"] >= steps["disable"] + 2
