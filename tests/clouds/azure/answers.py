"""What the played Resource Manager answers to each call that the provider makes."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clouds.azure.bodies import MACHINE, machine_problems, problems
from tests.clouds.azure.region import LOCATION, SKUS, SUBSCRIPTION, Azure, Machine


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    address: str
    match: re.Match[str] | None = None


@dataclass(slots=True)
class Reply:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None


Answer = Callable[[Azure, Request], Reply]


def error(status: int, code: str, message: str, **headers: str) -> Reply:
    return Reply(status, {"error": {"code": code, "message": message}}, headers)


def not_found(request: Request) -> Reply:
    return error(404, "ResourceNotFound", f"The Resource '{request.path}' was not found.")


def paged(
    azure: Azure, request: Request, records: list[Any], show: Callable[[Any], Any] = lambda record: record
) -> Reply:
    """A page of a listing, each record as `show` makes it."""
    start = int(request.query.get("$skiptoken", "0"))
    answer: dict[str, Any] = {"value": [show(record) for record in records[start : start + azure.page]]}
    if start + azure.page < len(records):
        query = "&".join(f"{k}={v.replace(' ', '%20')}" for k, v in request.query.items() if k != "$skiptoken")
        answer["nextLink"] = f"{request.address}{request.path}?{query}&$skiptoken={start + azure.page}"
    return Reply(200, answer)


def nameless(body: Any) -> Any:
    """A machine's record, or a page of them, without what names it."""
    if "value" in body:
        return {**body, "value": [nameless(each) for each in body["value"]]}
    return {name: value for name, value in body.items() if name not in ("id", "name")}


def named(azure: Azure, request: Request) -> Machine | None:
    assert request.match is not None
    return azure.machines.get(request.match["name"].lower())


def create(azure: Azure, request: Request) -> Reply:
    assert request.match is not None
    name = request.match["name"].lower()
    if request.headers.get("If-None-Match") == "*" and name in azure.machines:
        return error(412, "PreconditionFailed", f"The machine {name} exists.")
    wrong = list(problems(MACHINE, request.body)) or list(machine_problems(request.body))
    if wrong:
        azure.refused += wrong
        return error(400, "InvalidParameter", "; ".join(wrong))
    if (lacking := next((each for each in linked(request.body) if not permitted(azure, each)), None)) is not None:
        return forbidden(lacking)
    for kind, words in (("subnet", "subnet"), ("image", "image")):
        if kind in azure.missing:
            return error(404 if kind == "image" else 400, "InvalidResourceReference", f"The {words} was not found.")
    asked = [each["lun"] for each in request.body["properties"]["storageProfile"].get("dataDisks", ())]
    if strange := sorted(set(asked) - set(azure.image_disks)):
        return error(400, "InvalidParameter", f"the image has no data disk {strange[0]}")
    if name in azure.machines:
        return Reply(200, azure.shown(azure.machines[name]))
    made = azure.create(name, request.body)
    if not isinstance(made, Machine):
        return error(*made)
    return Reply(201, azure.shown(made), operation(azure, request, made.name))


def linked(body: Mapping[str, Any]) -> list[str]:
    """What a new machine takes beside the permission to make it, for what is made with it or joined."""
    properties = body["properties"]
    cards = [each["properties"] for each in properties["networkProfile"]["networkInterfaceConfigurations"]]
    addresses = [each["properties"] for card in cards for each in card["ipConfigurations"]]
    found = ["Microsoft.Compute/disks/write", "Microsoft.Network/virtualNetworks/subnets/join/action"]
    found += [f"Microsoft.Network/networkInterfaces/{verb}" for verb in ("write", "join/action")]
    if any("publicIPAddressConfiguration" in each for each in addresses):
        found += [f"Microsoft.Network/publicIPAddresses/{verb}" for verb in ("write", "join/action")]
    if any("networkSecurityGroup" in card for card in cards):
        found.append("Microsoft.Network/networkSecurityGroups/join/action")
    if (body.get("identity") or {}).get("type") == "UserAssigned":
        found.append("Microsoft.ManagedIdentity/userAssignedIdentities/assign/action")
    return found


def ended_with(machine: Machine) -> list[str]:
    """What ending a machine takes beside, for what ends with it."""
    kinds = {"disk": "Microsoft.Compute/disks", "card": "Microsoft.Network/networkInterfaces"}
    kinds["address"] = "Microsoft.Network/publicIPAddresses"
    return [f"{kinds[thing.partition(' ')[0]]}/delete" for thing in machine.things]


def permitted(azure: Azure, action: str) -> bool:
    azure.actions.add(action)
    return any(fnmatch.fnmatchcase(action.lower(), each.lower()) for each in azure.allowed)


def forbidden(action: str) -> Reply:
    return error(403, "AuthorizationFailed", f"The client does not have authorization to perform action '{action}'.")


def operation(azure: Azure, request: Request, name: str) -> dict[str, str]:
    number = f"op-{len(azure.operations)}"
    azure.operations[number] = name
    path = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{LOCATION}/operations/{number}"
    return {"Azure-AsyncOperation": f"{request.address}{path}?api-version=2024-07-01", "Retry-After": "1"}


