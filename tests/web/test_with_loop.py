"""Callers and a loop at once: the loop alone carries out what callers request, in a simulated cluster."""

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
from tests.web.test_seed_lines import call

STEP = 5.0


@dataclass
class Service:
    """A simulated cluster, the loop that serves it and the REST API over the same store."""

    world: World
    api: Served
    loop: Loop

    @property
    def client(self) -> Client:
        return self.api.client

    def run(self, until: Callable[[], bool], passes: int = 40) -> int:
        """Make passes until it holds; returns how many."""
        for number in range(passes):
            if until():
                return number
            self.loop.pass_once()
            self.world.cluster.advance(STEP)
        raise AssertionError(f"not after {passes} passes: {self.client.nodes()}")

    def statuses(self) -> list[str]:
        return [node["Status"] for node in self.client.nodes()]

    def again(self) -> None:
        """Replace the loop by another process."""
        self.loop = start(self.world)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    world = World(tmp_path / "store.sqlite", boot_delay=7.0)
    with served(world.store_file, clock=world.clock) as api:
        loop = start(world)
        loop.pass_once()
        yield Service(world, api, loop)


def test_a_created_node_becomes_a_ready_worker(service: Service) -> None:
    service.client.create(1, request_id="r")
    service.run(lambda: service.statuses() == ["Ready"])
    (node,) = service.client.nodes(request_id="r")
    assert (node["Name"], node["TargetState"], node["Hostname"] in service.world.cluster.workers) == (
        "execute-1",
        "Started",
        True,
    )


