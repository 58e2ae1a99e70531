"""In which order demands are placed: those first that take the largest share of what one host has of any resource.

A demand's dominant share is the largest of its shares of a host's slots and consumables: one slot with half of a host's
memory is half a host. Amounts of different units can be compared only so. What takes large parts of hosts goes first,
because what takes small parts fits into the rest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.core.placement.kinds import Kind
from autoscaler.core.placement.needs import SLOTS, Need, Want, hardest_first, need_of
from autoscaler.core.readable.remembered import LastValue

Weights = Mapping[str, float]
"""By consumable: how many slots count as much as one unit of it, by what the largest hosts have of both."""
MOST_ORDERS = 16
"""How many orders of the same demands are remembered: types of one family have the same weights."""


class Orders:
    """The demands of one placement, in the order for each kind of host on which they are tried."""

    def __init__(self, demands: Sequence[Want]) -> None:
        self._by_hardness: list[tuple[int, Need]] = []
        for index in sorted(range(len(demands)), key=lambda i: hardest_first(demands[i][0])):
            demand, count = demands[index]
            need = need_of(demand)
            if need is not None and count > 0:
                self._by_hardness.append((index, need))
        self.consumables = sorted({name for _, need in self._by_hardness for name, _ in need.at_most})
        """All that any of them takes, besides slots."""
        self._known: dict[tuple[tuple[str, float], ...], Sequence[tuple[int, Need]]] = {}

    def by(self, weights: Weights) -> Sequence[tuple[int, Need]]:
        """Positions of the demands that can be placed at all, the hardest first."""
        if not weights:
            return self._by_hardness
        key = tuple(weights.items())
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_ORDERS:
                self._known.clear()
            known = self._known[key] = sorted(self._by_hardness, key=lambda pair: _rank(pair[1], weights))
        return known


_LAST = LastValue[Orders]()
"""The same demands are placed repeatedly, on one type of worker after the other."""


def orders_of(demands: Sequence[Want]) -> Orders:
    return _LAST.value_of(tuple(demands), lambda: Orders(demands))


def weights_on(consumables: Sequence[str], hosts: Sequence[Kind]) -> Weights:
    """The weights of these consumables; those that no host has are left out."""
    if not consumables:
        return {}
    slots = max((host.free_slots for host in hosts), default=0)
    most = {name: max((host.left_of(name) or 0 for host in hosts), default=0) for name in consumables}
    return {name: float(f"{slots / amount:.6g}") for name, amount in most.items() if amount > 0}


def _rank(need: Need, weights: Weights) -> tuple[int, bool, float]:
    """Demands that few hosts can take come before large ones. Equal ones keep their order."""
    return -len(need.properties), not need.exclusive, -dominant(need, weights)


def dominant(need: Need, weights: Weights) -> float:
    """The largest of its shares of a host, in slots."""
    return max(need.visit, *_weighed(need.at_most, weights), 0)


def _weighed(amounts: tuple[tuple[str, int], ...], weights: Weights) -> Iterator[float]:
    return (amount * weights.get(name, 0.0) for name, amount in amounts)


def _scarcest(need: Need, weights: Weights) -> tuple[str, int]:
    """The resource of a host of which one visit takes the largest share, and how much it takes."""
    found, most, share = SLOTS, need.visit, float(need.visit)
    for name, amount in need.required:
        weighed = amount * weights.get(name, 0.0)
        if weighed > share and name != SLOTS:
            found, most, share = name, amount, weighed
    return found, most


class OpenedHosts:
    """Hosts that got something in a placement, found by how much they have left: best fit.

    They are sorted by each resource that was the scarcest for some demand, so that hosts that have too little of it
    cost no time.
    """

    def __init__(self) -> None:
        self.kinds: dict[int, Kind] = {}
        self._sorted: dict[str, list[tuple[int, int]]] = {}
        self._next = 0

    def copy(self) -> OpenedHosts:
        copied = OpenedHosts()
        copied.kinds, copied._next = dict(self.kinds), self._next
        copied._sorted = {name: list(amounts) for name, amounts in self._sorted.items()}
        return copied

    def add(self, kind: Kind) -> None:
        number = self._next = self._next + 1
        self.kinds[number] = kind
        for name, amounts in self._sorted.items():
            if (left := _left(kind, name)) is not None:
                insort(amounts, (left, number))

    def remove(self, number: int) -> None:
        kind = self.kinds.pop(number)
        for name, amounts in self._sorted.items():
            if (left := _left(kind, name)) is not None:
                del amounts[bisect_left(amounts, (left, number))]

    def fitting(self, need: Need, weights: Weights) -> Iterator[tuple[int, Kind]]:
        """Those that have enough of the resource of which the need takes the largest share, the least left first. While
        this goes on, nothing may be added or removed.
        """
        name, amount = _scarcest(need, weights)
        amounts = self._sorted.get(name)
        if amounts is None:
            lefts = ((_left(kind, name), number) for number, kind in self.kinds.items())
            amounts = self._sorted[name] = sorted((left, number) for left, number in lefts if left is not None)
        for at in range(bisect_left(amounts, (amount, 0)), len(amounts)):
            number = amounts[at][1]
            yield number, self.kinds[number]


def _left(kind: Kind, name: str) -> int | None:
    return kind.free_slots if name == SLOTS else kind.left_of(name)
