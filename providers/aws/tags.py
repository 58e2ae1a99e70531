"""The tags that make a machine ours: set inside the creating call, so that no machine exists without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from autoscaler.providers.interface import GROUP_ID, LaunchOrder

CELL = "sge-autoscaler-cell"
"""This cell's own unique tag (rule 4). The permissions in conf/aws/policy.json depend on it."""
ORDER = "sge-autoscaler-order"
TOKEN = "sge-autoscaler-token"
NODE_ARRAY = "sge-autoscaler-node-array"
GROUP = "sge-autoscaler-group"
"""The group of a machine, if it belongs to one."""
KEY = "sge-autoscaler-key"
"""The secret of its order, which a machine reads in its own metadata."""
NAME = "Name"
READABLE = re.compile(r"(?!\.{1,2}$|_index$)[A-Za-z0-9+=.,_:@-]+")
"""Keys that EC2 shows in a machine's metadata; one other key, and it refuses to show any."""

Tags = Mapping[str, str]


def cell_tags(cell: str) -> dict[str, str]:
    """Tags of every resource of ours."""
    return {CELL: cell}


def order_tags(order: LaunchOrder) -> dict[str, str]:
    """Tags of machines, disks and addresses of an order; the operator's own tags never win over ours."""
    own = {name: value for name, value in order.tags.items() if name != GROUP_ID}
    return {
        NAME: f"{order.node_array} worker",
        **own,
        **({GROUP: order.tags[GROUP_ID]} if GROUP_ID in order.tags else {}),
        **cell_tags(order.cell),
        ORDER: order.order_id,
        TOKEN: order.token,
        NODE_ARRAY: order.node_array,
    }


def machine_tags(order: LaunchOrder) -> dict[str, str]:
    """Tags of the machines themselves, which may read them."""
    return {**order_tags(order), **({KEY: order.key} if order.key else {})}


def as_list(tags: Tags) -> list[dict[str, str]]:
    """In the form of requests."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def as_mapping(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """From the form of answers."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def specifications(tags: Tags, kinds: Sequence[str]) -> list[dict[str, object]]:
    """`TagSpecifications` for things of these kinds."""
    return [{"ResourceType": kind, "Tags": as_list(tags)} for kind in kinds]


def filters(**tags: str) -> list[dict[str, object]]:
    """Filters of a listing, by the names above in lower case: `filters(cell=…, token=…)`."""
    keys = {"cell": CELL, "order": ORDER, "token": TOKEN, "node_array": NODE_ARRAY}
    return [{"Name": f"tag:{keys[name]}", "Values": [_literal(value)]} for name, value in tags.items()]


def _literal(value: str) -> str:
    """EC2's filters use `*` and `?` as wildcards, which a tag may contain as letters."""
    return value.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?")
