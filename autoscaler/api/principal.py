"""The caller of a call, and the caller's role. At the TCP address a password, token or MUNGE credential proves it; at
the Unix socket the kernel names the user.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

ON_BEHALF = "X-Asked-By"
"""Header by which root and the user of the service name the user for whom they call, as `sudo` does."""


class Role(IntEnum):
    """The rights of a caller. Each role includes those before it."""

    READER = 1
    """Reads status, nodes, usage, operations and requests."""
    CALLER = 2
    """Requests nodes and node arrays, and ends its own requests."""
    ADMIN = 3
    """Ends every node and request set."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller, for the length of a call."""

    name: str
    """Unique: the name of a token begins with `token:`, which no user's name can."""
    by: str
    """The name in the store and the log."""
    role: Role = Role.ADMIN
    of_cell: bool = False
    """Whether this is a user of the cell, who may be a manager of Grid Engine."""


def of_rest(name: str, role: Role) -> Principal:
    """A caller of the REST API."""
    return Principal(name, f"{name} (REST)", role)


def of_munge(name: str) -> Principal:
    """A user of a submit host, proved by MUNGE."""
    return Principal(name, f"{name} (MUNGE)", Role.READER, of_cell=True)


def of_process(uid: int, headers: Mapping[str, str], role: Role = Role.ADMIN) -> Principal:
    """The user that a local process runs as. If root or our own user names another user, `by` shows both."""
    try:
        own = pwd.getpwuid(uid).pw_name
    except KeyError:
        own = f"uid {uid}"
    other = headers.get(ON_BEHALF, "")
    may = uid in (0, os.geteuid()) and other.isprintable() and len(other) <= 64
    by = f"{other} (as {own})" if other and other != own and may else own
    return Principal(own, by, role)
