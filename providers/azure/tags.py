"""The tags that make a machine ours, and the names of machines: both are part of the creating call.

A machine's name is made of cell, token and number. A repeated request has the same name, and Azure makes the machine
only if it is absent: this is Azure's idempotency.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

from autoscaler.providers.interface import GROUP_ID, LaunchOrder

CELL = "sge-autoscaler-cell"
"""This cell's own unique tag (rule 4)."""
ORDER = "sge-autoscaler-order"
TOKEN = "sge-autoscaler-token"
NODE_ARRAY = "sge-autoscaler-node-array"
GROUP = "sge-autoscaler-group"
"""The group of a machine, if it belongs to one."""
MACHINE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""The form of our names, which are also host names."""
# Azure limits the name of a Linux machine to 64 characters, digest and number included.
_LONGEST_ARRAY = 40
# Azure refuses these characters in the name of a tag.
_FORBIDDEN = re.compile(r"[<>%&\\?/]")


def order_tags(order: LaunchOrder) -> dict[str, str]:
    """Tags of an order's machines; the operator's own tags never win over ours."""
    own = {_FORBIDDEN.sub("_", name): value for name, value in order.tags.items() if name != GROUP_ID}
    return {
        **own,
        **({GROUP: order.tags[GROUP_ID]} if GROUP_ID in order.tags else {}),
        CELL: order.cell,
        ORDER: order.order_id,
        TOKEN: order.token,
        NODE_ARRAY: order.node_array,
    }


def names(order: LaunchOrder) -> tuple[str, ...]:
    """One for each machine of the order, always the same: `execute-k3jx7qpa5dm2c-0`. 65 bits of it are the digest."""
    digest = hashlib.sha256(f"{order.cell}\0{order.token}".encode()).digest()
    word = base64.b32encode(digest).decode().lower()[:13]
    array = re.sub(r"[^a-z0-9]+", "-", order.node_array.lower())[:_LONGEST_ARRAY].strip("-") or "worker"
    return tuple(f"{array}-{word}-{number}" for number in range(order.count))


def carried(machine: Mapping[str, object]) -> Mapping[str, str]:
    """The tags of a machine as Azure lists it."""
    found = machine.get("tags")
    return found if isinstance(found, dict) else {}
