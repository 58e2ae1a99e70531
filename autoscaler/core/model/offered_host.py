"""Free capacity at one place, in the words of placement; no Grid Engine in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.model.demand_vector import Amounts


@dataclass(frozen=True, slots=True)
class Host:
    """Free capacity at one place: a joined host, a booting worker, or one that could be ordered."""

    name: str
    slots: Mapping[str, int]
    """Free slots by pool."""
    free: Amounts = ()
    """Consumables left besides slots. A consumable named neither here nor in `own` is not offered (unless no host
    carries it and it is unlimited).
    """
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    empty: bool = True
    """Nothing runs there: what an exclusive demand needs."""
    group: str = ""
    """The group of hosts near each other that it is one of."""
    own: Mapping[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    """By pool: what is left of the consumables that the queue gives to its instance here. They limit its slots alone,
    besides what the host has.
    """
    forced: frozenset[str] = frozenset()
    """Complexes that whoever stands here must request (FORCED)."""

    def most_of(self, name: str) -> float:
        """How much of a consumable jobs can get here."""
        in_queues = [dict(values).get(name) for values in (self.own.get(pool, ()) for pool in self.slots)]
        amounts = dict(self.free)
        if None in in_queues:
            return amounts.get(name, 0)
        return min(sum(value or 0 for value in in_queues), amounts.get(name, float("inf"))) if in_queues else 0
