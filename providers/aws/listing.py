"""A machine of EC2 as a Worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from autoscaler.core.model.fleet import Ending, FailureKind, InstanceType, MachineState, PriceType, Worker
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.catalogue import Prices

STATES: Mapping[str, MachineState] = MappingProxyType(
    {
        "pending": MachineState.PENDING,
        "running": MachineState.RUNNING,
        "shutting-down": MachineState.STOPPING,
        "stopping": MachineState.STOPPING,
        "stopped": MachineState.PENDING,
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
"""By state reason. The reason of a machine that a call ended (`Client.UserInitiatedShutdown`) does not say whose call
it was.
"""

_CAPACITY = frozenset({"Server.InsufficientInstanceCapacity"})
_QUOTA = frozenset({"Client.VolumeLimitExceeded"})
_STOPS = frozenset({"Client.UserInitiatedHibernate", "Client.UserInitiatedShutdown", "Server.ScheduledStop"})
_WANTED = frozenset({"Client.InstanceTerminated", *_STOPS, *ENDINGS})
"""Somebody requested its end, or the cause is not its own: that says nothing about launches."""


def worker(
    instance: Mapping[str, Any], type_of: Callable[[str], InstanceType], prices: Prices, names: Literal["full", "short"]
) -> Worker:
    """One instance of DescribeInstances that carries this cell's tag."""
    carried = tags.as_mapping(instance.get("Tags", ()))
    placement = instance.get("Placement", {})
    zone = placement.get("AvailabilityZone", "")
    price_type = PriceType.SPOT if instance.get("InstanceLifecycle") == "spot" else PriceType.ON_DEMAND
    state, code = STATES[instance["State"]["Name"]], state_reason(instance)
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
        message=_message(instance, code),
        ending=_ending(instance, code),
        failure=_failure(instance, code),
    )


def _ending(instance: Mapping[str, Any], code: str) -> Ending:
    if instance["State"]["Name"] == "terminated":
        return ENDINGS.get(code, Ending.UNKNOWN)
    return Ending.STOPPED if _stopped_from_outside(instance, code) else Ending.UNKNOWN


def _stopped_from_outside(instance: Mapping[str, Any], code: str) -> bool:
    """Whether a call stopped it, or maintenance: not its own system, nor a failure of its host."""
    if instance["State"]["Name"] != "stopped":
        return False
    return code in _STOPS or (not code and str(instance.get("StateTransitionReason")).startswith("User initiated"))


def _failure(instance: Mapping[str, Any], code: str) -> FailureKind | None:
    """Why a machine ends or has ended. A stopped machine does not come up by itself, whoever stopped it, and must be
    ended: its disks are paid for.
    """
    state = instance["State"]["Name"]
    if state in ("shutting-down", "terminated"):
        return failure_of(code)
    if state != "stopped" or _stopped_from_outside(instance, code):
        return None
    return failure_of(code) or FailureKind.BOOT


def state_reason(instance: Mapping[str, Any]) -> str:
    """The code of why it is in its state; '' if EC2 gives none, or only prose (`User initiated (…)`)."""
    said = (
        instance.get("StateReason", {}).get("Code") or (instance.get("StateTransitionReason") or "").partition(":")[0]
    )
    return str(said) if str(said).startswith(("Client.", "Server.")) else ""


def failure_of(code: str) -> FailureKind | None:
    """The kind of failure if a machine ended for this reason before it came up. EC2 accepts a launch and ends it then,
    if a key cannot be used, a volume exceeds a limit, or its own host fails.
    """
    if not code or code in _WANTED:
        return None
    if code in _CAPACITY:
        return FailureKind.CAPACITY
    return FailureKind.QUOTA if code in _QUOTA else FailureKind.BOOT


def _message(instance: Mapping[str, Any], code: str) -> str | None:
    """EC2's words, with the code to look up."""
    words = instance.get("StateReason", {}).get("Message") or instance.get("StateTransitionReason") or ""
    said = words if words.startswith(code) else f"{code}: {words}"
    if instance["State"]["Name"] == "stopped":
        return f"it is stopped, and its disks still cost money{': ' if said else ''}{said}"
    return said or None


def host_name(dns_name: str | None, names: Literal["full", "short"]) -> str | None:
    """The name that the machine's own resolver gives it; None while it has none (and once it has lost it)."""
    if not dns_name:
        return None
    lower = dns_name.lower()
    return lower if names == "full" else lower.partition(".")[0]
