"""Nodes that callers created: each gets a worker of its own, once, and keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.fleet import ANY, OrderState
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import CreatedNode, Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.requests.created_nodes import bindings
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    XLARGE,
    a_bucket,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    an_order,
    launched,
    note_codes,
    verdict_and_code,
    verdict_of,
)


def a_node(number: int = 1, *, worker: str | None = None, **more: Any) -> CreatedNode:
    array = more.pop("node_array", "execute")
    return CreatedNode(f"n{number}", f"execute-{number}", array, NOW - 60 + number, worker_id=worker, **more)


def with_nodes(
    *things: Any, nodes: tuple[CreatedNode, ...], sets: tuple[RequestSet, ...] = (), **more: Any
) -> Snapshot:
    seen = a_snapshot(*things, **more)
    requests = Requests(sets, nodes=nodes)
    return replace(seen, requests=requests, policy=in_force(seen.policy, requests))


def planned(*things: Any, **more: Any) -> Plan:
    return plan(with_nodes(*things, **more))


def launches(made: Plan) -> list[tuple[tuple[str, ...], str, int]]:
    return [
        (action.nodes, action.candidates[0].type.name, action.candidates[0].count)
        for action in made.actions
        if isinstance(action, Launch)
    ]


def test_every_created_node_gets_a_worker() -> None:
    assert launches(planned(nodes=(a_node(1), a_node(2)), scale_up_batch=1)) == [(("n1", "n2"), "m5.large", 2)]


def test_a_node_that_is_ordered_is_not_ordered_again() -> None:
    order = an_order(2, nodes=("n1", "n2"))
    assert launches(planned(order, nodes=(a_node(1), a_node(2)))) == []


def test_nodes_that_an_order_did_not_serve_are_ordered_again() -> None:
    order = an_order(1, state=OrderState.ACCEPTED, age=60, ids=("i-1",), nodes=("n1", "n2"))
    assert launches(planned(order, nodes=(a_node(1), a_node(2)))) == [(("n2",), "m5.large", 1)]


def test_a_failed_order_is_tried_again() -> None:
    order = an_order(1, state=OrderState.FAILED, age=60, nodes=("n1",))
    assert launches(planned(order, nodes=(a_node(1),))) == [(("n1",), "m5.large", 1)]


def test_the_nth_node_is_served_by_the_nth_worker_of_the_answer() -> None:
    order = an_order(2, state=OrderState.ACCEPTED, ids=("i-9", "i-3"), nodes=("n1", "n2"))
    assert bindings((order,)) == {"n1": "i-9", "n2": "i-3"}


def test_a_node_that_was_ordered_twice_keeps_the_worker_of_the_first_answer() -> None:
    first = an_order(1, state=OrderState.ACCEPTED, age=60, ids=("i-1",), nodes=("n1",))
    later = replace(an_order(1, state=OrderState.ACCEPTED, age=30, ids=("i-2",), nodes=("n1",)), id="order-2")
    assert bindings((later, first)) == {"n1": "i-1"}


def test_a_node_whose_machine_ended_is_not_replaced() -> None:
    assert planned(nodes=(a_node(1, worker="i-gone"),)).actions == ()


def test_a_nodes_worker_is_not_removed_for_idleness() -> None:
    made = planned(a_worker("w1", idle=9999), nodes=(a_node(1, worker="i-w1"),))
    assert (verdict_and_code(made, "w1"), verdict_of(made, "w1").reason["node"]) == (
        ("keep", Code.CREATED_NODE),
        "execute-1",
    )


def test_the_worker_of_an_ended_node_leaves() -> None:
    assert acts(planned(a_worker("w1", idle=9999), nodes=())) == [("disable", "w1")]


def test_a_nodes_worker_that_a_person_drains_leaves() -> None:
    made = planned(a_worker("w1", idle=1), Overrides(drain=frozenset({"w1"})), nodes=(a_node(1, worker="i-w1"),))
    assert acts(made) == [("disable", "w1")]


def test_a_nodes_worker_leaves_during_stop_drain() -> None:
    made = planned(a_worker("w1", idle=1), Overrides(stop="drain"), nodes=(a_node(1, worker="i-w1"),))
    assert acts(made) == [("disable", "w1")]


def test_a_nodes_worker_does_not_count_towards_a_target() -> None:
    wants_one = RequestSet("standard", "ann", NOW, None, (Target("execute", count=1),))
    made = planned(a_worker("w1", idle=1), nodes=(a_node(1, worker="i-w1"),), sets=(wants_one,))
    assert launched(made) == {"m5.large": 1}


def test_workers_ordered_for_nodes_do_not_count_towards_a_target() -> None:
    wants_one = RequestSet("standard", "ann", NOW, None, (Target("execute", count=1),))
    machine = a_machine(None, order_id="order-1")
    made = planned(an_order(1, nodes=("n1",)), machine, nodes=(a_node(1),), sets=(wants_one,))
    assert launched(made) == {"m5.large": 1}


def test_a_nodes_worker_serves_waiting_jobs() -> None:
    worker, node = a_worker("w1", idle=1), a_node(1, worker="i-w1")
    assert planned(a_job(), worker, nodes=(node,)).actions == ()
    assert launched(planned(a_job(), a_job(2, slots=2), worker, nodes=(node,))) == {"m5.large": 1}


def test_an_idle_worker_that_a_job_would_use_stays_though_a_nodes_worker_comes() -> None:
    made = planned(a_job(), a_worker("w1", idle=9999), an_order(1, nodes=("n1",)), nodes=(a_node(1),))
    assert verdict_and_code(made, "w1") == ("keep", Code.NEEDED)


def test_a_node_gets_its_machine_type_whatever_the_array_prefers() -> None:
    assert launches(planned(nodes=(a_node(1, machine_type="m5.xlarge"),))) == [(("n1",), "m5.xlarge", 1)]


def test_nodes_of_different_types_are_launched_separately() -> None:
    made = planned(nodes=(a_node(1, machine_type="m5.xlarge"), a_node(2), a_node(3, machine_type="m5.xlarge")))
    assert launches(made) == [(("n1", "n3"), "m5.xlarge", 2), (("n2",), "m5.large", 1)]


def test_a_node_is_launched_in_its_placement_group_if_the_provider_has_it() -> None:
    buckets = (a_bucket(XLARGE, placement_group="pg0"), a_bucket(XLARGE, placement_group="pg1"))
    (launch,) = planned(*buckets, nodes=(a_node(1, placement_group="pg1"),), instance_type="m5.xlarge").actions
    assert isinstance(launch, Launch)
    assert [bucket.key.placement_group for bucket in launch.candidates[0].buckets] == ["pg1"]


@pytest.mark.parametrize(("any_group", "asked"), ((True, "pg1"), (False, ANY)))
def test_a_nodes_placement_group_is_passed_to_a_provider_that_accepts_any(any_group: bool, asked: str) -> None:
    bucket = replace(a_bucket(XLARGE), any_group=any_group)
    (launch,) = planned(bucket, nodes=(a_node(1, placement_group="pg1"),), instance_type="m5.xlarge").actions
    assert isinstance(launch, Launch)
    assert [each.key.placement_group for each in launch.candidates[0].buckets] == [asked]


def test_only_as_many_created_nodes_are_launched_as_limits_allow() -> None:
    nodes = tuple(a_node(number) for number in range(4))
    assert launches(planned(nodes=nodes, limits=Limits(max_workers=3))) == [(("n0", "n1", "n2"), "m5.large", 3)]


def test_launches_of_nodes_of_different_types_share_one_limit() -> None:
    nodes = (a_node(1, machine_type="m5.xlarge"), a_node(2))
    made = planned(nodes=nodes, limits=Limits(max_workers=9, max_cores=5))
    assert launches(made) == [(("n1",), "m5.xlarge", 1)]


def test_nodes_wait_while_paused() -> None:
    assert planned(Overrides(paused=True), nodes=(a_node(1),)).actions == ()


def test_a_node_of_an_unknown_array_is_reported() -> None:
    assert note_codes(planned(nodes=(a_node(1, node_array="gone"),))) == [Code.NO_SUCH_NODE_ARRAY]
