"""Requests to EC2, and how their answers are used."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.fleet import Bucket, Ending, MachineState, PriceType
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.provider import SURELY_VISIBLE, AwsProvider
from autoscaler.providers.contract import CELL, Fault
from autoscaler.providers.interface import (
    GROUP_ID,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import Connect

TYPE = "c5.large"


@pytest.fixture
def aws_plane(region: Region) -> AwsPlane:
    return AwsPlane(region)


def buckets(provider: AwsProvider, price_type: PriceType = PriceType.ON_DEMAND, group: str = "") -> tuple[Bucket, ...]:
    """The buckets of one type, in every zone."""
    return tuple(
        bucket
        for bucket in provider.buckets()
        if (bucket.type.name, bucket.key.price_type, bucket.key.placement_group) == (TYPE, price_type, group)
    )


def order(found: Sequence[Bucket], count: int = 1, token: str = "order-0", **more: Any) -> LaunchOrder:
    return LaunchOrder(token, "order", CELL, "execute", tuple(found), count, "#!/bin/sh\necho up\n", **more)


def launched(region: Region, provider: AwsProvider, found: Sequence[Bucket], **more: Any) -> dict[str, Any]:
    """One machine as the cloud knows it."""
    (worker_id,) = provider.launch(order(found, **more)).ids
    machine: dict[str, Any] = region.control("machines")[worker_id]
    return machine


BOTH_WAYS = pytest.mark.parametrize("zones", ("a", "ab"), ids=["one-request", "fleet"])


@BOTH_WAYS
def test_a_machine_that_shuts_itself_down_is_terminated_with_its_disks(
    region: Region, connect: Connect, zones: str
) -> None:
    provider = connect(zones, disk="50")
    machine = launched(region, provider, buckets(provider))
    assert machine["launch"]["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert [(disk["ends_with_it"], disk["size"]) for disk in machine["disks"]] == [(True, 50)]


@BOTH_WAYS
def test_machine_and_disk_are_created_with_the_tag_of_the_cell(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones)
    machine = launched(region, provider, buckets(provider))
    assert machine["tags"][tags.CELL] == CELL
    assert machine["tags"][tags.TOKEN] == "order-0"
    assert [disk["tags"][tags.CELL] for disk in machine["disks"]] == [CELL]


@BOTH_WAYS
def test_metadata_requires_session_tokens(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones)
    assert launched(region, provider, buckets(provider))["launch"]["MetadataOptions"]["HttpTokens"] == "required"


@BOTH_WAYS
def test_the_boot_script_is_the_user_data(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones)
    user_data = launched(region, provider, buckets(provider))["launch"]["UserData"]
    assert base64.b64decode(user_data) == b"#!/bin/sh\necho up\n"


def test_a_boot_script_that_is_too_long_is_compressed(region: Region, connect: Connect) -> None:
    provider, script = connect(), "#!/bin/sh\n" + "echo again\n" * 5000
    asked = replace(order(buckets(provider)), boot_script=script)
    (worker_id,) = provider.launch(asked).ids
    user_data = region.control("machines")[worker_id]["launch"]["UserData"]
    assert gzip.decompress(base64.b64decode(user_data)).decode() == script


def test_a_spot_request_is_one_time_and_terminates_on_interruption(region: Region, connect: Connect) -> None:
    provider = connect(spot_max_price="0.05")
    options = launched(region, provider, buckets(provider, PriceType.SPOT))["launch"]["InstanceMarketOptions"]
    assert options["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "MaxPrice": "0.05",
    }


@BOTH_WAYS
def test_the_spot_price_limit_is_set_for_spot_machines_only(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones, spot_max_price="0.05")
    spot, on_demand = (
        launched(region, provider, buckets(provider, kind), token=kind.value)["launch"]
        for kind in (PriceType.SPOT, PriceType.ON_DEMAND)
    )
    assert spot["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"] == "0.05"
    assert "InstanceMarketOptions" not in on_demand


@BOTH_WAYS
def test_a_spot_worker_is_listed_as_such(connect: Connect, zones: str) -> None:
    provider = connect(zones)
    provider.launch(order(buckets(provider, PriceType.SPOT)))
    assert [worker.price_type for worker in provider.workers()] == [PriceType.SPOT]


def test_a_shortage_in_one_zone_is_met_by_the_other(region: Region, connect: Connect) -> None:
    provider = connect("ab")
    region.control("stock", left={f"{TYPE}/us-east-1a/*": 1})
    assert len(provider.launch(order(buckets(provider), count=3)).ids) == 3
    assert sorted(worker.zone for worker in provider.workers()) == ["us-east-1a", "us-east-1b", "us-east-1b"]


def test_a_fleet_reports_which_zone_was_short(region: Region, connect: Connect) -> None:
    provider = connect("ab")
    region.control("stock", left={f"{TYPE}/us-east-1a/*": 0, f"{TYPE}/us-east-1b/*": 1})
    answer = provider.launch(order(buckets(provider), count=3))
    assert (len(answer.ids), [key.zone for key, _ in answer.shortfalls]) == (1, ["us-east-1a"])


def test_without_fleets_an_order_is_one_request_for_its_first_zone(region: Region, connect: Connect) -> None:
    provider = connect("ab", fleets="false")
    region.control("stock", left={f"{TYPE}/us-east-1a/*": 0})
    answer = provider.launch(order(buckets(provider)))
    assert [key.zone for key, _ in answer.shortfalls] == ["us-east-1a"]
    assert "ec2:CreateFleet" not in region.control("calls")["recorded"]


class TestTightlyCoupled:
    """All machines in one zone and placement group, or none."""

    def provider(self, region: Region, connect: Connect, zones: str) -> AwsProvider:
        provider = connect(zones, placement_groups="execute=close")
        region.control("stock", groups={"close": "cluster"})
        return provider

    @BOTH_WAYS
    def test_all_machines_are_in_the_placement_group(self, region: Region, connect: Connect, zones: str) -> None:
        provider = self.provider(region, connect, zones)
        provider.launch(order(buckets(provider, group="close"), count=3))
        assert {(worker.placement_group, worker.zone) for worker in provider.workers()} == {("close", "us-east-1a")}

    @BOTH_WAYS
    def test_a_placement_group_with_too_few_machines_launches_none(
        self, region: Region, connect: Connect, zones: str
    ) -> None:
        provider = self.provider(region, connect, zones)
        region.control("stock", left={f"{TYPE}/us-east-1a/*": 2, f"{TYPE}/us-east-1b/*": 2})
        answer = provider.launch(order(buckets(provider, group="close"), count=3))
        assert answer.ids == ()
        assert {type(error) for _, error in answer.shortfalls} == {OutOfCapacity}

    @BOTH_WAYS
    def test_a_group_with_too_few_workers_launches_none_without_a_placement_group_too(
        self, region: Region, connect: Connect, zones: str
    ) -> None:
        provider = connect(zones)
        region.control("stock", left={f"{TYPE}/us-east-1a/*": 2, f"{TYPE}/us-east-1b/*": 2})
        answer = provider.launch(order(buckets(provider), count=3, tags={GROUP_ID: "execute:6-1"}))
        assert answer.ids == ()
        assert {type(error) for _, error in answer.shortfalls} == {OutOfCapacity}

    def test_one_zone_with_enough_machines_is_preferred_to_several(self, region: Region, connect: Connect) -> None:
        provider = self.provider(region, connect, "ab")
        region.control("stock", left={f"{TYPE}/us-east-1a/*": 2})
        assert len(provider.launch(order(buckets(provider, group="close"), count=3)).ids) == 3
        assert {worker.zone for worker in provider.workers()} == {"us-east-1b"}

    def test_a_launch_does_not_mix_buckets_inside_and_outside_the_placement_group(
        self, region: Region, connect: Connect
    ) -> None:
        provider = self.provider(region, connect, "a")
        mixed = [*buckets(provider), *buckets(provider, group="close")]
        provider.launch(order(mixed, count=2))
        assert {worker.placement_group for worker in provider.workers()} == {"close"}

    def test_a_placement_group_is_offered_to_its_node_array_only(self, region: Region, connect: Connect) -> None:
        provider = self.provider(region, connect, "a")
        grouped = {bucket.key.node_array for bucket in provider.buckets() if bucket.key.placement_group}
        assert grouped == {"execute"}


def test_an_order_for_zones_without_a_subnet_names_them_in_order(connect: Connect) -> None:
    (bucket, *_) = buckets(connect("a"))
    lost = [replace(bucket, key=replace(bucket.key, zone=f"eu-west-1{letter}")) for letter in "zuwxyv"]
    with pytest.raises(Refused, match="no subnet in " + ", ".join(f"eu-west-1{letter}" for letter in "uvwxyz")):
        connect("a").launch(order(lost))


def test_a_full_quota_is_reported_with_its_limit_and_the_request(region: Region, connect: Connect) -> None:
    provider = connect()
    region.control("stock", vcpus=4)
    ((_, error),) = provider.launch(order(buckets(provider), count=3)).shortfalls
    assert isinstance(error, QuotaReached)
    assert "limit of 4" in str(error)
    assert "6 vCPUs" in str(error)


class TestWithoutTheImage:
    """It was deleted, or its name has a typing error."""

    def test_every_bucket_has_the_missing_image_as_its_problem(self, connect: Connect) -> None:
        problems = {bucket.problem for bucket in connect(image="ami-00000000").buckets()}
        assert len(problems) == 1
        assert "ami-00000000" in str(problems.pop())

    def test_a_launch_with_a_missing_image_is_refused(self, connect: Connect) -> None:
        found = buckets(connect())
        with pytest.raises(Refused, match="ami-00000000"):
            connect(image="ami-00000000").launch(order(found))

    def test_existing_workers_can_be_terminated_without_the_image(self, region: Region) -> None:
        provider = AwsPlane(region).connect(CELL)
        launched = provider.launch(order(buckets(provider)))
        assert set(launched.ids) <= set(region.control("billable")["billable"])
        changed = provider.settings.model_copy(update={"image": "ami-00000000"})
        restarted = AwsProvider(changed, cell=CELL, calls=provider.calls)
        restarted.terminate([worker.id for worker in restarted.workers()])
        assert region.control("billable")["billable"] == []


def test_an_order_repeated_with_changed_settings_gives_the_same_machines(region: Region) -> None:
    plane = AwsPlane(region)
    provider = plane.connect(CELL)
    first = provider.launch(order(buckets(provider), count=2))
    changed = AwsProvider(provider.settings.model_copy(update={"disk": 99}), cell=CELL, calls=provider.calls)
    again = changed.launch(order(buckets(provider), count=2))
    assert (set(again.ids), again.shortfalls) == (set(first.ids), ())


def test_an_order_repeated_with_changed_settings_waits_until_its_machines_are_listed(region: Region) -> None:
    plane = AwsPlane(region)
    provider = plane.connect(CELL)
    provider.launch(order(buckets(provider)))
    region.control("lag", seconds=60)
    changed = AwsProvider(provider.settings.model_copy(update={"disk": 99}), cell=CELL, calls=provider.calls)
    with pytest.raises(Unreachable):
        changed.launch(order(buckets(provider)))


def test_a_node_array_may_have_its_own_disk_size(region: Region, connect: Connect) -> None:
    provider = connect()
    own = {"CP_CAP_AUTOSCALE_INSTANCE_DISK": "77", "CP_CAP_AUTOSCALE_INSTANCE_IMAGE": "library/some-container"}
    machine = launched(region, provider, buckets(provider), settings=own)
    assert [disk["size"] for disk in machine["disks"]] == [77]


def test_the_launch_template_of_a_fleet_is_made_once_for_equal_orders(region: Region, connect: Connect) -> None:
    provider = connect("ab")
    for number in range(3):
        provider.launch(order(buckets(provider), token=f"order-{number}"))
    assert region.control("calls")["recorded"].count("ec2:CreateLaunchTemplate") == 1


def test_a_deleted_launch_template_of_a_fleet_is_made_again(region: Region, connect: Connect) -> None:
    provider = connect("ab")
    provider.launch(order(buckets(provider)))
    region.control("forget_templates")
    assert len(provider.launch(order(buckets(provider), token="order-1")).ids) == 1


def test_terminating_a_machine_that_ec2_does_not_know_yet_is_repeated_later(region: Region, connect: Connect) -> None:
    provider = connect()
    ids = provider.launch(order(buckets(provider))).ids
    region.control("lag", seconds=60)
    region.fault({"kind": "error", "operation": "TerminateInstances", "code": "InvalidInstanceID.NotFound", "times": 1})
    with pytest.raises(Unreachable):
        provider.terminate(ids)
    provider.terminate(ids)
    assert region.control("billable")["billable"] == []


def test_a_machine_that_is_not_listed_yet_is_terminated_by_one_call(region: Region, connect: Connect) -> None:
    provider = connect()
    ids = provider.launch(order(buckets(provider))).ids
    region.control("lag", seconds=60)
    for _ in range(2):
        provider.terminate(ids)
    assert region.control("billable")["billable"] == []
    assert region.control("calls")["recorded"].count("ec2:TerminateInstances") == 1


def test_an_unlisted_machine_of_an_earlier_process_counts_as_gone_only_after_some_minutes(
    region: Region, aws_plane: AwsPlane
) -> None:
    """It may have been launched just before that process ended; whose it is cannot be seen until then."""
    provider = aws_plane.connect(CELL)
    with pytest.raises(Unreachable) as found:
        provider.terminate(["i-0123456789abcdef0"])
    aws_plane.skew += SURELY_VISIBLE
    provider.terminate(["i-0123456789abcdef0"])
    assert found.value.ids == ("i-0123456789abcdef0",)
    assert "ec2:TerminateInstances" not in region.control("calls")["recorded"]


def test_a_forgotten_machine_does_not_keep_others_from_being_terminated_and_is_gone_after_some_minutes(
    region: Region, aws_plane: AwsPlane
) -> None:
    """A spot machine that ended long ago while nothing could be observed: EC2 knows its id no more."""
    provider = aws_plane.connect(CELL)
    ids = provider.launch(order(buckets(provider), 3)).ids
    region.control("forget_machine", id=ids[0])
    with pytest.raises(Unreachable) as found:
        provider.terminate(ids)
    assert (found.value.ids, region.control("billable")["billable"]) == (ids[:1], [])
    aws_plane.skew += SURELY_VISIBLE
    provider.terminate(ids)


@pytest.mark.parametrize("stored", (True, False), ids=["stored", "of an earlier version"])
def test_an_order_repeated_with_one_subnet_fewer_gives_the_same_machines(
    region: Region, aws_plane: AwsPlane, stored: bool
) -> None:
    """The places of the first request are the order's; where an earlier version did not store them, its machines are
    looked for.
    """
    before = aws_plane.like("ab")
    provider = before.connect(CELL)
    wanted = order(buckets(provider), 4)
    if stored:
        wanted = replace(wanted, chosen=provider.choose(wanted))
    before.inject(Fault.LOST_ANSWER)
    with pytest.raises(Unreachable):
        provider.launch(wanted)
    before.heal()
    again = aws_plane.connect(CELL).launch(wanted)
    assert len(again.ids) == len(region.control("machines")) == 4


@pytest.mark.parametrize(
    ("code", "ending"),
    (
        ("Client.InstanceInitiatedShutdown", Ending.RELEASED),
        ("Server.SpotInstanceTermination", Ending.INTERRUPTED),
        ("Client.UserInitiatedShutdown", Ending.UNKNOWN),
    ),
)
def test_a_terminated_worker_has_the_kind_of_its_end(
    region: Region, connect: Connect, code: str, ending: Ending
) -> None:
    provider = connect()
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    region.control("end", id=worker_id, code=code)
    (worker,) = provider.workers()
    assert (worker.state, worker.ending) == (MachineState.TERMINATED, ending)
    assert code in str(worker.message)


def test_short_host_names_are_the_first_label(connect: Connect) -> None:
    provider = connect(host_names="short")
    provider.launch(order(buckets(provider)))
    (worker,) = provider.workers()
    assert worker.name is not None
    assert "." not in worker.name


def test_a_slow_answer_is_awaited(region: Region, connect: Connect) -> None:
    provider = connect()
    launched = provider.launch(order(buckets(provider)))
    region.fault({"kind": "slow", "operation": "DescribeInstances", "seconds": 0.3})
    assert [worker.id for worker in provider.workers()] == list(launched.ids)


@pytest.mark.parametrize(
    ("fault", "raised"),
    (
        ({"kind": "reset"}, Unreachable),
        ({"kind": "stranger"}, Unreachable),
        ({"kind": "error", "code": "InternalError", "status": 500}, Unreachable),
        ({"kind": "error", "code": "Unavailable", "status": 503}, Unreachable),
        ({"kind": "error", "code": "RequestExpired"}, Unreachable),
        ({"kind": "error", "code": "RequestLimitExceeded", "status": 503}, Throttled),
        ({"kind": "error", "code": "Throttling", "status": 429}, Throttled),
        ({"kind": "error", "code": "InvalidAMIID.NotFound"}, Refused),
        ({"kind": "error", "code": "UnauthorizedOperation", "status": 403}, Refused),
    ),
)
@BOTH_WAYS
def test_a_failed_launch_raises_the_error_that_says_if_it_may_be_repeated(
    region: Region, connect: Connect, zones: str, fault: dict[str, Any], raised: type[Exception]
) -> None:
    provider = connect(zones)
    asked = order(buckets(provider))
    region.fault({**fault, "operation": "RunInstances"}, {**fault, "operation": "CreateFleet"})
    with pytest.raises(raised):
        provider.launch(asked)
    assert region.control("billable")["billable"] == []


@pytest.mark.parametrize("kind", ("reset", "stranger", "garbage"))
def test_an_incomplete_listing_is_refused(region: Region, connect: Connect, kind: str) -> None:
    provider = connect()
    provider.launch(order(buckets(provider)))
    region.fault({"kind": kind, "operation": "DescribeInstances"})
    with pytest.raises(Unreachable):
        provider.workers()


def test_an_order_takes_one_call(connect: Connect, region: Region) -> None:
    provider = connect()
    wanted = order(buckets(provider), count=500)
    wanted = replace(wanted, chosen=provider.choose(wanted))
    before = len(region.control("calls")["recorded"])
    answer = provider.launch(wanted)
    assert isinstance(answer, Launched)
    assert region.control("calls")["recorded"][before:] == ["ec2:RunInstances"]


def test_hundreds_of_machines_are_terminated_by_three_calls(region: Region, connect: Connect) -> None:
    provider = connect()
    region.control("stock", vcpus=10_000)
    ids = [each for number in range(4) for each in provider.launch(order(buckets(provider), 100, f"many-{number}")).ids]
    before = len(region.control("calls")["recorded"])
    provider.terminate(ids)
    assert (len(ids), region.control("calls")["recorded"][before:]) == (
        400,
        ["ec2:DescribeInstances", "ec2:DescribeInstances", "ec2:TerminateInstances"],
    )
    assert region.control("billable")["billable"] == []


def test_a_protected_machine_is_refused_with_the_error_code(region: Region, connect: Connect) -> None:
    provider = connect()
    ids = provider.launch(order(buckets(provider))).ids
    region.fault({"kind": "error", "operation": "TerminateInstances", "code": "OperationNotPermitted", "status": 400})
    with pytest.raises(Refused, match="OperationNotPermitted"):
        provider.terminate(ids)
