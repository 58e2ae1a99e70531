"""Cloud Pipeline starts the autoscaler itself: one process a queue, one that decides for the cell."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from autoscaler.lab.played_launcher import Launcher, kill
from autoscaler.lab.private_root import MASTER
from tests.grid_engine.autoscaling import Autoscaling, most_at_once
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

POLL = 2.0
QUICK = {
    "CP_CAP_AUTOSCALE": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "1",
    "CP_CAP_AUTOSCALE_POLLING_DELAY": str(POLL),
    "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY": "0",
    "CP_CAP_SGE_MASTER_CORES": "0",
}
SECOND = {
    "CP_CAP_AUTOSCALE_1": "true",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large",
    "CP_CAP_AUTOSCALE_WORKERS_1": "1",
}
WATCHED = {"CP_CAP_SGE_QUEUE_NAME_2": "watched.q"}
"""Its profile has CP_CAP_AUTOSCALE=false."""
TWO = ("main.q", "c5.large.q")
THREE = (*TWO, "watched.q")
THEIRS = "the platform's own autoscaler of "
"""Begins what the stand-in of the platform's script prints."""


@pytest.fixture
def cloud(empty_cell: Cell, show_on_failure: Shown) -> Iterator[PlayedCloud]:
    show_on_failure["control plane"] = (empty_cell.directory / "cloud_pipeline.log").read_text
    with played_cloud(empty_cell, "cloud_pipeline") as cloud:
        yield cloud


@pytest.fixture
def launcher(empty_cell: Cell, cloud: PlayedCloud, show_on_failure: Shown) -> Launcher:
    """A master run whose CommonRepo has our shim, with three queues."""
    made = launcher_of(empty_cell, cloud, {**QUICK, **SECOND, **WATCHED})
    show_on_failure["logs"] = made.shown
    return made


def launcher_of(
    cell: Cell, cloud: PlayedCloud, run: Mapping[str, str], shared: Path | None = None, *, installed: bool = True
) -> Launcher:
    """The queues are there, as the platform's own set-up of the master makes them (shell/sge_setup_queue)."""
    platform = {name: text for name, text in cloud.environment.items() if name != "CP_CAP_AUTOSCALE_PROVIDER"}
    launcher = Launcher(cell, {**platform, **run}, shared=shared)
    launcher.lay_out()
    first = run.get("CP_CAP_SGE_QUEUE_NAME", "main.q")
    for queue, group in launcher.generate().items():
        settings = {"CP_CAP_SGE_QUEUE_NAME": queue, "CP_CAP_SGE_HOSTLIST_NAME": group}
        settings["CP_CAP_SGE_MASTER_CORES"] = run.get("CP_CAP_SGE_MASTER_CORES", "2") if queue == first else "0"
        done = Autoscaling(cell, settings).command("init", "--yes", "--apply", group)
        assert done.returncode == 0, done.stderr.decode()
    if installed:
        done = launcher.command("platform", "install")
        assert done.returncode == 0, done.stderr.decode()
    return launcher


def told(cell: Cell, cloud: PlayedCloud, verb: str, **asked: Any) -> dict[str, Any]:
    """What the played platform is told, outside its API; returns its state."""
    address = cloud.billable.replace("state", verb)
    done = cell.runner(("curl", "-s", "-X", "POST", "-d", json.dumps(asked), address), timeout=60.0)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def hand_over(launcher: Launcher, until: Until) -> str:
    """Kill the process that decides, wait until another one does, and start it again. Returns its queue."""
    queue = until(lambda: deciding(launcher), 30, "none decides")
    (pid,) = launcher.pids(queue)
    kill(pid)
    until(lambda: deciding(launcher) not in ("", queue), 3 * POLL, "no other decides")
    launcher.start(queue)
    until(lambda: len(launcher.pids(queue)) == 1, 20, "it did not start")
    return queue


def deciding(launcher: Launcher) -> str:
    """The queue whose process decides now; '': none does."""
    return str(json.loads(launcher.command("platform", "status", "--json").stdout)["deciding"] or "")


def tags(cell: Cell, cloud: PlayedCloud) -> dict[str, dict[str, str]]:
    """Of each run, as the platform shows them."""
    found: dict[str, dict[str, str]] = told(cell, cloud, "state")["tags"]
    return found


def host_list(cloud: PlayedCloud) -> list[str]:
    """The platform's list of the cluster's hosts, as people's programs read it."""
    return Path(cloud.environment["DEFAULT_HOSTFILE"]).read_text().split()


