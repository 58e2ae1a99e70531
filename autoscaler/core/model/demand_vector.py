"""The needs of waiting tasks in terms of placement: slots, consumables, properties; without Grid Engine's semantics."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.reasons import Reason

Amounts = tuple[tuple[str, float], ...]
"""A vector of consumables: (name, amount), sorted by name. Memory in bytes.

An amount of 0 still needs a host that has the consumable.
"""


ELSEWHERE = "*&!("
"""So begins the expression that keeps a demand from hosts on which the scheduler does not start it. It is no part of
what jobs ask for.
"""


@dataclass(frozen=True, slots=True)
class Property:
    """Something a host must have: `host value` relop `value` (`arch == lx-amd64`, `mem_total >= 8G`)."""

    name: str
    relop: str
    """`==`, `!=`, `>=`, `<=`, `<`, `>` as Grid Engine compares *request* relop *offered*."""
    value: str
    pools: frozenset[str] = frozenset()
    """Pools that have the requested value themselves. Their hosts need none, but a host's own value must match too."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task of a counted category needs, in terms of placement."""

    pools: frozenset[str]
    """Pools of slots (queues) that may serve it."""
    slots: int = 1
    per_host: int | None = None
    """How its slots may spread. None: in any way; n: exactly n on every host; equal to `slots`: one host."""
    per_slot: Amounts = ()
    per_job: Amounts = ()
    properties: tuple[Property, ...] = ()
    exclusive: bool = False
    assumed: Amounts = ()
    """Per slot, what it uses by default without a request (a complex's default): counts only on hosts that offer it."""
    together: bool = False
    """Whether all its slots must be on hosts of one group."""
    once_a_host: Amounts = ()
    """Once on every host that it uses, whatever the number of its slots there."""
    names: frozenset[str] = frozenset()
    """FORCED complexes that it requests, with whatever value."""

    @property
    def one_host(self) -> bool:
        return self.per_host == self.slots


@dataclass(frozen=True, slots=True)
class CategoryDemand:
    """A counted demand, the number of its tasks, and since when the longest waiting one could run."""

    demand: Demand
    count: int
    oldest: float
    expired: bool
    asks: tuple[JobRequest, ...] = ()
    """The requests of the job categories that it came from, for verdicts."""
    tasks: tuple[int, ...] = ()
    """Parallel to `asks`: how many tasks each has."""
    launches: tuple[str, ...] = ()
    """Autoscaled queues that may launch workers for it, in policy order, its master task's first. Empty: it keeps
    workers that can serve it, but launches none.
    """
    withheld: Reason | None = None
    """Why no queue launches for it."""
