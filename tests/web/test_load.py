"""Twenty clients at once against a running loop: every node is served or ended, none is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.core.policy import CircuitBreaker, Limits
from tests.samples import thorough
from tests.simulated.autoscaler import POLICY, World, start
from tests.web.served import Client, served

CLIENTS, CALLS, ROOM = 20, 15 if thorough() else 5, 60


def caller(url: str, number: int) -> tuple[int, list[str]]:
    """Creates and terminates nodes at random, and repeats some requests as if their answers were lost; returns how many
    nodes were accepted, and the ids of those that it terminated.
    """
    client, chance = Client(url), random.Random(number)
    promised = 0
    ended: list[str] = []
    mine: list[str] = []
    for call in range(CALLS):
        if mine and chance.random() < 0.4:
            chosen = chance.sample(mine, chance.randint(1, len(mine)))
            answer = client.post("nodes/terminate", {"ids": chosen}).json()
            assert all(node["status"] == "OK" for node in answer["nodes"])
            ended += chosen
            mine = [node for node in mine if node not in chosen]
            continue
        request = f"{number}-{call}"
        answer = client.create(chance.randint(1, 3), request_id=request)
        added = answer.json()["sets"][0]["added"]
        for _ in range(chance.randint(0, 2)):
            assert client.create(3, request_id=request).status_code == 409
        nodes = [node["NodeId"] for node in client.nodes(request_id=request)]
        assert len(nodes) == added
        promised += added
        mine += nodes
    return promised, ended


@pytest.mark.thorough
def test_with_many_callers_at_once_no_created_node_is_lost_or_doubled(tmp_path: Path) -> None:
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=ROOM), scale_up_batch=ROOM, scale_down_batch=ROOM)
    policy = replace(POLICY, node_arrays=(array,), circuit_breaker=CircuitBreaker(600, None, None, None))
    world = World(tmp_path / "store.sqlite", policy=policy)
    most = [0]
    with served(world.store_file, clock=world.clock) as api, ThreadPoolExecutor(CLIENTS) as pool:
        loop = start(world)
        loop.pass_once()

        def passes() -> None:
            loop.pass_once()
            world.cluster.advance(5.0)
            most[0] = max(most[0], len(world.cloud.living("this-cell")))

        calls = [pool.submit(caller, api.client.url, number) for number in range(CLIENTS)]
        while not all(call.done() for call in calls):
            passes()
        results = [call.result() for call in calls]
        for _ in range(40):
            passes()
        promised, ended = sum(count for count, _ in results), [node for _, nodes in results for node in nodes]
        nodes, live = api.client.nodes(), api.store.nodes.live()
    running = [worker.id for worker in world.provider().workers() if worker.state is MachineState.RUNNING]
    assert promised == len(ended) + len(live)
    assert {node["NodeId"] for node in nodes} == {node.id for node in live}
    assert Counter(node["Status"] for node in nodes) == {"Ready": len(live)}
    assert sorted(node["InstanceId"] for node in nodes) == sorted(running)
    assert most[0] <= ROOM
