"""`init` on a real Grid Engine that was just installed: one run creates everything, the next has nothing to do."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Completed
from tests.grid_engine.test_leaving import configuration

COMMAND = (sys.executable, "-m", "autoscaler.commands.main", "init")


@pytest.fixture
def bare_cell(cell_session: Cell) -> Cell:
    """The worker's cell as just installed: no host, queue, host group, PE or submit host."""
    bare = replace(cell_session, declared=(), prepared=False)
    bare.reset()
    return bare


def init(cell: Cell, state: Path, *options: str, **settings: str) -> Completed:
    environment = {**cell.environment, "CP_CAP_AUTOSCALE_WORKDIR": str(state), **settings}
    return cell.runner((*COMMAND, *options), timeout=120.0, env=environment)


def undone(cell: Cell, state: Path, **settings: str) -> list[str]:
    document = json.loads(init(cell, state, "--json", **settings).stdout)
    return [difference["name"] for difference in document["differences"] if not difference["done"]]


def test_init_creates_nothing_without_confirmation(bare_cell: Cell, tmp_path: Path) -> None:
    completed = init(bare_cell, tmp_path)
    assert (completed.returncode, bare_cell.runner(("qconf", "-sql"), timeout=60.0).stdout) == (1, b"")


def test_a_second_run_finds_nothing_to_do(bare_cell: Cell, tmp_path: Path) -> None:
    assert init(bare_cell, tmp_path, "--yes").returncode == 0
    assert undone(bare_cell, tmp_path) == []


def test_the_slots_of_the_master_are_as_configured(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="3", CP_CAP_SGE_WORKER_FREE_CORES="1")
    assert "slots                 0,[master=2]" in bare_cell.out("qconf", "-sq", "main.q")


def test_a_master_without_cores_has_no_slots(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    assert "main.q@master                  BIP   0/0/0" in bare_cell.out("qstat", "-f")


def test_jobs_may_request_a_prepared_queue_without_workers(bare_cell: Cell, tmp_path: Path) -> None:
    """A queue without any instance is unknown to `qsub -q`, so nothing would ever be launched for it."""
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0", CP_CAP_SGE_QUEUE_NAME_1="second.q")
    assert bare_cell.submit("-b", "y", "-q", "second.q", "true")


def test_an_existing_queue_is_changed_only_by_name_and_saved_before(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    bare_cell.out("qconf", "-rattr", "queue", "pe_list", "local", "main.q")
    before = bare_cell.out("qconf", "-sq", "main.q")
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    assert bare_cell.out("qconf", "-sq", "main.q") == before
    init(bare_cell, tmp_path, "--apply", "main.q", CP_CAP_SGE_MASTER_CORES="0")
    assert undone(bare_cell, tmp_path, CP_CAP_SGE_MASTER_CORES="0") == []
    assert [file.read_text() for file in tmp_path.rglob("queue-main.q.txt")] == [before]


def test_a_name_that_is_not_prepared_is_a_usage_error(bare_cell: Cell, tmp_path: Path) -> None:
    assert init(bare_cell, tmp_path, "--apply", "nope").returncode == 2


# -- undo --------------------------------------------------------------------------------------------------------------


def test_what_init_made_is_taken_back_to_the_byte(bare_cell: Cell, tmp_path: Path) -> None:
    before = configuration(bare_cell)
    assert init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="2").returncode == 0
    assert init(bare_cell, tmp_path, "--apply", "main.q", CP_CAP_SGE_MASTER_CORES="3").returncode == 0
    assert configuration(bare_cell) != before
    taken_back = init(bare_cell, tmp_path, "--undo", "--yes")
    assert (taken_back.returncode, configuration(bare_cell)) == (0, before), taken_back.stdout.decode()
    again = init(bare_cell, tmp_path, "--undo", "--yes")
    assert (again.returncode, b"nothing to do" in again.stdout) == (0, True)


def test_what_was_there_before_or_was_changed_since_is_left_alone(bare_cell: Cell, tmp_path: Path) -> None:
    bare_cell.out("qconf", "-as", "master")
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    bare_cell.out("qconf", "-mattr", "pe", "slots", "7", "mpi")
    document = json.loads(init(bare_cell, tmp_path, "--undo", "--yes", "--json").stdout)
    assert [(each["name"], each["why"]) for each in document["left"]] == [("mpi", "it was changed since")]
    assert "main.q" in {each["name"] for each in document["undone"]}
    assert bare_cell.out("qconf", "-ss").strip() == "master"
    assert "slots              7" in bare_cell.out("qconf", "-sp", "mpi")


def test_what_a_changed_queue_names_is_left_with_it_and_each_is_named_once(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    bare_cell.out("qconf", "-mattr", "queue", "priority", "7", "main.q")
    done = init(bare_cell, tmp_path, "--undo", "--yes")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1
    assert [line for line in lines if "denied" in line or "mpi: will be deleted" in line] == []
    last = [line for line in lines if line.startswith("left alone: ")]
    assert "left alone: queue main.q: it was changed since" in last
    assert "left alone: parallel environment mpi: queue main.q stays, and names it" in last
    assert "left alone: host group @allhosts: queue main.q stays, and names it" in last
    bare_cell.out("qconf", "-mattr", "queue", "priority", "0", "main.q")
    assert init(bare_cell, tmp_path, "--undo", "--yes").returncode == 0, "what stayed is still remembered"


def test_a_refusal_names_the_object_once(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    queue = bare_cell.out("qconf", "-sq", "main.q").replace("main.q", "other.q").replace("@allhosts", "NONE")
    (tmp_path / "other.q").write_text(queue, encoding="utf-8")
    bare_cell.out("qconf", "-Aq", str(tmp_path / "other.q"))
    done = init(bare_cell, tmp_path, "--undo", "--yes")
    (refused,) = (
        line for line in done.stdout.decode().splitlines() if line.startswith("left alone: ") and " mpi" in line
    )
    assert refused.count("parallel environment mpi: ") == 1


def test_nothing_is_taken_back_without_a_yes_or_while_workers_are_there(bare_cell: Cell, tmp_path: Path) -> None:
    init(bare_cell, tmp_path, "--yes", CP_CAP_SGE_MASTER_CORES="0")
    assert init(bare_cell, tmp_path, "--undo").returncode == 1
    bare_cell.out("qconf", "-ah", "ip-10-1-0-9")
    bare_cell.out("qconf", "-aattr", "hostgroup", "hostlist", "ip-10-1-0-9", "@allhosts")
    before = configuration(bare_cell)
    refused = init(bare_cell, tmp_path, "--undo", "--yes")
    assert (refused.returncode, b"stop --now" in refused.stdout, configuration(bare_cell)) == (1, True, before)
