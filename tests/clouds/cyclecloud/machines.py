"""Nodes of the cluster as real hosts, which run the node's `CloudInit` and end with it."""

from __future__ import annotations

from pathlib import Path

from autoscaler.errors import AutoscalerError
from tests.clouds.cyclecloud.cluster import Cluster, Node
from tests.clouds.machines import NoScript, RealHosts


def rent_out_hosts(cluster: Cluster, tree: Path) -> None:
    """Let every new node be a host of the tree."""
    hosts = RealHosts.of(tree)

    def made(node: Node) -> None:
        if node.failed is not None:
            return
        node.host = hosts.free_name()
        try:
            node.address = hosts.start(node.host, node.id, node.machine_type, node.attributes.get("CloudInit", ""))
        except (AutoscalerError, NoScript) as error:
            node.failed, node.machine = str(error), False

    cluster.on_made = made
    cluster.on_ended = lambda node: hosts.end(node.host) if node.host else None
