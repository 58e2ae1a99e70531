"""The cluster as callers of the REST API see it: the loop's last observation, with the nodes that callers created.

Every worker is a node. A worker that serves a created node has that node's name and id. Any other has a name and an id
made from its worker id, which never change and which no created node can have. Pure.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autoscaler.core.model.fleet import InstanceType, MachineState
from autoscaler.core.model.memory import Backoff
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.worker_state import same_host
from autoscaler.store.nodes import NodeRow
from autoscaler.store.observations import LastObservation, SeenArray, SeenWorker

OURS = uuid.UUID("3f6a1c0e-7d55-5b0a-8f2e-5a3f0c1d9b47")
NOT_KNOWN = "default"
"""Region or subnet if no setting names one."""
STARTED, TERMINATED = "Started", "Terminated"
ACQUIRING, PREPARING, READY, TERMINATING, FAILED = "Acquiring", "Preparing", "Ready", "Terminating", "Failed"
_NOT_TO_BE_HAD = frozenset({Code.BUCKET_BACKOFF, Code.BUCKET_REFUSED, Code.BUCKET_UNAVAILABLE, Code.NODE_ARRAY_STOPPED})
NO_ID = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that the id of a placement group must not contain."""
_LEAVING = frozenset({Phase.DRAINING, Phase.LEAVING, Phase.ENDING})


@dataclass(frozen=True, slots=True)
class ClusterValues:
    """Values of the whole cluster. CycleCloud's clients refuse an array without region or subnet."""

    cluster: str
    region: str = ""
    subnet: str = ""
    """One of them, if there are several."""

    def __post_init__(self) -> None:
        for name in ("region", "subnet"):
            object.__setattr__(self, name, getattr(self, name) or NOT_KNOWN)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: created by a caller, rented by the loop, or both."""

    id: str
    name: str
    node_array: str
    type: InstanceType | None
    """None: not chosen yet, and the provider's types are not known."""
    row: NodeRow | None
    seen: SeenWorker | None
    leaving: bool
    """Its end was requested, or the loop removes it."""
    withheld: Reason | None = None
    """Why no machine is launched for it."""

    @property
    def failed(self) -> Reason | None:
        """Why a created node has failed: its machine is gone, and no caller has ended the node."""
        return self.row.failed if self.row is not None and self.row.ended_at is None else None

    @property
    def status(self) -> str:
        if self.failed is not None:
            return FAILED
        if self.leaving:
            return TERMINATING
        if self.seen is None:
            return FAILED if self.withheld is not None and _cannot_be_had(self.withheld) else ACQUIRING
        worker, phase = self.seen.worker, self.seen.phase
        if worker.failure is not None or worker.stopped:
            return FAILED
        if phase is Phase.BOOTING and worker.state is MachineState.PENDING and self.seen.decisive is None:
            return ACQUIRING
        on_its_way = phase in (Phase.BOOTING, Phase.JOINING) and self.seen.decisive in (None, Condition.NAME_AWAITED)
        return PREPARING if on_its_way else READY

    @property
    def target(self) -> str:
        return TERMINATED if self.leaving else STARTED

    @property
    def placement_group(self) -> str | None:
        """The caller's name for it, else the provider's."""
        if self.row is not None:
            return self.row.node.placement_group
        group = self.seen.worker.placement_group if self.seen else ""
        return NO_ID.sub("-", group) or None

    @property
    def keep_alive(self) -> bool:
        return self.row is not None and self.row.attributes.get("KeepAlive") is True

    @property
    def vcpus(self) -> int:
        return self.type.vcpus if self.type else 0


