"""Interruption notices of EC2, only for machines that exist."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.core.workers.phases import takes
from autoscaler.providers.aws.maintenance import SOON
from autoscaler.providers.aws.notices import WARNING, Notices, notice_of
from autoscaler.providers.aws.provider import AwsProvider
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
    (ours,) = provider.launch(order(buckets(provider))).ids
    send(region, address, warning("i-0123456789abcdef0"), warning(ours))
    provider.workers()
    assert [notice.worker_id for notice in provider.interruptions()] == [ours]


def test_events_beyond_one_batch_are_all_read(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    send(region, address, *(warning(f"i-{n:017x}") for n in range(12)), warning(worker_id))
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]


def spot_worker(provider: AwsProvider) -> str:
    """One that is listed."""
    (worker_id,) = provider.launch(order(buckets(provider, PriceType.SPOT))).ids
    assert [worker.id for worker in provider.workers()] == [worker_id]
    return worker_id


def test_an_unreachable_event_queue_keeps_the_other_notices_and_is_told(region: Region, connect: Connect) -> None:
    provider = connect(event_queue=queue(region))
    worker_id = spot_worker(provider)
    region.control("mark", id=worker_id, code="marked-for-termination")
    region.fault({"kind": "reset", "operation": "ReceiveMessage"})
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    assert list(provider.troubles()) == ["events of the queue"]
    region.fault()
    assert (len(provider.interruptions()), provider.troubles()) == (1, {})


def test_refused_spot_requests_keep_the_notices_of_the_queue(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    worker_id = spot_worker(provider)
    send(region, address, warning(worker_id))
    region.fault({"kind": "error", "operation": "DescribeSpotInstanceRequests", "code": "UnauthorizedOperation"})
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    assert list(provider.troubles()) == ["states of spot requests"]


def test_a_spot_request_without_a_time_is_a_notice_from_now_on(region: Region, connect: Connect) -> None:
    provider = connect()
    worker_id = spot_worker(provider)
    region.control("mark", id=worker_id, code="marked-for-termination", timeless=True)
    (notice,) = provider.interruptions()
    assert notice.at >= time.time()


def messages(region: Region, address: str) -> int:
    """How many messages the queue still has, also those that were received and not deleted."""
    client = boto3.client("sqs", region_name="us-east-1", endpoint_url=region.address)
    found = client.get_queue_attributes(QueueUrl=address, AttributeNames=["All"])["Attributes"]
    return int(found["ApproximateNumberOfMessages"]) + int(found["ApproximateNumberOfMessagesNotVisible"])


def test_a_message_is_deleted_only_after_a_plan_with_its_notice_is_kept(region: Region, connect: Connect) -> None:
    address = queue(region)
    provider = connect(event_queue=address)
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    send(region, address, warning(worker_id))
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    provider.interruptions()
    assert messages(region, address) == 1, "a process that ends now must leave it to the next one"
    provider.notices_kept()
    assert [notice.worker_id for notice in provider.interruptions()] == [worker_id]
    assert messages(region, address) == 0


class _Answers:
    """Calls of which a later batch gets no answer."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.deleted = list(answers), 0

    def ask(self, what: str, **_: object) -> Any:
        if what == "delete_message_batch":
            self.deleted += 1
            return {}
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"Messages": answer}


def _batch(*events: dict[str, Any]) -> list[dict[str, str]]:
    return [{"Body": json.dumps(each), "ReceiptHandle": f"r{n}"} for n, each in enumerate(events)]


def test_a_notice_that_was_read_outlives_a_later_call_without_an_answer() -> None:
    first = _batch(warning("i-1"), *(warning(f"i-{n}") for n in range(10, 19)))
    calls = _Answers(first, Unreachable("no answer"), [])
    notices = Notices(calls, "queue")  # type: ignore[arg-type]
    notices.of_workers((), {"i-1"})
    assert (calls.deleted, list(notices.advice.troubles())) == (0, ["events of the queue"])
    assert [notice.worker_id for notice in notices.of_workers((), {"i-1"})] == ["i-1"]


