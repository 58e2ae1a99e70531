"""What tests may do to the played cloud, by JSON under `/control/`: changes that EC2 itself does not offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.ec2.models.instances import StateReason

from tests.clouds.aws.faults import Fault
from tests.clouds.aws.layer import Layer
from tests.clouds.aws.listing import tags_of

Values = Mapping[str, Any]
USER = "Client.UserInitiatedShutdown"


def control(layer: Layer, verb: str, values: Values) -> tuple[int, Any]:
    """Status and answer of one request."""
    if verb not in VERBS:
        return 404, {"error": f"no such verb: {verb}"}
    return 200, VERBS[verb](layer, values)


def forget(layer: Layer, _: Values) -> Any:
    layer.forget()
    return world(layer, _)


def world(layer: Layer, _: Values) -> Any:
    """What every account has: an image, the default network, a security group."""
    backend = layer.backend()
    image = next(ami for ami in backend.describe_images() if ami.architecture == "x86_64" and "amzn2" in ami.name)
    subnets = sorted(backend.describe_subnets(), key=lambda subnet: str(subnet.availability_zone))
    return {
        "image": image.id,
        "subnets": {subnet.availability_zone: subnet.id for subnet in subnets},
        "group": backend.describe_security_groups()[0].id,
    }


def faults(layer: Layer, values: Values) -> Any:
    layer.faults.set_now = [Fault.of(each) for each in values["faults"]]
    return {}


def stock(layer: Layer, values: Values) -> Any:
    for name, value in values.items():
        setattr(layer.launching.stock, name, value)
    return {}


def doom(layer: Layer, values: Values) -> Any:
    """From now on every machine ends as soon as it is launched, with this state reason; no code: none does."""
    code = values.get("code")
    layer.launching.dies_of = (code, values.get("message", code)) if code else None
    return {}


def end_all(layer: Layer, _: Values) -> Any:
    layer.end_all()
    return {}


def forget_templates(layer: Layer, _: Values) -> Any:
    """Somebody deletes every launch template."""
    layer.backend().launch_templates.clear()
    layer.backend().launch_template_name_to_ids.clear()
    return {}


def age_templates(layer: Layer, values: Values) -> Any:
    """Launch templates were made some days ago."""
    for template in layer.backend().launch_templates.values():
        template.create_time -= timedelta(days=values["days"])
        for version in template.versions:
            version.create_time -= timedelta(days=values["days"])
    return {}


def make_template(layer: Layer, values: Values) -> Any:
    """The operator makes a launch template of these data."""
    data = {"ImageId": world(layer, values)["image"], **(values.get("data") or {})}
    template = layer.backend().create_launch_template("operators", "", data, {})
    return {"name": template.name, "id": template.id}


def lag(layer: Layer, values: Values) -> Any:
    layer.lag, layer.hidden_from = float(values["seconds"]), None
    return {}


def calls(layer: Layer, _: Values) -> Any:
    return {"recorded": layer.recorded, "refused": layer.refused, "permissions": sorted(layer.permissions)}


def billable(layer: Layer, _: Values) -> Any:
    """Machines, disks and addresses that cost money now."""
    backend = layer.backend()
    living = [machine.id for machine in layer.machines().values() if machine.state != "terminated"]
    addresses = [address.allocation_id for address in backend.describe_addresses()]
    return {"billable": [*living, *backend.volumes, *addresses]}


def machines(layer: Layer, _: Values) -> Any:
    """What each machine was launched with, and its disks as they are."""
    return {
        worker_id: {
            "state": machine.state,
            "zone": machine.placement.zone,
            "launch": layer.launching.launches[worker_id],
            "tags": tags_of(machine),
            "disks": [
                {"ends_with_it": disk.delete_on_termination, "size": volume.size, "tags": tags_of(volume)}
                for _, disk in machine.get_block_device_mapping
                for volume in [layer.backend().volumes[disk.volume_id]]
            ],
        }
        for worker_id, machine in layer.machines().items()
    }


def end(layer: Layer, values: Values) -> Any:
    """A machine ends by itself or by the cloud, with the state reason that EC2 gives for that."""
    machine = layer.machines()[values["id"]]
    machine.terminate()
    machine.state_reason = StateReason(f"{values['code']}: {values['code']}", values["code"])
    return {}


def forget_machine(layer: Layer, values: Values) -> Any:
    """A machine ended so long ago that EC2 does not know it any more."""
    for volume in layer.machines()[values["id"]].block_device_mapping.values():
        layer.backend().volumes.pop(volume.volume_id, None)
    for reservation in layer.backend().reservations.values():
        reservation.instances = [machine for machine in reservation.instances if machine.id != values["id"]]
    return {}


def announce(layer: Layer, values: Values) -> Any:
    """Maintenance of a machine, so many seconds from now."""
    begins = datetime.now(UTC) + timedelta(seconds=values["seconds"])
    event = {"Code": values["code"], "Description": values.get("description", "by its host"), "NotBefore": begins}
    layer.events.setdefault(values["id"], []).append({"InstanceEventId": "instance-event-0d59937288b749b32", **event})
    return {}


def page(layer: Layer, values: Values) -> Any:
    """So many machines are on a page of a listing, until the region is emptied."""
    layer.page = values["size"]
    return {}


def hide_new(layer: Layer, _: Values) -> Any:
    """From now on listings leave out every machine that is launched, until `lag` is set."""
    layer.hidden_from = datetime.now(UTC)
    return {}


def stop(layer: Layer, values: Values) -> Any:
    """Somebody stops a machine: it holds its disks and can be started again."""
    layer.backend().stop_instances([values["id"]])
    machine = layer.machines()[values["id"]]
    machine.state_reason = StateReason("Client.UserInitiatedShutdown: User initiated shutdown", USER)
    return {"state": machine.state}


def protect(layer: Layer, values: Values) -> Any:
    """Somebody protects machines from being ended; no others are."""
    layer.protected = set(values["ids"])
    return {}


def image_disk(layer: Layer, values: Values) -> Any:
    """The image has a data disk under this device name, which outlives its machine unless a launch says otherwise."""
    layer.launching.image_disk = values["device"]
    return {}


def without_subnet(layer: Layer, values: Values) -> Any:
    """Somebody deletes the subnet of a zone, until the region is emptied."""
    layer.gone_subnets.add(world(layer, {})["subnets"][values["zone"]])
    return {}


def templates(layer: Layer, _: Values) -> Any:
    return {"names": sorted(template.name for template in layer.backend().launch_templates.values())}


def mark(layer: Layer, values: Values) -> Any:
    """A spot machine's request changes its state."""
    status = {"Code": values["code"], **({} if values.get("timeless") else {"UpdateTime": datetime.now(UTC)})}
    layer.launching.spot_requests[values["id"]]["Status"] = status
    return {}


VERBS: Mapping[str, Callable[[Layer, Values], Any]] = {
    verb.__name__: verb
    for verb in (
        forget,
        end_all,
        forget_templates,
        age_templates,
        make_template,
        world,
        faults,
        stock,
        doom,
        lag,
        calls,
        billable,
        machines,
        end,
        forget_machine,
        hide_new,
        page,
        stop,
        protect,
        without_subnet,
        image_disk,
        templates,
        mark,
        announce,
    )
}
