"""Hosts that a job names and that are there no more: names such as workers have, which no host has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.reasons import Code, Reason, because

_DIGITS = re.compile(r"\d+")


def hosts_that_left(
    expressions: Iterable[str], present: Collection[str], names_of_workers: Iterable[str]
) -> tuple[str, ...]:
    """The hosts that it names, if none of them is there and all are named as workers are, numbers apart; else ()."""
    named = [name for part in expressions for name in part.split("|")]
    forms = {_DIGITS.sub("0", name) for name in names_of_workers}
    left = [name for name in named if name not in present and _DIGITS.sub("0", name) in forms]
    return tuple(dict.fromkeys(left)) if len(left) == len(named) else ()


def foreign_host(
    expressions: Sequence[str], hosts: Iterable[ExecutionHost], our_hosts: frozenset[str], names: Iterable[str]
) -> Reason:
    """Why no host for it comes. `names`: such as workers to come may have."""
    left = hosts_that_left(expressions, {host.name for host in hosts} | our_hosts, names)
    return because(Code.HOST_LEFT, hosts=left) if left else because(Code.FOREIGN_HOST, hosts=tuple(expressions))
