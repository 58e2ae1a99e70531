"""What EC2 says of a machine, as a Worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from autoscaler.core.fleet import Ending, InstanceType, MachineState, PriceType, Worker
from providers.aws import tags
from providers.aws.prices import Prices

STATES: Mapping[str, MachineState] = MappingProxyType(
    {
        "pending": MachineState.PENDING,
        "running": MachineState.RUNNING,
        "shutting-down": MachineState.STOPPING,
        "stopping": MachineState.STOPPING,
        "stopped": MachineState.STOPPING,
        "terminated": MachineState.TERMINATED,
    }
)
ENDINGS: Mapping[str, Ending] = MappingProxyType(
    {
        "Client.InstanceInitiatedShutdown": Ending.RELEASED,
        "Server.SpotInstanceShutdown": Ending.INTERRUPTED,
        "Server.SpotInstanceTermination": Ending.INTERRUPTED,
    }
)
"""By state reason. A machine that a call ended (`Client.UserInitiatedShutdown`) says not whose call that was."""


def worker(
    instance: Mapping[str, Any], type_of: Callable[[str], InstanceType], prices: Prices, names: Literal["full", "short"]
) -> Worker:
    """One instance of DescribeInstances that carries this cell's tag."""
    carried = tags.as_mapping(instance.get("Tags", ()))
    placement = instance.get("Placement", {})
    zone = placement.get("AvailabilityZone", "")
    price_type = PriceType.SPOT if instance.get("InstanceLifecycle") == "spot" else PriceType.ON_DEMAND
    reason = instance.get("StateReason", {})
    state = STATES[instance["State"]["Name"]]
    return Worker(
        id=instance["InstanceId"],
        type=type_of(instance["InstanceType"]),
        node_array=carried.get(tags.NODE_ARRAY, ""),
        state=state,
        created_at=instance["LaunchTime"].timestamp(),
        name=host_name(instance.get("PrivateDnsName"), names),
        address=instance.get("PrivateIpAddress") or None,
        zone=zone,
        price_type=price_type,
        placement_group=placement.get("GroupName") or "",
        price_per_hour=prices.price(instance["InstanceType"], zone, price_type),
        order_id=carried.get(tags.ORDER),
        group_id=carried.get(tags.GROUP),
        message=reason.get("Message") or instance.get("StateTransitionReason") or None,
        ending=ENDINGS.get(reason.get("Code", ""), Ending.UNKNOWN)
        if state is MachineState.TERMINATED
        else Ending.UNKNOWN,
    )


def host_name(dns_name: str | None, names: Literal["full", "short"]) -> str | None:
    """The name that the machine's own resolver gives it; None while it has none (and once it has lost it)."""
    if not dns_name:
        return None
    lower = dns_name.lower()
    return lower if names == "full" else lower.partition(".")[0]
