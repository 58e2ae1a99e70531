"""Read-only commands change nothing: neither Grid Engine, nor the provider's records, nor the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until

SHOWN = ("-sql", "-shgrpl", "-sh", "-ss", "-sel", "-sconf", "-ssconf", "-sc", "-spl", "-sconfl")
READ_ONLY = (("workers",), ("status",), ("explain", "1"))


def files(*folders: Path) -> dict[Path, bytes]:
    """Every file below, byte for byte; but what a living machine prints on its console is its own doing."""
    found = (path for folder in folders for path in folder.rglob("*") if path.name != "console.log")
    return {path: path.read_bytes() for path in found if path.is_file()}


def changed(before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> set[Path]:
    """Files that came, went or have other bytes."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def configuration(cell: Cell) -> list[bytes]:
    """Everything `qconf` shows, times and loads aside, and every queue instance with its states."""
    shown = [
        cell.runner(("qconf", *words), timeout=60.0).stdout for words in (*((one,) for one in SHOWN), ("-sq", "main.q"))
    ]
    groups = cell.runner(("qconf", "-shgrp", "@allhosts"), timeout=60.0).stdout
    states = "".join(f"{i.queue}@{i.host} {i.states}" for i in Autoscaling(cell).instances().values())
    return [*shown, groups, states.encode()]


def test_a_plan_on_a_new_cell_leaves_no_trace(empty_cell: Cell) -> None:
    scaling = Autoscaling(empty_cell)
    empty_cell.submit("-b", "y", "true")
    before = (configuration(empty_cell), files(empty_cell.home, empty_cell.root / "default" / "common"))
    document = scaling.plan()
    assert [action["kind"] for action in document["actions"]] == ["launch"]
    assert (configuration(empty_cell), files(empty_cell.home, empty_cell.root / "default" / "common")) == before


def test_read_only_commands_change_nothing_even_if_a_launch_is_planned(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "1"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)
        beside = scaling.plan()
        gate.submit("-pe", "local", "2")
    read_only = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "2"})
    folders = (scaling.state, empty_cell.home / "machines", empty_cell.root / "default" / "common")
    before = (configuration(empty_cell), files(*folders))
    ends = [read_only.command(*words).returncode for words in READ_ONLY]
    actions = read_only.plan()["actions"]
    assert changed(before[1], files(*folders)) == set()
    assert configuration(empty_cell) == before[0]
    assert (ends, [action["kind"] for action in actions]) == ([0] * len(READ_ONLY), ["launch"])
    assert [row["name"] for row in beside["workers"]] == [worker]


def test_disabled_by_setting_run_reports_it_and_ends_with_0(cell: Cell) -> None:
    scaling = Autoscaling(cell, {"CP_CAP_AUTOSCALE": "false"})
    cell.submit("-b", "y", "-pe", "mpi", "4", "-q", "main.q", "true")
    done = scaling.command("run")
    assert (done.returncode, b"CP_CAP_AUTOSCALE is false" in done.stdout, scaling.state.exists()) == (0, True, False)
