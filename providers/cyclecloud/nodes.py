"""Node records, read and written: a node's owner, its state, and the attributes of a new one. Pure.

A node is ours when its own configuration says so: `Configuration.sge_autoscaler` holds this cell's tag, the order and
its token. It is set in the creating call, is part of every listing, and does not depend on the store.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.core.model.fleet import ANY, Ending, FailureKind, InstanceType, MachineState, PriceType, Worker
from autoscaler.providers.catalog import GIB, Catalog, family_of
from autoscaler.providers.cyclecloud.settings import Boot
from autoscaler.providers.cyclecloud.status import NodeArray
from autoscaler.providers.interface import GROUP_ID, LaunchOrder, Unreachable

MARK = "sge_autoscaler"
_REQUESTS = uuid.UUID("6a0a5f2e-6a0e-5d0c-9f55-3c1f3f0c8b52")
_ENDING = frozenset({"Terminated", "Off", "Deallocated"})
"""A node's TargetState if somebody asked to end or to stop it."""
_GONE = frozenset({"Terminated", "Off"})
READY, FAILED, DEALLOCATED = "Ready", "Failed", "Deallocated"
_OF_A_MACHINE = ("InstanceId", "Hostname", "PrivateIp")
"""A node record has one of these fields once its machine was acquired."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The tag of a node of ours."""

    cell: str
    order: str
    token: str
    node_array: str
    ordered_at: float
    group: str = ""
    """The group that it belongs to."""


def request_id(cell: str, token: str, bucket: int) -> str:
    """The id of one creating request, the same for every repetition: two cells with one token are two requests, and so
    are the buckets of one order. A UUID, as all of CycleCloud's ids.
    """
    return str(uuid.uuid5(_REQUESTS, f"{cell}\n{token}\n{bucket}"))


def attributes(order: LaunchOrder, cell: str, ordered_at: float, boot: Boot) -> dict[str, Any]:
    """The node attributes of a new node: our tag, and the boot script in the form that the settings choose."""
    mark: dict[str, Any] = {
        **order.tags,
        "cell": cell,
        "order": order.order_id,
        "token": order.token,
        "node_array": order.node_array,
        "ordered_at": ordered_at,
    }
    given: dict[str, Any] = {"Configuration": {MARK: mark}}
    match boot:
        case Boot.CLOUD_INIT:
            given["CloudInit"] = order.boot_script
        case Boot.CLUSTER_INIT:
            mark["boot_script"] = base64.b64encode(order.boot_script.encode()).decode("ascii")
        case Boot.NONE:
            pass
    return given


