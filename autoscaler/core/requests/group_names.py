"""Names of groups, and of a group's host group and parallel environments in Grid Engine.

`execute:64-1` is the first group of 64 vCPUs of the node array `execute:64`, `execute:64-w1` the first one of 64
workers. So the tag of its workers shows what a group is made of, even if the store is lost.

The host group's name shows that it is ours: no other one begins so. A group's parallel environment begins with the name
of the one that jobs ask for, so that `-pe 'mpi*' 64` finds it.
"""

from __future__ import annotations

import re

from autoscaler.core.requests.arrays import GROUPS

HOST_GROUP_PREFIX = "@sge-autoscaler-"
COMPLEX = "group_id"
"""The complex that has a worker's group."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
_SEPARATOR = "_"


_OF_WORKERS = re.compile(r"-w[1-9]\d*$")


def group_id(node_array: str, number: int, *, of_workers: bool = False) -> str:
    return f"{node_array}-{'w' if of_workers else ''}{number}"


def is_of_workers(group: str) -> bool:
    """Whether its size is a number of workers, not of vCPUs."""
    return _OF_WORKERS.search(group) is not None


def host_group_of(group: str) -> str:
    """Its host group in Grid Engine."""
    return f"{HOST_GROUP_PREFIX}{_written(group)}"


def pe_of(base: str, group: str) -> str:
    """The parallel environment that keeps jobs of `base` inside this group."""
    return f"{base}{_SEPARATOR}{_written(group)}"


def is_of_group(pe: str, base: str) -> bool:
    """Whether this is the name of a group's parallel environment made from `base`."""
    return re.fullmatch(rf"{re.escape(base)}{_SEPARATOR}.+{_SEPARATOR}\d+-w?[1-9]\d*", pe) is not None


def _written(group: str) -> str:
    """The group in letters that Grid Engine allows in names, different for different groups: the last colon becomes
    `_`, any other letter that is not allowed becomes `+` and its code.
    """
    array, _, size = group.rpartition(GROUPS)
    plain = "".join(letter if _PLAIN.fullmatch(letter) else f"+{ord(letter):x}+" for letter in array)
    return f"{plain}{_SEPARATOR}{size}" if array else size
