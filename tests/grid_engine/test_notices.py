"""Interruption notices of a worker's load sensor, which need no open port."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import InstanceType, Interruption, MachineState, Worker
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.namespaces import start_host
from autoscaler.sge.admin import Administrator
from autoscaler.sge.cluster import cluster_from, read_outputs
from autoscaler.sge.notices import COMPLEX, reported_notices
from autoscaler.sge.prepare import Preparation, carry_out, differences, read_present
from tests.grid_engine.waiting import Until

WANTED = Preparation("main.q", "@allhosts", "local", "mpi", 1, "master", notices=True)
AT = 1763740000
WORKER = Worker("i-1", InstanceType("m5.large", "m5", 2, 8 << 30), "execute", MachineState.RUNNING, 1.0)


def define(cell: Cell, saved: Path) -> Sequence[str]:
    """Create the complexes that notices need; returns their names."""
    administrator = Administrator(cell.runner)
    missing = [one for one in differences([WANTED], read_present(administrator, [WANTED])) if one.kind == "complex"]
    for one in missing:
        carry_out(administrator, one, saved)
    return [one.name for one in missing]


def notices(cell: Cell, name: str) -> tuple[Interruption, ...]:
    outputs, _ = read_outputs(cell.runner, wanted=lambda *_: (), zone=UTC)
    hosts = cluster_from(outputs, zone=UTC, now=time.time()).hosts
    return tuple(reported_notices(hosts, [replace(WORKER, name=name)]))


@pytest.fixture
def host(empty_cell: Cell) -> str:
    """A worker whose load sensor reports an interruption."""
    sensor = empty_cell.home / "sensor"
    sensor.write_text(
        '#!/bin/sh\nwhile read -r word && [ "$word" != quit ]; do\n'
        f'printf "begin\\n%s:{COMPLEX}:terminate@{AT}\\nend\\n" "$(hostname)"\ndone\n'
    )
    sensor.chmod(0o755)
    name = empty_cell.tree.free_names()[0]
    start_host(empty_cell.tree, name)
    empty_cell.enrol(ExecHost(name, 2))
    Administrator(empty_cell.runner).sense(name, str(sensor))
    empty_cell.start_execd(name)
    empty_cell.wait_for_report(name)
    return name


def test_the_value_of_a_workers_load_sensor_is_an_interruption_notice(
    empty_cell: Cell, host: str, until: Until, tmp_path: Path
) -> None:
    assert define(empty_cell, tmp_path) == [COMPLEX]
    until(lambda: notices(empty_cell, host) == (Interruption("i-1", float(AT), "terminate"),))


def test_without_the_complex_a_load_sensor_gives_no_interruption_notice(empty_cell: Cell, host: str) -> None:
    assert notices(empty_cell, host) == ()


def test_the_complex_is_defined_once(empty_cell: Cell, tmp_path: Path) -> None:
    assert (define(empty_cell, tmp_path), define(empty_cell, tmp_path)) == ([COMPLEX], [])


def test_a_removed_worker_leaves_no_configuration(empty_cell: Cell, host: str) -> None:
    removed = Administrator(empty_cell.runner).remove(host).removed
    left = empty_cell.runner(("qconf", "-sconfl"), timeout=60.0).stdout.decode()
    assert (removed, host in left) == (True, False)


def test_a_load_sensor_that_is_set_is_not_replaced(empty_cell: Cell, host: str) -> None:
    again = Administrator(empty_cell.runner).sense(host, "/other")
    assert (again.changed, "/other" in empty_cell.out("qconf", "-sconf", host)) == (False, False)


def test_a_missing_load_sensor_does_not_prevent_a_worker_from_joining(empty_cell: Cell, until: Until) -> None:
    name = empty_cell.tree.free_names()[0]
    start_host(empty_cell.tree, name)
    empty_cell.enrol(ExecHost(name, 2))
    Administrator(empty_cell.runner).sense(name, "/nowhere/sensor")
    empty_cell.start_execd(name)
    job = empty_cell.submit("-b", "y", "sleep", "0")
    until(lambda: empty_cell.runner(("qacct", "-j", job), timeout=60.0).returncode == 0)
