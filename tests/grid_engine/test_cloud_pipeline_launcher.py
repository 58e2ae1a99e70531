"""Cloud Pipeline starts the autoscaler itself: one process a queue, one that decides for the cell."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.played_launcher import Launcher, killed
from tests.grid_engine.waiting import Shown, Until

QUICK = {
    "CP_CAP_AUTOSCALE": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "1",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": "1",
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
    "CP_CAP_SGE_MASTER_CORES": "0",
}
SECOND = {
    "CP_CAP_AUTOSCALE_1": "true",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large",
    "CP_CAP_AUTOSCALE_WORKERS_1": "1",
}
TWO = ("main.q", "c5.large.q")


@pytest.fixture
def cloud(empty_cell: Cell, show_on_failure: Shown) -> Iterator[PlayedCloud]:
    show_on_failure["control plane"] = (empty_cell.directory / "cloud_pipeline.log").read_text
    with played_cloud(empty_cell, "cloud_pipeline") as cloud:
        yield cloud


@pytest.fixture
def launcher(empty_cell: Cell, cloud: PlayedCloud, show_on_failure: Shown) -> Launcher:
    """A master run whose CommonRepo has our shim, with two queues."""
    made = launcher_of(empty_cell, cloud, {**QUICK, **SECOND})
    show_on_failure["logs"] = made.shown
    return made


def launcher_of(cell: Cell, cloud: PlayedCloud, run: dict[str, str]) -> Launcher:
    """The queues are there, as the platform's own set-up of the master makes them."""
    platform = {name: text for name, text in cloud.environment.items() if name != "CP_CAP_AUTOSCALE_PROVIDER"}
    launcher = Launcher(cell, {**platform, **run})
    launcher.lay_out()
    for queue in launcher.generate():
        make_queue(cell, queue, run["CP_CAP_SGE_MASTER_CORES"])
    assert launcher.command("platform", "install").returncode == 0
    return launcher


def make_queue(cell: Cell, queue: str, master_cores: str) -> None:
    """As shell/sge_setup_queue: a queue with a host group of its own."""
    group = "@allhosts" if queue == "main.q" else f"@{queue}"
    settings = {"CP_CAP_SGE_QUEUE_NAME": queue, "CP_CAP_SGE_HOSTLIST_NAME": group}
    settings["CP_CAP_SGE_MASTER_CORES"] = master_cores if queue == "main.q" else "0"
    done = Autoscaling(cell, settings).command("init", "--yes", "--apply", group)
    assert done.returncode == 0, done.stderr.decode()


def test_both_queues_are_scaled_and_an_edited_profile_takes_effect_with_the_restart_of_its_process(
    launcher: Launcher, empty_cell: Cell, until: Until
) -> None:
    scaling = Autoscaling(empty_cell)
    gate = Gate(empty_cell)
    jobs = [gate.submit("-q", queue) for queue in TWO]
    with launcher.launched():
        until(lambda: all(scaling.running_on(job) for job in jobs), 60, "they did not both start")
        hosts = {one.node_array: one.name for one in launcher.lifetimes()}
        pids = {queue: launcher.pids(queue) for queue in TWO}
        verified = launcher.configure("c5.large.q", CP_CAP_AUTOSCALE_WORKERS="2")
        more = [gate.submit("-q", "c5.large.q") for _ in range(2)]
        until(lambda: sum(one.node_array == "execute_1" for one in launcher.lifetimes()) == 2, 60, "no second worker")
        after = {queue: launcher.pids(queue) for queue in TWO}
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in (*jobs, *more)), 60, "a job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the workers did not leave")

    assert verified is not None
    assert verified.returncode == 0, verified.stdout.decode()
    assert hosts.keys() == {"execute", "execute_1"}
    assert after["main.q"] == pids["main.q"]
    assert after["c5.large.q"] != pids["c5.large.q"]
    assert [len(each) for each in (*pids.values(), *after.values())] == [1] * 4
    lines = [line for line in launcher.log_text("main.q").splitlines() if "stay, " not in line]
    assert [line for line in lines if str(hosts["execute_1"]) in line] == []
    assert [line for line in lines if f"enabling {hosts['execute']} (joined)" in line] != []


def test_when_the_one_that_decides_is_killed_another_goes_on(
    launcher: Launcher, empty_cell: Cell, until: Until
) -> None:
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    jobs = [gate.submit("-q", queue) for queue in TWO]
    with launcher.launched():
        until(lambda: all(scaling.running_on(job) for job in jobs), 60, "they did not both start")
        for _ in range(3):
            hand_over(launcher, until)
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in jobs), 60, "a job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the workers did not leave")

    assert len(launcher.lifetimes()) == 2


def hand_over(launcher: Launcher, until: Until) -> None:
    """Kill the process that decides, wait until another one does, and start it again."""
    queue = until(lambda: deciding(launcher), 30, "none decides")
    (pid,) = launcher.pids(queue)
    killed(pid)
    until(lambda: deciding(launcher) not in ("", queue), 20, "no other decides")
    launcher.start(queue)
    until(lambda: len(launcher.pids(queue)) == 1, 20, "it did not start")


def deciding(launcher: Launcher) -> str:
    """The queue whose process decides now; '': none does."""
    return str(json.loads(launcher.command("platform", "status", "--json").stdout)["deciding"] or "")