@dataclass(frozen=True)
class View:
    """The cluster at one moment."""

    place: ClusterValues
    look: LastObservation
    rows: Sequence[NodeRow] = ()
    """Live ones, and ended ones whose worker may still be there."""
    overrides: Overrides = field(default_factory=Overrides)
    failed: Mapping[str, float] = field(default_factory=dict)
    """By instance type: seconds since its provider was last out of capacity."""
    backoffs: Sequence[Backoff] = ()
    """The backoffs in force."""

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All that are listed: created ones first, each in the order of its creation."""
        seen = {each.worker.id: each for each in self.look.workers if each.worker.exists}
        served = {row.node.worker_id for row in self.rows}
        created = [
            self._created(row, seen.get(row.node.worker_id or ""))
            for row in self.rows
            if row.ended_at is None or (row.node.worker_id or "") in seen
        ]
        return (*created, *(self._rented(each) for worker_id, each in seen.items() if worker_id not in served))

    @cached_property
    def standing(self) -> tuple[Node, ...]:
        """All nodes that have or will get a machine: all but failed ones."""
        return tuple(node for node in self.nodes if node.seen is not None or node.failed is None)

    def keepers(self, node: Node) -> tuple[str, ...]:
        """Request sets that keep the workers of its node array, and so this one; none for a node that leaves."""
        array = self.array(node.node_array)
        there = node.seen is not None and node.failed is None and not node.leaving
        return array.keep_alive if there and array is not None else ()

    def _created(self, row: NodeRow, seen: SeenWorker | None) -> Node:
        node = row.node
        kind = seen.worker.type if seen else self.type_for(node.node_array, node.machine_type)
        leaving = row.ended_at is not None or self._leaves(seen)
        withheld = self.look.withheld.get(node.id) if seen is None and not leaving else None
        return Node(node.id, node.name, node.node_array, kind, row, seen, leaving, withheld)

    def _rented(self, seen: SeenWorker) -> Node:
        worker = seen.worker
        node_id = uuid.uuid5(OURS, worker.id)
        name = f"{worker.node_array}-w{node_id.hex[:10]}"
        return Node(str(node_id), name, worker.node_array, worker.type, None, seen, self._leaves(seen))

    def _leaves(self, seen: SeenWorker | None) -> bool:
        return seen is not None and (_on_its_way_out(seen) or self.named(self.overrides.drain, seen))

    @staticmethod
    def named(names: frozenset[str], seen: SeenWorker) -> bool:
        """Whether these names of an operator override contain this worker, by id or host."""
        host = seen.host or seen.worker.name
        return seen.worker.id in names or (host is not None and any(same_host(name, host) for name in names))

    # -- node arrays ---------------------------------------------------------------------------------------------

    def array(self, name: str) -> SeenArray | None:
        return next((array for array in self.look.arrays if array.name == name), None)

    def type_for(self, array: str, machine_type: str | None) -> InstanceType | None:
        """The type that a node will get: the requested one, else the first of its array."""
        found = self.array(array)
        types = found.types if found else {}
        return types.get(machine_type) if machine_type else next(iter(types.values()), None)

    def counted(self, family: str) -> list[Node]:
        """Nodes that count towards the limits of an array of the settings and those that stem from it."""
        names = {array.name for array in self.look.arrays if family in (array.name, array.extends)}
        return [node for node in self.standing if node.node_array in names]

    @cached_property
    def coming(self) -> dict[str, int]:
        """By node array: workers that were ordered for no created node and are not listed yet."""
        listed = {each.worker.id for each in self.look.workers}
        coming: dict[str, int] = {}
        for order in self.look.orders:
            left = sum(worker_id not in listed for worker_id in order.ids) if order.ids else order.count
            coming[order.node_array] = coming.get(order.node_array, 0) + max(0, left - len(order.nodes))
        return coming

    @property
    def stopping(self) -> bool:
        """Whether a person stops the autoscaler: nothing is launched, and all requests end."""
        return self.look.stopping or self.overrides.stop is not None


def _cannot_be_had(why: Reason) -> bool:
    """Whether a node has no machine because the provider is out of capacity or refuses, not only for the moment."""
    return any(reason.code in _NOT_TO_BE_HAD for reason in (why, *why.trail))


def free_names(taken: frozenset[str], template: str, first: int) -> Iterator[str]:
    """The free names of a format, lowest number first; endless."""
    number = first
    while True:
        name = template.replace("%d", str(number))
        if name not in taken:
            yield name
        number += 1


def _on_its_way_out(seen: SeenWorker) -> bool:
    if seen.decisive in (Condition.INTERRUPTED, Condition.NAME_TAKEN):
        return True
    return seen.phase in _LEAVING and seen.decisive in (None, Condition.CUT_OFF, Condition.FENCED)
