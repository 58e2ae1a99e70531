"""Free capacity of one host, in terms of placement, without Grid Engine's semantics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.model.demand_vector import Amounts


@dataclass(frozen=True, slots=True)
class Host:
    """Free capacity of a joined host, a booting worker, or a worker that could be ordered."""

    name: str
    slots: Mapping[str, int]
    """Free slots by pool."""
    free: Amounts = ()
    """Consumables left besides slots. A consumable named neither here nor in `own` is not offered."""
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    empty: bool = True
    """Nothing runs there, as an exclusive demand needs."""
    group: str = ""
    """Its group of hosts near each other."""
    own: Mapping[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    """By pool: what is left of the consumables that the queue gives to its instance here. They limit this pool only, in
    addition to the host's own.
    """
    forced: frozenset[str] = frozenset()
    """Complexes that every job here must request (FORCED)."""
    price: float | None = None
    """An hour, of a worker of a node array that buys by packing: demand is placed on such workers as they were bought
    for it, where placing the hardest first leaves some.
    """

    def most_of(self, name: str) -> float:
        """How much of a consumable jobs can get on this host."""
        in_queues = [dict(values).get(name) for values in (self.own.get(pool, ()) for pool in self.slots)]
        amounts = dict(self.free)
        if None in in_queues:
            return amounts.get(name, 0)
        return min(sum(value or 0 for value in in_queues), amounts.get(name, float("inf"))) if in_queues else 0
