"""Unsatisfiable jobs are annotated, held or deleted; all others are left alone, even similar ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.model.memory import Memory
from autoscaler.lab.cell import Cell
from autoscaler.store.store import Store
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.waiting import Until

CALM = {
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "3",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "3600",
    "CP_CAP_AUTOSCALE_DEADLOCK": "kill",
    "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM": "none",
}
"""m5 of up to 96 cores are allowed, and none is launched within the test."""
PASSES = 4
"""One to find it, one to annotate it and (half a minute later) ask, one to delete or hold it, and one more."""


@dataclass(frozen=True)
class Passes:
    """Passes of `sge-autoscaler once`, between which every suspected job gets half a minute older."""

    scaling: Autoscaling

    def once(self) -> dict[str, Any]:
        done = self.scaling.command("once", "--json")
        assert done.returncode == 0, done.stderr.decode()
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def all(self, count: int = PASSES) -> list[dict[str, Any]]:
        made = []
        for _ in range(count):
            made.append(self.once())
            self.age(31.0)
        return made

    def age(self, seconds: float) -> None:
        (file,) = self.scaling.state.glob("*.sqlite")
        store = Store.open(file)
        try:
            memory: Memory = store.memory.load()
            older = {
                job: replace(mark, since=None if mark.since is None else mark.since - seconds)
                for job, mark in memory.unsatisfiable_jobs.items()
            }
            store.memory.save(replace(memory, unsatisfiable_jobs=older), store.memory.saved_at)
        finally:
            store.close()


def kinds(made: Sequence[dict[str, Any]]) -> list[list[tuple[str, list[str]]]]:
    return [[(action["kind"], action.get("jobs", [])) for action in document["actions"]] for document in made]


def waiting(cell: Cell) -> set[str]:
    return {line.split()[0] for line in cell.out("qstat", "-u", "*").splitlines()[2:] if line.strip()}


def context(cell: Cell, job: str) -> str:
    shown = cell.out("qstat", "-j", job)
    return next((line for line in shown.splitlines() if line.startswith("context")), "")


def test_an_unsatisfiable_job_is_annotated_and_deleted_while_others_run(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell, CALM)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(cell), Passes(scaling)
    others = [gate.submit("-pe", "local", "2"), gate.submit("-pe", "local", "2"), gate.submit("-pe", "local", "2")]
    until(lambda: scaling.running_on(others[0]) and scaling.running_on(others[1]))
    unsatisfiable = gate.submit("-pe", "local", "100", "-l", "arch=lx-amd64,mem_free=1G")

    first, second = passes.all(2)
    seen = context(cell, unsatisfiable)
    third, fourth = passes.all(2)

    assert kinds([first, second, third, fourth]) == [
        [],
        [("annotate", [unsatisfiable]), ("ask", [unsatisfiable])],
        [("kill", [unsatisfiable])],
        [],
    ]
    assert (
        "it requests 100 slots on one host; the largest allowed is m5.24xlarge with 96; request `-pe mpi 100`"
    ) in seen
    assert waiting(cell) == set(others)
    assert PROBE_HOST_PREFIX not in cell.out("qconf", "-sel") + cell.out("qconf", "-sq", "main.q")
    (ended,) = [action for action in third["actions"] if action["kind"] == "kill"]
    assert "no suitable queues" in ended["reason"]["text"]


@pytest.mark.thorough
def test_a_job_beyond_the_limits_is_deleted_only_when_no_worker_exists(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """Of 14 cores that are allowed the worker has 8: beside the probe hosts Grid Engine counts 22."""
    scaling = Autoscaling(
        empty_cell, {**CALM, "CP_CAP_AUTOSCALE_MAX_CORES": "14", "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0"}
    )
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(empty_cell), Passes(scaling)
    job = gate.submit("-pe", "local", "8")
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)
    beside = gate.submit("-pe", "mpi", "20")
    found = passes.all()
    why = json.dumps(scaling.explained(beside)["waiting"])
    gate.open()
    until(lambda: scaling.ended_well(job))
    with scaling.running():
        scaling.command("drain", worker)
        until(scaling.all_gone, 40)
    alone = gate.submit("-pe", "mpi", "20")

    assert [("ask", [beside]) in made for made in kinds(found)] == [False, True, False, False]
    assert "ASKED_BESIDE_WORKERS" in why
    killed = [job for document in kinds(passes.all(4)) for kind, jobs in document if kind == "kill" for job in jobs]
    assert killed == [beside, alone]


def test_jobs_not_proven_unsatisfiable_are_left_alone(empty_cell: Cell, show_on_failure: Shown) -> None:
    scaling = Autoscaling(empty_cell, CALM)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(empty_cell), Passes(scaling)
    survivors = [
        gate.submit("-l", "arch=lx-amd64"),
        gate.submit("-l", "mem_free=8G"),
        gate.submit("-l", "mem_total=100G"),
        gate.submit("-l", "num_proc=8"),
        gate.submit("-pe", "mpi", "256"),
        gate.submit("-h", "-pe", "local", "100"),
        gate.submit("-pe", "local", "100", "-l", "h=master"),
        gate.submit("-pe", "local", "100", "-l", "m_topology=SCC"),
        gate.submit("-pe", "local", "100", "-a", "203001010000"),
    ]
    unsatisfiable = gate.submit("-pe", "mpi", "400")
    made = passes.all()
    assert waiting(empty_cell) == set(survivors)
    assert [job for actions in kinds(made) for kind, jobs in actions for job in jobs if kind in ("kill", "hold")] == [
        unsatisfiable
    ]


@pytest.mark.thorough
def test_jobs_beyond_a_quota_and_arrays_with_a_running_task_are_left_alone(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell, CALM)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(cell), Passes(scaling)
    array = gate.submit("-t", "1-3", "-pe", "local", "2")
    until(lambda: sum(scaling.running_on(array).values()) == 4)
    cell.out("qalter", "-pe", "local", "100", array)
    alone = passes.all()
    quota = cell.home / "quota"
    quota.write_text("{\n   name few\n   enabled TRUE\n   limit pes mpi to slots=300\n}\n")
    cell.out("qconf", "-Arqs", str(quota))
    beyond = gate.submit("-pe", "mpi", "400")
    made = passes.all()
    codes = {job: scaling.explained(job)["waiting"][0]["reason"]["code"] for job in (array, beyond)}
    assert (codes, kinds(alone), kinds(made)) == (
        {array: "TOO_LARGE_FOR_ONE_HOST", beyond: "TOO_MUCH_FOR_QUOTA"},
        [[]] * PASSES,
        [[]] * PASSES,
    )


@pytest.mark.thorough
def test_a_job_that_requests_more_than_the_whole_cell_has_is_deleted_even_if_some_is_in_use(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell, CALM)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(cell), Passes(scaling)
    complexes = cell.home / "complexes"
    complexes.write_text(cell.out("qconf", "-sc") + "\nlic lic INT <= YES YES 0 0\n")
    cell.out("qconf", "-Mc", str(complexes))
    cell.out("qconf", "-aattr", "exechost", "complex_values", "lic=3", "global")
    cell.out("qconf", "-rattr", "pe", "slots", "2", "mpi")
    user = gate.submit("-l", "lic=2")
    until(lambda: scaling.running_on(user))
    waits = gate.submit("-l", "lic=3")
    licences, slots = gate.submit("-l", "lic=5"), gate.submit("-pe", "mpi", "4")
    made = passes.all()
    killed = {job for actions in kinds(made) for kind, jobs in actions for job in jobs if kind == "kill"}
    assert (killed, waiting(cell) - {user}) == ({licences, slots}, {waits})
    texts = [
        action["reason"]["text"] for document in made for action in document["actions"] if action["kind"] == "kill"
    ]
    assert any(text.startswith("it requests lic=5; the whole cell has 3") for text in texts)


@pytest.mark.thorough
def test_a_held_unsatisfiable_job_is_released_when_its_owner_requests_less(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell, {**CALM, "CP_CAP_AUTOSCALE_DEADLOCK": "hold"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    passes, job = Passes(scaling), Gate(cell).submit("-pe", "local", "100")
    passes.all()
    held = scaling.explained(job)["waiting"][0]["reason"]["code"]
    cell.out("qalter", "-pe", "local", "2", job)
    passes.once()
    until(lambda: scaling.running_on(job))
    assert held == "UNSATISFIABLE_HELD"


def test_no_job_is_deleted_if_grid_engine_or_the_catalogue_is_unknown(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    qconf = StandIn(cell, "qconf")
    scaling = Autoscaling(cell, {**CALM, "PATH": qconf.path})
    hurried = Autoscaling(cell, {**scaling.settings, "CP_CAP_AUTOSCALE_GRID_ENGINE_TIMEOUT": "2"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate, passes = Gate(cell), Passes(scaling)
    job, mpi = gate.submit("-pe", "local", "100"), gate.submit("-pe", "mpi", "256")
    passes.all(2)  # asked, and proven by now
    qconf.answer(b"")
    blind = scaling.command("once").returncode
    qconf.run_real_program()
    empty = Passes(Autoscaling(cell, {**scaling.settings, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "x9.none"}))
    unknown = empty.all(3)
    cell.stop_qmaster()
    down = hurried.command("once").returncode
    cell.start_qmaster()
    until(lambda: waiting(cell) == {job, mpi})
    after = passes.once()
    assert (blind, down, kinds(unknown), kinds([after])) == (4, 4, [[], [], []], [[]])