def test_queues_are_scaled_watched_edited_and_restarted_one_by_one(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    jobs = [gate.submit("-q", queue) for queue in TWO]
    watched = gate.submit("-q", "watched.q")
    with launcher.launched():
        until(lambda: all(scaling.running_on(job) for job in jobs), 60, "they did not both start")
        hosts = {one.node_array: one.name for one in launcher.lifetimes()}
        runs = {one.name: one.worker_id for one in launcher.lifetimes()}
        until(lambda: {"SGE_IN_USE"} <= tags(empty_cell, cloud)[runs[hosts["execute"]]].keys(), 20, "it has no tag")
        listed = set(host_list(cloud))
        pids = {queue: launcher.pids(queue) for queue in THREE}
        refused = launcher.configure("c5.large.q", CP_CAP_AUTOSCALE_WORKERS="three")
        verified = launcher.configure("c5.large.q", CP_CAP_AUTOSCALE_WORKERS="2")
        more = [gate.submit("-q", "c5.large.q") for _ in range(2)]
        until(lambda: sum(one.node_array == "execute_1" for one in launcher.lifetimes()) == 2, 60, "no second worker")
        after = {queue: launcher.pids(queue) for queue in THREE}
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in (*jobs, *more)), 60, "a job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the workers did not leave")
        still = empty_cell.out("qstat", "-s", "p").split()
        told_of_watched = [
            launcher.command(*words).stdout.decode() for words in (("explain", watched), ("jobs",), ("plan",))
        ]
        until(lambda: "SGE_IN_USE" not in str(tags(empty_cell, cloud)), 30, "a tag is left")
        until(lambda: host_list(cloud) == [], 30, "the list of hosts has a worker that left")
        roles = {*empty_cell.out("qconf", "-sh").split(), *empty_cell.out("qconf", "-ss").split()}

    assert refused.returncode == 1
    assert "CP_CAP_AUTOSCALE_WORKERS = 'three'" in refused.stdout.decode()
    assert "Most additional workers" in refused.stdout.decode()
    assert verified.returncode == 0, verified.stdout.decode()
    said = {
        line.partition("settings that changed: ")[2]
        for queue in THREE
        for line in launcher.log_text(queue).splitlines()
    }
    assert said == {"", "CP_CAP_AUTOSCALE_WORKERS"}
    assert hosts.keys() == {"execute", "execute_1"}
    assert roles.isdisjoint(hosts.values()), "the image made them administrative and submit hosts"
    assert listed == set(hosts.values()), "people's own programs read DEFAULT_HOSTFILE"
    assert [after[queue] == pids[queue] for queue in THREE] == [True, False, True]
    assert [len(each) for each in (*pids.values(), *after.values())] == [1] * 6
    assert watched in still, "nothing is launched for it, and it is not deleted"
    off = "autoscaling is switched off for the queue watched.q by CP_CAP_AUTOSCALE=false"
    assert [off in said for said in (*told_of_watched, launcher.log_text("watched.q"))] == [True] * 4
    assert not any("max_workers" in said for said in (*told_of_watched, launcher.log_text("watched.q")))
    assert len(launcher.lifetimes()) == 3, "the restart affected no worker"
    lines = [line for line in launcher.log_text("main.q").splitlines() if "stay, " not in line]
    assert [line for line in lines if str(hosts["execute_1"]) in line] == []
    assert [line for line in lines if f"enabling {hosts['execute']} (joined)" in line] != []


