"""What waiting tasks need, in the words of placement: slots, consumables and properties; no Grid Engine in it."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.cluster import JobRequest

Amounts = tuple[tuple[str, float], ...]
"""A vector of consumables: (name, amount), sorted by name. Memory in bytes. Of 0, a host must offer it."""


@dataclass(frozen=True, slots=True)
class Property:
    """Something a host must have: `host value` relop `value` (`arch == lx-amd64`, `mem_total >= 8G`)."""

    name: str
    relop: str
    """`==`, `!=`, `>=`, `<=`, `<`, `>` as Grid Engine compares *request* relop *offered*."""
    value: str
    pools: frozenset[str] = frozenset()
    """Pools that have it as asked: their hosts need not, but one that has a value of its own must have it so, too."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task of a counted category needs, in the words of placement."""

    pools: frozenset[str]
    """Pools of slots (a queue's) that may serve it."""
    slots: int = 1
    per_host: int | None = None
    """How its slots may spread: None any way over hosts; n exactly n on every host; equal to `slots`: one host."""
    per_slot: Amounts = ()
    per_job: Amounts = ()
    properties: tuple[Property, ...] = ()
    exclusive: bool = False
    assumed: Amounts = ()
    """Per slot, what it uses without having asked (a complex's default): binds only on hosts that offer it."""
    together: bool = False
    """All its slots on hosts of one group."""
    once_a_host: Amounts = ()
    """Once on every host that it uses, however many of its slots stand there."""
    names: frozenset[str] = frozenset()
    """FORCED complexes that it requests, whatever it asks of them."""

    @property
    def one_host(self) -> bool:
        return self.per_host == self.slots


@dataclass(frozen=True, slots=True)
class CategoryDemand:
    """A counted demand with how many tasks want it and since when the longest waiting one could run."""

    demand: Demand
    count: int
    oldest: float
    expired: bool
    asks: tuple[JobRequest, ...] = ()
    """The job categories it came from, for verdicts."""
    launches: tuple[str, ...] = ()
    """Autoscaled pools that may grow for it, in policy order. Empty: it keeps what can serve it, but nothing is
    launched.
    """
