"""Node and node array records with CycleCloud's names. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from autoscaler.api.view import ACQUIRING, FAILED, OURS, PREPARING, READY, STARTED, TERMINATING, Node, View
from autoscaler.core.model.fleet import PriceType
from autoscaler.report.wording import text
from autoscaler.store.observations import SeenArray

GIB = 1024**3
_STATES: Mapping[str, str] = {
    READY: STARTED,
    ACQUIRING: "Starting",
    PREPARING: "Starting",
    TERMINATING: "Terminating",
    FAILED: FAILED,
}
"""`State` by `Status`."""


def node_record(view: View, node: Node) -> dict[str, Any]:
    """A node as CycleCloud shows it. Names that do not apply are left out."""
    seen, row, kind = node.seen, node.row, node.type
    worker = seen.worker if seen else None
    why = node.failed or node.withheld
    given = dict(row.attributes) if row else {}
    array = view.array(node.node_array)
    configuration = _merged(_object(array.configuration) if array else {}, given.pop("Configuration", None))
    record = {
        **given,
        "Name": node.name,
        "NodeId": node.id,
        "Template": node.node_array,
        "ClusterName": view.place.cluster,
        "MachineType": kind.name if kind else (row.node.machine_type if row else None) or "",
        "CoreCount": kind.vcpus if kind else None,
        "Memory": round(kind.memory / GIB, 3) if kind else None,
        "Status": node.status,
        "State": _STATES[node.status],
        "TargetState": node.target,
        "Region": view.place.region,
        "Interruptible": _spot(worker.price_type if worker else _first_price_type(array)),
        "KeepAlive": node.keep_alive or bool(view.keepers(node)),
        "Configuration": configuration,
        "PlacementGroupId": node.placement_group,
        "RequestId": row.node.request_id or None if row else None,
        "StatusMessage": text(why) if why is not None else None,
    }
    if worker is not None and seen is not None:
        record |= {
            "InstanceId": worker.id,
            "Hostname": seen.host or worker.name,
            "PrivateIp": worker.address,
            "Zone": worker.zone or None,
            "StatusMessage": worker.message,
        }
    return {name: value for name, value in record.items() if value is not None}


def node_records(view: View) -> list[dict[str, Any]]:
    """Records of all nodes whose node array is in this view."""
    known = {array.name for array in view.look.arrays}
    return [node_record(view, node) for node in view.nodes if node.node_array in known]


def array_record(view: View, array: SeenArray) -> dict[str, Any]:
    """The attributes of a node array."""
    return {
        **_object(array.attributes),
        "Name": array.name,
        "ClusterName": view.place.cluster,
        "Region": view.place.region,
        "SubnetId": view.place.subnet,
        "Interruptible": _spot(_first_price_type(array)),
        "KeepAlive": bool(array.keep_alive),
        "Azure": {"MaxScalesetSize": array.max_workers},
        "Configuration": _object(array.configuration),
        **({"Extends": array.extends, "Dynamic": True} if array.extends else {}),
    }


def bucket_id(view: View, array: str, machine_type: str) -> str:
    return str(uuid.uuid5(OURS, f"{view.place.cluster}\n{array}\n{machine_type}"))


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}


def _merged(under: dict[str, Any], over: object) -> dict[str, Any]:
    """Both objects, at every depth `over` wins."""
    if not isinstance(over, Mapping):
        return under
    result = dict(under)
    for name, value in over.items():
        before = result.get(name)
        result[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, Mapping) else value
    return result


def _spot(price_type: PriceType | None) -> bool:
    return price_type is PriceType.SPOT


def _first_price_type(array: SeenArray | None) -> PriceType | None:
    return array.price_types[0] if array and array.price_types else None
