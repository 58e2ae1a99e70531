"""The played region: machines with their disks, cards and addresses as things of their own, stock, quotas and time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.clouds.aws.faults import Fault, Faults

SUBSCRIPTION, GROUP, LOCATION = "11111111-2222-3333-4444-555555555555", "workers", "eastus"
GROUP_PATH = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
MACHINES = f"{GROUP_PATH}/providers/Microsoft.Compute/virtualMachines"
NETWORKS = f"{GROUP_PATH}/providers/Microsoft.Network"


def sku(name: str, family: str, vcpus: int, memory: float, **more: str) -> dict[str, Any]:
    """One resource SKU as Azure lists it."""
    can = {"vCPUs": str(vcpus), "MemoryGB": f"{memory:g}", "LowPriorityCapable": "True", "CpuArchitectureType": "x64"}
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "tier": "Standard",
        "size": name.removeprefix("Standard_"),
        "family": family,
        "locations": [LOCATION],
        "locationInfo": [{"location": LOCATION, "zones": ["1", "2"], "zoneDetails": []}],
        "capabilities": [{"name": key, "value": value} for key, value in {**can, **more}.items()],
        "restrictions": [],
    }


def restriction(kind: str, **info: list[str]) -> dict[str, Any]:
    return {
        "type": kind,
        "values": [LOCATION],
        "restrictionInfo": {"locations": [LOCATION], **info},
        "reasonCode": "NotAvailableForSubscription",
    }


SKUS: tuple[dict[str, Any], ...] = (
    sku("Standard_D2s_v5", "standardDSv5Family", 2, 8),
    sku("Standard_D4s_v5", "standardDSv5Family", 4, 16),
    sku("Standard_F8s_v2", "standardFSv2Family", 8, 16) | {"restrictions": [restriction("Zone", zones=["2"])]},
    sku("Standard_E4s_v5", "standardESv5Family", 4, 32) | {"restrictions": [restriction("Location")]},
    sku("Standard_E8-4s_v5", "standardESv5Family", 8, 64, vCPUsAvailable="4"),
    sku("Standard_D4ps_v5", "standardDPSv5Family", 4, 16, CpuArchitectureType="Arm64"),
    sku("Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family", 4, 28, GPUs="1"),
    sku("Standard_HB120rs_v3", "standardHBrsv3Family", 120, 448, RdmaEnabled="True"),
    sku("Standard_ND96s_v9", "standardNDv9Family", 96, 900, LowPriorityCapable="False"),
    {"resourceType": "disks", "name": "Premium_LRS", "locations": [LOCATION], "capabilities": None, "restrictions": []},
)


def _vcpus(record: Mapping[str, Any]) -> int:
    can = {each["name"]: each["value"] for each in record["capabilities"]}
    return int(can.get("vCPUsAvailable", can["vCPUs"]))


_OF_MACHINES = [each for each in SKUS if each["resourceType"] == "virtualMachines"]
VCPUS: Mapping[str, int] = {each["name"]: _vcpus(each) for each in _OF_MACHINES}
FAMILIES: Mapping[str, str] = {each["name"]: each["family"] for each in _OF_MACHINES}


@dataclass(slots=True)
class Machine:
    """A machine and when it changes."""

    name: str
    model: dict[str, Any]
    made_at: float
    up_at: float
    failed: str | None = None
    """Code of the failure that its making ends with."""
    broken: str | None = None
    """Code of something that failed while the machine runs on."""
    gone_at: float | None = None
    power: str = "running"
    things: list[str] = field(default_factory=list)
    """Disk, card and address, which end with it if they are set to."""
    address: str = ""

    @property
    def id(self) -> str:
        return f"{MACHINES}/{self.name}"

    @property
    def size(self) -> str:
        return str(self.model["properties"]["hardwareProfile"]["vmSize"])

    @property
    def spot(self) -> bool:
        return bool(self.model["properties"].get("priority") == "Spot")

    def provisioning(self, now: float) -> str:
        if self.gone_at is not None:
            return "Deleting"
        if now < self.up_at:
            return "Creating"
        return "Failed" if self.failed or self.broken else "Succeeded"

    def statuses(self, now: float) -> list[dict[str, Any]]:
        match self.provisioning(now):
            case "Failed" if self.broken:
                return [
                    {"code": f"ProvisioningState/failed/{self.broken}", "level": "Error", "message": self.broken},
                    {"code": f"PowerState/{self.power}", "level": "Info"},
                ]
            case "Failed":
                words = f"Allocation failed. {self.failed}"
                return [{"code": f"ProvisioningState/failed/{self.failed}", "level": "Error", "message": words}]
            case "Succeeded":
                return [
                    {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"},
                    {"code": f"PowerState/{self.power}", "level": "Info", "displayStatus": f"VM {self.power}"},
                ]
            case state:
                return [{"code": f"ProvisioningState/{state.lower()}", "level": "Info", "displayStatus": state}]


class Azure:
    """One subscription, one resource group, one region. Its caller holds the lock."""

    def __init__(self) -> None:
        self.on_made: Callable[[Machine], None] = lambda _: None
        self.on_ended: Callable[[Machine], None] = lambda _: None
        self.forget()

    def forget(self) -> None:
        """Empty again, and nothing goes wrong."""
        self.machines: dict[str, Machine] = {}
        self.things: set[str] = set()
        self.operations: dict[str, str] = {}
        self.grants: dict[str, Any] = {}
        self.faults = Faults()
        self.stock: dict[str, int] = {}
        """Machines left, by `size/zone` with `*` for any."""
        self.fails: dict[str, str] = {}
        """Sizes whose making fails later, with the code."""
        self.limits = {"cores": 100_000, "lowPriorityCores": 100_000, "virtualMachines": 25_000}
        self.lag = self.boot = 0.0
        self.hidden_from: float | None = None
        """Machines made since then show in no listing."""
        self.ending = 0.02
        self.page = 100
        self.missing: set[str] = set()
        """Names of what does not exist: subnet, image, …"""
        self.image_disks: list[int] = []
        """Numbers of the data disks that every image has."""
        self.fresh = 0
        """This many grants find their identity not known yet."""
        self.allowed: list[str] = ["*"]
        self.token = "played"
        self.calls: list[str] = []
        self.refused: list[str] = []
        self.actions: set[str] = set()
        self._number = 0

    def settle(self) -> None:
        """Let what is due happen."""
        now = time.time()
        for machine in [each for each in self.machines.values() if each.gone_at is not None and each.gone_at <= now]:
            del self.machines[machine.name]
            self.things.difference_update(machine.things)

    def create(self, name: str, model: dict[str, Any]) -> Machine | tuple[int, str, str]:
        """The new machine, or status, code and message of the refusal."""
        size, zone = model["properties"]["hardwareProfile"]["vmSize"], "".join(model.get("zones", ()))
        if size not in VCPUS:
            return 400, "InvalidParameter", f"The value {size} provided for the VM size is not valid."
        spot = model["properties"].get("priority") == "Spot"
        for quota, used, limit, each in self._counted(size, spot):
            if used + each > limit:
                return (
                    409,
                    "OperationNotAllowed",
                    (
                        f"Operation could not be completed as it results in exceeding approved {quota} Cores quota. "
                        f"Current Limit: {limit}, Current Usage: {used}, Additional Required: {each}"
                    ),
                )
        drawer = next((key for key in (f"{size}/{zone}", f"{size}/*", "*/*") if key in self.stock), None)
        if drawer is not None:
            if self.stock[drawer] <= 0:
                return (
                    409,
                    "SkuNotAvailable",
                    f"The requested size {size} is currently not available in {zone or LOCATION}.",
                )
            self.stock[drawer] -= 1
        return self._add(name, model)

    def _add(self, name: str, model: dict[str, Any]) -> Machine:
        now = time.time()
        self._number += 1
        machine = Machine(
            name, model, now, now + self.boot, self.fails.get(model["properties"]["hardwareProfile"]["vmSize"])
        )
        machine.address = f"10.{self._number >> 16 & 255}.{self._number >> 8 & 255}.{self._number & 255}"
        properties = model["properties"]
        if (model.get("identity") or {}).get("type") == "SystemAssigned":
            model["identity"]["principalId"] = str(uuid.uuid4())
        things = {f"disk {name}": properties["storageProfile"]["osDisk"]}
        described = {each["lun"]: each for each in properties["storageProfile"].get("dataDisks", ())}
        things |= {f"disk {name}-{lun}": described.get(lun, {}) for lun in self.image_disks}
        for card in properties["networkProfile"]["networkInterfaceConfigurations"]:
            things[f"card {card['name']}"] = card["properties"]
            for each in card["properties"]["ipConfigurations"]:
                public = each["properties"].get("publicIPAddressConfiguration")
                if public:
                    things[f"address {public['name']}"] = public["properties"]
        self.things |= things.keys()
        machine.things = [thing for thing, described in things.items() if described.get("deleteOption") == "Delete"]
        self.machines[name] = machine
        self.on_made(machine)
        return machine

    def delete(self, machine: Machine) -> None:
        if machine.gone_at is None:
            machine.gone_at = time.time() + self.ending
            self.on_ended(machine)

    def _counted(self, size: str, spot: bool) -> Iterator[tuple[str, int, int, int]]:
        for usage in self.usages():
            name = usage["name"]["value"]
            wanted = {"virtualMachines": 1, "lowPriorityCores": VCPUS[size] * spot}
            wanted |= {} if spot else {FAMILIES[size]: VCPUS[size], "cores": VCPUS[size]}
            if wanted.get(name):
                yield name, usage["currentValue"], usage["limit"], wanted[name]

    def usages(self) -> list[dict[str, Any]]:
        """What is used, by every machine that is there whatever its state."""
        names = [*self.limits, *sorted(set(FAMILIES.values()) - self.limits.keys())]
        used = dict.fromkeys(names, 0)
        for machine in self.machines.values():
            used["virtualMachines"] += 1
            for name in ("lowPriorityCores",) if machine.spot else ("cores", FAMILIES[machine.size]):
                used[name] += VCPUS[machine.size]
        return [
            {
                "name": {"value": name, "localizedValue": f"Quota of {name}"},
                "unit": "Count",
                "currentValue": used[name],
                "limit": self.limits.get(name, 100_000),
            }
            for name in names
        ]

    def listed(self) -> list[Machine]:
        """Machines as a listing shows them: with a lag."""
        now = time.time()
        until = now - self.lag if self.hidden_from is None else self.hidden_from
        return [machine for machine in self.machines.values() if machine.made_at <= until]

    def billable(self) -> list[str]:
        return [*(machine.id for machine in self.machines.values()), *sorted(self.things)]

    def shown(self, machine: Machine) -> dict[str, Any]:
        """A machine as GET and listings have it: secrets are left out, states put in."""
        properties = dict(machine.model["properties"])
        if "osProfile" in properties:
            properties["osProfile"] = {k: v for k, v in properties["osProfile"].items() if k != "customData"}
        properties["networkProfile"] = {
            "networkInterfaces": [{"id": f"{NETWORKS}/networkInterfaces/{machine.name}-card"}]
        }
        properties["provisioningState"] = machine.provisioning(time.time())
        properties["vmId"] = str(uuid.uuid5(uuid.NAMESPACE_URL, machine.id))
        properties["timeCreated"] = datetime.fromtimestamp(machine.made_at, UTC).isoformat()
        return {
            **machine.model,
            "name": machine.name,
            "id": f"{MACHINES}/{machine.name}".replace("resourceGroups/workers", "resourceGroups/WORKERS"),
            "type": "Microsoft.Compute/virtualMachines",
            "etag": '"1"',
            "properties": properties,
        }

    def state(self, machine: Machine) -> dict[str, Any]:
        """A machine in a listing of states only."""
        shown = {
            name: value for name, value in self.shown(machine).items() if name in ("id", "name", "location", "type")
        }
        return {**shown, "properties": {"instanceView": {"statuses": machine.statuses(time.time())}}}

    def card(self, machine: Machine) -> dict[str, Any]:
        return {
            "name": f"{machine.name}-card",
            "id": f"{NETWORKS}/networkInterfaces/{machine.name}-card",
            "properties": {
                "virtualMachine": {"id": machine.id},
                "ipConfigurations": [{"properties": {"primary": True, "privateIPAddress": machine.address}}],
            },
        }

    def set_faults(self, faults: list[Mapping[str, Any]]) -> None:
        self.faults.set_now = [Fault.of(each) for each in faults]
