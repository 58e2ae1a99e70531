"""Workers that become silent, interrupted or lost, or shut down: their jobs run elsewhere, and none twice at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.lab.cell import Cell
from autoscaler.providers.interface import LaunchOrder
from autoscaler.providers.local import failures
from autoscaler.providers.local.failures import Notices
from autoscaler.providers.local.hosts import TreeHosts
from autoscaler.providers.local.machines import Machine, Records
from autoscaler.providers.local.provider import LocalProvider
from autoscaler.providers.local.settings import LocalSettings
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal, machines, notes
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until

QUICK = {"CP_CAP_AUTOSCALE_SILENCE_TIMEOUT": "2", "CP_CAP_AUTOSCALE_POLLING_DELAY": "0.3"}
CUT_FOR = float(os.environ.get("CUT_FOR", "8"))
"""Seconds for which the network is cut once that counts as too long."""
SHORT_MAX_UNHEARD = {"max_unheard": "00:00:04", "load_report_time": "00:00:01"}
"""A busy machine's execd may miss a report or two, and still counts as reporting."""
_WITNESSED = """\
#!/bin/sh
echo "start $(hostname)" >>{log}
until [ -e {gate} ]; do
    echo "$(date +%s.%N) $(hostname)" >>{log}.alive
    sleep 0.05
done
echo "end $(hostname)" >>{log}
"""


@dataclass(frozen=True, slots=True)
class Witness:
    """A job that leaves a trace wherever its process is alive, until its gate is opened."""

    cell: Cell

    @property
    def log(self) -> Path:
        return self.cell.output / "witness"

    def submit(self, *options: str) -> str:
        script = self.cell.home / "witness"
        script.write_text(_WITNESSED.format(log=self.log, gate=self.cell.home / "witness-gate"))
        script.chmod(0o755)
        return self.cell.submit("-b", "y", "-w", "n", *options, str(script))

    def open(self) -> None:
        (self.cell.home / "witness-gate").touch()

    def starts(self) -> list[str]:
        """Hosts on which it was started, in order."""
        return self._hosts("start")

    def ends(self) -> list[str]:
        """Hosts on which it came to its end."""
        return self._hosts("end")

    def _hosts(self, word: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split()[1] for line in lines if line.startswith(word)]

    def twice(self) -> bool:
        """Whether two hosts ever wrote within the same moment."""
        alive = Path(f"{self.log}.alive")
        traces = [line.split() for line in alive.read_text().splitlines()] if alive.exists() else []
        spans: dict[str, list[float]] = {}
        for at, host in (trace for trace in traces if len(trace) == 2):
            spans.setdefault(host, []).append(float(at))
        ends = sorted((min(times), max(times)) for times in spans.values())
        return any(later[0] < earlier[1] for earlier, later in pairwise(ends))


def machine_of(scaling: Autoscaling, host: str) -> Machine:
    return next(machine for machine in machines(scaling) if machine.name == host and machine.ended_at is None)


def records(scaling: Autoscaling) -> Records:
    return Records(Path(scaling.environment["CP_CAP_AUTOSCALE_LOCAL_STATE"]))


def runs_on(scaling: Autoscaling, job: str) -> Callable[[], str]:
    """The host on which it runs; '' while there is none."""
    return lambda: next(iter(scaling.running_on(job)), "")


def kinds(scaling: Autoscaling, host: str) -> list[str]:
    """Completed actions on a host, in order, each kind once."""
    return list(
        dict.fromkeys(entry.kind for entry in journal(scaling) if entry.host == host and entry.result == "done")
    )


