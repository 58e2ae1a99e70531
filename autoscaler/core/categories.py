"""Job categories by key: all waiting tasks that ask for the same and whose owners have the same rights.

The key is made of the demand that placement knows, and of nothing that a pass, a restart or a version changes. Fields
with their default are left out, so that a new kind of request leaves the keys of others as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from functools import cached_property, lru_cache

from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.demand_vector import ELSEWHERE, CategoryDemand, Demand, Property
from autoscaler.core.model.fleet import Assignment
from autoscaler.core.owners import owner_of
from autoscaler.core.policy import OwnerKind
from autoscaler.core.readable.remembered import LastObjects


@lru_cache(maxsize=8_192)
def category_key(demand: Demand) -> str:
    """Sixteen hexadecimal digits. The queues that may serve it are part of it: owners with other rights have other
    keys.
    """
    if any(each.value.startswith(ELSEWHERE) for each in demand.properties):
        asked = tuple(each for each in demand.properties if not each.value.startswith(ELSEWHERE))
        demand = replace(demand, properties=asked)
    values = [
        (field.name, _plain(getattr(demand, field.name)))
        for field in sorted(fields(Demand), key=lambda field: field.name)
        if field.default is MISSING or getattr(demand, field.name) != field.default
    ]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """The same value in a form that prints alike in every process."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Property):
        return value.name, value.relop, value.value
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def assignment_of(demands: Sequence[CategoryDemand], tasks: Sequence[int]) -> Assignment:
    """`tasks` (parallel to the demands), by category."""
    return _ASSIGNMENTS.value_of((demands, tasks), lambda: _assignment_of(demands, tasks))


_ASSIGNMENTS = LastObjects[Assignment](2)


def _assignment_of(demands: Sequence[CategoryDemand], tasks: Sequence[int]) -> Assignment:
    served: dict[str, int] = {}
    for want, count in zip(demands, tasks, strict=True):
        if count:
            key = category_key(want.demand)
            served[key] = served.get(key, 0) + count
    return tuple(sorted(served.items()))


class Categories:
    """The demands of one pass by category. Keys are made on first use, because there may be 50,000 demands."""

    def __init__(self, demands: Sequence[CategoryDemand], kind: OwnerKind = OwnerKind.USER) -> None:
        self._demands = demands
        self._kind = kind

    @cached_property
    def _by_key(self) -> dict[str, list[CategoryDemand]]:
        found: dict[str, list[CategoryDemand]] = {}
        for want in self._demands:
            found.setdefault(category_key(want.demand), []).append(want)
        return found

    def waiting_since(self, key: str) -> float | None:
        """Since when its longest waiting task could run; None: none waits."""
        return min((want.oldest for want in self._by_key.get(key, ())), default=None)

    def owners(self, key: str) -> tuple[str, ...]:
        """The owners of its tasks, two at most."""
        return tuple(sorted(owners_of(self._by_key.get(key, ()), self._kind))[:2])

    def spreads(self, key: str) -> bool:
        """Whether one of its tasks may need several hosts."""
        return any(want.demand.slots > 1 and not want.demand.one_host for want in self._by_key.get(key, ()))

    def may_be(self, job: HostJob, key: str) -> bool:
        """Whether a running job may be of this category: it asked for the same resources as one that waits."""
        return any(ask.hard == job.hard for want in self._by_key.get(key, ()) for ask in want.asks)


def owners_of(demands: Sequence[CategoryDemand], kind: OwnerKind) -> frozenset[str]:
    return frozenset(owner_of(ask, kind) for want in demands for ask in want.asks if ask.owner)
