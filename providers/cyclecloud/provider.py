"""Nodes of a CycleCloud cluster as workers. One status call shows buckets and nodes; an order is one creating call and
one that lists its nodes.

The request id makes an order idempotent: the server refuses the second request (409), and lists the nodes of the first
by it. The node itself names its owner (`nodes.tag_of`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, ClassVar

from requests.auth import HTTPBasicAuth

from autoscaler.core.model.fleet import Bucket, BucketKey, Interruption, Worker
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.cyclecloud.api import Api
from autoscaler.providers.cyclecloud.check import problems
from autoscaler.providers.cyclecloud.nodes import (
    attributes,
    id_of,
    is_void,
    placement_group_of,
    request_id,
    same_region,
    tag_of,
    worker_from,
)
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.cyclecloud.status import NodeArray, Offered, Status
from autoscaler.providers.interface import (
    CallBudget,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    Problem,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.price_age import oldest_price
from autoscaler.providers.rest import Deadline, Limits, Rest, reading

FRESH = 5.0
"""Seconds for which a status that was read for the workers is also used for the buckets."""
KNOWN = 300.0
"""Seconds for which an order uses the node array of an earlier status: templates change seldom."""
VERBS = ("start", "restart", "reimage", "deallocate", "shutdown", "remove")


class CycleCloudProvider:
    """One client of one cluster, for the machines of one cell."""

    name: ClassVar[str] = "cyclecloud"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[CycleCloudSettings]] = CycleCloudSettings

    def __init__(
        self,
        settings: CycleCloudSettings,
        *,
        cell: str,
        rest: Rest | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.cell, self.clock = settings, cell, clock
        self.api = Api(rest or rest_for(settings), settings.cluster)
        self.catalog = load_catalog(settings.catalog)
        self._guard = threading.Lock()
        self._status: tuple[float, Status] | None = None
        self._nodes: tuple[Mapping[str, Any], ...] = ()
        self._evictions: dict[str, float] = {}

    @property
    def location(self) -> str:
        return self.settings.location

    @staticmethod
    def oldest_price(settings: CycleCloudSettings) -> date | None:
        return oldest_price(settings.catalog, "azure", settings.location)

    def buckets(self) -> Sequence[Bucket]:
        status = self._recent(FRESH)
        found: dict[BucketKey, Bucket] = {}
        for array in status.arrays:
            for offered in array.buckets:
                bucket = self._bucket(array, offered, status)
                if bucket is not None:  # of two arrays that offer the same the first is used; `check` says so
                    found.setdefault(bucket.key, bucket)
        return tuple(found.values())

    def workers(self) -> Sequence[Worker]:
        status = self._read()
        ours = [(node, tag) for node in status.nodes if (tag := tag_of(node)) is not None and tag.cell == self.cell]
        return [worker_from(node, tag, status.arrays, self.catalog) for node, tag in ours]

    def launch(self, order: LaunchOrder) -> Launched:
        """The server knows each bucket's request by its id. But an earlier try may have been met by another bucket than
        this one would be (it was refused then, or the settings were others), so an order of several looks for its nodes
        first.
        """
        deadline = Deadline(self.api.rest.limits.total)
        if (order.asked_before or len(order.buckets) > 1) and (before := self._made(order, deadline)):
            return Launched(before)
        status = self._recent(KNOWN)
        self._release_void(status, deadline)
        ids: list[str] = []
        errors: dict[BucketKey, ProviderError] = {}
        for number, bucket in enumerate(order.buckets):
            try:
                array = self._array_for(bucket.key, status)
                request = request_id(self.cell, order.token, number)
                made = self._create(request, self._node_set(order, bucket, array, order.count - len(ids)), deadline)
            except Refused as error:
                errors[bucket.key] = error
                continue
            except Throttled as error:
                if not ids:
                    raise
                errors[bucket.key] = error
                break
            if made is None:
                return self._asked_before(order, deadline)
            ids += made[0]
            if len(ids) >= order.count:
                break
            errors[bucket.key] = self._shortage(array.name, bucket.type.name, len(made[0]), made[1], deadline)
        with self._guard:
            self._status = None
        if not ids and errors and all(isinstance(error, Refused) for error in errors.values()):
            raise next(iter(errors.values()))
        return Launched(tuple(ids), tuple(errors.items()) if len(ids) < order.count else ())

    def _release_void(self, status: Status, deadline: Deadline) -> None:
        """Remove our nodes that never got a machine: they cost nothing, but count against the cluster's limits.

        They are listed as terminated, so nobody requests their end. One that stays is tried again with the next order.
        """
        void = [id_of(node) for node in status.nodes if is_void(node) and self._is_ours(node)]
        if void:
            with suppress(ProviderError):
                self.api.manage("terminate", void, deadline)

    def _is_ours(self, node: Mapping[str, Any]) -> bool:
        tag = tag_of(node)
        return tag is not None and tag.cell == self.cell

    def _create(
        self, request: str, node_set: Mapping[str, Any], deadline: Deadline
    ) -> tuple[tuple[str, ...], str] | None:
        """The ids of new nodes, and the server's message about the missing ones; None: the request was made before.

        A 409 has two meanings. Only the server's record of the request distinguishes them.
        """
        answer = self.api.create(request, node_set, deadline)
        if isinstance(answer, Refused):
            with reading("whether the request was made before"):
                known = self.api.nodes_of(request, deadline)
            if known is None:
                raise answer
            return None
        added, message = answer
        with reading(f"the list of the {added} nodes that CycleCloud added"):
            found = [id_of(node) for node in self.api.nodes_of(request, deadline) or ()] if added else []
        if len(found) < added:  # asked again, the request is known and its nodes are listed
            raise Unreachable(f"CycleCloud added {added} nodes and lists {len(found)} of them yet")
        return tuple(found), message

    def terminate(self, ids: Sequence[str]) -> None:
        self._manage("terminate", ids, done=_ends)

    def operate(self, worker_id: str, verb: str) -> None:
        """`start`, `restart`, `reimage`, `deallocate`, `shutdown` or `remove` a node. Raises Refused."""
        if verb not in VERBS:
            raise Refused(f"CycleCloud has no verb {verb!r}: it has {', '.join(VERBS)}")
        self._manage(verb, [worker_id], done=lambda _: False)

    def call_budget(self) -> CallBudget:
        return self.api.rest.rate_limiter.budget()

    def troubles(self) -> Mapping[str, str]:
        return self.api.rest.rate_limiter.troubles()

    def check(self) -> Sequence[Problem]:
        return problems(self.api, self.settings)

    def interruptions(self) -> Sequence[Interruption]:
        """Nodes of ours that wait for their eviction in CycleCloud, as the last listing showed them."""
        now = self.clock()
        waiting = {id_of(node) for node in self._nodes if _evicted(node) and self._is_ours(node)}
        self._evictions = {worker_id: self._evictions.get(worker_id, now) for worker_id in waiting}
        return [Interruption(worker_id, at, "terminate") for worker_id, at in sorted(self._evictions.items())]

    def _read(self) -> Status:
        with reading(f"the status of cluster {self.api.cluster}"):
            status = self.api.status()
        with self._guard:
            self._status, self._nodes = (time.monotonic(), status), status.nodes
        return status

    def _recent(self, seconds: float) -> Status:
        with self._guard:
            read = self._status
        if read is not None and time.monotonic() - read[0] < seconds:
            return read[1]
        return self._read()

    def _bucket(self, array: NodeArray, offered: Offered, status: Status) -> Bucket | None:
        ours = self.settings.serves(array.name)
        if ours is None:
            return None
        offer = self.catalog.offers.get(offered.machine_type)
        priced = offer is not None and same_region(array.region, offer.region)
        return Bucket(
            key=BucketKey(offered.machine_type, ours, array.zone, array.price_type),
            type=offered.type,
            price_per_hour=offer.price(array.price_type) if offer is not None and priced else None,
            available=offered.available(self.settings.capacity_delay),
            problem=status.problem or offered.problem,
            any_group=True,
        )

    def _array_for(self, key: BucketKey, status: Status) -> NodeArray:
        """The cluster's node array behind a bucket. Raises Refused if the template has none (any more)."""
        for array in status.arrays:
            same = (array.zone, array.price_type) == (key.zone, key.price_type)
            if same and self.settings.serves(array.name) == key.node_array and array.bucket(key.instance_type):
                return array
        raise Refused(
            f"cluster {self.api.cluster} has no node array that offers {key.instance_type} ({key.price_type}) "
            f"for {key.node_array}: correct its template or {self.settings.env_prefix}NODE_ARRAYS"
        )

    def _node_set(self, order: LaunchOrder, bucket: Bucket, array: NodeArray, count: int) -> dict[str, Any]:
        node_set: dict[str, Any] = {
            "nodearray": array.name,
            "count": count,
            "definition": {"machineType": bucket.type.name},
            "nodeAttributes": attributes(order, self.cell, round(self.clock(), 3), self.settings.boot),
        }
        near = bucket.key.placement_group or placement_group_of(order)
        if near:
            node_set["placementGroupId"] = near
        return node_set

    def _asked_before(self, order: LaunchOrder, deadline: Deadline) -> Launched:
        """The existing nodes of an order that was made before, whole or in part: nothing is added to it, since missing
        nodes may have been ended.
        """
        if made := self._made(order, deadline):
            return Launched(made)
        gone = OutOfCapacity("the same order was made before, and no node of it exists")
        return Launched((), tuple((bucket.key, gone) for bucket in order.buckets))

    def _made(self, order: LaunchOrder, deadline: Deadline) -> tuple[str, ...]:
        """The existing nodes of an order. Raises Unreachable."""
        with reading("the nodes that the same order made before"):
            nodes = [(node, tag_of(node)) for node in self.api.nodes(deadline)]
        return tuple(id_of(node) for node, tag in nodes if tag and (tag.cell, tag.token) == (self.cell, order.token))

    def _shortage(self, array: str, machine_type: str, added: int, message: str, deadline: Deadline) -> ProviderError:
        """Why fewer were added: the server's words, and the counter in force."""
        words = f"CycleCloud added {added} {machine_type}" + (f": {message}" if message else "")
        try:
            status = self.api.status(deadline)
        except ProviderError:
            return OutOfCapacity(words)
        offered = next((each.bucket(machine_type) for each in status.arrays if each.name == array), None)
        least = offered.least if offered is not None else None
        if offered is None or least is None or least.left > 0 or offered.failed_recently(self.settings.capacity_delay):
            return OutOfCapacity(words)
        full = next((counter for counter in offered.counters if counter.quota and counter.left <= 0), None)
        if full is not None:
            return QuotaReached(f"{words}; {full.words}")
        return OutOfCapacity(f"{words}; {least.words}")

    def _manage(self, verb: str, ids: Sequence[str], done: Callable[[Mapping[str, Any]], bool]) -> None:
        """Request an operation on nodes that are ours; nodes that are gone count as done. Raises Refused before any
        request if one is not ours.
        """
        if not ids:
            return
        deadline = Deadline(self.api.rest.limits.total)
        listed = self._listed(ids, deadline)
        for worker_id, node in listed.items():
            if not self._is_ours(node):
                raise Refused(
                    f"node {node.get('Name')} ({worker_id}) does not carry the tag of {self.cell}: left alone"
                )
        wanted = [worker_id for worker_id, node in listed.items() if not done(node)]
        answer = self.api.manage(verb, wanted, deadline) if wanted else []
        with self._guard:
            self._status = None
        if isinstance(answer, Refused):
            failed = dict.fromkeys(wanted, str(answer))
        else:
            failed = {each.id: each.error for each in answer if each.error is not None}
        if not failed:
            return
        left = [worker_id for worker_id, node in self._listed(list(failed), deadline).items() if not done(node)]
        if left:
            words = "; ".join(f"{worker_id}: {failed[worker_id]}" for worker_id in left)
            raise Refused(f"CycleCloud did not {verb} {words}")

    def _listed(self, ids: Sequence[str], deadline: Deadline) -> dict[str, Mapping[str, Any]]:
        """Those of the nodes that exist, by id, in the requested order."""
        known = {id_of(node): node for node in self.api.nodes(deadline) if node.get("NodeId")}
        return {worker_id: known[worker_id] for worker_id in dict.fromkeys(ids) if worker_id in known}


def rest_for(settings: CycleCloudSettings) -> Rest:
    """A client with the settings' credentials, certificates and time limits."""
    password = settings.password.get_secret_value()
    return Rest(
        settings.url,
        # requests encodes text as Latin-1, which lacks most characters.
        auth=HTTPBasicAuth(settings.username.encode(), password.encode()),
        verify=settings.ca or settings.verify,
        limits=Limits(connect=settings.connect_timeout, read=settings.read_timeout),
        hidden=lambda: (password,),
    )


def _ends(node: Mapping[str, Any]) -> bool:
    return str(node.get("TargetState")) in ("Terminated", "Off")


def _evicted(node: Mapping[str, Any]) -> bool:
    """Whether it waits for its eviction: the reference describes that state, but names no field for it."""
    return any("evict" in str(node.get(field) or "").lower() for field in ("Status", "State", "StatusMessage"))
