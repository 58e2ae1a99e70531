"""The configuration of a real cell: confirmed by one command, and changes by an administrator apply at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, Unpack

import pytest

from autoscaler import namespaces
from autoscaler.lab.cell import Cell
from autoscaler.process import Completed, Options
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches, NewHost
from autoscaler.sge.configuration import ConfigurationReader, read_configuration
from autoscaler.sge.reading import read_outputs
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Until


class Counting:
    """Runs in the cell, and counts."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        self.asked.append(" ".join(argv))
        return self.cell.runner(argv, **options)


def test_a_quiet_pass_takes_three_commands(cell: Cell) -> None:
    runner, reader = Counting(cell), ConfigurationReader()

    def read() -> Any:
        return read_outputs(runner, wanted=lambda *_: (), zone=UTC, reader=reader)[0].qconf

    first = read()
    runner.asked.clear()
    assert read() is first, "one command prints what the others printed"
    assert [command.split()[0] for command in runner.asked] == ["qstat", "qhost", "qconf"]


def test_a_pass_after_workers_joined_or_left_takes_three_commands(cell: Cell) -> None:
    runner, reader = Counting(cell), ConfigurationReader()
    batches = Batches(Administrator(cell.runner))
    names = [namespaces.default_name(number) for number in (5, 6, 7)]

    def changed_by(change: Callable[[], object]) -> list[str]:
        """The commands of the pass after this change."""
        before = reader.read(cell.runner)
        change()
        runner.asked.clear()
        read_outputs(runner, wanted=lambda *_: (), zone=UTC, reader=reader, ours=names)
        after = reader.read(cell.runner, ours=names)
        assert dict(before) != dict(after) == read_configuration(cell.runner)
        return [command.split()[0] for command in runner.asked]

    hosts = [NewHost(name, 4, (("h_vmem", "8G"),)) for name in names]
    assert changed_by(lambda: batches.enrol(hosts, "main.q", "@allhosts")) == ["qstat", "qhost", "qconf"]
    assert changed_by(lambda: batches.remove(dict.fromkeys(names))) == ["qstat", "qhost", "qconf"]


def _mattr(*words: str) -> Callable[[Cell], object]:
    return lambda cell: cell.out("qconf", "-mattr", *words)


def _quota(cell: Cell) -> None:
    file = cell.home / "quota"
    file.write_text("{\n   name few\n   enabled TRUE\n   limit users {*} to slots=1\n}\n")
    cell.out("qconf", "-Arqs", str(file))


def _pe(cell: Cell) -> None:
    file = cell.home / "pe"
    file.write_text(cell.out("qconf", "-sp", "mpi").replace("mpi", "mpi2"))
    cell.out("qconf", "-Ap", str(file))


@pytest.mark.parametrize(
    "change",
    (
        _mattr("queue", "seq_no", "7", "main.q"),
        _mattr("exechost", "complex_values", "h_vmem=4G", "global"),
        _quota,
        _pe,
        _mattr("pe", "slots", "9", "mpi"),
    ),
)
def test_a_change_by_an_administrator_is_read(cell: Cell, change: Callable[[Cell], object]) -> None:
    reader = ConfigurationReader()
    before = reader.read(cell.runner)
    change(cell)
    after = reader.read(cell.runner)
    assert after != before
    assert dict(after) == read_configuration(cell.runner)


@pytest.mark.thorough
def test_nothing_is_launched_for_a_queue_that_was_restricted_meanwhile(empty_cell: Cell, until: Until) -> None:
    """Grid Engine sends no event for it, and the next pass would order a machine that helps no job."""
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_VERBOSE": "true"})
    with autoscaling.running():
        until(lambda: "no job waits" in autoscaling.log_text(), 30, "passes were quiet")
        empty_cell.out("qconf", "-au", "nobody", "staff")
        empty_cell.out("qconf", "-mattr", "queue", "user_lists", "staff", "main.q")
        job = empty_cell.submit("-b", "y", "sleep", "0")
        until(lambda: "may not use" in autoscaling.log_text(), 30, "the job was judged by the new list")
        assert autoscaling.lifetimes() == ()
        empty_cell.out("qconf", "-rattr", "queue", "user_lists", "NONE", "main.q")
        until(lambda: autoscaling.ended_well(job), 60, "it ran once the queue was open again")


def test_quiet_passes_of_the_running_service_take_three_commands_each(cell: Cell, until: Until) -> None:
    """Counted where they start: the service finds each command by a wrapper that logs its name."""
    wrappers, counted = cell.home / "wrappers", cell.home / "counted"
    wrappers.mkdir()
    path = cell.environment["PATH"]
    for name in ("qstat", "qhost", "qconf", "qmod", "qalter"):
        wrapper = wrappers / name
        wrapper.write_text(f'#!/bin/sh\necho {name} >>{counted}\nexec {shutil.which(name, path=path)} "$@"\n')
        wrapper.chmod(0o755)
    autoscaling = Autoscaling(cell)

    def last() -> list[str]:
        """From a listing on, for a pass may be under way."""
        names = counted.read_text().split()[-12:] if counted.exists() else []
        first = names.index("qstat") if "qstat" in names else 0
        return names[first : first + 9]

    with autoscaling.running(PATH=f"{wrappers}:{path}"):
        until(lambda: last() == ["qstat", "qhost", "qconf"] * 3, 30, "three passes of three commands")