def test_a_created_node_is_not_removed_when_idle(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    for _ in range(20):
        service.loop.pass_once()
        service.world.cluster.advance(STEP)
    assert service.statuses() == ["Ready"]


def test_no_node_gets_two_workers(service: Service) -> None:
    service.client.create(2)
    service.run(lambda: service.statuses() == ["Ready"] * 2)
    assert len(service.world.cloud.machines) == 2


def test_a_terminated_node_ends_after_its_job(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    (job,) = service.world.cluster.submit(seconds=60.0)
    service.run(lambda: job.host is not None)
    answer = service.client.post("nodes/terminate", {"names": ["execute-1"]})
    (node,) = service.client.nodes()
    before = answer.json()["nodes"][0]["status"], node["TargetState"], job.ended
    service.run(lambda: not service.client.nodes())
    assert (before, job.ended, job.starts) == (("OK", "Terminated", False), True, (node["Hostname"],))


def test_a_node_terminated_while_booting_leaves_no_machine(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: bool(service.world.cloud.machines))
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    service.run(lambda: not running(service))
    service.loop.pass_once()
    assert service.client.nodes() == []


def test_a_node_terminated_while_ordered_leaves_no_machine(service: Service) -> None:
    """The order is sent, and its machine is not known yet."""
    service.client.create(1)
    service.loop.pass_once()
    assert service.client.nodes()[0].get("InstanceId") is None
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    service.run(lambda: bool(service.world.cloud.machines))
    service.run(lambda: not running(service))
    service.loop.pass_once()
    assert service.client.nodes() == []


def test_a_node_terminated_before_its_order_is_never_ordered(service: Service) -> None:
    service.client.create(1)
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    for _ in range(5):
        service.loop.pass_once()
        service.world.cluster.advance(STEP)
    assert service.world.cloud.machines == {}


def test_a_caller_can_terminate_a_worker_of_the_queue(service: Service) -> None:
    (job,) = service.world.cluster.submit(seconds=20.0)
    service.run(lambda: job.host is not None)
    (node,) = service.client.nodes()
    service.client.post("nodes/terminate", {"ids": [node["NodeId"]]})
    service.run(lambda: not service.client.nodes())
    assert job.ended


def test_a_person_can_undo_the_drain_that_a_caller_requested(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    (node,) = service.client.nodes()
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    assert [each.verb for each in service.api.store.overrides.in_force()] == [Verb.DRAIN]
    service.api.store.overrides.end(Verb.DRAIN, who="ben", at=service.world.clock(), host=node["InstanceId"])
    service.loop.pass_once()
    assert service.api.store.overrides.in_force() == ()


def test_after_a_person_undoes_a_terminate_call_the_machine_stays_and_the_node_ends(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    (job,) = service.world.cluster.submit(seconds=30.0)
    service.run(lambda: job.host is not None)
    (node,) = service.client.nodes()
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    service.loop.pass_once()
    service.api.store.overrides.end(Verb.DRAIN, who="ben", at=service.world.clock(), host=node["InstanceId"])
    service.run(lambda: job.ended)
    (another,) = service.world.cluster.submit(seconds=30.0)
    service.run(lambda: another.host is not None)
    while_it_serves = another.host, running(service), service.statuses()
    service.run(lambda: not service.client.nodes())
    assert while_it_serves == (node["Hostname"], [node["InstanceId"]], ["Terminating"])


def lost(service: Service) -> dict[str, Any]:
    """A created node whose machine is lost."""
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    (machine,) = service.world.cloud.machines
    service.world.cloud.kill(machine)
    service.run(lambda: service.statuses() == ["Failed"])
    (node,) = service.client.nodes()
    return node


def test_a_node_whose_machine_is_lost_fails_and_is_not_replaced(service: Service) -> None:
    node = lost(service)
    for _ in range(5):
        service.loop.pass_once()
        service.world.cluster.advance(STEP)
    assert (node["TargetState"], node["StatusMessage"], "InstanceId" in node) == (
        "Started",
        "its provider reports that it is gone",
        False,
    )
    assert (service.statuses(), len(service.world.cloud.machines)) == (["Failed"], 1)


def test_a_failed_node_is_gone_once_its_caller_terminates_it(service: Service) -> None:
    lost(service)
    answer = service.client.post("nodes/terminate", {"filter": 'Status === "Failed"'})
    assert (answer.json()["nodes"][0]["status"], service.client.nodes()) == ("OK", [])


def test_a_failed_node_does_not_count_against_availability(service: Service) -> None:
    (array,) = service.client.get("status").json()["nodearrays"]
    lost(service)
    (after,) = service.client.get("status").json()["nodearrays"]
    counted = [{each[name] for name in ("availableCount", "activeCount", "regionalConsumedCoreCount")}
               for each in (array["buckets"][0], after["buckets"][0])]  # fmt: skip
    assert counted[0] == counted[1]


def test_a_retried_lost_node_gets_another_machine_under_its_name(service: Service) -> None:
    before = lost(service)
    service.client.ask("POST", "/cloud/actions/retry/demo")
    service.run(lambda: service.statuses() == ["Ready"])
    (node,) = service.client.nodes()
    again = node["InstanceId"]
    service.again()
    service.loop.pass_once()
    service.client.post("nodes/terminate", {"names": [node["Name"]]})
    service.run(lambda: not service.client.nodes())
    assert (node["NodeId"], node["Name"]) == (before["NodeId"], before["Name"])
    assert (len(service.world.cloud.machines), again in service.world.cloud.machines, running(service)) == (2, True, [])


def test_a_node_that_never_comes_up_fails_with_a_message(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", boot_delay=1e6)
    with served(world.store_file, clock=world.clock) as api:
        service = Service(world, api, start(world))
        service.loop.pass_once()
        service.client.create(1)
        service.run(lambda: service.statuses() == ["Failed"], passes=400)
        (node,) = service.client.nodes()
    assert "was not up within" in node["StatusMessage"]


def test_nodes_are_served_by_the_next_process_after_a_crash(service: Service) -> None:
    service.client.create(2, request_id="r")
    service.loop.pass_once()
    service.again()
    repeated = service.client.create(2, request_id="r")
    service.run(lambda: service.statuses() == ["Ready"] * 2)
    assert (repeated.status_code, len(service.world.cloud.machines)) == (409, 2)


def test_a_drain_by_id_ends_once_its_worker_is_gone(service: Service) -> None:
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Ready"])
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    service.run(lambda: service.api.store.overrides.in_force() == ())
    assert not running(service)


@pytest.mark.parametrize(
    ("held_back", "why", "status"),
    (
        (
            lambda service: service.api.store.overrides.ask(Verb.PAUSE, who="ben", at=service.world.clock()),
            "paused by ben",
            "Acquiring",
        ),
        (
            lambda service: service.world.cloud.faults.out_of_capacity.add("m5.large"),
            ("m5.large is in backoff until "),
            "Failed",
        ),
    ),
    ids=["a pause", "a type in backoff"],
)
def test_a_node_for_which_nothing_is_launched_states_why(
    service: Service, held_back: Callable[[Service], object], why: str, status: str
) -> None:
    held_back(service)
    service.client.create(1)
    service.run(lambda: why in service.client.nodes()[0].get("StatusMessage", ""), passes=8)
    assert service.statuses() == [status]


def test_a_failed_node_is_retried_on_request(service: Service) -> None:
    sold_out = service.world.cloud.faults.out_of_capacity
    sold_out.add("m5.large")
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Failed"], passes=8)
    sold_out.clear()
    for _ in range(4):
        service.loop.pass_once()
    still = service.statuses()
    service.client.ask("POST", "/cloud/actions/retry/demo")
    service.run(lambda: service.statuses() == ["Ready"], passes=8)
    assert still == ["Failed"]


def test_a_type_in_backoff_is_not_promised_until_it_is_retried(service: Service) -> None:
    service.world.cloud.faults.out_of_capacity.add("m5.large")
    service.client.create(1)
    service.run(lambda: service.statuses() == ["Failed"], passes=8)
    service.client.post("nodes/terminate", {"names": ["execute-1"]})
    (answer,) = service.client.create(1).json()["sets"]
    service.client.ask("POST", "/cloud/actions/retry/demo")
    service.loop.pass_once()
    (again,) = service.client.create(1).json()["sets"]
    assert (answer["added"], "no m5.large is left" in answer["message"], again) == (0, True, {"added": 1})


def test_only_nodes_beyond_the_hourly_launch_limit_state_it(tmp_path: Path) -> None:
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=3, max_launches_per_hour=2))
    world = World(tmp_path / "store.sqlite", boot_delay=7.0, policy=replace(POLICY, node_arrays=(array,)))
    with served(world.store_file, clock=world.clock) as api:
        loop = start(world)
        loop.pass_once()
        api.client.create(3)
        loop.pass_once()
        answers = [node.get("StatusMessage") for node in api.client.nodes()]
    assert (answers[:2], "launches" in (answers[2] or "")) == ([None, None], True)


def test_a_node_no_longer_mentions_a_pause_that_is_over(service: Service) -> None:
    service.api.store.overrides.ask(Verb.PAUSE, who="ben", at=service.world.clock())
    service.client.create(1)
    service.run(lambda: "StatusMessage" in service.client.nodes()[0], passes=3)
    service.api.store.overrides.end(Verb.PAUSE, who="ben", at=service.world.clock())
    service.run(lambda: service.statuses() == ["Ready"])
    assert not service.client.nodes()[0].get("StatusMessage")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_all_documented_nodes_of_a_placement_group_come_and_are_counted_in_it(tmp_path: Path) -> None:
    """The provider has no placement groups: this is only a name that nodes share, and more nodes may join it."""
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=6))
    world = World(tmp_path / "store.sqlite", policy=replace(POLICY, node_arrays=(array,)))
    filled = {"ondemand": "execute", "Standard_Hc44rs": "m5.large"}

    def groups(service: Service) -> object:
        (bucket,) = service.client.get("status").json()["nodearrays"][0]["buckets"]
        return bucket["placementGroups"]

    with served(world.store_file, clock=world.clock) as api:
        service = Service(world, api, start(world))
        service.loop.pass_once()
        status, answer = call(api, CREATE_TOGETHER, **filled)
        service.run(lambda: service.statuses() == ["Ready"] * 4)
        at_first = groups(service)
        call(api, CREATE_TOGETHER, **filled, **{REQUEST: "another-request", '"count" : 4': '"count" : 1'})
        service.run(lambda: service.statuses() == ["Ready"] * 5)
        service.client.post("nodes/terminate", {"filter": 'PlacementGroupId === "pg0"'})
        joined = groups(service)
        service.run(lambda: not service.client.nodes())
        assert (status, answer["sets"]) == (202, [{"added": 4}])
        assert (at_first, joined, groups(service)) == (
            [{"name": "pg0", "activeCount": 4, "activeCoreCount": 8}],
            [{"name": "pg0", "activeCount": 5, "activeCoreCount": 10}],
            [],
        )


def running(service: Service) -> list[str]:
    return [worker.id for worker in service.world.provider().workers() if worker.state is not MachineState.TERMINATED]
