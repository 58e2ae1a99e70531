"""Orders: one creating call for each machine, a few at a time, and never twice for one token.

The first machine of an order is requested alone. If it exists already, the order was made before: then the existing
machines are the answer and nothing more is made, since missing ones may have been refused or ended. So a repeated order
costs no listing, and a crash at any instant leads to one set of machines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from azure.core import MatchConditions

from autoscaler.core.model.fleet import Bucket, BucketKey
from autoscaler.providers.azure import tags
from autoscaler.providers.azure.calls import Calls, Record
from autoscaler.providers.azure.errors import MachineExists
from autoscaler.providers.azure.machine import body
from autoscaler.providers.interface import (
    Launched,
    LaunchOrder,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.rest import Deadline, reading

LANES = 8
"""Machines that are requested at the same time."""
PATIENCE = 25.0
"""Seconds for one order; machines that were not requested by then are missing from the answer."""
LAST_CALL = 5.0
"""No further machine is requested with fewer seconds left."""
LOCKS = 64
REMEMBERED = 1000
"""Orders whose answers are cached."""

Made = Callable[[str, Record], None]


@dataclass(slots=True)
class _Progress:
    """The results of the calls of one order. Changed under `guard` only."""

    ids: set[str] = field(default_factory=set)
    short: dict[BucketKey, ProviderError] = field(default_factory=dict)
    failed: ProviderError | None = None
    """An error that no other bucket could avoid."""
    guard: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, error: ProviderError) -> None:
        """A missing answer weighs more than a refusal of another machine: the machine may have been made."""
        if self.failed is None or isinstance(error, Unreachable):
            self.failed = error

    def untried(self, order: LaunchOrder) -> Sequence[Bucket]:
        with self.guard:
            return [] if self.failed else [bucket for bucket in order.buckets if bucket.key not in self.short]


class Orders:
    """Requests machines. Safe to be used by several threads: only one works on a token at a time."""

    def __init__(
        self, calls: Calls, made: Made = lambda name, record: None, data_disks: Callable[[], Sequence[int]] = tuple
    ) -> None:
        """`made` is called with every new machine and Azure's answer; `data_disks` returns those of the image."""
        self._calls, self._settings, self._made, self._data_disks = calls, calls.settings, made, data_disks
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._answers: dict[str, tuple[str, ...]] = {}

    def launch(self, order: LaunchOrder) -> Launched:
        """See `Provider.launch`."""
        deadline = Deadline(PATIENCE)
        with self._locks[hash(order.token) % LOCKS]:
            if order.token in self._answers:
                return self._again(order, self._answers[order.token])
            first, *others = tags.names(order)
            progress = _Progress()
            try:
                self._create(order, first, progress, deadline)
            except MachineExists:
                return self._answered(order, self._existing(order), "of this order exist")
            with ThreadPoolExecutor(min(LANES, order.count), thread_name_prefix="order") as lanes:
                list(lanes.map(lambda name: self._or_existing(order, name, progress, deadline), others))
            return self._concluded(order, progress)

    def _create(self, order: LaunchOrder, name: str, progress: _Progress, deadline: Deadline) -> None:
        """Request one machine in the first bucket that has it. Raises MachineExists."""
        for bucket in progress.untried(order):
            if deadline.left < LAST_CALL:
                return
            try:
                record = self._put(name, body(order, name, bucket.key, self._settings, self._data_disks()))
            except MachineExists:
                raise
            except (OutOfCapacity, QuotaReached) as error:
                with progress.guard:
                    progress.short.setdefault(bucket.key, error)
            except ProviderError as error:
                with progress.guard:
                    progress.fail(error)
                return
            else:
                with progress.guard:
                    progress.ids.add(name)
                self._made(name, record)
                return

    def _or_existing(self, order: LaunchOrder, name: str, progress: _Progress, deadline: Deadline) -> None:
        """Request one of the others. It may exist, if the first machine of an earlier order has ended since."""
        try:
            self._create(order, name, progress, deadline)
        except MachineExists:
            with progress.guard:
                progress.ids.add(name)

    def _put(self, name: str, wanted: dict[str, Any]) -> Record:
        """Make the machine unless there is one of this name. Raises MachineExists."""

        def put(client: Any) -> Record:
            poller = client.virtual_machines.begin_create_or_update(
                self._settings.resource_group,
                name,
                wanted,
                etag="*",
                match_condition=MatchConditions.IfMissing,
                # Otherwise the SDK waits until the machine is made, which takes minutes.
                polling=False,
            )
            made: Record = poller.result()
            return made

        return self._calls.ask(f"creating {name}", put, "creating machines")

    def _existing(self, order: LaunchOrder) -> tuple[str, ...]:
        """The existing machines of an order: by name, since a listing may lag. Raises Refused if one is not ours, and
        Unreachable if they may not be looked at: they exist all the same.
        """
        wanted = tags.names(order)
        lanes = ThreadPoolExecutor(min(LANES, len(wanted)), thread_name_prefix="order")
        with lanes, reading("the machines that the same order made before"):
            found = list(lanes.map(self._calls.machine, wanted))
        for name, record in zip(wanted, found, strict=True):
            if record is None:
                continue
            carried = tags.carried(record)
            if (carried.get(tags.CELL), carried.get(tags.TOKEN)) != (order.cell, order.token):
                raise Refused(f"a machine {name} of another order exists and is left alone: remove or rename it")
        return tuple(name for name, record in zip(wanted, found, strict=True) if record is not None)

    def _concluded(self, order: LaunchOrder, progress: _Progress) -> Launched:
        """The answer, or an error in its place: an order that may have happened in part stays open."""
        ids = tuple(name for name in tags.names(order) if name in progress.ids)
        error = progress.failed
        if error is not None and (not ids or not isinstance(error, Throttled | Refused)):
            raise error
        if not ids and not progress.short:
            raise Throttled(f"no machine could be requested within {PATIENCE:g} s")
        return self._answered(order, ids, "could be requested in time", error, progress.short)

    def _answered(
        self,
        order: LaunchOrder,
        ids: tuple[str, ...],
        why: str,
        error: ProviderError | None = None,
        short: dict[BucketKey, ProviderError] | None = None,
    ) -> Launched:
        self._answers[order.token] = ids
        while len(self._answers) > REMEMBERED:
            self._answers.pop(next(iter(self._answers)), None)
        if len(ids) >= order.count:
            return Launched(ids)
        reason = error or Throttled(f"{len(ids)} of {order.count} machines {why}")
        return Launched(ids, tuple((short or {order.buckets[0].key: reason}).items()))

    def _again(self, order: LaunchOrder, ids: tuple[str, ...]) -> Launched:
        return self._answered(order, ids, "were launched then")