def operated(azure: Azure, request: Request) -> Reply:
    """How a long-running operation goes: a failed one answers 200, too."""
    assert request.match is not None
    machine = azure.machines.get(azure.operations.get(request.match["name"], ""))
    state = machine.provisioning(time.time()) if machine else "Succeeded"
    answer: dict[str, Any] = {"status": "InProgress" if state in ("Creating", "Deleting") else state}
    if machine and state == "Failed":
        answer["error"] = {"code": machine.failed, "message": "Allocation failed."}
    return Reply(200, answer)


def get(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    return Reply(200, azure.shown(machine)) if machine else not_found(request)


def view(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    return Reply(200, {"statuses": machine.statuses(time.time())}) if machine else not_found(request)


def delete(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    if machine is None:
        return Reply(204)
    if (lacking := next((each for each in ended_with(machine) if not permitted(azure, each)), None)) is not None:
        return forbidden(lacking)
    azure.delete(machine)
    return Reply(202, None, operation(azure, request, machine.name))


def machines(azure: Azure, request: Request) -> Reply:
    return paged(azure, request, azure.listed(), azure.shown)


def states(azure: Azure, request: Request) -> Reply:
    """The whole subscription's machines; with `statusOnly` their states and little else."""
    if request.query.get("statusOnly") != "true":
        return paged(azure, request, azure.listed(), azure.shown)
    return paged(azure, request, azure.listed(), azure.state)


def skus(azure: Azure, request: Request) -> Reply:
    if request.query.get("$filter") != f"location eq '{LOCATION}'":
        return error(400, "BadRequest", "the played region knows no such filter")
    return paged(azure, request, list(SKUS))


def cards(azure: Azure, request: Request) -> Reply:
    return paged(azure, request, azure.listed(), azure.card)


def console(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    if machine is None:
        return not_found(request)
    return Reply(200, {"serialConsoleLogBlobUri": f"{request.address}/console/{machine.name}?sig=played"})


def grant(azure: Azure, request: Request) -> Reply:
    machine = named(azure, request)
    properties = request.body.get("properties", {})
    if machine is None or properties.get("principalId") != machine.model.get("identity", {}).get("principalId"):
        return error(400, "PrincipalNotFound", "there is no such principal")
    if azure.fresh > 0:
        azure.fresh -= 1
        return error(400, "PrincipalNotFound", "Principal does not exist in the directory: it may be replicated yet")
    if machine.name in azure.grants:
        return error(409, "RoleAssignmentExists", "The role assignment already exists.")
    azure.grants[machine.name] = properties
    return Reply(201, {"id": request.path, "properties": properties})


def there(kind: str, **properties: Any) -> Answer:
    """Something that is there unless it is missing."""

    def answer(azure: Azure, request: Request) -> Reply:
        if kind in azure.missing:
            return not_found(request)
        return Reply(200, {"id": request.path, "properties": properties})

    return answer


def image(azure: Azure, request: Request) -> Reply:
    if "image" in azure.missing:
        return not_found(request)
    disks = [{"lun": lun} for lun in azure.image_disks]
    return Reply(200, {"id": request.path, "properties": {"storageProfile": {"dataDisks": disks}}})


def image_versions(azure: Azure, request: Request) -> Reply:
    return not_found(request) if "image" in azure.missing else Reply(200, [{"name": "1.9.0"}, {"name": "1.10.0"}])


def image_version(azure: Azure, request: Request) -> Reply:
    """Of the marketplace: the disks are those of the newest."""
    assert request.match is not None
    if "image" in azure.missing or request.match["version"] not in ("1.9.0", "1.10.0"):
        return not_found(request)
    newest = request.match["version"] == "1.10.0"
    disks = [{"lun": lun} for lun in azure.image_disks if newest]
    return Reply(200, {"id": request.path, "properties": {"dataDiskImages": disks}})


def gallery_versions(azure: Azure, request: Request) -> Reply:
    """One's own: the newest is a trial, which `latest` leaves out."""
    trial = {"name": "2.0.0", "properties": {"publishingProfile": {"excludeFromLatest": True}}}
    return paged(azure, request, [{"name": "0.9.0"}, {"name": "1.0.0", "properties": {}}, trial])


def others_versions(azure: Azure, request: Request) -> Reply:
    """Of a shared or published gallery."""
    trial = {"name": "2.0.0", "properties": {"excludeFromLatest": True}}
    return paged(azure, request, [{"name": "0.9.0"}, {"name": "1.0.0", "properties": {}}, trial])


def gallery_version(azure: Azure, request: Request) -> Reply:
    assert request.match is not None
    disks = [{"lun": lun} for lun in azure.image_disks if request.match["version"] == "1.0.0"]
    return Reply(200, {"id": request.path, "properties": {"storageProfile": {"dataDiskImages": disks}}})


def permissions(azure: Azure, request: Request) -> Reply:
    return Reply(200, {"value": [{"actions": azure.allowed, "notActions": []}]})
