"""Machines of the region as real hosts, under the names they are made with, which Azure's DNS knows in their network.

Their custom data run as cloud-init runs them, the instance metadata service tells each its name, and they end with
the call that deletes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler.errors import AutoscalerError
from tests.clouds.azure.region import Azure, Machine
from tests.clouds.machines import NoScript, RealHosts, script_of
from tests.clouds.metadata import serve_metadata

COMPUTE = "/metadata/instance/compute/"


def rent_out_hosts(azure: Azure, tree: Path) -> None:
    """Let every machine be a host of the tree."""
    hosts = RealHosts.of(tree)

    def made(machine: Machine) -> None:
        name, script = name_of(machine), script_of(machine.model["properties"]["osProfile"].get("customData", ""))
        try:
            hosts.resolve(name)
            machine.address = hosts.start(name, machine.id, machine.size, script)
        except (AutoscalerError, NoScript) as error:
            machine.failed = f"OSProvisioningClientError: {error}"

    def ended(machine: Machine) -> None:
        hosts.end(name_of(machine))
        hosts.forget(name_of(machine))

    def metadata(address: str, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        machine = next((each for each in azure.machines.values() if each.address == address), None)
        if headers.get("metadata") != "true" or machine is None:
            return 400, ""
        known = {"osProfile/computerName": name_of(machine), "name": machine.name}
        asked = urlsplit(path).path.removeprefix(COMPUTE)
        return (200, known[asked]) if method == "GET" and asked in known else (404, "")

    serve_metadata(metadata)
    azure.on_made, azure.on_ended = made, ended


def name_of(machine: Machine) -> str:
    return str(machine.model["properties"]["osProfile"]["computerName"]).lower()