def test_a_rerunnable_job_of_a_lost_machine_is_rescheduled_and_its_host_removed(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, witness = Autoscaling(empty_cell, QUICK), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = witness.submit("-r", "y")
    with scaling.running():
        first = until(runs_on(scaling, job), 40)
        until(witness.starts)
        failures.kill(machine_of(scaling, first), empty_cell.tree)
        until(lambda: len(witness.starts()) == 2, 40)
        witness.open()
        until(scaling.all_gone, 40)
    assert first not in witness.starts()[1:]
    assert kinds(scaling, first)[-3:] == ["disable", "reschedule", "remove"]
    assert not witness.twice()


def test_a_job_of_a_machine_that_died_is_named_and_not_counted_as_running_until_a_person_deletes_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """It may not start again, and `CP_CAP_AUTOSCALE_LOST_JOBS` is `report`: qmaster lists it for ever."""
    scaling, witness = Autoscaling(empty_cell, QUICK), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = witness.submit("-r", "n")

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(scaling.command("status", "--json").stdout)["lost_jobs"]
        return found

    def running() -> float:
        periods = json.loads(scaling.command("history", "--json", "--step", "10").stdout)["periods"]
        return float(periods[-1]["running"]) if periods else -1.0

    with scaling.running():
        host = until(runs_on(scaling, job), 40)
        until(witness.starts)
        assert shown() == {}
        until(lambda: running() > 0, 40)
        failures.kill(machine_of(scaling, host), empty_cell.tree)
        lost = until(shown, 40)
        listed = scaling.running_on(job)
        said = scaling.command("status").stdout.decode()
        until(lambda: running() == 0, 60)
        empty_cell.out("qdel", "-f", job)
        until(lambda: not shown(), 40)
        until(scaling.all_gone, 40)
    assert ([*lost], lost[host]["facts"], listed) == ([host], {"jobs": [job]}, {host: 1})
    assert f"lost jobs   on {host}, whose machine is gone: job {job} ended with it" in said
    assert "`qdel -f JOB`" in said


@pytest.mark.thorough
def test_a_silent_worker_is_terminated_before_its_job_is_rescheduled(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, witness = Autoscaling(empty_cell, {**QUICK, "CP_CAP_AUTOSCALE_MIN_WORKERS": "2"}), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    empty_cell.configure(**SHORT_MAX_UNHEARD)
    job = witness.submit("-r", "y")
    with scaling.running():
        first = until(runs_on(scaling, job), 40)
        until(lambda: len(scaling.execution_hosts()) == 2 and witness.starts(), 40)
        stopped = empty_cell.host_runner(first)(("pkill", "-STOP", "-x", "sge_execd"), timeout=60.0)
        assert stopped.returncode == 0, stopped
        until(lambda: len(witness.starts()) == 2, 60)
        witness.open()
        until(witness.ends, 40)
        until(lambda: first not in scaling.execution_hosts(), 40)
        ended = next(machine for machine in machines(scaling) if machine.name == first)
    assert (ended.message, witness.twice()) == ("ended by request", False)
    assert kinds(scaling, first)[-4:] == ["disable", "terminate", "reschedule", "remove"]


def test_no_machine_ends_while_the_network_of_all_workers_is_cut_and_all_their_jobs_finish(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, gate = Autoscaling(cell, {**QUICK, "CP_CAP_AUTOSCALE_WORKERS": "3"}), Gate(cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    cell.configure(**SHORT_MAX_UNHEARD)
    jobs = [gate.submit("-r", "y") for _ in range(10)]

    def on_workers() -> set[str]:
        return {host for job in jobs for host in scaling.running_on(job)} & scaling.rented()

    with scaling.running():
        until(lambda: all(scaling.running_on(job) for job in jobs), 60)
        workers = on_workers()
        links(cell, workers, "down")
        until(lambda: scaling.log_text().count("silent together") > 0, 40, "the silence was not judged")
        time.sleep(CUT_FOR)
        held = (scaling.rented(), on_workers(), [each for each in journal(scaling) if each.kind == "terminate"])
        of_one = min(workers)
        until(lambda: scaling.explained(of_one)["reason"]["code"] == Code.SILENT_TOGETHER, 40, "one was not judged")
        links(cell, workers, "up")
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in jobs), 60, "a job was lost")
        until(scaling.all_gone, 60)
    assert (len(workers), held) == (3, (workers, workers, []))


def links(cell: Cell, hosts: Iterable[str], state: str) -> None:
    """Set the network links of these hosts up or down, as seen from qmaster."""
    for host in hosts:
        number = cell.tree.address(host).rpartition(".")[2]
        done = cell.runner(("ip", "link", "set", f"host{number}", state), timeout=60.0)
        assert done.returncode == 0, done


@pytest.mark.thorough
def test_an_interrupted_worker_is_replaced_before_its_end_and_its_job_is_rescheduled(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, witness = Autoscaling(empty_cell, QUICK), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = witness.submit("-r", "y")
    with scaling.running():
        first = until(runs_on(scaling, job), 40)
        until(witness.starts)
        notices = Notices(records(scaling))
        notices.give(machine_of(scaling, first).id, time.time() + 300)
        until(lambda: len(scaling.rented()) == 2, 40)
        ordered_while_it_ran = first in scaling.rented()
        notices.give(machine_of(scaling, first).id, time.time() + 20)
        until(lambda: len(witness.starts()) == 2, 40)
        witness.open()
        until(witness.ends, 40)
        until(lambda: first not in scaling.execution_hosts(), 40)
    assert (ordered_while_it_ran, witness.twice()) == (True, False)
    assert kinds(scaling, first)[-4:] == ["disable", "terminate", "reschedule", "remove"]


@pytest.mark.thorough
def test_a_worker_that_shuts_itself_down_is_removed_without_a_backoff(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {**QUICK, "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
        (name,) = until(scaling.rented)
        failures.release(machine_of(scaling, name), records(scaling), empty_cell.tree)
        until(scaling.all_gone, 40)
        backoffs = [bucket for bucket in scaling.plan()["buckets"] if bucket["reason"]["code"] == "BUCKET_BACKOFF"]
    assert "its machine shut itself down" in scaling.log_text()
    assert (kinds(scaling, name)[-2:], backoffs) == (["disable", "remove"], [])


@pytest.mark.thorough
def test_a_new_machine_of_an_old_name_is_enrolled_anew_and_old_jobs_are_rescheduled(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, witness = Autoscaling(empty_cell, {**QUICK, "CP_CAP_AUTOSCALE_WORKERS": "1"}), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = witness.submit("-r", "y")
    with scaling.running():
        name = until(runs_on(scaling, job), 40)
        until(witness.starts)
        # An observation has shown that it was dispatched: otherwise the newer machine might be the one that got it.
        until(lambda: [(note.idle_since, note.on_their_way) for note in notes(scaling)] == [(None, ())], 20)
    old = machine_of(scaling, name)
    failures.kill(old, empty_cell.tree)
    new = _another_of_its_name(scaling, old)
    with scaling.running():
        until(lambda: len(witness.starts()) == 2, 40)
        witness.open()
        until(witness.ends, 40)
        until(scaling.all_gone, 40)
    assert (witness.starts(), witness.twice()) == ([name, name], False)
    assert [entry.kind for entry in journal(scaling) if entry.host == name][2:6] == [
        "disable",
        "reschedule",
        "remove",
        "enrol",
    ]
    assert new != old.id


def _another_of_its_name(scaling: Autoscaling, old: Machine) -> str:
    """A new machine of the same cell, order and name, which runs the same boot script."""
    where = scaling.environment
    hosts = OneName(TreeHosts(scaling.cell.tree), old.name)
    settings = LocalSettings(network=scaling.cell.tree.directory, state=Path(where["CP_CAP_AUTOSCALE_LOCAL_STATE"]))
    provider = LocalProvider(settings, cell=old.cell, hosts=hosts)
    provider.workers()
    bucket = next(bucket for bucket in provider.buckets() if bucket.type.name == old.type.name)
    script = (records(scaling).folder(old.id) / "boot.sh").read_text()
    order = LaunchOrder(f"{old.token}-again", old.order_id, old.cell, old.node_array, (bucket,), 1, script)
    (new,) = provider.launch(order).ids
    return new


class OneName:
    """Hosts of a cloud that has only one free name."""

    def __init__(self, inner: TreeHosts, name: str) -> None:
        self._name = name
        self.start, self.end, self.born, self.problem = inner.start, inner.end, inner.born, inner.problem
        self.address = inner.address

    def free_names(self) -> list[str]:
        return [self._name]


@pytest.mark.thorough
def test_a_silent_worker_that_a_person_disabled_is_neither_terminated_nor_enabled(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, witness = Autoscaling(empty_cell, QUICK), Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    empty_cell.configure(**SHORT_MAX_UNHEARD)
    job = witness.submit("-r", "y")
    with scaling.running():
        name = until(runs_on(scaling, job), 40)
        instance = f"main.q@{name}"
        empty_cell.out("qmod", "-d", instance)
        failures.freeze(machine_of(scaling, name), empty_cell.tree)
        until(lambda: "u" in scaling.instances()[instance].states, 40)
        other = empty_cell.submit("-b", "y", "true")
        until(lambda: scaling.ended_well(other), 40)
        failures.freeze(machine_of(scaling, name), empty_cell.tree, thaw=True)
        until(lambda: scaling.instances()[instance].states == "d", 40)
        witness.open()
        until(witness.ends, 40)
    assert (witness.starts(), scaling.instances()[instance].states) == ([name], "d")
    assert [entry.kind for entry in journal(scaling) if entry.host == name] == ["enrol", "enable"]
