"""The content of one machine that is worth most, where each piece has a value. It is a rule of thumb, not a proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.core.packing.pieces import Content, Piece, Vector

EXCHANGES = 8
"""Exchanges of one content."""
OTHERS = 0.05
"""How much the other resources count where pieces are ordered by one of them."""


class Valued:
    """Contents of one machine. `fitting`: pieces that it takes."""

    def __init__(self, pieces: Sequence[Piece], fitting: Sequence[int], has: Vector) -> None:
        self._pieces, self._fitting, self._has = pieces, fitting, has
        self._needs = [
            [sum([size * weight for size, weight in zip(pieces[at].size, weights, strict=True)]) for at in fitting]
            for weights in _weights(has)
        ]
        """Parallel to the pieces, what one needs: of each resource, and of all together."""

    def most(self, values: Sequence[float], least: float = 0.0) -> Content:
        """The pieces are taken in the order of their value for what they need. The best of these contents is improved
        by exchanges of one piece for others. `least`: if it is worth less, it need not be improved.
        """
        pieces, fitting, has = self._pieces, self._fitting, self._has
        best: tuple[float, dict[int, int], list[int]] = 0.0, {}, list(has)
        tried: set[tuple[int, ...]] = set()
        mine = [values[at] for at in fitting]
        for needs in self._needs:
            each = [value / need for value, need in zip(mine, needs, strict=True)]
            order = tuple([fitting[at] for at in sorted(range(len(each)), key=each.__getitem__, reverse=True)])
            if order not in tried:
                tried.add(order)
                content, there = _taken(pieces, order, has)
                worth = sum([values[at] * many for at, many in content.items()])
                if worth > best[0]:
                    best = worth, content, there
        worth, content, there = best
        return content if worth < least else _exchanged(pieces, fitting, content, there, values, worth)


def _weights(has: Vector) -> Iterator[list[float]]:
    shares = [1.0 / amount if amount else 0.0 for amount in has]
    yield shares
    if len(has) > 1:
        for one in range(len(has)):
            yield [share if number == one else share * OTHERS for number, share in enumerate(shares)]


def _taken(pieces: Sequence[Piece], order: Sequence[int], has: Vector) -> tuple[dict[int, int], list[int]]:
    """As many of each as fit, in this order, and what is left."""
    content: dict[int, int] = {}
    there = list(has)
    for at in order:
        size = pieces[at].size
        if size[0] <= there[0] and (many := _room(size, there, pieces[at].most)):
            content[at] = many
            there = [amount - each * many for amount, each in zip(there, size, strict=True)]
    return content, there


def _room(size: Vector, there: Sequence[int], most: int) -> int:
    """How many pieces of this size fit, at most so many."""
    for each, amount in zip(size, there, strict=True):
        if each and amount < each * most:
            most = amount // each
    return most


def _exchanged(
    pieces: Sequence[Piece],
    fitting: Sequence[int],
    content: dict[int, int],
    there: list[int],
    values: Sequence[float],
    worth: float,
) -> Content:
    """The content after the exchanges that gain most."""
    others = [(at, pieces[at].size, pieces[at].most, values[at]) for at in fitting if values[at] > 0.0]
    for _ in range(EXCHANGES):
        most, change = worth * 1e-9, None
        for out in (None, *content):
            free, lost = there, 0.0
            if out is not None:
                free = [amount + size for amount, size in zip(there, pieces[out].size, strict=True)]
                lost = values[out]
            slots = free[0]
            for at, size, limit, value in others:
                many = slots // size[0]
                # Most are left alone here already, which takes half of the time.
                if not many or value * many - lost <= most or at == out:
                    continue
                many = min(many, limit - content.get(at, 0))
                for each, amount in zip(size, free, strict=True):
                    if each and amount < each * many:
                        many = amount // each
                if value * many - lost > most and many > 0:
                    most, change = value * many - lost, (out, at, many)
        if change is None:
            break
        out, at, many = change
        if out is not None:
            there = [amount + size for amount, size in zip(there, pieces[out].size, strict=True)]
            content[out] -= 1
            if not content[out]:
                del content[out]
        there = [amount - size * many for amount, size in zip(there, pieces[at].size, strict=True)]
        content[at] = content.get(at, 0) + many
    return content