def test_when_the_one_that_decides_is_killed_another_goes_on(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    killed_among_jobs(launcher, empty_cell, cloud, until, times=3)


def killed_among_jobs(launcher: Launcher, cell: Cell, cloud: PlayedCloud, until: Until, *, times: int) -> None:
    """The process that decides is killed so many times, at whatever moment, while jobs come and end in two queues.
    Asserts that another one decides each time, and that at the end no job is lost or ran twice, and no worker is left.
    """
    scaling, gate = Autoscaling(cell), Gate(cell)
    jobs = [gate.submit("-q", queue) for queue in TWO]
    killed: set[str] = set()
    with launcher.launched():
        until(lambda: all(scaling.running_on(job) for job in jobs), 60, "they did not both start")
        for number in range(times):
            jobs.append(cell.submit("-b", "y", "-q", TWO[number % 2], "sleep", "1"))
            killed.add(hand_over(launcher, until))
        gate.open()
        until(lambda: all(scaling.ended_well(job) for job in jobs), 120, "a job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the workers did not leave")

    assert len(killed) > 1
    assert [len(scaling.ends(job)) for job in jobs] == [1] * len(jobs), "each ran once"
    assert billable(cell, cloud) == [], "no orphan"


def test_a_restart_during_a_slow_call_loses_neither_process_nor_worker(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    told(empty_cell, cloud, "fault", call="POST run", kind="slow", seconds=6.0)
    job = gate.submit("-q", "main.q")
    with launcher.launched():
        until(lambda: "launching 1 m5.large" in launcher.log_text("main.q"), 60, "nothing is launched")
        before = {queue: launcher.pids(queue) for queue in THREE}
        for queue in THREE:
            launcher.restart(queue)
        until(lambda: all(len(launcher.pids(queue)) == 1 for queue in THREE), 60, "not one process a queue")
        after = {queue: launcher.pids(queue) for queue in THREE}
        until(lambda: scaling.running_on(job), 60, "the job did not start")
        gate.open()
        until(lambda: scaling.ended_well(job), 60, "the job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the worker did not leave")

    assert all(before[queue] != after[queue] for queue in THREE)
    assert len(launcher.lifetimes()) == 1


def test_where_ours_cannot_start_for_one_queue_the_cell_has_one_autoscaler_all_the_same(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    """The one that the first process started, whichever that is: never two that decide."""
    sourced = launcher.sourced("c5.large.q")
    sourced.write_text("export SGE_AUTOSCALER=/nowhere\n" + sourced.read_text())
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    job = gate.submit("-q", "main.q")
    with launcher.launched(("main.q", "watched.q")):
        until(lambda: scaling.running_on(job), 60, "the job did not start")
        launcher.start("c5.large.q")
        until(lambda: not launcher.pids("c5.large.q"), 30, "its process goes on")
        beside = (launcher.console("c5.large.q").read_text(), launcher.log_text("c5.large.q"), deciding(launcher))
        gate.open()
        until(lambda: scaling.ended_well(job), 60, "the job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the worker did not leave")
    ours = len(launcher.lifetimes())
    job = gate.submit("-q", "main.q")
    with launcher.launched(("c5.large.q",)):
        until(lambda: THEIRS in launcher.console("c5.large.q").read_text(), 30, "the platform's own did not start")
        for queue in ("main.q", "watched.q"):
            launcher.start(queue)
        until(lambda: all(THEIRS in launcher.console(queue).read_text() for queue in THREE), 30, "not all are with it")
        began, seen = time.monotonic(), set[tuple[str, int]]()

        def watched() -> bool:
            seen.add((deciding(launcher), len(launcher.lifetimes())))
            return time.monotonic() > began + 3 * POLL

        until(watched, 60)
        said = launcher.console("main.q").read_text()
        empty_cell.out("qdel", job)

    for text in beside[:2]:
        assert "sge-autoscaler is not installed (/nowhere)" in text
        assert "other queues of this cell are with sge-autoscaler" in text
        assert "cannot take part: nothing is started for this queue" in text
    assert THEIRS not in beside[0]
    assert beside[2] in ("main.q", "watched.q")
    assert "other queues of this cell are with the platform's own autoscaler" in said
    assert seen == {("", ours)}, "none of ours decides, and nothing is launched"
    assert billable(empty_cell, cloud) == []


def test_a_master_that_was_paused_goes_on_with_what_is_left_of_its_cluster(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    """A pause ends the container's processes at once, and the platform ends the workers of a master that is paused.
    What the processes held is still in its files when it goes on.
    """
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    first = gate.submit("-q", "main.q", "-r", "y")
    with launcher.launched():
        until(lambda: scaling.running_on(first), 60, "the job did not start")
        (lost,) = billable(empty_cell, cloud)
        for queue in THREE:
            for pid in launcher.pids(queue):
                kill(pid)
        told(empty_cell, cloud, "end", id=int(lost), status="STOPPED")
        empty_cell.stop_qmaster()
        empty_cell.start_qmaster()
        resumed = launcher.resume()
        until(lambda: all(len(launcher.pids(queue)) == 1 for queue in THREE), 60, "not one process a queue")
        second = gate.submit("-q", "main.q")
        gate.open()
        until(lambda: scaling.ended_well(second), 90, "a job that came later did not end well")
        until(lambda: [end.well for end in scaling.ends(first)][1:] == [True], 90, "the lost job did not run again")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "a worker is still known")
        names = {one.name for one in launcher.lifetimes()}
        until(lambda: names.isdisjoint(scaling.execution_hosts()), 60, "Grid Engine still has a worker")

    assert resumed.returncode == 0, resumed.stderr.decode()
    assert billable(empty_cell, cloud) == []
    assert lost in {one.worker_id for one in launcher.lifetimes()}


@pytest.fixture
def with_master(cell_session: Cell) -> Cell:
    """The master's own two cores run jobs, as on a launch page that says nothing else."""
    cell = replace(cell_session, declared=(ExecHost(MASTER, 2),))
    cell.reset()
    return cell


@pytest.mark.parametrize(
    ("given", "types"),
    (
        pytest.param({}, ["m5.large"] * 2, id="homogeneous", marks=pytest.mark.thorough),
        pytest.param({"CP_CAP_AUTOSCALE_HYBRID": "true"}, ["m5.2xlarge"], id="hybrid"),
    ),
)
def test_the_two_examples_of_an_autoscaled_cluster_run_as_they_are_described(
    given: dict[str, str], types: list[str], with_master: Cell, until: Until, show_on_failure: Shown
) -> None:
    """Ten jobs of one core each, of which the master takes two. Only the platform's preferences are quicker."""
    seed = {"CP_CAP_AUTOSCALE": "true", "CP_CAP_AUTOSCALE_WORKERS": "2", **given}
    with played_cloud(with_master, "cloud_pipeline") as cloud:
        told(with_master, cloud, "set", preferences={"ge.autoscaling.scale.up.timeout": "3"})
        launcher = launcher_of(with_master, cloud, seed)
        show_on_failure["logs"] = launcher.shown
        scaling, gate = Autoscaling(with_master), Gate(with_master)
        job = gate.submit("-t", "1:10")
        with launcher.launched():
            until(lambda: len(launcher.lifetimes()) == len(types) and len(scaling.running_on(job)) > len(types), 90)
            running = scaling.running_on(job)
            gate.open()
            until(lambda: scaling.ended_well(job, tasks=10), 60, "the tasks did not end well")
            until(lambda: all(one.ended_at for one in launcher.lifetimes()), 120, "the workers did not leave")

    assert [one.instance_type for one in launcher.lifetimes()] == types
    assert running["master"] == 2


def test_workers_change_hands_with_the_autoscaler_and_back_while_jobs_run(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """First one that the platform's own autoscaler launched, then one of ours when that comes back."""
    launcher = launcher_of(empty_cell, cloud, QUICK)
    show_on_failure["logs"] = launcher.shown
    scaling, first, second = Autoscaling(empty_cell), Gate(empty_cell, "first"), Gate(empty_cell, "second")
    theirs = launched_by_platform(empty_cell, cloud, launcher)
    until(lambda: any("d" in each.states for each in scaling.instances().values()), 30, "it did not enrol itself")
    empty_cell.out("qmod", "-e", "main.q")
    job = first.submit("-q", "main.q", "-pe", "local", "2")
    until(lambda: scaling.running_on(job), 30, "their worker runs nothing")
    with launcher.launched():
        until(lambda: f"run {theirs}" in launcher.log_text("main.q"), 40, "it is not taken over")
        first.open()
        until(lambda: scaling.ended_well(job), 30, "the job did not end well")
        until(lambda: theirs not in billable(empty_cell, cloud), 40, "their worker is leaked")
        job = second.submit("-q", "main.q")
        until(lambda: scaling.running_on(job), 60, "the second job did not start")
        done = launcher.command("platform", "uninstall")
        launcher.restart("main.q")
        until(lambda: "the platform's own autoscaler" in launcher.console("main.q").read_text(), 30, "it is not back")
        until(lambda: not scaling.ended_well(job) and scaling.running_on(job), 5, "the job does not go on")
        second.open()
        until(lambda: scaling.ended_well(job), 30, "the second job did not end well")
        until(lambda: billable(empty_cell, cloud) == [], 60, "our worker is leaked")

    assert done.returncode == 0, done.stderr.decode()
    assert len(launcher.lifetimes()) == 2, "none was launched twice"


def test_when_the_platforms_own_comes_back_for_one_queue_its_workers_are_its_own_and_ours_are_given_back(
    launcher: Launcher, empty_cell: Cell, cloud: PlayedCloud, until: Until
) -> None:
    """Processes of ours still serve the other queues, and one of them decides."""
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    job = gate.submit("-q", "main.q")
    with launcher.launched():
        until(lambda: scaling.running_on(job), 60, "the job did not start")
        (ours,) = billable(empty_cell, cloud)
        done = launcher.command("platform", "uninstall")
        launcher.restart("main.q")
        until(lambda: THEIRS in launcher.console("main.q").read_text(), 30, "it is not back")
        until(lambda: deciding(launcher) in ("c5.large.q", "watched.q"), 60, "none of ours decides")
        theirs = launched_by_platform(empty_cell, cloud, launcher)
        until(lambda: any("d" in each.states for each in scaling.instances().values()), 30, "it did not enrol itself")
        gate.open()
        until(lambda: scaling.ended_well(job), 60, "the job did not end well")
        until(lambda: ours not in billable(empty_cell, cloud), 60, "our worker is leaked")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "our worker is still known")
        left = (billable(empty_cell, cloud), len(scaling.execution_hosts() - {MASTER}))

    assert done.returncode == 0, done.stderr.decode()
    assert left == ([theirs], 1), "nothing of ours touches their worker"


def test_an_install_ends_the_giving_back_of_an_uninstall_while_a_job_runs(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    launcher = launcher_of(empty_cell, cloud, QUICK)
    show_on_failure["logs"] = launcher.shown
    scaling, first, second = Autoscaling(empty_cell), Gate(empty_cell, "first"), Gate(empty_cell, "second")
    job = first.submit("-q", "main.q", "-pe", "local", "2")
    with launcher.launched():
        until(lambda: scaling.running_on(job), 60, "the job did not start")
        assert launcher.command("platform", "uninstall").returncode == 0
        launcher.restart("main.q")
        until(lambda: THEIRS in launcher.console("main.q").read_text(), 30, "it is not back")
        assert b"no longer given back" in launcher.command("platform", "install").stdout
        launcher.restart("main.q")
        until(lambda: deciding(launcher) == "main.q", 60, "its process does not decide")
        later = second.submit("-q", "main.q", "-pe", "local", "2")
        until(lambda: scaling.running_on(later), 60, "the queue is not scaled while the first job runs")
        still = bool(scaling.running_on(job))
        first.open()
        second.open()
        until(lambda: scaling.ended_well(job) and scaling.ended_well(later), 60, "the jobs did not end well")

    assert still


def test_a_worker_that_the_platforms_own_autoscaler_did_not_enable_any_more_is_used(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """The change-over ended that between the set-up of the worker, which leaves it disabled, and its own enabling."""
    launcher = launcher_of(empty_cell, cloud, {**QUICK, "CP_CAP_AUTOSCALE_WORKERS": "1"})
    show_on_failure["logs"] = launcher.shown
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    theirs = launched_by_platform(empty_cell, cloud, launcher)
    until(lambda: any("d" in each.states for each in scaling.instances().values()), 30, "it did not enrol itself")
    job = gate.submit("-q", "main.q")
    with launcher.launched():
        until(lambda: scaling.running_on(job), 40, "it stays disabled")
        runs = billable(empty_cell, cloud)
        gate.open()
        until(lambda: scaling.ended_well(job), 30, "the job did not end well")
        until(lambda: billable(empty_cell, cloud) == [], 40, "their worker is leaked")

    assert runs == [theirs]


def launched_by_platform(cell: Cell, cloud: PlayedCloud, launcher: Launcher) -> str:
    """The run of a worker as the platform's own autoscaler launches it (pipeline/hpc/autoscaler.py)."""
    environment = launcher.environment
    given = {
        "CP_CAP_SGE": "false",
        "CP_CAP_SGE_QUEUE_NAME": "main.q",
        "CP_CAP_SGE_HOSTLIST_NAME": "@allhosts",
        "CP_CAP_AUTOSCALE": "false",
        "CP_CAP_AUTOSCALE_WORKERS": "0",
        "CP_DISABLE_RUN_ENDPOINTS": "true",
        "cluster_role": "worker",
        "cluster_role_type": "additional",
    }
    body = {
        "instanceType": "m5.large",
        "hddSize": 50,
        "dockerImage": environment["docker_image"],
        "cmdTemplate": "sleep infinity",
        "nodeCount": None,
        "isSpot": False,
        "cloudRegionId": 1,
        "parentRunId": int(environment["RUN_ID"]),
        "timeout": None,
        "params": {name: {"value": text, "type": "string", "required": False} for name, text in given.items()},
        "tags": {},
    }
    header = f"Authorization: Bearer {environment['API_TOKEN']}"
    argv = ("curl", "-s", "-X", "POST", "-H", header, "-d", json.dumps(body), f"{environment['API']}run")
    answer = json.loads(cell.runner(argv, timeout=60.0).stdout)
    return str(answer["payload"]["id"])


def billable(cell: Cell, cloud: PlayedCloud) -> list[str]:
    """Runs of workers that cost money now."""
    found: list[str] = told(cell, cloud, "state")["billable"]
    return found


SCHEDULED_AT_ONCE = "exceeded allowed number of scheduled at once runs"


def test_a_platform_that_schedules_no_run_now_is_asked_again_and_its_types_stay_available(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """`launch.max.scheduled.number` is a limit on calls, and says nothing about machines."""
    launcher = launcher_of(empty_cell, cloud, QUICK)
    show_on_failure["logs"] = launcher.shown
    scaling, gate = Autoscaling(empty_cell), Gate(empty_cell)
    told(empty_cell, cloud, "set", scheduled=0)
    job = gate.submit("-q", "main.q")
    with launcher.launched():
        until(lambda: SCHEDULED_AT_ONCE in launcher.log_text("main.q"), 60, "it is not refused")
        until(lambda: "the provider accepts no launch now" in explained(launcher, job), 30, "the job is not told")
        refused = (explained(launcher, job), launcher.lifetimes())
        told(empty_cell, cloud, "set", scheduled=1000)
        gate.open()
        until(lambda: scaling.ended_well(job), 120, "the job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "the worker did not leave")

    assert "It passes by itself" in refused[0]
    assert refused[1] == ()
    assert [one.instance_type for one in launcher.lifetimes()] == ["m5.large"]
    assert "backoff" not in launcher.log_text("main.q")


def explained(launcher: Launcher, job: str) -> str:
    return launcher.command("explain", job).stdout.decode()


FRONT = {
    "CP_CAP_SGE_QUEUE_NAME": "z-front.q",
    "CP_CAP_SGE_HOSTLIST_NAME": "@frontHosts",
}
"""A first queue with a name and a host group of its own, the last one of the alphabet."""


STAY_THOSE = "settings of the whole cell stay those of queue z-front.q, whose process is away"


def test_a_cap_of_the_whole_cell_of_a_first_queue_that_was_renamed_holds_for_all_queues(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    launcher = launcher_of(empty_cell, cloud, {**QUICK, **SECOND, **FRONT, "CP_CAP_AUTOSCALE_WORKERS_1": "3"})
    show_on_failure["logs"] = launcher.shown
    launcher.edit("z-front.q", CP_CAP_AUTOSCALE_TOTAL_WORKERS="1")
    queues = ("z-front.q", "c5.large.q")
    scaling, gates = Autoscaling(empty_cell), {queue: Gate(empty_cell, queue) for queue in queues}
    first = gates["z-front.q"].submit("-q", "z-front.q")
    with launcher.launched():
        until(lambda: scaling.running_on(first), 60, "the job of the first queue did not start")
        second = gates["c5.large.q"].submit("-q", "c5.large.q")
        until(lambda: "total_workers (1)" in explained(launcher, second), 30, "the cap does not hold for the other")
        status = launcher.command("platform", "status").stdout.decode()
        arrays = {one.name: one.node_array for one in launcher.lifetimes()}
        kill(*launcher.pids("z-front.q"))
        until(lambda: STAY_THOSE in launcher.log_text("c5.large.q"), 30, "the other does not go on")
        passes = launcher.log_text("c5.large.q").count("capped by total_workers (1)")
        until(lambda: launcher.log_text("c5.large.q").count("capped by total_workers (1)") > passes, 30, "not capped")
        launcher.start("z-front.q")
        for gate in gates.values():
            gate.open()
        until(lambda: scaling.ended_well(first) and scaling.ended_well(second), 90, "a job did not end well")
        until(lambda: all(one.ended_at for one in launcher.lifetimes()), 60, "a worker did not leave")

    assert list(arrays.values()) == ["execute"], "its workers have the name that those of a first queue have"
    assert "settings of the whole cell are those of queue z-front.q" in status
    assert most_at_once(launcher.lifetimes()) == 1
    held = "CP_CAP_AUTOSCALE_TOTAL_WORKERS holds for the whole cell: 1, as queue z-front.q has it"
    assert held in launcher.log_text("c5.large.q")


def test_without_a_first_queue_people_are_told_whose_settings_hold_for_the_whole_cell(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    run = {**QUICK, **SECOND, "CP_CAP_SGE_DISABLE_DEFAULT_QUEUE": "true"}
    launcher = launcher_of(empty_cell, cloud, {**run, "CP_CAP_SGE_QUEUE_NAME_2": "a.q", "CP_CAP_AUTOSCALE_2": "true"})
    show_on_failure["logs"] = launcher.shown
    launcher.edit("c5.large.q", CP_CAP_AUTOSCALE_JOB_OWNER="project")
    with launcher.launched():
        until(lambda: all("serving cell" in launcher.log_text(queue) for queue in ("a.q", "c5.large.q")), 60)
        status = launcher.command("platform", "status").stdout.decode()
        verified = launcher.configure("a.q", CP_CAP_AUTOSCALE_JOB_OWNER="user").stdout.decode()
        logs = [launcher.log_text(queue) for queue in ("a.q", "c5.large.q")]

    said = "settings of the whole cell are those of queue c5.large.q"
    assert [said in text for text in (status, *logs)] == [True] * 3
    held = "CP_CAP_AUTOSCALE_JOB_OWNER holds for the whole cell: project, as queue c5.large.q has it; queue a.q has"
    assert f"{held} user" in verified, "in `sge configure`"
    assert f"{held} none" in logs[0]


def test_a_worker_that_was_taken_over_is_the_platforms_own_again_after_an_uninstall(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """The drain gives back the worker that we launched, and does nothing to the other, on which a job still runs."""
    launcher = launcher_of(empty_cell, cloud, QUICK)
    show_on_failure["logs"] = launcher.shown
    drained = launcher.logs / "sge-autoscaler.uninstall.log"
    scaling, first, second = Autoscaling(empty_cell), Gate(empty_cell, "first"), Gate(empty_cell, "second")
    theirs = launched_by_platform(empty_cell, cloud, launcher)
    until(lambda: any("d" in each.states for each in scaling.instances().values()), 30, "it did not enrol itself")
    empty_cell.out("qmod", "-e", "main.q")
    on_theirs = first.submit("-q", "main.q", "-pe", "local", "2")
    until(lambda: scaling.running_on(on_theirs), 30, "their worker runs nothing")
    with launcher.launched():
        until(lambda: f"run {theirs}" in launcher.log_text("main.q"), 40, "it is not taken over")
        on_ours = second.submit("-q", "main.q", "-pe", "local", "2")
        until(lambda: scaling.running_on(on_ours), 60, "no worker of ours came")
        done = launcher.command("platform", "uninstall")
        launcher.restart("main.q")
        until(lambda: THEIRS in launcher.console("main.q").read_text(), 30, "it is not back")
        second.open()
        until(lambda: scaling.ended_well(on_ours), 30, "the job on our worker did not end well")
        until(lambda: billable(empty_cell, cloud) == [theirs], 60, "our worker is leaked, or theirs was ended")
        until(lambda: "all workers" in drained.read_text(), 60, "the drain does not end")
        (host,) = scaling.running_on(on_theirs)
        states = {each.states for name, each in scaling.instances().items() if name.endswith(f"@{host}")}
        first.open()
        until(lambda: scaling.ended_well(on_theirs), 30, "the job on their worker did not end well")
        left = (billable(empty_cell, cloud), host in scaling.execution_hosts())

    assert done.returncode == 0, done.stderr.decode()
    assert states == {""}, "it is not disabled"
    assert left == ([theirs], True)


def test_a_stop_takes_the_tags_of_busy_runs_away_that_nobody_keeps_any_more(
    with_master: Cell, until: Until, show_on_failure: Shown
) -> None:
    """The master and a worker ran jobs less than CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT ago."""
    run = {name: text for name, text in QUICK.items() if name != "CP_CAP_SGE_MASTER_CORES"}
    run |= {"CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT": "600", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"}
    with played_cloud(with_master, "cloud_pipeline") as cloud:
        launcher = launcher_of(with_master, cloud, run)
        show_on_failure["logs"] = launcher.shown
        scaling, gate = Autoscaling(with_master), Gate(with_master)
        job, master = gate.submit("-t", "1:4"), cloud.environment["RUN_ID"]
        with launcher.launched():
            until(lambda: sum(scaling.running_on(job).values()) == 4, 90, "not all tasks run")
            until(lambda: in_use(with_master, cloud) > {master}, 20, "master and worker have no tag")
            gate.open()
            until(lambda: scaling.ended_well(job, tasks=4), 60, "the tasks did not end well")
            time.sleep(3 * POLL)
            idle = in_use(with_master, cloud)
            stopped = launcher.command("stop", "--drain")
            until(lambda: in_use(with_master, cloud) == set(), 10, "a tag is left")
            pids = launcher.pids("main.q")

    assert idle > {master}, "they count as in use for 600 s"
    assert stopped.returncode == 0, stopped.stderr.decode()
    assert len(pids) == 1, "the process of the queue is there still"


def in_use(cell: Cell, cloud: PlayedCloud) -> set[str]:
    """The runs that are tagged so."""
    return {run for run, tagged in tags(cell, cloud).items() if tagged.get("SGE_IN_USE") == "true"}


def test_two_masters_that_share_one_common_repo_serve_their_own_cells_and_give_back_their_own_workers(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """The script holds for both; processes, state and workers are each master's own. An `uninstall` on one changes the
    script for the other as well, whose processes may all be the platform's own before anybody gives its workers back.
    """
    with Cell.up(scheduler={"schedule_interval": "0:0:1"}) as up:
        other = replace(up, declared=())
        other.reset()
        with played_cloud(other, "cloud_pipeline") as its_cloud:
            first = launcher_of(empty_cell, cloud, QUICK)
            second = launcher_of(other, its_cloud, QUICK, shared=first.repo)
            show_on_failure["logs"] = lambda: first.shown() + second.shown()
            masters = ((first, Autoscaling(empty_cell), Gate(empty_cell)), (second, Autoscaling(other), Gate(other)))
            with first.launched(), second.launched():
                jobs = [gate.submit("-q", "main.q") for _, _, gate in masters]
                until(
                    lambda: all(scaling.running_on(job) for job, (_, scaling, _) in zip(jobs, masters, strict=True)), 90
                )
                workers = [billable(empty_cell, cloud), billable(other, its_cloud)]
                gone = first.command("platform", "uninstall")
                status = second.command("platform", "status")
                first.restart("main.q")
                until(lambda: THEIRS in first.console("main.q").read_text(), 30, "it is not back on the first")
                masters[0][2].open()
                until(lambda: billable(empty_cell, cloud) == [], 60, "the first master's worker is leaked")
                still = (billable(other, its_cloud), masters[1][1].running_on(jobs[1]), deciding(second))
                second.restart("main.q")
                until(lambda: THEIRS in second.console("main.q").read_text(), 30, "it is not back on the second")
                also = second.command("platform", "uninstall")
                masters[1][2].open()
                until(lambda: billable(other, its_cloud) == [], 60, "the second master's worker is leaked")
                ended = [scaling.ended_well(job) for job, (_, scaling, _) in zip(jobs, masters, strict=True)]

    assert [len(each) for each in workers] == [1, 1]
    assert (gone.returncode, also.returncode) == (0, 0)
    assert status.returncode == 1
    assert "the platform's own script is in place" in status.stdout.decode()
    assert still[0] == workers[1]
    assert still[1], "its job runs on"
    assert still[2] == "main.q", "its process goes on until it is restarted"
    assert "our workers are given back" in also.stdout.decode()
    assert ended == [True, True]


def test_a_committed_master_that_was_paused_and_goes_on_leaves_the_workers_of_the_first_one_alone(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    """The image has the state, the register and Grid Engine's files of the first run, with its tag. Here even the name
    of its host is the same.
    """
    first = launcher_of(empty_cell, cloud, QUICK)
    scaling, before, later = Autoscaling(empty_cell), Gate(empty_cell, "before"), Gate(empty_cell, "later")
    of_first = before.submit("-q", "main.q", "-r", "y")
    with first.launched():
        until(lambda: scaling.running_on(of_first), 60, "the job did not start")
        (kept,) = billable(empty_cell, cloud)
        for pid in first.pids("main.q"):
            kill(pid)
        committed = Launcher(empty_cell, {**first.run, "RUN_ID": another_master(empty_cell, cloud)})
        show_on_failure["logs"] = committed.shown
        assert committed.command("platform", "install").returncode == 0
        committed.start("main.q")
        until(lambda: deciding(committed) == "main.q", 60, "nobody decides in the committed run")
        for pid in committed.pids("main.q"):
            kill(pid)
        resumed = committed.resume()
        job = later.submit("-q", "main.q")
        later.open()
        until(lambda: scaling.ended_well(job), 120, "the job of the committed run did not end well")
        until(lambda: billable(empty_cell, cloud) == [kept], 60, "a worker is leaked, or that of the first run ended")
        empty_cell.out("qdel", "-f", of_first)

    assert resumed.returncode == 0, resumed.stderr.decode()


def another_master(cell: Cell, cloud: PlayedCloud) -> str:
    """A further master run on the platform."""
    run = int(str(told(cell, cloud, "static")))
    asked = {"instanceType": "m5.large", "hddSize": 50, "dockerImage": cloud.environment["docker_image"], "params": {}}
    told(cell, cloud, "run", id=run, asked=asked)
    return str(run)
