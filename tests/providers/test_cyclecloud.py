"""The CycleCloud provider keeps the contract, against a server that speaks the published API to the letter."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from requests.auth import HTTPBasicAuth

from autoscaler.core.model.fleet import MachineState, PriceType
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import CELL, ProviderContract
from autoscaler.providers.cyclecloud.provider import CycleCloudProvider
from autoscaler.providers.interface import GROUP_ID, LaunchOrder, OutOfCapacity, QuotaReached, Refused, Unreachable
from tests.clouds.cyclecloud.plane import CycleCloudPlane
from tests.clouds.cyclecloud.server import PASSWORD, USER
from tests.clouds.played import served
from tests.deadlines import Deadline


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served("cyclecloud") as url:
        yield url


@pytest.fixture
def cloud(server: str) -> Iterator[CycleCloudPlane]:
    plane = CycleCloudPlane(server)
    yield plane
    assert plane.control()["refused"] == [], "a request did not fit the published reference"


class TestCycleCloud(ProviderContract):
    @pytest.fixture
    def plane(self, cloud: CycleCloudPlane) -> CycleCloudPlane:
        return cloud


# -- beyond the contract: what only CycleCloud has ---------------------------------------------------------


def order(provider: CycleCloudProvider, *, node_array: str = "execute", count: int = 1, **given: Any) -> LaunchOrder:
    buckets = [each for each in provider.buckets() if each.key.node_array == node_array]
    return LaunchOrder(
        **{
            "token": f"{uuid.uuid4()}-0",
            "order_id": "order-1",
            "cell": CELL,
            "node_array": node_array,
            "buckets": tuple(buckets[:1]),
            "count": count,
            "boot_script": "#!/bin/sh\necho booted\n",
            **given,
        }
    )


def nodes(cloud: CycleCloudPlane) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", cloud.control()["nodes"])


def until(cloud: CycleCloudPlane, what: Callable[[], bool]) -> None:
    limit = Deadline(cloud.deadline)
    while not what():
        assert not limit.over()
        cloud.settle()


def test_a_large_order_takes_two_calls(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider, count=50)
    before = len(cloud.calls())
    provider.launch(asked)
    assert [call.partition("?")[0] for call in cloud.calls()[before:]] == [
        "POST /clusters/demo/nodes/create",
        "GET /clusters/demo/nodes",
    ]


def test_workers_and_buckets_of_one_observation_take_one_call(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    provider.workers()
    provider.buckets()
    assert cloud.calls() == ["GET /clusters/demo/status?nodes=true"]


def test_a_node_is_created_with_boot_script_and_tags(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    provider.launch(order(provider, token="t-1-0"))
    (node,) = nodes(cloud)
    assert node["CloudInit"] == "#!/bin/sh\necho booted\n"
    mark = node["Configuration"]["sge_autoscaler"]
    assert {name: mark[name] for name in ("cell", "order", "token")} == {
        "cell": CELL,
        "order": "order-1",
        "token": "t-1-0",
    }


def test_the_configuration_of_the_template_is_kept(cloud: CycleCloudPlane) -> None:
    cloud.control(do="array", array="execute", set={"attributes": {"Configuration": {"gridengine": {"slots": 2}}}})
    provider = cloud.connect(CELL)
    provider.launch(order(provider))
    assert nodes(cloud)[0]["Configuration"]["gridengine"] == {"slots": 2}


def test_spot_nodes_come_from_the_interruptible_array(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL, node_arrays="execute=execute,execute=spot")
    spot = [each for each in provider.buckets() if each.key.price_type is PriceType.SPOT]
    provider.launch(order(provider, buckets=tuple(spot)))
    assert [node["Template"] for node in nodes(cloud)] == ["spot"]


def test_a_shortage_of_one_bucket_is_met_by_the_next(cloud: CycleCloudPlane) -> None:
    cloud.control(do="bucket", array="execute", type="Standard_D2s_v5", set={"max_count": 1})
    provider = cloud.connect(CELL)
    named = {each.key.instance_type: each for each in provider.buckets() if each.key.node_array == "execute"}
    buckets = (named["Standard_D2s_v5"], named["Standard_D4s_v5"])
    launched = provider.launch(order(provider, count=3, buckets=buckets))
    assert (len(launched.ids), launched.shortfalls) == (3, ())
    assert sorted(node["MachineType"] for node in nodes(cloud)) == ["Standard_D2s_v5", *["Standard_D4s_v5"] * 2]


def test_an_order_over_two_buckets_repeated_gives_the_same_nodes(cloud: CycleCloudPlane) -> None:
    cloud.control(do="bucket", array="execute", type="Standard_D2s_v5", set={"max_count": 1})
    provider = cloud.connect(CELL)
    named = {each.key.instance_type: each for each in provider.buckets() if each.key.node_array == "execute"}
    asked = order(provider, count=3, buckets=(named["Standard_D2s_v5"], named["Standard_D4s_v5"]))
    first = provider.launch(asked)
    cloud.control(do="bucket", array="execute", type="Standard_D2s_v5", set={"max_count": 100})
    assert set(cloud.connect(CELL).launch(asked).ids) == set(first.ids)
    assert len(cloud.billable()) == 3


def test_an_order_met_by_another_bucket_is_not_met_again_after_a_change_of_the_settings(
    cloud: CycleCloudPlane,
) -> None:
    """The answer was lost, and the first bucket, which was no longer served, is served again."""
    cloud.control(do="add array", array="second", types=["Standard_D2s_v5"], attributes={"Interruptible": True})
    cloud.control(do="array", array="second", set={"attributes": {"Region": "westus"}})
    arrays = "execute=execute,execute=second"
    both = cloud.connect(CELL, node_arrays=arrays)
    usual = [each for each in both.buckets() if each.type.name == "Standard_D2s_v5"]
    wanted = order(both, buckets=(next(b for b in usual if b.key.price_type is PriceType.SPOT), usual[0]), count=2)
    assert len({bucket.key for bucket in wanted.buckets}) == 2
    cloud.faults(reset="after", on="create")
    with pytest.raises(Unreachable):
        cloud.connect(CELL, node_arrays="execute=execute").launch(wanted)
    cloud.heal()
    assert len(nodes(cloud)) == 2
    launched = cloud.connect(CELL, node_arrays=arrays).launch(wanted)
    assert (set(launched.ids), len(nodes(cloud))) == ({node["NodeId"] for node in nodes(cloud)}, 2)


@pytest.mark.parametrize("status", (403, 429))
def test_nodes_that_were_added_and_may_not_be_listed_leave_the_order_open(cloud: CycleCloudPlane, status: int) -> None:
    """A refusal of the call that lists them says nothing about the nodes: no other bucket is tried."""
    provider = cloud.connect(CELL)
    wanted = order(provider)
    cloud.faults(status=status, on="nodes")
    with pytest.raises(Unreachable):
        provider.launch(wanted)
    cloud.heal()
    assert len(nodes(cloud)) == 1
    assert len(cloud.connect(CELL).launch(wanted).ids) == len(nodes(cloud)) == 1


def test_an_order_does_not_replace_its_terminated_workers(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider, count=3)
    ended, *kept = provider.launch(asked).ids
    provider.terminate([ended])
    until(cloud, lambda: ended not in cloud.billable())
    assert set(provider.launch(asked).ids) == set(kept)


def test_a_full_quota_is_reported_with_name_and_amount(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider)
    cloud.control(do="cluster", set={"regional_quota": 100, "consumed_by_others": 99})
    ((_, error),) = provider.launch(asked).shortfalls
    assert isinstance(error, QuotaReached)
    assert "the quota of the region: 99 of 100 cores are used, one takes 2" in str(error)


def test_a_limit_of_the_template_is_out_of_capacity_and_not_a_quota(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider)
    cloud.control(do="array", array="execute", set={"max_count": 0})
    ((_, error),) = provider.launch(asked).shortfalls
    assert isinstance(error, OutOfCapacity)


def test_a_launch_in_a_terminated_cluster_is_refused_with_its_message(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider)
    cloud.control(do="cluster", set={"state": "Terminated"})
    with pytest.raises(Refused, match="cluster demo is Terminated"):
        provider.launch(asked)


def test_a_refusal_of_the_second_bucket_keeps_the_nodes_of_the_first(cloud: CycleCloudPlane) -> None:
    cloud.control(do="bucket", array="execute", type="Standard_D2s_v5", set={"max_count": 1})
    provider = cloud.connect(CELL)
    (first,) = order(provider).buckets
    lost = replace(first, key=replace(first.key, zone="9"))
    launched = provider.launch(order(provider, count=2, buckets=(first, lost)))
    assert len(launched.ids) == 1
    assert "added 1 Standard_D2s_v5: Only 1 of Standard_D2s_v5 are available" in str(launched.shortfalls[0][1])
    assert [type(error) for _, error in launched.shortfalls] == [OutOfCapacity, Refused]


def test_created_nodes_that_are_not_listed_yet_leave_the_order_open(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    asked = order(provider)
    cloud.faults(on="nodes", body='{"nodes": [], "operation": {"action": "create"}}')
    with pytest.raises(Unreachable, match="added 1 nodes and lists 0"):
        provider.launch(asked)
    cloud.faults()
    assert list(cloud.connect(CELL).launch(asked).ids) == list(cloud.billable())


def test_nodes_of_a_group_get_their_own_placement_group(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    provider.launch(order(provider, count=2, tags={GROUP_ID: "execute:8-1"}))
    assert [node["PlacementGroupId"] for node in nodes(cloud)] == ["execute_8-1"] * 2


@pytest.mark.parametrize(("location", "reported"), (("eastus", 0), ("East US", 0), ("westeurope", 3), ("", 0)))
def test_a_location_other_than_the_region_of_the_node_arrays_is_reported(
    cloud: CycleCloudPlane, location: str, reported: int
) -> None:
    provider = cloud.connect(CELL, location=location)
    wrong = [problem.what for problem in provider.check() if "is in eastus" in problem.what]
    assert (provider.location, len(wrong)) == (location, reported)


def test_a_node_may_be_ordered_in_a_placement_group_of_any_name(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    bucket = provider.buckets()[0]
    near = replace(bucket, key=replace(bucket.key, placement_group="pg0"))
    provider.launch(replace(order(provider), buckets=(near,)))
    assert (bucket.any_group, [worker.placement_group for worker in provider.workers()]) == (True, ["pg0"])


def test_a_node_without_a_machine_is_terminated_and_removed_by_the_next_order(
    cloud: CycleCloudPlane,
) -> None:
    provider = cloud.connect(CELL)
    cloud.control(do="cluster", set={"failing": "Allocation failed: no capacity"})
    (failed,) = provider.launch(order(provider)).ids
    until(cloud, lambda: provider.workers()[0].state is MachineState.TERMINATED)
    worker = provider.workers()[0]
    assert (worker.message, worker.failure) == ("CycleCloud says Failed: Allocation failed: no capacity", "capacity")
    cloud.control(do="cluster", set={"failing": None})
    provider.launch(order(provider))
    until(cloud, lambda: failed not in cloud.billable())


def test_a_bucket_without_capacity_has_nothing_available_for_the_set_delay(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    cloud.control(do="cluster", set={"failing": "Allocation failed"})
    asked = order(provider)
    provider.launch(asked)
    rested = {each.key: each.available for each in provider.buckets()}
    assert rested[asked.buckets[0].key] == 0
    until(cloud, lambda: bool(cloud.connect(CELL, capacity_delay="0.01").buckets()[0].available))


def test_a_failed_node_with_a_machine_still_exists(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    (worker_id,) = provider.launch(order(provider)).ids
    until(cloud, lambda: provider.workers()[0].state is MachineState.RUNNING)
    cloud.control(do="node", id=worker_id, set={"failed": "cluster-init script failed"})
    (worker,) = provider.workers()
    message = "CycleCloud says Failed: cluster-init script failed"
    assert (worker.exists, worker.message, worker.failure) == (True, message, "boot")


def test_a_node_marked_keepalive_is_refused_and_the_others_are_terminated(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    kept, other = provider.launch(order(provider, count=2)).ids
    cloud.control(do="node", id=kept, set={"attributes": {**nodes(cloud)[0], "KeepAlive": True}})
    with pytest.raises(Refused, match=f"{kept}: This node is marked KeepAlive"):
        provider.terminate([kept, other])
    until(cloud, lambda: list(cloud.billable()) == [kept])


def test_nodes_created_by_people_are_neither_listed_nor_terminated(cloud: CycleCloudPlane) -> None:
    made = requests.post(
        f"{cloud.url}/clusters/demo/nodes/create",
        json={"sets": [{"count": 1, "nodearray": "execute"}]},
        auth=HTTPBasicAuth(USER, PASSWORD),
        timeout=120,
    )
    assert made.status_code == 202
    (theirs,) = cloud.billable()
    provider = cloud.connect(CELL)
    assert provider.workers() == []
    with pytest.raises(Refused, match="does not carry the tag"):
        provider.terminate([theirs])
    assert list(cloud.billable()) == [theirs]


def test_an_expected_eviction_is_an_interruption_notice(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    taken, _ = provider.launch(order(provider, count=2)).ids
    cloud.control(do="node", id=taken, set={"evicted": True})
    provider.workers()
    first = provider.interruptions()
    assert [(notice.worker_id, notice.kind) for notice in first] == [(taken, "terminate")]
    provider.workers()
    assert provider.interruptions() == first


def test_an_operation_is_carried_out_on_our_node(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    (worker_id,) = provider.launch(order(provider)).ids
    provider.operate(worker_id, "deallocate")
    assert [node["TargetState"] for node in nodes(cloud)] == ["Deallocated"]


def test_an_unknown_operation_is_refused(cloud: CycleCloudPlane) -> None:
    with pytest.raises(Refused, match="has no verb 'explode'"):
        cloud.connect(CELL).operate("n", "explode")


# -- before anything is launched -----------------------------------------------------------------------------------


def fatal(provider: CycleCloudProvider) -> list[str]:
    return [f"{problem.what} | {problem.remedy}" for problem in provider.check() if problem.fatal]


def test_a_wrong_password_is_a_fatal_problem_and_is_not_shown(cloud: CycleCloudPlane) -> None:
    (problem,) = fatal(cloud.connect(CELL, password="wrong-one"))
    assert "answered 401" in problem
    assert "CP_CAP_AUTOSCALE_CYCLECLOUD_PASSWORD" in problem
    assert "wrong-one" not in problem


def test_an_expired_password_is_not_an_empty_listing(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    provider.launch(order(provider))
    cloud.faults(status=401)
    with pytest.raises(Unreachable, match="answered 401: Not now"):
        provider.workers()


def test_a_missing_cluster_is_a_fatal_problem(cloud: CycleCloudPlane) -> None:
    (problem,) = fatal(cloud.connect(CELL, cluster="dmeo"))
    assert "No cluster dmeo" in problem
    assert "CP_CAP_AUTOSCALE_CYCLECLOUD_CLUSTER" in problem


def test_a_cluster_that_is_not_started_is_a_fatal_problem_and_offers_nothing(cloud: CycleCloudPlane) -> None:
    cloud.control(do="cluster", set={"state": "Terminated"})
    provider = cloud.connect(CELL)
    assert fatal(provider) == [
        "the cluster demo is Terminated: start it in CycleCloud | start cluster demo in CycleCloud, then check again"
    ]
    assert provider.buckets()
    assert all(bucket.problem for bucket in provider.buckets())


def test_a_missing_node_array_is_a_fatal_problem(cloud: CycleCloudPlane) -> None:
    (problem,) = fatal(cloud.connect(CELL, node_arrays="execute=execute,big=huge"))
    assert problem.startswith("cluster demo has no node array huge | it has execute, gpu, spot")


def test_node_arrays_without_a_valid_bucket_are_a_fatal_problem(cloud: CycleCloudPlane) -> None:
    cloud.control(do="bucket", array="gpu", type="Standard_NC4as_T4_v3", set={"invalid_reason": "NotActivated"})
    (problem,) = fatal(cloud.connect(CELL, node_arrays="gpu=gpu"))
    assert "gpu Standard_NC4as_T4_v3: not valid in the cluster: NotActivated" in problem


def test_replaced_cloud_init_and_duplicate_offers_are_reported(cloud: CycleCloudPlane) -> None:
    cloud.control(do="array", array="execute", set={"attributes": {"CloudInit": "#!/bin/sh\n"}})
    cloud.control(do="add array", array="twin", types=["Standard_D2s_v5"], attributes={"Region": "eastus"})
    provider = cloud.connect(CELL, node_arrays="a=execute,a=twin")
    problems = " ".join(problem.what for problem in provider.check())
    assert "node array execute has its own cloud-init" in problems
    assert "node arrays execute and twin both offer Standard_D2s_v5 to a" in problems


def test_an_unreachable_server_is_a_fatal_problem(cloud: CycleCloudPlane) -> None:
    (problem,) = fatal(cloud.connect(CELL, url="http://127.0.0.1:9"))
    assert "Connection refused" in problem


def test_disabled_certificate_verification_is_reported(cloud: CycleCloudPlane) -> None:
    problems = [problem.what for problem in cloud.connect(CELL, verify="false").check()]
    assert any("certificate is not verified" in what for what in problems)


@pytest.mark.parametrize(("days", "old"), ((0, False), (31, True)))
def test_old_prices_of_the_region_are_reported(cloud: CycleCloudPlane, tmp_path: Path, days: int, old: bool) -> None:
    day = datetime.now(UTC).date() - timedelta(days=days)
    names = [name for name, offer in load_catalog().offers.items() if offer.cloud == "azure"]
    lines = ['cloud = "azure"', 'region = "eastus"', f"as_of = {day}", "[types]"]
    (tmp_path / "mine.toml").write_text("\n".join([*lines, *(f'"{name}" = {{ on_demand = 0.5 }}' for name in names)]))
    provider = cloud.connect(CELL, catalog=str(tmp_path / "mine.toml"), location="eastus")
    found = [problem for problem in provider.check() if problem.what.startswith("the prices, which")]
    assert [problem.fatal for problem in found] == ([False] if old else [])
    assert type(provider).oldest_price(provider.settings) == day


def test_hundreds_of_nodes_are_terminated_by_two_calls(cloud: CycleCloudPlane) -> None:
    provider = cloud.connect(CELL)
    ids = provider.launch(order(provider, count=300)).ids
    before = len(cloud.calls())
    provider.terminate(ids)
    assert (len(ids), cloud.calls()[before:]) == (
        300,
        ["GET /clusters/demo/nodes", "POST /clusters/demo/nodes/terminate"],
    )
