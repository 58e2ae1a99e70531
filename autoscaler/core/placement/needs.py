"""What tasks need of hosts, prepared for counting in exact integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

from autoscaler.core.model.complexes import TOO_MUCH
from autoscaler.core.model.demand_vector import Amounts, CategoryDemand, Demand, Property
from autoscaler.core.readable.remembered import LastObjects

SLOTS = "slots"
"""As a consumable of a host: a limit on its slots over all pools together."""
SCALE = 1_000_000
"""Fractions of a consumable are counted in millionths."""

Want = tuple[Demand, int]
"""A demand and its number of tasks."""


@dataclass(frozen=True, slots=True)
class Need:
    """A demand prepared for counting: the amounts of one visit to a host. A visit: the slots that must be together."""

    pools: tuple[str, ...]
    visit: int
    """Slots of one visit."""
    visits: int
    """Number of visits of a task; with `apart`, each to a different host."""
    apart: bool
    required: tuple[tuple[str, int], ...]
    assumed: tuple[tuple[str, int], ...]
    once: tuple[tuple[str, int], ...]
    """Once per task, on the host of its first visit, if a task makes several."""
    per_slot: tuple[tuple[str, int], ...]
    each: tuple[tuple[str, int], ...]
    """Once on every host of a task, if a visit is a single slot."""
    per_visit: tuple[tuple[str, int], ...]
    """Once per visit, from the host or queue instance that gives the slots."""
    per_slot_assumed: tuple[tuple[str, int], ...]
    """The same per slot, from a queue instance."""
    properties: tuple[Property, ...]
    exclusive: bool
    together: bool
    """All visits go to hosts of one group."""
    names: frozenset[str]
    """FORCED complexes that it requests."""
    offered: tuple[str, ...]
    """Consumables of which it requests 0: the host or the queue instance must still have a value of them."""
    at_most: tuple[tuple[str, int], ...]
    """All that a host could have to give at once, besides slots: for a visit, for the task, for each host."""
    number: int = field(default=0, compare=False)
    """Each need that is made has its own."""


_WANTS = LastObjects[tuple[Want, ...]](4)


def wants_of(demands: Sequence[CategoryDemand]) -> tuple[Want, ...]:
    """All tasks of these demands."""
    return _WANTS.value_of((demands,), lambda: tuple([(want.demand, want.count) for want in demands]))


def requested_amounts(demand: Demand) -> Amounts:
    """All requested consumables: per slot, per job and per host."""
    return (*demand.per_slot, *demand.per_job, *demand.once_a_host)


@lru_cache(maxsize=65536)
def hardest_first(demand: Demand) -> tuple[object, ...]:
    """Sorting key: demands with most properties first, then those that need most of one host, then of many; the rest
    makes the order fixed.
    """
    together = demand.per_host or 1
    memory = max((amount * together for _, amount in demand.per_slot), default=0)
    return (
        -len(demand.properties),
        not demand.exclusive,
        -together,
        -memory,
        -demand.slots,
        tuple(sorted(demand.pools)),
        demand.per_slot,
        demand.per_job,
        demand.once_a_host,
        demand.assumed,
        tuple((requested.name, requested.relop, requested.value) for requested in demand.properties),
        not demand.together,
        tuple(sorted(demand.names)),
    )


_NUMBERS = count(1)


@lru_cache(maxsize=65536)
def need_of(demand: Demand) -> Need | None:
    """None: no number of hosts could ever do, because the total is no multiple of the slots per host."""
    visit = demand.per_host or 1
    if demand.slots < 1 or demand.slots % visit:
        return None
    whole = demand.slots == visit
    required = {name: exact(amount) * visit for name, amount in demand.per_slot if amount > 0}
    once = {name: exact(amount) for name, amount in demand.per_job if amount > 0}
    each = {name: exact(amount) for name, amount in demand.once_a_host if amount > 0}
    per_visit = added(once if whole else {}, each if demand.per_host else {})
    required = added(required, per_visit)
    single = {name: exact(amount) for name, amount in demand.assumed if amount > 0}
    assumed = {SLOTS: SCALE * visit} | {name: amount * visit for name, amount in single.items()}
    return Need(
        pools=tuple(sorted(demand.pools)),
        visit=visit,
        visits=demand.slots // visit,
        apart=demand.per_host is not None,
        required=tuple(required.items()),
        assumed=tuple((name, amount) for name, amount in assumed.items() if name not in required),
        once=() if whole else tuple(once.items()),
        per_slot=tuple((name, exact(amount)) for name, amount in demand.per_slot if amount > 0),
        each=() if demand.per_host else tuple(each.items()),
        per_visit=tuple(per_visit.items()),
        per_slot_assumed=tuple((name, amount) for name, amount in single.items() if name not in required),
        properties=demand.properties,
        exclusive=demand.exclusive,
        together=demand.together,
        names=demand.names,
        at_most=tuple(_all_of(required, {} if whole else once, {} if demand.per_host else each, assumed).items()),
        offered=tuple(name for name, amount in requested_amounts(demand) if not amount),
        number=next(_NUMBERS),
    )


def _all_of(required: dict[str, int], *more: dict[str, int]) -> dict[str, int]:
    found = required
    for amounts in more:
        found = added(found, amounts)
    return {name: amount for name, amount in found.items() if name != SLOTS}


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{name: one.get(name, 0) + amount for name, amount in other.items()}}


def exact(amount: float) -> int:
    most = min(amount, TOO_MUCH)
    return most * SCALE if isinstance(most, int) else round(most * SCALE)
