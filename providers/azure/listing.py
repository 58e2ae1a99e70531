"""A machine of Azure as a Worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from autoscaler.core.model.fleet import ANY, Ending, FailureKind, InstanceType, MachineState, PriceType, Worker
from autoscaler.providers.azure import tags
from autoscaler.providers.azure.calls import Calls, Record
from autoscaler.providers.azure.errors import kind_of
from autoscaler.providers.azure.settings import AzureSettings
from autoscaler.providers.interface import OutOfCapacity, QuotaReached

TypeOf = Callable[[str], InstanceType]
PriceOf = Callable[[str, PriceType], float | None]
_POWER, _PROVISIONING = "PowerState/", "ProvisioningState/failed/"
_DEALLOCATED = frozenset({"deallocated", "deallocating"})
"""Only a call does that. A machine that is `stopped` may have shut itself down: Azure does not say which."""
_DOWN = frozenset({"stopped", *_DEALLOCATED})


@dataclass(frozen=True, slots=True)
class Status:
    """The instance view of a machine."""

    power: str = ""
    """`running`, `stopped`, `deallocated`, …; '' if Azure does not say."""
    failed: str = ""
    """Code of the failure with which its creation ended; '' for none."""
    message: str = ""


def states(calls: Calls) -> list[Record]:
    """The states of all machines of the subscription: Azure has no other call for several at once."""
    return calls.pages(
        "the states of machines", lambda client, **more: client.virtual_machines.list_all(status_only="true", **more)
    )


def status(view: Mapping[str, Any] | None) -> Status:
    """The relevant part of an instance view."""
    power = failed = message = ""
    for each in (view or {}).get("statuses") or ():
        code = str(each.get("code"))
        if code.startswith(_POWER):
            power = code.removeprefix(_POWER)
        elif code.startswith(_PROVISIONING):
            failed = code.removeprefix(_PROVISIONING)
            message = " ".join(str(each.get("message") or each.get("displayStatus") or "").split())
    return Status(power, failed, message)


def state_of(provisioning: str, seen: Status) -> MachineState:
    """A machine that failed, or was shut down from inside, is PENDING: it is not up, and it is still paid for."""
    if provisioning == "Deleting":
        return MachineState.STOPPING
    if seen.power in _DOWN:
        return MachineState.PENDING
    # A machine that is newer than the last reading of power states has none.
    if seen.power == "running" or (provisioning == "Succeeded" and not seen.power):
        return MachineState.RUNNING
    if seen.power == "stopping":
        return MachineState.STOPPING
    return MachineState.PENDING


def failure_of(provisioning: str, seen: Status) -> FailureKind | None:
    """The kind of failure of a machine that will never come up, as LaunchFailure has it. Raises nothing."""
    if provisioning == "Deleting" or seen.power in ("running", "starting"):
        return None
    if provisioning == "Failed":
        kind = kind_of(seen.failed, seen.message)
        if kind is OutOfCapacity:
            return FailureKind.CAPACITY
        return FailureKind.QUOTA if kind is QuotaReached else FailureKind.BOOT
    return FailureKind.BOOT if seen.power == "stopped" else None


def ending_of(provisioning: str, seen: Status) -> Ending:
    """Whether somebody stopped it."""
    stopped = seen.power in _DEALLOCATED and provisioning not in ("Deleting", "Failed")
    return Ending.STOPPED if stopped else Ending.UNKNOWN


def message_of(provisioning: str, seen: Status) -> str | None:
    """Azure's last message about a machine that is neither up nor on its way."""
    if provisioning == "Failed":
        words = f"{seen.failed}: {seen.message}".strip(": ")
        return words or "Azure could not make it; its activity log says why"
    if seen.power == "stopped":
        return "it is stopped, by its own system or by a call (Azure does not say which), and still costs money"
    if seen.power in _DEALLOCATED:
        return f"it is {seen.power}, and still costs money"
    return None


def worker(
    machine: Mapping[str, Any],
    seen: Status,
    address: str | None,
    settings: AzureSettings,
    type_of: TypeOf,
    price_of: PriceOf,
) -> Worker:
    """One machine of a listing that carries this cell's tag."""
    properties = machine["properties"]
    provisioning = properties["provisioningState"]
    carried = tags.carried(machine)
    size = properties["hardwareProfile"]["vmSize"]
    # `Low` is the older name of Spot.
    price_type = PriceType.SPOT if properties.get("priority") in ("Spot", "Low") else PriceType.ON_DEMAND
    group = (properties.get("availabilitySet") or {}).get("id", "")
    return Worker(
        id=machine["name"],
        type=type_of(size),
        node_array=carried.get(tags.NODE_ARRAY, ""),
        state=state_of(provisioning, seen),
        created_at=unix_time(properties["timeCreated"]),
        name=host_name(machine, settings.host_domain),
        address=address,
        zone=next(iter(machine.get("zones") or ()), ANY),
        price_type=price_type,
        placement_group=_set_name(group, settings),
        price_per_hour=price_of(size, price_type),
        order_id=carried.get(tags.ORDER),
        group_id=carried.get(tags.GROUP),
        message=message_of(provisioning, seen),
        ending=ending_of(provisioning, seen),
        failure=failure_of(provisioning, seen),
    )


def host_name(machine: Mapping[str, Any], domain: str) -> str:
    """The machine's own name, by which Azure's DNS knows it in its network."""
    # A machine of a specialized image has no osProfile.
    system = machine["properties"].get("osProfile") or {}
    label = str(system.get("computerName") or machine["name"]).lower()
    return f"{label}.{domain.lower()}" if domain else label


def unix_time(text: str) -> float:
    """Unix seconds of one of Azure's dates, which have up to seven digits of a second. Raises ValueError."""
    head, _, fraction = text.removesuffix("Z").removesuffix("+00:00").partition(".")
    return datetime.fromisoformat(f"{head}+00:00").timestamp() + (float(f"0.{fraction}") if fraction else 0.0)


def addresses(cards: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The private address of each machine by its resource id in lower case, from the network cards that Azure lists."""
    found: dict[str, str] = {}
    for card in cards:
        properties = card.get("properties") or {}
        machine = (properties.get("virtualMachine") or {}).get("id")
        for each in properties.get("ipConfigurations") or ():
            own = each.get("properties") or {}
            if machine and own.get("privateIPAddress") and own.get("primary", True):
                found.setdefault(str(machine).lower(), str(own["privateIPAddress"]))
    return found


def _set_name(set_id: str, settings: AzureSettings) -> str:
    """An availability set as the settings name it: Azure may write ids in capitals."""
    for name in settings.availability_sets.values():
        if settings.id_of("Microsoft.Compute", "availabilitySets", name).lower() == set_id.lower():
            return name
    return set_id.rpartition("/")[2]