def test_a_message_stays_in_the_queue_while_its_machine_is_not_listed_so_that_no_plan_has_its_notice() -> None:
    calls = _Answers(_batch(warning("i-1")), [], [], [], [])
    notices = Notices(calls, "queue")  # type: ignore[arg-type]
    for living in (set[str](), {"i-1"}):
        notices.of_workers((), living)
        notices.kept()
        assert calls.deleted == 0
    notices.of_workers((), {"i-1"})
    assert calls.deleted == 1


def test_a_notice_of_a_machine_that_is_not_listed_yet_is_kept_for_a_while() -> None:
    now = 0.0
    notices = Notices(_Answers(_batch(warning("i-1")), [], []), "queue", clock=lambda: now)  # type: ignore[arg-type]
    assert list(notices.of_workers((), set())) == []
    now = 60.0
    assert [notice.worker_id for notice in notices.of_workers((), {"i-1"})] == ["i-1"]


def kinds(provider: AwsProvider) -> list[tuple[str, str]]:
    return [(notice.worker_id, notice.kind) for notice in provider.interruptions()]


def test_maintenance_is_an_advice_first_and_a_notice_shortly_before_it_begins(region: Region, connect: Connect) -> None:
    provider = connect()
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    region.control("announce", id=worker_id, code="instance-retirement", seconds=3 * 86_400)
    provider.workers()
    assert kinds(provider) == [(worker_id, "maintenance")]
    (notice,) = provider.interruptions()
    assert not takes(notice)
    provider.maintenance.clock = lambda: time.time() + 3 * 86_400 - SOON
    assert kinds(provider) == [(worker_id, "terminate")]
    (notice,) = provider.interruptions()
    assert takes(notice)


@pytest.mark.parametrize(
    ("code", "kind"), (("instance-stop", "stop"), ("system-maintenance", "reboot"), ("instance-reboot", "reboot"))
)
def test_each_kind_of_maintenance_says_what_happens_to_the_machine(
    region: Region, connect: Connect, code: str, kind: str
) -> None:
    provider = connect()
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    region.control("announce", id=worker_id, code=code, seconds=60)
    provider.workers()
    assert kinds(provider) == [(worker_id, kind)]


@pytest.mark.parametrize("word", ("Completed", "Canceled"))
def test_maintenance_that_is_over_is_no_notice(region: Region, connect: Connect, word: str) -> None:
    provider = connect()
    (worker_id,) = provider.launch(order(buckets(provider))).ids
    region.control("announce", id=worker_id, code="instance-stop", seconds=60, description=f"[{word}] by its host")
    provider.workers()
    assert kinds(provider) == []


def test_maintenance_of_others_machines_is_no_notice_and_is_read_once_in_a_while(
    region: Region, connect: Connect
) -> None:
    plane = AwsPlane(region)
    other, ours = plane.connect("another-cell"), plane.connect(CELL)
    theirs = replace(order(buckets(other)), cell="another-cell", token="theirs-1")
    (worker_id,) = other.launch(theirs).ids
    ours.launch(order(buckets(ours)))
    region.control("announce", id=worker_id, code="instance-stop", seconds=60)
    ours.workers()
    for _ in range(3):
        assert kinds(ours) == []
    assert region.control("calls")["recorded"].count("ec2:DescribeInstanceStatus") == 1


def test_a_right_that_is_missing_for_maintenance_hides_no_other_notice(region: Region, connect: Connect) -> None:
    provider = connect()
    worker_id = spot_worker(provider)
    region.control("mark", id=worker_id, code="marked-for-termination")
    region.fault({"kind": "error", "operation": "DescribeInstanceStatus", "code": "UnauthorizedOperation"})
    assert kinds(provider) == [(worker_id, "terminate")]
    assert list(provider.troubles()) == ["scheduled maintenance"]
