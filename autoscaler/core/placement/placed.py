"""What came of placements, to be used again: equal demands on equal hosts get the same places.

A pass places the same demands on the same hosts several times, and the next pass does so once more unless jobs or hosts
have changed. Only contents are compared, never when or by whom something was placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.kinds import Kind, grouped
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.scarcity import OpenedHosts, Weights

Key = TypeVar("Key")
Value = TypeVar("Value")

FEW = 16
"""Demands × kinds of hosts up to which placing them again costs less than to look for what came of it."""
MOST_ABLE = 65_536
"""For how many needs a state remembers whether a task fits."""
MOST_STATES, MOST_RESULTS, MOST_GROWN = 12, 6, 24
"""How many supplies are remembered, and how many results and states with new hosts from one of them."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The result. `placed` and `unmet` are parallel to the demands, in tasks."""

    placed: tuple[int, ...]
    unmet: tuple[int, ...]
    used: frozenset[str]
    """Hosts that got something."""
    new_used: int = 0
    """How many of the new hosts got something."""

    @property
    def complete(self) -> bool:
        return not any(self.unmet)


class LastValues(Generic[Key, Value]):
    """Values of a pure function for its last few arguments, which are compared by their contents."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._known: tuple[tuple[Key, Value], ...] = ()
        """The one that was used last is the last. Replaced as a whole: another thread may plan at the same time."""

    def of(self, key: Key) -> Value | None:
        known = self._known
        for entry in reversed(known):
            if entry[0] == key:
                if entry is not known[-1]:
                    self._known = (*(other for other in known if other is not entry), entry)
                return entry[1]
        return None

    def keep(self, key: Key, value: Value) -> None:
        self._known = (*self._known[-self._most + 1 :], (key, value))


@dataclass(frozen=True, slots=True)
class State:
    """Hosts and what they have left, and what came of placing demands on them. Placements share it, so it is never
    changed, but for what is remembered.
    """

    fresh: dict[int, Kind]
    """Hosts that got nothing yet, by number, in the given order."""
    opened: OpenedHosts
    groups: dict[str, None]
    weights: Weights
    packed: bool = False
    """Whether some of the hosts are workers whose node array buys by packing (`Host.price`)."""
    placed: LastValues[tuple[Want, ...], tuple[Placement, State]] = field(default_factory=LastValues)
    """By demands: their places, and the state afterwards."""
    pieces: LastValues[tuple[Want, ...], tuple[int, ...]] = field(default_factory=LastValues)
    """By unmet demands: for how many of their pieces there is no room."""
    grown: LastValues[Kind, State] = field(default_factory=lambda: LastValues(MOST_GROWN))
    """By new hosts: the state with these."""
    able: dict[int, bool] = field(default_factory=dict)
    """By number of a need: whether one such task fits."""

    @property
    def size(self) -> int:
        """Kinds of hosts."""
        return len(self.fresh) + len(self.opened.kinds)

    def with_new(self, kind: Kind) -> State:
        """The same hosts, and these after all others."""
        known = self.grown.of(kind)
        if known is None:
            fresh = {**self.fresh, max(self.fresh, default=-1) + 1: kind}
            groups = {**self.groups, kind.group: None} if kind.group else self.groups
            known = State(fresh, self.opened, groups, self.weights, self.packed or kind.price is not None)
            self.grown.keep(kind, known)
        return known


_STATES = LastValues[tuple[Kind, ...], State](MOST_STATES)
_SUPPLIES = LastValues[tuple[Host, ...], State](MOST_STATES)


def state_of(hosts: Sequence[Host]) -> State:
    """Nothing is placed on these hosts yet."""
    given = tuple(hosts)
    last = _SUPPLIES.of(given)
    if last is not None:
        return last
    kinds = tuple(kind for kind in grouped(hosts) if not kind.full)
    known = _STATES.of(kinds)
    if known is None:
        groups = dict.fromkeys(kind.group for kind in kinds if kind.group)
        known = State(dict(enumerate(kinds)), OpenedHosts(), groups, {}, any(kind.price is not None for kind in kinds))
        _STATES.keep(kinds, known)
    _SUPPLIES.keep(given, known)
    return known
