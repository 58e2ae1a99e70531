"""Which `nodeAttributes` a caller may give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoscaler.api.models import Conflict
from autoscaler.core.model.fleet import PriceType
from autoscaler.store.observations import SeenArray

_OURS = "callers cannot set it"
_NOT_THE_CALLERS: Mapping[str, str] = {
    "CloudInit": "nodes of this cluster run its own boot script; leave it out",
    "MachineType": "use definition.machineType",
    "PlacementGroupId": "use placementGroupId",
    "Name": "use nameFormat",
    "Template": "use nodearray",
    **dict.fromkeys(
        (
            "CoreCount",
            "Hostname",
            "InstanceId",
            "Memory",
            "NodeId",
            "PrivateIp",
            "Region",
            "RequestId",
            "State",
            "Status",
            "StatusMessage",
            "TargetState",
            "Zone",
        ),
        _OURS,
    ),
}
"""Names of a node record that a caller cannot set by `nodeAttributes`."""


def refuse_attributes(where: str, given: Mapping[str, Any], array: SeenArray, cluster: str) -> None:
    """Raise Conflict for attributes that look effective but would have no effect. Unknown attributes are kept and
    shown.

    `cluster`: the name of this cluster; attributes for another one are refused.
    """
    if given.get("ClusterName") not in (None, cluster):
        raise Conflict(f"{where}.ClusterName: this is cluster {cluster}; leave it out, or ask the other cluster")
    for name, why in _NOT_THE_CALLERS.items():
        if given.get(name) is not None:
            raise Conflict(f"{where}.{name}: {why}")
    for name in ("KeepAlive", "Interruptible"):
        if not isinstance(given.get(name) or False, bool):
            raise Conflict(f"{where}.{name}: true or false is expected")
    if not isinstance(given.get("Configuration") or {}, dict):
        raise Conflict(f"{where}.Configuration: an object is expected")
    spot = given.get("Interruptible")
    if spot is not None and any((price_type is PriceType.SPOT) is not spot for price_type in array.price_types):
        kinds = " or ".join(price_type.value for price_type in array.price_types)
        raise Conflict(f"{where}.Interruptible: nodes of {array.name} are {kinds}; use another node array")
