"""Instances as real hosts: of a subnet that is the tree's own network, so that address and DNS name are EC2's to give.

Its user data run on a host as cloud-init runs them, and its metadata are there for it. A call that ends an instance
ends the host, and an instance whose host ended by itself has shut itself down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from moto.ec2.models.instances import StateReason

from autoscaler.errors import AutoscalerError
from autoscaler.namespaces import NETWORK
from tests.clouds.aws.layer import Layer
from tests.clouds.aws.listing import REGION, tags_of
from tests.clouds.aws.wire import Parameters
from tests.clouds.machines import NoScript, RealHosts, script_of
from tests.clouds.metadata import serve_metadata

ZONE = f"{REGION}a"
TOKEN = "played"
SHUT_DOWN, FAILED = "Client.InstanceInitiatedShutdown", "Server.InternalError"


def rent_out_hosts(layer: Layer, tree: Path) -> str:
    """Let every instance be a host of the tree; returns the subnet that they must be launched in."""
    hosts = RealHosts.of(tree)
    network = layer.backend().create_vpc(f"{NETWORK}.0/24")
    subnet = layer.backend().create_subnet(network.id, f"{NETWORK}.0/24", availability_zone=ZONE)

    def launched(machine: Any, launch: Parameters) -> None:
        try:
            hosts.start(name_of(machine), machine.id, launch["InstanceType"], script_of(launch.get("UserData", "")))
        except (AutoscalerError, NoScript) as error:
            _end(machine, FAILED, str(error))

    def looked_at(machines: Sequence[Any]) -> None:
        with layer.launching.guard:  # moto calls a machine of a launch under way running, whose host is yet to come
            for machine in machines:
                if machine.state == "running" and not hosts.lives(name_of(machine)):
                    _end(machine, SHUT_DOWN, "Instance initiated shutdown")

    def ended(machine: Any) -> None:
        with layer.launching.guard:
            hosts.end(name_of(machine))

    serve_metadata(partial(metadata, layer))
    layer.launching.on_launched = launched
    layer.on_look, layer.on_ended = looked_at, ended
    return str(subnet.id)


def metadata(layer: Layer, address: str, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """The instance metadata service, version 2 only, as every launch of ours asks for it."""
    if (method, path) == ("PUT", "/latest/api/token"):
        return (200, TOKEN) if headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit() else (400, "")
    if headers.get("x-aws-ec2-metadata-token") != TOKEN:
        return 401, ""
    machine = next((each for each in layer.machines().values() if each.private_ip_address == address), None)
    if machine is None or method != "GET":
        return 404, ""
    known = {"instance-id": machine.id, "local-hostname": machine.private_dns_name, "local-ipv4": address}
    asked = path.removeprefix("/latest/meta-data/")
    options = layer.launching.launches[machine.id].get("MetadataOptions", {})
    if options.get("InstanceMetadataTags") == "enabled":
        known |= {f"tags/instance/{key}": value for key, value in tags_of(machine).items()}
    return (200, known[asked]) if asked in known else (404, "")


def name_of(machine: Any) -> str:
    """The first label of its private DNS name, which is how the tree calls the host of its address."""
    return str(machine.private_dns_name).partition(".")[0]


def _end(machine: Any, code: str, message: str) -> None:
    machine.terminate()
    machine.state_reason = StateReason(message, code)