def placement_group_of(order: LaunchOrder) -> str:
    """The placement group that CycleCloud makes for a group of workers; '' for an order without one. In characters that
    Azure accepts in names.
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", order.tags.get(GROUP_ID, ""))


def tag_of(record: Mapping[str, Any]) -> Tag | None:
    """A node's tag; None: no autoscaler like ours made it."""
    configuration = record.get("Configuration")
    mark = configuration.get(MARK) if isinstance(configuration, dict) else None
    if not isinstance(mark, dict) or not mark.get("cell"):
        return None
    try:
        return Tag(
            str(mark["cell"]),
            str(mark.get("order") or ""),
            str(mark.get("token") or ""),
            str(mark["node_array"]),
            float(mark["ordered_at"]),
            str(mark.get(GROUP_ID) or ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"the tag of node {record.get('Name')} cannot be understood: {error!r}") from error


def id_of(record: Mapping[str, Any]) -> str:
    """A node's own id, which never changes. Raises Unreachable for a record without one: it could not be ended."""
    if not record.get("NodeId"):
        raise Unreachable(f"node {record.get('Name')} is listed without its NodeId")
    return str(record["NodeId"])


def is_void(record: Mapping[str, Any]) -> bool:
    """Whether it failed without ever having got a machine: nothing runs, nothing is billed, only a record is left."""
    return record.get("Status") == FAILED and not any(record.get(name) for name in _OF_A_MACHINE)


def state_of(record: Mapping[str, Any]) -> MachineState:
    """The state of a node. It runs once CycleCloud has set it up (`Ready`): before, its mounts and software may be
    missing.

    `TargetState` is the requested state: a node that is `Off` and is to be started is on its way. A deallocated node
    counts as one that is not up, so that it is ended: counted as ending, it would stay for ever.
    """
    status, target = str(record.get("Status") or ""), str(record.get("TargetState") or "")
    if is_void(record) or (status in _GONE and target in (*_GONE, "")):
        return MachineState.TERMINATED
    if _is_deallocated(record):
        return MachineState.PENDING
    if target in _ENDING or status == "Terminating":
        return MachineState.STOPPING
    return MachineState.RUNNING if status == READY else MachineState.PENDING


def _is_deallocated(record: Mapping[str, Any]) -> bool:
    """Whether its machine is stopped, its disk kept, and nobody starts or ends it."""
    return record.get("Status") == DEALLOCATED and record.get("TargetState") in (DEALLOCATED, "", None)


def worker_from(record: Mapping[str, Any], tag: Tag, arrays: Sequence[NodeArray], catalog: Catalog) -> Worker:
    """A node of ours as a worker. Its host name is known before it runs, and may be used then."""
    array = next((array for array in arrays if array.name == record.get("Template")), None)
    kind = _type(record, array, catalog)
    price_type = _price_type(record, array)
    offer = catalog.offers.get(kind.name)
    priced = offer is not None and array is not None and same_region(array.region, offer.region)
    return Worker(
        id=id_of(record),
        type=kind,
        node_array=tag.node_array,
        state=state_of(record),
        created_at=tag.ordered_at,
        name=str(record["Hostname"]).lower() if record.get("Hostname") else None,
        address=str(record["PrivateIp"]) if record.get("PrivateIp") else None,
        zone=array.zone if array else ANY,
        price_type=price_type,
        placement_group=str(record.get("PlacementGroupId") or ANY),
        price_per_hour=offer.price(price_type) if priced and offer else None,
        order_id=tag.order or None,
        group_id=tag.group or None,
        message=_message(record),
        ending=Ending.STOPPED if _is_deallocated(record) else Ending.UNKNOWN,
        failure=_failure(record),
    )


def same_region(one: str, other: str) -> bool:
    """Whether both name one region: `East US` is `eastus`. Prices of another region do not hold."""
    return bool(one) and one.replace(" ", "").lower() == other.replace(" ", "").lower()


def _type(record: Mapping[str, Any], array: NodeArray | None, catalog: Catalog) -> InstanceType:
    """As its bucket describes it, else the catalogue; for a size that both dropped, as the node itself does."""
    name = str(record.get("MachineType") or "")
    bucket = array.bucket(name) if array else None
    if bucket is not None:
        return bucket.type
    if name in catalog.types:
        return catalog.types[name]
    cores, memory = record.get("CoreCount"), record.get("Memory")
    return InstanceType(name, family_of(name, "azure"), max(1, int(cores or 1)), int(float(memory or 0) * GIB))


def _failure(record: Mapping[str, Any]) -> FailureKind | None:
    """Why it will never come up. Without a machine the cloud gave none; with one, its set-up failed, and CycleCloud
    does nothing more with it by itself.
    """
    if record.get("Status") != FAILED:
        return None
    return FailureKind.CAPACITY if is_void(record) else FailureKind.BOOT


def _price_type(record: Mapping[str, Any], array: NodeArray | None) -> PriceType:
    own = record.get("Interruptible")
    if own is None:
        return array.price_type if array else PriceType.ON_DEMAND
    return PriceType.SPOT if str(own).lower() == "true" else PriceType.ON_DEMAND


def _message(record: Mapping[str, Any]) -> str | None:
    """CycleCloud's last message about a node that is neither ready nor on its way."""
    words = " ".join(str(record.get("StatusMessage") or "").split())
    if record.get("Status") == FAILED:
        return f"CycleCloud says Failed: {words}" if words else "CycleCloud says Failed; its event log says why"
    if _is_deallocated(record):
        return f"it is deallocated, and its disk is paid for{': ' if words else ''}{words}"
    return words or None
