"""Instances as real hosts: of a subnet that is the tree's own network, so that address and DNS name are EC2's to give.

Its user data run on a host as cloud-init runs them, a call that ends an instance ends the host, and an instance whose
host ended by itself has shut itself down.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moto.ec2.models.instances import StateReason

from autoscaler.errors import AutoscalerError
from autoscaler.namespaces import NETWORK
from tests.clouds.aws.layer import Layer
from tests.clouds.aws.listing import REGION
from tests.clouds.aws.wire import Parameters
from tests.clouds.machines import NoScript, RealHosts

ZONE = f"{REGION}a"
PACKED = b"\x1f\x8b"
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
        for machine in machines:
            if machine.state == "running" and not hosts.lives(name_of(machine)):
                _end(machine, SHUT_DOWN, "Instance initiated shutdown")

    layer.launching.on_launched = launched
    layer.on_look = looked_at
    layer.on_ended = lambda machine: hosts.end(name_of(machine))
    return str(subnet.id)


def name_of(machine: Any) -> str:
    """The first label of its private DNS name, which is how the tree calls the host of its address."""
    return str(machine.private_dns_name).partition(".")[0]


def script_of(user_data: str) -> str:
    """What cloud-init makes of user data as they stand in a request."""
    plain = base64.b64decode(user_data)
    return (gzip.decompress(plain) if plain.startswith(PACKED) else plain).decode()


def _end(machine: Any, code: str, message: str) -> None:
    machine.terminate()
    machine.state_reason = StateReason(message, code)
