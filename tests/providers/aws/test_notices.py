"""Notices that a machine will be taken reach the loop, once, and only for machines that are there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from autoscaler.core.model.fleet import PriceType
from providers.aws.notices import WARNING, notice_of
from providers.contract import CELL
from providers.interface import Unreachable
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


def test_a_warning_tells_when_the_machine_ends() -> None:
    notice = notice_of(json.dumps(warning("i-1")))
    assert notice is not None
    assert (notice.worker_id, notice.at, notice.kind) == ("i-1", AT.timestamp() + WARNING, "terminate")


def test_a_rebalance_advice_ends_nothing() -> None:
    notice = notice_of(json.dumps(event("EC2 Instance Rebalance Recommendation", "i-1")))
    assert notice is not None
    assert (notice.kind, notice.at) == ("rebalance", AT.timestamp())


@pytest.mark.parametrize("body", ("", "{}", "[]", '{"time": 1}', '{"time": "2026-11-21T12:00:00Z", "detail": null}'))
def test_what_is_no_notice_is_passed_over(body: str) -> None:
    assert notice_of(body) is None


@BOTH_WAYS
def test_the_state_of_a_spot_request_is_a_notice(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones)
    (worker_id,) = provider.launch(order(buckets(provider, PriceType.SPOT))).ids
    region.tell("mark", id=worker_id, code="marked-for-termination")
    assert [(notice.worker_id, notice.kind) for notice in provider.interruptions()] == [(worker_id, "terminate")]


def test_the_state_of_another_cells_request_is_none_of_ours(region: Region) -> None:
    plane = AwsPlane(region)
    other, ours = plane.connect("another-cell"), plane.connect(CELL)
    theirs = replace(order(buckets(other, PriceType.SPOT)), cell="another-cell", token="theirs-0")
    (worker_id,) = other.launch(theirs).ids
    ours.launch(order(buckets(ours, PriceType.SPOT)))
    region.tell("mark", id=worker_id, code="marked-for-termination")
    assert list(ours.interruptions()) == []


def test_nobody_is_asked_about_spot_machines_where_there_are_none(region: Region, connect: Connect) -> None:
    provider = connect()
    provider.launch(order(buckets(provider)))
    assert list(provider.interruptions()) == []
    assert "ec2:DescribeSpotInstanceRequests" not in region.tell("calls")["recorded"]


def test_events_of_the_queue_are_told_until_the_machine_is_gone(region: Region, connect: Connect) -> None:
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


def test_events_of_other_machines_are_not_ours(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    send(region, address, warning("i-0123456789abcdef0"))
    assert list(provider.interruptions()) == []


def test_more_events_than_a_batch_are_all_read(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    send(region, address, *(warning(f"i-{n:017x}") for n in range(12)), warning(worker_id))
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]


def test_a_queue_that_does_not_answer_is_no_quiet(region: Region, connect: Connect) -> None:
    provider = connect(event_queue=queue(region))
    provider.workers()
    region.fault({"kind": "reset", "operation": "ReceiveMessage"})
    with pytest.raises(Unreachable):
        provider.interruptions()
