"""Demand and hosts as the vectors that packing works with: slots, then consumables."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.packing.pieces import Piece, Vector
from autoscaler.core.placement.kinds import Kind
from autoscaler.core.placement.needs import SLOTS, Need


def is_divisible(need: Need) -> bool:
    """Whether its pieces are all alike and share nothing but their machines."""
    return not need.exclusive and not need.together and (need.visits == 1 or not (need.once or need.each))


def pieces_for(needs: Sequence[tuple[int, Need, int]], kinds: Sequence[Kind]) -> tuple[list[Piece], list[Vector]]:
    """The pieces that one of these kinds could take at all, and what each kind has. `needs`: position, need, tasks."""
    taken = {name for _, need, _ in needs for name, _ in _amounts(need)}
    names = sorted(taken - {SLOTS} | ({SLOTS} & {name for kind in kinds for name in kind.free}))
    most = {name: max((kind.left_of(name) or 0 for kind in kinds), default=0) for name in names}
    contents = [(kind.free_slots, *(_left(kind, name, most[name]) for name in names)) for kind in kinds]
    alike: dict[object, list[tuple[int, Need, int, Vector]]] = {}
    for at, need, tasks in needs:
        key = need.properties, need.exclusive, need.names, need.offered, need.pools, tuple(n for n, _ in need.required)
        alike.setdefault(key, []).append((at, need, tasks, _size(need, names)))
    found: list[Piece] = []
    for group in alike.values():
        smallest = [min(group, key=lambda each, r=r: (each[3][r], each[3]))[1] for r in range(len(names) + 1)]  # type: ignore[misc]
        takes = frozenset(n for n, kind in enumerate(kinds) if any(kind.room_for(need) > 0 for need in smallest))
        found += [Piece(at, size, takes, tasks, need.visits, need.apart) for at, need, tasks, size in group if takes]
    return found, contents


def _amounts(need: Need) -> tuple[tuple[str, int], ...]:
    return need.at_most if need.visits == 1 else (*need.required, *need.assumed)


def _size(need: Need, names: Sequence[str]) -> Vector:
    amounts = dict(_amounts(need)) | {name: amount for name, amount in need.assumed if name == SLOTS}
    return (need.visit, *(amounts.get(name, 0) for name in names))


def _left(kind: Kind, name: str, most: int) -> int:
    """How much of a consumable is there. Where none is offered, what is taken by default is not counted: plenty."""
    left = kind.left_of(name)
    return most if left is None else left
