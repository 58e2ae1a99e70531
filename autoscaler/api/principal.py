"""Who makes a call, and what they may: at the TCP address whoever proves it by a password or a token, at the Unix
socket whom the kernel names.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

ON_BEHALF = "X-Asked-By"
"""Root, and whoever runs the service, may say for whom they ask, as `sudo` does."""


class Role(IntEnum):
    """What one may; each may what those before it may."""

    READER = 1
    """Looks: status, nodes, usage, operations, requests."""
    CALLER = 2
    """Asks for nodes and node arrays, and ends what it asked for itself."""
    ADMIN = 3
    """Ends every node and request set."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller, for the length of a call."""

    name: str
    """No two of different kinds have the same: that of a token begins with `token:`, which no user's name can."""
    by: str
    """The name as it stands in the store and the log."""
    role: Role = Role.ADMIN
    of_cell: bool = False
    """Whether this is a user of the cell, who may be a manager of Grid Engine."""


def of_rest(name: str, role: Role) -> Principal:
    """A caller of the REST API."""
    return Principal(name, f"{name} (REST)", role)


def of_munge(name: str) -> Principal:
    """A user of a machine that this one believes."""
    return Principal(name, f"{name} (MUNGE)", Role.READER, of_cell=True)


def of_process(uid: int, headers: Mapping[str, str], role: Role = Role.ADMIN) -> Principal:
    """The user that a local process runs as; what root or our own user says in its place, marked so."""
    try:
        own = pwd.getpwuid(uid).pw_name
    except KeyError:
        own = f"uid {uid}"
    other = headers.get(ON_BEHALF, "")
    may = uid in (0, os.geteuid()) and other.isprintable() and len(other) <= 64
    by = f"{other} (as {own})" if other and other != own and may else own
    return Principal(own, by, role)
