"""Callers and a loop at once: what callers ask for is carried out by the loop alone, in a simulated cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.core.policy import Limits
from autoscaler.engine.loop import Loop
from autoscaler.store.overrides import Verb
from tests.simulated.autoscaler import POLICY, World, start
from tests.web.seed_lines import CREATE_TOGETHER, REQUEST
from tests.web.served import Client, Served, served
from tests.web.test_seed_lines import said

STEP = 5.0


@dataclass
class Scene:
    """A simulated cluster, the loop that serves it and the REST API over the same store."""

    world: World
    api: Served
    loop: Loop

    @property
    def client(self) -> Client:
        return self.api.client

    def run(self, until: Callable[[], bool], passes: int = 40) -> int:
        """Pass after pass until it holds; how many that took."""
        for number in range(passes):
            if until():
                return number
            self.loop.pass_once()
            self.world.cluster.advance(STEP)
        raise AssertionError(f"not after {passes} passes: {self.client.nodes()}")

    def statuses(self) -> list[str]:
        return [node["Status"] for node in self.client.nodes()]

    def again(self) -> None:
        """Another process in the place of the loop."""
        self.loop = start(self.world)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    world = World(tmp_path / "store.sqlite", boot_delay=7.0)
    with served(world.store_file, clock=world.clock) as api:
        loop = start(world)
        loop.pass_once()
        yield Scene(world, api, loop)


def test_a_created_node_becomes_a_ready_worker(scene: Scene) -> None:
    scene.client.create(1, request_id="r")
    scene.run(lambda: scene.statuses() == ["Ready"])
    (node,) = scene.client.nodes(request_id="r")
    assert (node["Name"], node["TargetState"], node["Hostname"] in scene.world.cluster.workers) == (
        "execute-1",
        "Started",
        True,
    )


def test_a_created_node_is_not_removed_when_idle(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    for _ in range(20):
        scene.loop.pass_once()
        scene.world.cluster.advance(STEP)
    assert scene.statuses() == ["Ready"]


def test_no_node_gets_two_workers(scene: Scene) -> None:
    scene.client.create(2)
    scene.run(lambda: scene.statuses() == ["Ready"] * 2)
    assert len(scene.world.cloud.machines) == 2


def test_a_terminated_node_ends_after_its_job(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    (job,) = scene.world.cluster.submit(seconds=60.0)
    scene.run(lambda: job.host is not None)
    answer = scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    (node,) = scene.client.nodes()
    before = answer.json()["nodes"][0]["status"], node["TargetState"], job.ended
    scene.run(lambda: not scene.client.nodes())
    assert (before, job.ended, job.starts) == (("OK", "Terminated", False), True, (node["Hostname"],))


def test_a_node_terminated_while_booting_leaves_no_machine(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: bool(scene.world.cloud.machines))
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    scene.run(lambda: not running(scene))
    scene.loop.pass_once()
    assert scene.client.nodes() == []


def test_a_node_terminated_while_ordered_leaves_no_machine(scene: Scene) -> None:
    """The order is out and nobody knows yet which machine it brings."""
    scene.client.create(1)
    scene.loop.pass_once()
    assert scene.client.nodes()[0].get("InstanceId") is None
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    scene.run(lambda: bool(scene.world.cloud.machines))
    scene.run(lambda: not running(scene))
    scene.loop.pass_once()
    assert scene.client.nodes() == []


def test_a_node_terminated_before_its_order_is_never_ordered(scene: Scene) -> None:
    scene.client.create(1)
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    for _ in range(5):
        scene.loop.pass_once()
        scene.world.cluster.advance(STEP)
    assert scene.world.cloud.machines == {}


def test_a_caller_can_terminate_a_worker_of_the_queue(scene: Scene) -> None:
    (job,) = scene.world.cluster.submit(seconds=20.0)
    scene.run(lambda: job.host is not None)
    (node,) = scene.client.nodes()
    scene.client.post("nodes/terminate", {"ids": [node["NodeId"]]})
    scene.run(lambda: not scene.client.nodes())
    assert job.ended


def test_a_person_can_undo_the_drain_that_a_caller_requested(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    (node,) = scene.client.nodes()
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    scene.api.store.overrides.end(Verb.DRAIN, who="ben", at=scene.world.clock(), host=node["InstanceId"])
    scene.loop.pass_once()
    assert scene.api.store.overrides.in_force() == ()


def test_after_a_person_undoes_a_terminate_call_the_machine_stays_and_the_node_ends(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    (job,) = scene.world.cluster.submit(seconds=30.0)
    scene.run(lambda: job.host is not None)
    (node,) = scene.client.nodes()
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    scene.loop.pass_once()
    scene.api.store.overrides.end(Verb.DRAIN, who="ben", at=scene.world.clock(), host=node["InstanceId"])
    scene.run(lambda: job.ended)
    (another,) = scene.world.cluster.submit(seconds=30.0)
    scene.run(lambda: another.host is not None)
    while_it_serves = another.host, running(scene), scene.statuses()
    scene.run(lambda: not scene.client.nodes())
    assert while_it_serves == (node["Hostname"], [node["InstanceId"]], ["Terminating"])


def lost(scene: Scene) -> dict[str, Any]:
    """A created node whose machine is lost."""
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    (machine,) = scene.world.cloud.machines
    scene.world.cloud.kill(machine)
    scene.run(lambda: scene.statuses() == ["Failed"])
    (node,) = scene.client.nodes()
    return node


def test_a_node_whose_machine_is_lost_fails_and_is_not_replaced(scene: Scene) -> None:
    node = lost(scene)
    for _ in range(5):
        scene.loop.pass_once()
        scene.world.cluster.advance(STEP)
    assert (node["TargetState"], node["StatusMessage"], "InstanceId" in node) == (
        "Started",
        "its provider reports that it is gone",
        False,
    )
    assert (scene.statuses(), len(scene.world.cloud.machines)) == (["Failed"], 1)


def test_a_failed_node_is_gone_once_its_caller_terminates_it(scene: Scene) -> None:
    lost(scene)
    answer = scene.client.post("nodes/terminate", {"filter": 'Status === "Failed"'})
    assert (answer.json()["nodes"][0]["status"], scene.client.nodes()) == ("OK", [])


def test_a_failed_node_does_not_count_against_availability(scene: Scene) -> None:
    (array,) = scene.client.get("status").json()["nodearrays"]
    lost(scene)
    (after,) = scene.client.get("status").json()["nodearrays"]
    counted = [{each[name] for name in ("availableCount", "activeCount", "regionalConsumedCoreCount")}
               for each in (array["buckets"][0], after["buckets"][0])]  # fmt: skip
    assert counted[0] == counted[1]


def test_a_retried_lost_node_gets_another_machine_under_its_name(scene: Scene) -> None:
    before = lost(scene)
    scene.client.ask("POST", "/cloud/actions/retry/demo")
    scene.run(lambda: scene.statuses() == ["Ready"])
    (node,) = scene.client.nodes()
    again = node["InstanceId"]
    scene.again()
    scene.loop.pass_once()
    scene.client.post("nodes/terminate", {"names": [node["Name"]]})
    scene.run(lambda: not scene.client.nodes())
    assert (node["NodeId"], node["Name"]) == (before["NodeId"], before["Name"])
    assert (len(scene.world.cloud.machines), again in scene.world.cloud.machines, running(scene)) == (2, True, [])


def test_a_node_that_never_comes_up_fails_with_a_message(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", boot_delay=1e6)
    with served(world.store_file, clock=world.clock) as api:
        scene = Scene(world, api, start(world))
        scene.loop.pass_once()
        scene.client.create(1)
        scene.run(lambda: scene.statuses() == ["Failed"], passes=400)
        (node,) = scene.client.nodes()
    assert "was not up within" in node["StatusMessage"]


def test_nodes_are_served_by_the_next_process_after_a_crash(scene: Scene) -> None:
    scene.client.create(2, request_id="r")
    scene.loop.pass_once()
    scene.again()
    repeated = scene.client.create(2, request_id="r")
    scene.run(lambda: scene.statuses() == ["Ready"] * 2)
    assert (repeated.status_code, len(scene.world.cloud.machines)) == (409, 2)


def test_a_drain_by_id_ends_once_its_worker_is_gone(scene: Scene) -> None:
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Ready"])
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    scene.run(lambda: scene.api.store.overrides.in_force() == ())
    assert not running(scene)


@pytest.mark.parametrize(
    ("held_back", "why", "status"),
    (
        (
            lambda scene: scene.api.store.overrides.ask(Verb.PAUSE, who="ben", at=scene.world.clock()),
            "paused by ben",
            "Acquiring",
        ),
        (
            lambda scene: scene.world.cloud.faults.out_of_capacity.add("m5.large"),
            ("m5.large is in backoff until "),
            "Failed",
        ),
    ),
    ids=["a pause", "a type that rests"],
)
def test_a_node_for_which_nothing_is_launched_states_why(
    scene: Scene, held_back: Callable[[Scene], object], why: str, status: str
) -> None:
    held_back(scene)
    scene.client.create(1)
    scene.run(lambda: why in scene.client.nodes()[0].get("StatusMessage", ""), passes=8)
    assert scene.statuses() == [status]


def test_a_failed_node_is_retried_on_request(scene: Scene) -> None:
    sold_out = scene.world.cloud.faults.out_of_capacity
    sold_out.add("m5.large")
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Failed"], passes=8)
    sold_out.clear()
    for _ in range(4):
        scene.loop.pass_once()
    still = scene.statuses()
    scene.client.ask("POST", "/cloud/actions/retry/demo")
    scene.run(lambda: scene.statuses() == ["Ready"], passes=8)
    assert still == ["Failed"]


def test_a_type_in_backoff_is_not_promised_until_it_is_retried(scene: Scene) -> None:
    scene.world.cloud.faults.out_of_capacity.add("m5.large")
    scene.client.create(1)
    scene.run(lambda: scene.statuses() == ["Failed"], passes=8)
    scene.client.post("nodes/terminate", {"names": ["execute-1"]})
    (told,) = scene.client.create(1).json()["sets"]
    scene.client.ask("POST", "/cloud/actions/retry/demo")
    scene.loop.pass_once()
    (again,) = scene.client.create(1).json()["sets"]
    assert (told["added"], "no m5.large is left" in told["message"], again) == (0, True, {"added": 1})


def test_only_nodes_beyond_the_hourly_launch_limit_state_it(tmp_path: Path) -> None:
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=3, max_launches_per_hour=2))
    world = World(tmp_path / "store.sqlite", boot_delay=7.0, policy=replace(POLICY, node_arrays=(array,)))
    with served(world.store_file, clock=world.clock) as api:
        loop = start(world)
        loop.pass_once()
        api.client.create(3)
        loop.pass_once()
        told = [node.get("StatusMessage") for node in api.client.nodes()]
    assert (told[:2], "launches" in (told[2] or "")) == ([None, None], True)


def test_a_node_no_longer_mentions_a_pause_that_is_over(scene: Scene) -> None:
    scene.api.store.overrides.ask(Verb.PAUSE, who="ben", at=scene.world.clock())
    scene.client.create(1)
    scene.run(lambda: "StatusMessage" in scene.client.nodes()[0], passes=3)
    scene.api.store.overrides.end(Verb.PAUSE, who="ben", at=scene.world.clock())
    scene.run(lambda: scene.statuses() == ["Ready"])
    assert not scene.client.nodes()[0].get("StatusMessage")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_all_documented_nodes_of_a_placement_group_come_and_are_counted_in_it(tmp_path: Path) -> None:
    """The provider has no placement groups: this one is a name that its nodes share, and more nodes may join it."""
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=6))
    world = World(tmp_path / "store.sqlite", policy=replace(POLICY, node_arrays=(array,)))
    filled = {"ondemand": "execute", "Standard_Hc44rs": "m5.large"}

    def groups(scene: Scene) -> object:
        (bucket,) = scene.client.get("status").json()["nodearrays"][0]["buckets"]
        return bucket["placementGroups"]

    with served(world.store_file, clock=world.clock) as api:
        scene = Scene(world, api, start(world))
        scene.loop.pass_once()
        status, answer = said(api, CREATE_TOGETHER, **filled)
        scene.run(lambda: scene.statuses() == ["Ready"] * 4)
        at_first = groups(scene)
        said(api, CREATE_TOGETHER, **filled, **{REQUEST: "another-request", '"count" : 4': '"count" : 1'})
        scene.run(lambda: scene.statuses() == ["Ready"] * 5)
        scene.client.post("nodes/terminate", {"filter": 'PlacementGroupId === "pg0"'})
        joined = groups(scene)
        scene.run(lambda: not scene.client.nodes())
        assert (status, answer["sets"]) == (202, [{"added": 4}])
        assert (at_first, joined, groups(scene)) == (
            [{"name": "pg0", "activeCount": 4, "activeCoreCount": 8}],
            [{"name": "pg0", "activeCount": 5, "activeCoreCount": 10}],
            [],
        )


def running(scene: Scene) -> list[str]:
    return [worker.id for worker in scene.world.provider().workers() if worker.state is not MachineState.TERMINATED]
