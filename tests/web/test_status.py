"""What callers read: status, buckets, node records, operations, usage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.api.usage import InvalidTimes, Span, spans
from autoscaler.api.view import ClusterValues
from autoscaler.core.model.fleet import Bucket, BucketKey, FailureKind, LaunchFailure, MachineState, PriceType, Worker
from autoscaler.core.model.memory import Backoff
from autoscaler.core.workers.phases import Condition, Phase
from tests.web.served import LARGE, SMALL, Served, array, worker

NOVEMBER_4TH = 1_793_790_000.0
"""2026-11-04 11:00 UTC, a Wednesday."""
DAY = 86_400.0


def bucket(api: Served, number: int = 0, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = api.client.get("status", **query).json()["nodearrays"][0]["buckets"][number]
    return found


@pytest.mark.parametrize(
    ("phase", "decisive", "status"),
    (
        (Phase.BOOTING, None, "Acquiring"),
        (Phase.BOOTING, Condition.NAME_AWAITED, "Preparing"),
        (Phase.JOINING, None, "Preparing"),
        (Phase.READY, None, "Ready"),
        (Phase.READY, Condition.SILENT, "Ready"),
        (Phase.READY, Condition.DISABLED_BY_HAND, "Ready"),
        (Phase.DRAINING, None, "Terminating"),
        (Phase.DRAINING, Condition.CUT_OFF, "Terminating"),
        (Phase.LEAVING, None, "Terminating"),
        (Phase.LEAVING, Condition.NAME_TAKEN, "Terminating"),
        (Phase.READY, Condition.INTERRUPTED, "Terminating"),
        (Phase.ENDING, Condition.FENCED, "Terminating"),
        (Phase.ENDING, None, "Terminating"),
    ),
)
def test_the_phase_of_a_worker_is_reported_in_the_words_of_cyclecloud(
    api: Served, phase: Phase, decisive: Condition | None, status: str
) -> None:
    api.observe(worker("i-1", phase=phase, decisive=decisive))
    (node,) = api.client.nodes()
    assert (node["Status"], node["TargetState"]) == (status, "Terminated" if status == "Terminating" else "Started")


def test_a_ready_node_has_name_address_and_machine(api: Served) -> None:
    api.observe(worker("i-1"))
    (node,) = api.client.nodes()
    assert (node["Hostname"], node["PrivateIp"], node["InstanceId"]) == ("host-i-1", "10.0.0.7", "i-1")


def test_a_node_keeps_name_and_id_from_creation_to_ready(api: Served) -> None:
    api.client.create(1)
    before = api.client.nodes()[0]
    api.store.nodes.bind(before["NodeId"], "i-1")
    api.observe(worker("i-1"))
    (after,) = api.client.nodes()
    assert (after["Name"], after["NodeId"], after["Status"]) == (before["Name"], before["NodeId"], "Ready")


def test_a_rented_worker_keeps_name_and_id_in_every_phase(api: Served) -> None:
    results = []
    for phase in (Phase.BOOTING, Phase.READY, Phase.DRAINING):
        api.observe(worker("i-1", phase=phase))
        results += [(node["Name"], node["NodeId"]) for node in api.client.nodes()]
    assert len(results) == 3
    assert len(set(results)) == 1


def test_the_status_includes_nodes_on_request(api: Served) -> None:
    api.observe(worker("i-1"))
    with_nodes, without = api.client.get("status", nodes="true").json(), api.client.get("status").json()
    assert (len(with_nodes["nodes"]), "nodes" in without, "activeNodes" in bucket(api)) == (1, False, False)


def test_a_node_of_an_unlisted_array_is_not_listed(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array("other"),))
    assert api.client.get("status", nodes="true").json()["nodes"] == []


def test_a_bucket_counts_active_and_available_nodes(api: Served) -> None:
    api.observe(worker("i-1"), worker("i-2", kind=LARGE), arrays=(array(available=3),))
    api.client.create(1, definition={"machineType": SMALL.name})
    result = bucket(api)
    assert {
        name: result[name] for name in ("activeCount", "activeCoreCount", "availableCount", "availableCoreCount")
    } == {
        "activeCount": 2,
        "activeCoreCount": 4,
        "availableCount": 2,
        "availableCoreCount": 4,
    }


def test_counters_of_a_bucket_are_complete_and_consistent(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array(available=3),))
    for number in (0, 1):
        result = bucket(api, number)
        vcpus = result["virtualMachine"]["vcpuCount"]
        assert result["quotaCoreCount"] - result["consumedCoreCount"] >= result["availableCoreCount"]
        assert result["regionalQuotaCoreCount"] - result["regionalConsumedCoreCount"] >= result["availableCoreCount"]
        assert result["maxCoreCount"] == result["maxCount"] * vcpus
        assert result["placementGroups"] == []


def test_a_bucket_keeps_its_id(api: Served) -> None:
    before = bucket(api)["bucketId"]
    api.observe(worker("i-1"))
    assert bucket(api)["bucketId"] == before


def test_placement_groups_are_those_of_the_existing_nodes(api: Served) -> None:
    api.client.create(2, placementGroupId="pg0", definition={"machineType": SMALL.name})
    assert bucket(api)["placementGroups"] == [{"name": "pg0", "activeCount": 2, "activeCoreCount": 4}]


def test_a_node_names_the_placement_group_that_the_provider_made_for_it(api: Served) -> None:
    near, alone = worker("i-1"), worker("i-2")
    api.observe(replace(near, worker=replace(near.worker, placement_group="rack 7")), alone)
    groups = {node["InstanceId"]: node.get("PlacementGroupId") for node in api.client.nodes()}
    assert groups == {"i-1": "rack-7", "i-2": None}


def test_a_placement_group_of_the_provider_is_listed_before_it_has_a_node(api: Served) -> None:
    keys = BucketKey(SMALL.name), BucketKey(SMALL.name, placement_group="near")
    api.observe(arrays=(array(buckets=tuple(Bucket(key, SMALL, 0.1, None) for key in keys)),))
    api.client.create(1, placementGroupId="pg0")
    assert bucket(api)["placementGroups"] == [
        {"name": "near", "activeCount": 0, "activeCoreCount": 0},
        {"name": "pg0", "activeCount": 1, "activeCoreCount": 2},
    ]


def test_a_type_that_is_no_longer_allowed_is_an_invalid_bucket_while_a_node_of_it_exists(api: Served) -> None:
    small = tuple(each for each in array().buckets if each.type == SMALL)
    api.observe(worker("i-1", kind=LARGE), arrays=(array(buckets=small),))
    result = bucket(api, 1)
    assert (result["definition"]["machineType"], result["valid"], result["availableCount"]) == (LARGE.name, False, 0)


def test_a_bucket_with_a_problem_has_no_available_nodes(api: Served) -> None:
    buckets = (Bucket(BucketKey(SMALL.name), SMALL, 0.1, 5, problem="no quota"),)
    api.observe(arrays=(array(buckets=buckets),))
    assert bucket(api)["availableCount"] == 0


def a_backoff(type_: str, *, until: float = 1e12, node_array: str = "execute") -> Backoff:
    return Backoff(BucketKey(type_, node_array=node_array), until, 5, FailureKind.CAPACITY, "none is left")


@pytest.mark.parametrize(
    ("backoff", "available"),
    (
        (a_backoff("c5.large"), [0, 10]),
        (a_backoff("c5.large", until=1.0), [10, 10]),
        (a_backoff("c5.large", node_array="batch"), [10, 10]),
    ),
    ids=("now", "over", "of another array"),
)
def test_a_type_in_backoff_has_no_available_nodes(api: Served, backoff: Backoff, available: list[int]) -> None:
    api.observe(backoffs=(backoff,))
    assert [bucket(api, number)["availableCount"] for number in (0, 1)] == available


@pytest.mark.parametrize("extends", (None, "main"))
def test_an_array_whose_launches_are_refused_has_no_available_nodes(api: Served, extends: str | None) -> None:
    api.observe(arrays=(array("main"), array("sub", extends=extends)), refused={"main": "no such image"})
    available = [each["availableCount"] for each in api.client.get("status").json()["nodearrays"][1]["buckets"]]
    assert available == ([0, 0] if extends else [10, 10])


def test_scaling_skips_a_type_in_backoff(api: Served) -> None:
    api.observe(backoffs=(a_backoff("c5.large"),))
    assert api.client.post("scale/execute", totalNodeCount="2").json()["sets"] == [{"added": 2}]


def test_buckets_of_one_type_in_several_zones_are_merged(api: Served) -> None:
    buckets = tuple(Bucket(BucketKey(SMALL.name, zone=zone), SMALL, 0.1, 2) for zone in "ab")
    api.observe(arrays=(array(buckets=buckets),))
    assert bucket(api)["availableCount"] == 4


def test_the_last_capacity_failure_is_reported_in_seconds(api: Served) -> None:
    api.operations.clock = lambda: 1000.0
    api.store.journal.fail(LaunchFailure(BucketKey(SMALL.name), 940.0, FailureKind.CAPACITY, "none left"))
    assert (bucket(api)["lastCapacityFailure"], bucket(api, 1)["lastCapacityFailure"]) == (60.0, -1.0)


def test_a_spot_array_is_reported_as_interruptible(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array(price_types=(PriceType.SPOT,)),))
    answer = api.client.get("status").json()["nodearrays"][0]["nodearray"]
    assert (answer["Interruptible"], answer["Region"], answer["SubnetId"]) == (True, "region-1", "net")


@pytest.mark.parametrize(
    "place", (ClusterValues("demo"), ClusterValues("demo", "", ""), ClusterValues("demo", "region-1", ""))
)
def test_an_array_without_region_or_subnet_reports_a_placeholder(api: Served, place: ClusterValues) -> None:
    api.operations.place = place
    answer = api.client.get("status", nodes="true").json()["nodearrays"][0]["nodearray"]
    assert all(answer[name] for name in ("Region", "SubnetId")), answer


def test_during_a_stop_the_target_state_of_the_cluster_is_terminated(api: Served) -> None:
    api.observe(stopping=True)
    assert api.client.get("status").json()["targetState"] == "Terminated"


def test_the_configuration_of_a_node_overrides_that_of_its_array(api: Served) -> None:
    given = '{"autoscale": {"resources": {"ncpus": 2, "disk": 5}}}'
    api.observe(arrays=(array(configuration=given),))
    api.client.create(1, nodeAttributes={"Configuration": {"autoscale": {"resources": {"disk": 7}}}})
    assert api.client.nodes()[0]["Configuration"] == {"autoscale": {"resources": {"ncpus": 2, "disk": 7}}}


def test_a_failed_machine_is_a_failed_node(api: Served) -> None:
    failed = Worker(
        "i-1", SMALL, "execute", MachineState.RUNNING, 1.0, failure=FailureKind.BOOT, message="no root disk"
    )
    api.observe(type(worker())(failed, Phase.JOINING))
    (node,) = api.client.nodes()
    assert (node["Status"], node["StatusMessage"]) == ("Failed", "no root disk")


def test_without_a_loop_an_answer_has_a_warning(api: Served) -> None:
    api.operations.loop_runs = lambda: False
    assert "only stored" in api.client.create(1).headers["Warning"]


def test_a_stale_observation_is_reported_in_a_warning(api: Served) -> None:
    api.store.memory.save(api.store.memory.load(), 1000.0)
    results = []
    for now in (1290.0, 1400.0):
        api.operations.clock = lambda now=now: now  # type: ignore[misc]
        results.append(api.client.get("status").headers.get("Warning"))
    assert results == [
        None,
        '199 sge-autoscaler "the last observation is 400 s old: the cluster cannot be observed now"',
    ]


@pytest.mark.parametrize(
    "path", ("status?node=1", "nodes?operation=a&operation=b", "nodes?operation=a&request_id=b", "status?nodes=maybe",
             "usage?timeframe=custom", "usage?from=2026-01-01", "usage?timeframe=custom&from=x&to=y",
             "usage?timeframe=custom&from=1971-01-01&to=9000-01-01&granularity=hourly", "usage?granularity=weekly")
)  # fmt: skip
def test_an_invalid_query_is_refused(api: Served, path: str) -> None:
    assert api.client.ask("GET", f"/clusters/demo/{path}").status_code == 400


@pytest.mark.parametrize(
    "path", ("/clusters/other/status", "/clusters/demo/nodes?request_id=x", "/clusters/demo/nodes?operation=x",
             "/operations/x", "/nothing")
)  # fmt: skip
def test_an_unknown_cluster_request_or_operation_is_not_found(api: Served, path: str) -> None:
    assert api.client.ask("GET", path).status_code == 404


def test_operations_are_listed_by_request_id(api: Served) -> None:
    api.client.create(request_id="r")
    answers = [api.client.ask("GET", "/operations/", params={"request_id": each}).json() for each in ("r", "x")]
    assert ([each["action"] for each in answers[0]], answers[1]) == (["create"], [])


# -- usage ---------------------------------------------------------------------------------------------------------


def test_usage_is_core_hours_and_cost_by_node_array(api: Served) -> None:
    api.operations.clock = lambda: NOVEMBER_4TH
    api.observe(worker("i-1"))
    machine = Worker("i-1", SMALL, "execute", MachineState.RUNNING, NOVEMBER_4TH - 7200, price_per_hour=0.1)
    api.store.history.note_workers([machine], ["i-1"], NOVEMBER_4TH)
    (answer,) = api.client.get("usage", granularity="total").json()["usage"]
    assert (answer["total"]["hours"], answer["total"]["cost"], answer["breakdown"][0]["node"]) == (4.0, 0.2, "execute")


def test_without_a_price_usage_has_no_cost(api: Served) -> None:
    api.operations.clock = lambda: NOVEMBER_4TH
    machine = Worker("i-1", SMALL, "execute", MachineState.RUNNING, NOVEMBER_4TH - 7200)
    api.store.history.note_workers([machine], ["i-1"], NOVEMBER_4TH)
    assert "cost" not in api.client.get("usage", granularity="total").json()["usage"][0]["total"]


def test_a_worker_counts_in_each_interval_for_its_share_of_it(api: Served) -> None:
    api.operations.clock = lambda: NOVEMBER_4TH
    machine = Worker("i-1", SMALL, "execute", MachineState.RUNNING, NOVEMBER_4TH - DAY)
    api.store.history.note_workers([machine], ["i-1"], NOVEMBER_4TH)
    asked = {"timeframe": "custom", "from": "2026-11-02T13:00:00+01:00", "to": "2026-11-04T12:00:00Z"}
    answer = api.client.get("usage", **asked).json()["usage"]
    assert [(each["start"], each["total"]["hours"]) for each in answer] == [
        ("2026-11-02T00:00:00Z", 0.0),
        ("2026-11-03T00:00:00Z", 26.0),
        ("2026-11-04T00:00:00Z", 22.0),
    ]


@pytest.mark.parametrize(
    ("timeframe", "start", "end"),
    (
        ("monthToDate", "2026-11-01T00:00", "2026-11-04T11:00"),
        ("lastMonth", "2026-10-01T00:00", "2026-11-01T00:00"),
        ("weekToDate", "2026-11-01T00:00", "2026-11-04T11:00"),
    ),
)
def test_a_timeframe_is_an_interval_in_utc(timeframe: Any, start: str, end: str) -> None:
    (whole,) = spans(timeframe, "total", NOVEMBER_4TH, start=None, end=None)
    assert (f"{whole.start:%Y-%m-%dT%H:%M}", f"{whole.end:%Y-%m-%dT%H:%M}") == (start, end)


def test_intervals_cover_the_timeframe_without_gap() -> None:
    found = spans("custom", "hourly", 0.0, start="2026-11-04T10:30", end="2026-11-04T13:00")
    assert [f"{each.start:%H:%M}" for each in found] == ["10:00", "11:00", "12:00"]
    assert all(isinstance(each, Span) for each in found)


def test_an_hour_begins_at_its_first_second() -> None:
    (found,) = spans("custom", "hourly", 0.0, start="2026-11-04T10:30:15.5", end="2026-11-04T10:59:59")
    assert (f"{found.start:%H:%M:%S.%f}", f"{found.end:%H:%M:%S.%f}") == ("10:00:00.000000", "11:00:00.000000")


@pytest.mark.parametrize(("start", "end"), (("2026-11-04", None), (None, "2026-11-04"), (None, None)))
def test_a_custom_timeframe_needs_from_and_to(start: str | None, end: str | None) -> None:
    with pytest.raises(InvalidTimes, match="needs from and to"):
        spans("custom", "daily", 0.0, start=start, end=end)
