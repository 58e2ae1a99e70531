"""Workers of a Cloud Pipeline master run on a real cell: their image enrols them, and the autoscaler gives them what it
does not know, before they are enabled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from autoscaler.sge.admin import Administrator
from autoscaler.sge.groups import Groups
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.test_auto_stop import LISTENS, asked
from tests.grid_engine.test_groups import IN_GROUPS, groups_left, hosts_of, prepare, submit_mpi
from tests.grid_engine.test_rules import make_complexes
from tests.grid_engine.test_sigkill import STARTED_AGAIN
from tests.grid_engine.waiting import Shown, Until
from tests.samples import sample

SETTINGS = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large", **IN_GROUPS}
RULES = {
    "default_resources": [{"select": {}, "name": "vm_size", "value": "node.vm_size"}],
    "complexes": {"size": "vm_size"},
}


@pytest.fixture
def cloud(empty_cell: Cell, show_on_failure: Shown) -> Iterator[PlayedCloud]:
    show_on_failure["control plane"] = (empty_cell.directory / "cloud_pipeline.log").read_text
    with played_cloud(empty_cell, "cloud_pipeline") as cloud:
        yield cloud


def completed(cell: Cell, host: str) -> list[str]:
    """What the autoscaler gave a host, as Grid Engine shows it."""
    shown = cell.out("qhost", "-F", "group_id,size", "-h", host).split()
    return sorted(word for word in shown if word.startswith(("hf:group_id=", "hf:size=")))


@pytest.mark.thorough
def test_an_mpi_job_runs_in_one_group_whose_workers_have_their_values_and_ask_to_stop(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown
) -> None:
    make_complexes(empty_cell)
    rules, arrays = empty_cell.home / "rules.json", empty_cell.home / "arrays.json"
    rules.write_text(json.dumps(RULES))
    arrays.write_text(json.dumps([{"Name": "execute", "Configuration": {"application_version": "1.2.3"}}]))
    autoscaling = Autoscaling(
        empty_cell, {**cloud.environment, **SETTINGS, **LISTENS, "CP_CAP_AUTOSCALE_RULES": str(rules)}
    )
    show_on_failure["autoscaler"] = autoscaling.log_text
    prepare(autoscaling)
    assert autoscaling.command("autoscale", "--file", str(arrays)).returncode == 0
    gate = Gate(empty_cell)
    job, hostfile = submit_mpi(empty_cell, "one", gate)

    with autoscaling.running():
        until(hostfile.exists, 40, "the job did not start")
        hosts = hosts_of(hostfile)
        values = [completed(empty_cell, host) for host in hosts]
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
        first = min(hosts)
        found = [
            empty_cell.tree.host_runner(first)(("jetpack", "config", key), timeout=60.0).stdout.decode().strip()
            for key in ("application_version", "cyclecloud.node.group_id", "cyclecloud.instance.id")
        ]
        until(lambda: [asked(empty_cell, host)["stop"] for host in hosts][-1], 30, "they do not stop")
        until(autoscaling.all_gone, 40, "the group did not leave")
        until(lambda: not groups_left(empty_cell), 30, "something of the group is left")

    assert values == [["hf:group_id=execute:4-1", "hf:size=m5.large"]] * 2
    ids = {life.name: life.worker_id for life in autoscaling.lifetimes()}
    assert found == ["1.2.3", "execute:4-1", ids[first]]
    kept_secret(empty_cell, autoscaling)


def kept_secret(cell: Cell, autoscaling: Autoscaling) -> None:
    """No URL of a worker is logged, and what the platform writes into the runs' logs has no secret."""
    consoles = [file.read_text(errors="replace") for file in Path(cell.tree.directory).glob("hosts/*/console.log")]
    assert any("Command text: printf %s" in console for console in consoles)
    assert [text for text in (autoscaling.log_text(), *consoles) if "/autostop/" in text] == []


@pytest.mark.thorough
@pytest.mark.parametrize("call", sample(("-mattr*", "-aattr hostgroup*"), "-aattr hostgroup*"))
def test_workers_are_complete_when_a_job_runs_though_their_completion_was_killed(
    empty_cell: Cell, cloud: PlayedCloud, until: Until, show_on_failure: Shown, call: str
) -> None:
    qconf = StandIn(empty_cell, "qconf")
    autoscaling = Autoscaling(empty_cell, {**cloud.environment, **SETTINGS, "PATH": qconf.path})
    show_on_failure["autoscaler"] = autoscaling.log_text
    prepare(autoscaling)
    qconf.kill_caller_around(call)
    gate = Gate(empty_cell)
    job, hostfile = submit_mpi(empty_cell, "one", gate)

    with empty_cell.start(STARTED_AGAIN, env=autoscaling.environment, output=autoscaling.log):
        until(hostfile.exists, 60, "the job did not start")
        values = [completed(empty_cell, host) for host in hosts_of(hostfile)]
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
        until(autoscaling.all_gone, 40, "the group did not leave")

    assert qconf.killed() == {"before", "after"}
    assert values == [["hf:group_id=execute:4-1"]] * 2
    assert len(autoscaling.lifetimes()) == 2


def test_a_host_already_in_the_queue_gets_the_parallel_environment_of_its_group(cell: Cell) -> None:
    """Its queue instance is there: Grid Engine gives it the queue's list for the group only when that is set again."""
    administrator, (host, *_) = Administrator(cell.runner), cell.declared
    ours = Groups(administrator).prepare("execute:4-1", queue="main.q", host_group="@allhosts", pes=("mpi",))

    for _ in range(2):
        administrator.complete(host.name, "main.q", {"group_id": "execute:4-1"}, (ours,))

    assert cell.out("qselect", "-pe", "mpi_execute_4-1").split() == [f"main.q@{host.name}"]
    assert cell.out("qselect", "-qs", "d").split() == [f"main.q@{host.name}"]
