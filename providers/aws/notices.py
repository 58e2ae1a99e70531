"""Interruption notices and warnings: from the state of a machine's spot request, and from EC2's events if the settings
name a queue that gets them (EventBridge to SQS).

A worker's own metadata has the same notice two minutes ahead, but only the machine can read it: the boot script does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from autoscaler.providers.advice import Advice
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.interface import Interruption

WARNING = 120.0
"""Seconds from EC2's warning to the end of a spot machine."""
MARKED = {"marked-for-termination": "terminate", "marked-for-stop": "stop"}
"""States of a spot request before its machine is taken."""
MOST_MESSAGES = 10
"""The most messages of one SQS call."""
LISTED_WITHIN = 600.0
"""Seconds for which a notice of a machine that no listing shows yet is kept: it may be new."""
REQUESTS = "states of spot requests"
ROUNDS = 20
"""This many batches of messages are read in one observation; the rest waits for the next."""


@dataclass(slots=True)
class Notices:
    """The known notices, by machine and kind. A queue serves one cell: messages that were read are deleted from it, but
    only once a plan that has their notices is kept. If this process ends before, the next one gets them again.
    """

    calls: Calls
    queue: str | None = None
    advice: Advice = field(default_factory=Advice)
    clock: Callable[[], float] = time.monotonic
    _told: dict[tuple[str, str], Interruption] = field(default_factory=dict)
    _first_told: dict[tuple[str, str], float] = field(default_factory=dict)
    _read: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    """By receipt of each message that was read: its notice; None: it has none."""
    _reported: tuple[str, ...] = ()
    """Receipts of messages of which nothing is missing in the last observation."""
    _kept: tuple[str, ...] = ()
    """Receipts of messages to delete."""

    def of_workers(self, spot: Collection[str], living: Collection[str]) -> Sequence[Interruption]:
        """Notices that hold for `living` workers, of which `spot` are spot machines. Each source fails alone."""
        if queue := self.queue:
            self.advice.read("deleting events of the queue", partial(self._delete, queue), None)
        self.advice.forget(REQUESTS)
        found = self.advice.read(REQUESTS, lambda: tuple(self._of_requests()), ()) if spot else ()
        for notice in found:
            self._note(notice)
        if queue := self.queue:
            self.advice.read("events of the queue", partial(self._receive, queue), None)
        now = self.clock()
        kept = {
            key
            for key, notice in self._told.items()
            if notice.worker_id in living or now - self._first_told[key] < LISTED_WITHIN
        }
        self._told = {key: notice for key, notice in self._told.items() if key in kept}
        self._first_told = {key: at for key, at in self._first_told.items() if key in kept}
        self._reported = tuple(
            receipt for receipt, key in self._read.items() if key is None or key[0] in living or key not in self._told
        )
        told = (notice for notice in self._told.values() if notice.worker_id in living)
        return sorted(told, key=lambda notice: (notice.at, notice.worker_id, notice.kind))

    def kept(self) -> None:
        """A plan that rests on the last observation is kept."""
        self._kept = self._reported

    def _note(self, notice: Interruption) -> None:
        """SQS may deliver a message twice, and the spot request reports the same end: the first notice stays."""
        key = notice.worker_id, notice.kind
        self._told.setdefault(key, notice)
        self._first_told.setdefault(key, self.clock())

    def _of_requests(self) -> Iterable[Interruption]:
        """Of all owners: the requests of a fleet carry no tags. `of_workers` keeps those of living workers."""
        requests = self.calls.pages(
            "describe_spot_instance_requests",
            "SpotInstanceRequests",
            Filters=[{"Name": "status-code", "Values": sorted(MARKED)}],
            MaxResults=1000,
        )
        for request in requests:
            status = request.get("Status", {})
            kind, worker_id = MARKED.get(status.get("Code", "")), request.get("InstanceId")
            if kind is not None and worker_id:
                # Some requests have no time: then the warning counts from now.
                updated = status.get("UpdateTime")
                yield Interruption(worker_id, (updated.timestamp() if updated else time.time()) + WARNING, kind)

    def _receive(self, queue: str) -> None:
        """Each batch is noted at once: what a later call does not answer loses none of it."""
        for _ in range(ROUNDS):
            answer = self.calls.ask(
                "receive_message", service="sqs", QueueUrl=queue, MaxNumberOfMessages=MOST_MESSAGES, WaitTimeSeconds=0
            )
            messages = answer.get("Messages", ())
            for message in messages:
                notice = notice_of(message["Body"])
                if notice is not None:
                    self._note(notice)
                key = None if notice is None else (notice.worker_id, notice.kind)
                self._read[message["ReceiptHandle"]] = key
            # SQS may give fewer messages than it has: the next observation reads the others.
            if len(messages) < MOST_MESSAGES:
                break

    def _delete(self, queue: str) -> None:
        """Delete what a kept plan rests on. A message that is not deleted is delivered again."""
        while self._kept:
            receipts = self._kept[:MOST_MESSAGES]
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
            self.calls.ask("delete_message_batch", service="sqs", QueueUrl=queue, Entries=entries)
            self._kept = self._kept[len(receipts) :]
            for receipt in receipts:
                self._read.pop(receipt, None)


def notice_of(body: str) -> Interruption | None:
    """The notice in one of EventBridge's messages; None for any other event or text."""
    try:
        event: Mapping[str, Any] = json.loads(body)
        at = datetime.fromisoformat(event["time"]).timestamp()
        worker_id = event["detail"]["instance-id"]
        match event["detail-type"]:
            case "EC2 Spot Instance Interruption Warning":
                return Interruption(worker_id, at + WARNING, event["detail"]["instance-action"])
            case "EC2 Instance Rebalance Recommendation":
                return Interruption(worker_id, at, "rebalance")
            case _:
                return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
