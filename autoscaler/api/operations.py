"""Callers' operations on nodes: create, scale, end, and further verbs. Each is one transaction that writes requests,
which the loop carries out.

A request id begins one operation, also if a caller repeats it after a crash. An answer is computed
in the transaction that writes the request, so two callers at once never get the same capacity.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from autoscaler.api.attributes import refuse_attributes
from autoscaler.api.expressions import selected
from autoscaler.api.models import (
    Conflict,
    CreatedSet,
    ManagedNode,
    NodeCreationRequest,
    NodeCreationResult,
    NodeManagementRequest,
    NodeManagementResult,
    NodeSet,
)
from autoscaler.api.room import available, unavailable
from autoscaler.api.view import ClusterValues, Node, View, free_names
from autoscaler.core.model.fleet import FailureKind, InstanceType
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.report.wording import few
from autoscaler.store.nodes import NodeRow, Operation
from autoscaler.store.observations import LastObservation, SeenArray
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.api")

ManagingVerb = Literal["terminate", "remove", "shutdown", "deallocate", "start", "restart", "reimage"]
ENDING = frozenset({"terminate", "remove", "shutdown"})
OLD = 300.0
"""Seconds after which an observation is old: far longer than any poll."""
STOPPING = (
    "the autoscaler is giving all workers back (`sge-autoscaler stop`) and launches nothing before the next `run`"
)
RETRY = "POST /cloud/actions/retry/{}"
RECENT = 86_400.0
"""Seconds for which a capacity failure is reported."""


@dataclass(slots=True)
class Operations:
    """One cluster. Any thread may call; the store serialises."""

    store: Store
    place: ClusterValues
    arrays: tuple[SeenArray, ...] = ()
    """The node arrays of the settings, used until a loop has observed."""
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    ring: Callable[[], None] = lambda: None
    """Wakes the loop."""
    loop_runs: Callable[[], bool] = lambda: True

    def warning(self) -> str | None:
        """Why answers may be old and requests may be carried out late; None: neither."""
        if not self.loop_runs():
            return "no loop serves this cluster, so requests are only stored"
        if not (saved_at := self.store.memory.saved_at):
            return "no pass has observed the cluster yet"
        age = self.clock() - saved_at
        return f"the last observation is {age:.0f} s old: the cluster cannot be observed now" if age > OLD else None

    def view(self) -> View:
        """The cluster now. The observation is read first: a worker that is bound meanwhile is then found by its row."""
        now = self.clock()
        look = self.store.observations.load() or LastObservation(arrays=self.arrays)
        rows = self.store.nodes.listed(seen.worker.id for seen in look.workers)
        overrides = self.store.overrides.load()
        failures = self.store.journal.failures(now - RECENT)
        failed = {
            each.bucket.instance_type: max(0.0, now - each.at) for each in failures if each.kind == FailureKind.CAPACITY
        }
        backoffs = [backoff for backoff in look.backoffs if backoff.until > now]
        place = ClusterValues(self.place.cluster, look.region or self.place.region, look.subnet or self.place.subnet)
        return View(place, look, rows, overrides, failed, backoffs)

    def retry(self, who: str) -> None:
        """Let the next pass retry launches that failed or were refused, and created nodes that failed."""
        self.store.retry(who=f"{who} (REST)", at=self.clock())
        log.info("%s requests a retry of everything that failed", who)
        self.ring()

    # -- creating ------------------------------------------------------------------------------------------------

    def create(self, request: NodeCreationRequest, who: str) -> NodeCreationResult:
        """Add as many nodes of each set as limits and provider allow. Raises Conflict and adds none."""
        with self.store.database.transaction():
            self._refuse_repeated(request.request_id)
            chosen = [self._chosen(number, each) for number, each in enumerate(request.sets)]
            operation = self.new_id()
            made: list[NodeRow] = []
            sets = []
            for each, (array, types) in zip(request.sets, chosen, strict=True):
                view = self.view()
                added = min(each.count, max(available(view, array, kind) for kind in types))
                rows = self._rows(view, each, added, request.request_id or "")
                self.store.nodes.create(rows)
                made += rows
                sets.append(CreatedSet(added=added, message=_shortage(view, array, each, added)))
            self._begin("create", who, [row.node.id for row in made], request.request_id, operation)
        _log_change(who, "creates", [row.node.name for row in made])
        self.ring()
        return NodeCreationResult(operation_id=operation, sets=sets)

    def scale(self, name: str, *, cores: int | None, count: int | None, who: str) -> NodeCreationResult:
        """Add nodes until the array has this number of nodes, or of cores. Nodes that end later are not replaced."""
        if (cores is None) == (count is None):
            raise Conflict("give either totalCoreCount or totalNodeCount")
        with self.store.database.transaction():
            view = self.view()
            array = self._array(name)
            nodes = [node for node in view.standing if node.node_array == name and not node.leaving]
            types = tuple(array.types.values())
            first = next(iter(types), None)
            kind = next((each for each in types if available(view, array, each)), first)
            if count is not None:
                missing = count - len(nodes)
            elif kind is None:
                raise Conflict(f"the number of cores of a node of {name} is not known yet: give totalNodeCount")
            else:
                missing = -((sum(node.vcpus for node in nodes) - (cores or 0)) // kind.vcpus)
            added = max(0, min(missing, available(view, array, kind)))
            node_set = NodeSet(count=max(1, added), nodearray=name)
            rows = self._rows(view, node_set, added, "")
            self.store.nodes.create(rows)
            operation = self._begin("create", who, [row.node.id for row in rows])
        _log_change(who, "creates", [row.node.name for row in rows])
        self.ring()
        short = STOPPING if view.stopping else f"only {added} more are available in {name} now"
        message = short if added < missing else None
        return NodeCreationResult(operation_id=operation, sets=[CreatedSet(added=added, message=message)])

    def _chosen(self, number: int, node_set: NodeSet) -> tuple[SeenArray, Sequence[InstanceType | None]]:
        """The array of a set and the types that may serve it, in the order in which they are tried. Raises Conflict."""
        where = f"sets[{number}]"
        try:
            array = self._array(node_set.nodearray)
        except Conflict as error:
            raise Conflict(f"{where}.nodearray: {error}") from error
        refuse_attributes(f"{where}.nodeAttributes", node_set.node_attributes or {}, array, self.place.cluster)
        machine_type = node_set.definition.machine_type if node_set.definition else None
        if machine_type is None:
            return array, tuple(array.types.values()) or (None,)
        if machine_type not in array.types:
            known = ", ".join(array.types) or "none until an autoscaler has asked its provider"
            raise Conflict(
                f"{where}.definition.machineType: {array.name} has no {machine_type}; its types are: {known}"
            )
        return array, (array.types[machine_type],)

    def _array(self, name: str) -> SeenArray:
        view = self.view()
        array = view.array(name)
        if array is None:
            known = ", ".join(each.name for each in view.look.arrays) or "none"
            raise Conflict(f"there is no node array {name}; there are: {known}")
        return array

    def _rows(self, view: View, node_set: NodeSet, count: int, request_id: str) -> list[NodeRow]:
        now, array = self.clock(), node_set.nodearray
        offset = 1 if node_set.name_offset is None else node_set.name_offset
        names = free_names(frozenset(node.name for node in view.nodes), node_set.name_format or f"{array}-%d", offset)
        return [
            NodeRow(
                CreatedNode(
                    id=self.new_id(),
                    name=next(names),
                    node_array=array,
                    created_at=now,
                    request_id=request_id,
                    machine_type=node_set.definition.machine_type if node_set.definition else None,
                    placement_group=node_set.placement_group_id,
                ),
                node_set.node_attributes or {},
            )
            for _ in range(count)
        ]

    # -- managing ------------------------------------------------------------------------------------------------

    def manage(
        self, verb: ManagingVerb, request: NodeManagementRequest, who: str, *, own_only: bool = False
    ) -> NodeManagementResult:
        """Apply a verb to each selected node. `own_only`: only to nodes that this caller created; others get an error.
        If it raises Conflict, nothing was changed.
        """
        with self.store.database.transaction():
            self._refuse_repeated(request.request_id)
            view = self.view()
            meant = selected(view, request)
            creators = self.store.nodes.creators([node.id for node in meant]) if own_only else {}
            managed = [
                self._managed(verb, node, view, who)
                if not own_only or creators.get(node.id) == who
                else ManagedNode(id=node.id, name=node.name, status="Error", error=_of_another(creators.get(node.id)))
                for node in meant
            ]
            operation = self._begin(verb, who, [node.id for node in meant], request.request_id)
        _log_change(who, f"asks to {verb}", [each.name for each in managed if each.status == "OK"])
        self.ring()
        return NodeManagementResult(operation_id=operation, nodes=managed)

    def _managed(self, verb: ManagingVerb, node: Node, view: View, who: str) -> ManagedNode:
        if verb in ENDING:
            error = self._end(node, view, who)
        else:
            error = _unable(verb, node, view) or (None if verb == "start" else self._operate(verb, node, who))
        return ManagedNode(id=node.id, name=node.name, status="Error" if error else "OK", error=error)

    def _end(self, node: Node, view: View, who: str) -> str | None:
        """End a node: at once if it has no machine, else once its jobs have ended. A repeated call changes nothing."""
        if node.keep_alive and node.failed is None:
            return "this node is marked KeepAlive"
        if node.seen is not None and View.named(view.overrides.keep, node.seen):
            return "this node is kept: `sge-autoscaler keep --undo` lets it go"
        if sets := view.keepers(node):
            return f"nodes of {node.node_array} are marked KeepAlive by request set {', '.join(sets)}"
        now, by = self.clock(), f"{who} (REST)"
        if node.row is not None:
            self.store.nodes.end(node.id, at=now, by=by)
        if node.seen is not None:
            self.store.overrides.ask(Verb.DRAIN, who=by, at=now, host=node.seen.worker.id)
        return None

    def _operate(self, verb: str, node: Node, who: str) -> str | None:
        """Store the verb; the loop passes it to the provider."""
        assert node.seen is not None
        accepted = self.store.node_operations.ask(verb, node.seen.worker.id, at=self.clock(), who=f"{who} (REST)")
        return None if accepted else "an earlier request for it is not done yet"

    # -- both ----------------------------------------------------------------------------------------------------

    def _refuse_repeated(self, request_id: str | None) -> None:
        if request_id and self.store.nodes.operation_of(request_id) is not None:
            raise Conflict(f"a request with id {request_id} was made before; GET nodes?request_id= lists its nodes")

    def _begin(
        self, action: str, who: str, nodes: Sequence[str], request_id: str | None = None, operation: str | None = None
    ) -> str:
        operation = operation or self.new_id()
        begun = self.store.nodes.begin(Operation(operation, action, self.clock(), who, tuple(nodes), request_id or ""))
        if not begun:  # the transaction excludes it
            raise Conflict(f"a request with id {request_id} was made before")
        return operation


def _of_another(creator: str | None) -> str:
    whose = f"was created by {creator}" if creator else "was not created by a caller"
    return f"this node {whose}: only an admin may do that"


def _log_change(who: str, does: str, names: Sequence[str]) -> None:
    """Log who changes what."""
    if names:
        log.info("%s (REST) %s %s", who, does, few(names))


def _unable(verb: str, node: Node, view: View) -> str | None:
    """Why a verb cannot be carried out on a node; None: it can."""
    if node.leaving:
        return "this node is ending"
    if node.failed is not None:
        return f"this node has failed: end it, or retry all failed nodes ({RETRY.format(view.place.cluster)})"
    if verb == "start":
        return None  # it is started, or about to be
    if not view.look.operates or verb == "deallocate":
        # A machine that is stopped and started again looks like a lost one.
        provider = view.look.provider if not view.look.operates and view.look.provider else "this cluster"
        return f"{provider} has no {verb}: terminate the node and create another"
    if node.seen is None or not node.seen.closed:
        host = (node.seen.host if node.seen else None) or "HOST"
        return f"jobs may run on it: disable it (qmod -d '*@{host}'), and try again when it is empty"
    return None


def _shortage(view: View, array: SeenArray, node_set: NodeSet, added: int) -> str | None:
    if added == node_set.count:
        return None
    if view.stopping:
        return STOPPING
    machine_type = node_set.definition.machine_type if node_set.definition else None
    why = unavailable(view, array, array.types.get(machine_type) if machine_type else None)
    kind = f" {machine_type}" if machine_type else ""
    return (
        f"only {added} more{kind} can be had in {array.name} now: {why or 'its limits or its provider allow no more'}"
    )
