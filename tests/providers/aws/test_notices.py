"""Interruption notices of EC2, only for machines that exist."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.aws.notices import WARNING, notice_of
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import Unreachable
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import Connect
from tests.providers.aws.test_orders import BOTH_WAYS, buckets, order

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def queue(region: Region) -> str:
    """The address of a new queue."""
    client = boto3.client("sqs", region_name="us-east-1", endpoint_url=region.address)
    return client.create_queue(QueueName=f"events-{datetime.now(UTC).timestamp():.6f}".replace(".", "-"))["QueueUrl"]


def send(region: Region, address: str, *events: dict[str, Any]) -> None:
    client = boto3.client("sqs", region_name="us-east-1", endpoint_url=region.address)
    for event in events:
        client.send_message(QueueUrl=address, MessageBody=json.dumps(event))


def event(kind: str, worker_id: str, **detail: str) -> dict[str, Any]:
    """One of EventBridge's messages."""
    return {
        "detail-type": kind,
        "source": "aws.ec2",
        "time": "2026-11-21T12:00:00Z",
        "detail": {"instance-id": worker_id, **detail},
    }


def warning(worker_id: str) -> dict[str, Any]:
    return event("EC2 Spot Instance Interruption Warning", worker_id, **{"instance-action": "terminate"})


def test_an_interruption_warning_has_the_time_of_the_end() -> None:
    notice = notice_of(json.dumps(warning("i-1")))
    assert notice is not None
    assert (notice.worker_id, notice.at, notice.kind) == ("i-1", AT.timestamp() + WARNING, "terminate")


def test_a_rebalance_recommendation_is_a_notice_of_kind_rebalance() -> None:
    notice = notice_of(json.dumps(event("EC2 Instance Rebalance Recommendation", "i-1")))
    assert notice is not None
    assert (notice.kind, notice.at) == ("rebalance", AT.timestamp())


@pytest.mark.parametrize("body", ("", "{}", "[]", '{"time": 1}', '{"time": "2026-11-21T12:00:00Z", "detail": null}'))
def test_a_message_that_is_not_an_interruption_notice_is_skipped(body: str) -> None:
    assert notice_of(body) is None


@BOTH_WAYS
def test_a_spot_request_marked_for_termination_is_an_interruption_notice(
    region: Region, connect: Connect, zones: str
) -> None:
    provider = connect(zones)
    (worker_id,) = provider.launch(order(buckets(provider, PriceType.SPOT))).ids
    region.control("mark", id=worker_id, code="marked-for-termination")
    assert [(notice.worker_id, notice.kind) for notice in provider.interruptions()] == [(worker_id, "terminate")]


def test_a_spot_request_of_another_cell_gives_no_interruption_notice(region: Region) -> None:
    plane = AwsPlane(region)
    other, ours = plane.connect("another-cell"), plane.connect(CELL)
    theirs = replace(order(buckets(other, PriceType.SPOT)), cell="another-cell", token="theirs-0")
    (worker_id,) = other.launch(theirs).ids
    ours.launch(order(buckets(ours, PriceType.SPOT)))
    region.control("mark", id=worker_id, code="marked-for-termination")
    assert list(ours.interruptions()) == []


def test_spot_requests_are_not_listed_without_spot_machines(region: Region, connect: Connect) -> None:
    provider = connect()
    provider.launch(order(buckets(provider)))
    assert list(provider.interruptions()) == []
    assert "ec2:DescribeSpotInstanceRequests" not in region.control("calls")["recorded"]


def test_an_event_of_the_queue_is_reported_until_the_machine_is_gone(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    send(region, address, warning(worker_id))
    provider.workers()
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    provider.terminate([worker_id])
    provider.workers()
    assert list(provider.interruptions()) == []


def test_events_of_other_machines_give_no_interruption_notice(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    send(region, address, warning("i-0123456789abcdef0"))
    assert list(provider.interruptions()) == []


def test_events_beyond_one_batch_are_all_read(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    send(region, address, *(warning(f"i-{n:017x}") for n in range(12)), warning(worker_id))
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]


def test_an_unreachable_event_queue_raises_unreachable(region: Region, connect: Connect) -> None:
    provider = connect(event_queue=queue(region))
    provider.workers()
    region.fault({"kind": "reset", "operation": "ReceiveMessage"})
    with pytest.raises(Unreachable):
        provider.interruptions()
