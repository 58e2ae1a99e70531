"""Machines chosen by column generation: patterns, which are contents of one machine, and how many machines of each.

Balance alone prices resources, and does not see that jobs of 24 slots leave rest after rest on machines of 64. Here a
linear program prices each piece (`program`), and patterns that are worth more than their machine at these prices are
added until there are none (`valued`). Its answer in whole machines is taken, and what is left is filled in balance.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from autoscaler.core.packing.balanced import Balance
from autoscaler.core.packing.pieces import Filled, Machines, Piece, able_of, takes_of
from autoscaler.core.packing.program import Pattern, Program
from autoscaler.core.packing.resource_prices import resource_prices
from autoscaler.core.packing.valued import Valued
from autoscaler.core.readable.remembered import LastValue

ROUNDS = 12
"""How often patterns are added at most."""
REST = 2
"""How often what fills the rest is added to the patterns."""
PLENTY = 1_000_000
"""Of a kind that is not limited."""
LEAST_GAIN = 1e-3
"""Patterns that gain less, as a share of the price of their machine, are not added."""
MOST_ROWS, MOST_KINDS = 128, 64
"""With more pieces and limited kinds together, or more kinds that differ, the program would take too long."""
DEAR, MOST = 1.25, 0.9
"""Machines are dear that cost so many times what they are worth; and what share of the demand counts as most."""
AGAIN, LEAST_SPENT, DEARER = 4, 0.01, 1.0125
"""How often machines are chosen again; the least share of the price of a kind that stays; and how much dearer they may
become.
"""
ROUND_UP = 0.5, 1.0
"""From which fraction on a machine more is taken of a pattern: each is tried, and the cheapest answer counts."""
PENALTY = 200.0
"""What it costs to leave a piece out that fills a machine, in prices of the dearest machine; smaller ones cost less."""
SMALLEST = 0.01
PROMISING = 0.97
"""Kinds whose best content was worth less, as a share of their price, are asked again only after all others."""
HOPELESS = 0.9
"""Contents that are worth less, as a share of what their machine costs, are not improved."""
_BALANCED = Balance(), Balance(constrained_first=False)
"""Ways whose contents are the first patterns, and that fill what whole machines leave."""


_Able = Sequence[frozenset[int]]
"""Parallel to the pieces, the kinds that hold it."""
_LAST = LastValue[list[Filled]]()
"""Placement fills the machines of a set as the strategy did that chose it."""


def by_patterns(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> list[Filled]:
    """The cheapest machines, and what is on each. They are chosen again among the kinds on which most is spent, until
    that leads to the same: then they are filled in the same way later, when only these machines are known.
    """
    whole = _Rounded(pieces, kinds)
    found = bought = _cheapest(pieces, kinds)
    left, price = whole.rank(found)
    for _ in range(AGAIN):
        for least in (LEAST_SPENT * price, 0.0):
            of_these = _as_bought(pieces, kinds, _counts(bought, kinds, least))
            again = _cheapest(pieces, of_these)
            counts = _counts(again, kinds)
            if whole.rank(again)[0] <= left:
                break
        enough = all(counts[kind] <= machines.count for kind, machines in enumerate(kinds) if machines.scarce)
        if whole.rank(again)[0] > left or whole.rank(again)[1] > DEARER * price or not enough:
            break
        if _as_bought(pieces, kinds, counts) == of_these:
            return again
        bought = again
    return found


def on_present(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> list[Filled]:
    """What is on machines that are there anyway. They are filled as they would be if they were bought just now: where
    that takes no more of them than there are, it is what they were bought for.
    """
    if _could_hold_all(pieces, kinds):
        counts = [machines.count for machines in kinds]
        found = _cheapest(pieces, _as_bought(pieces, kinds, counts))
        if all(many <= count for many, count in zip(_counts(found, kinds), counts, strict=True)):
            return found
    return _chosen(pieces, [replace(machines, scarce=True) for machines in kinds], able_of(pieces, kinds), paid=True)


def _counts(found: Sequence[Filled], kinds: Sequence[Machines], least: float = 0.0) -> list[int]:
    """How many machines of each kind; 0 where less is spent on it, if there are enough others."""
    counts = [0] * len(kinds)
    for each in found:
        counts[each.kind] += each.machines
    return [
        count if machines.scarce or count * machines.price >= least else 0
        for count, machines in zip(counts, kinds, strict=True)
    ]


def _as_bought(pieces: Sequence[Piece], kinds: Sequence[Machines], counts: Sequence[int]) -> list[Machines]:
    """Kinds of which there are so many, as they must have been offered: any number of those that cost about what they
    are worth. Of cheaper ones there were no others.
    """
    cheap = _cheap(pieces, kinds, counts)
    return [
        replace(machines, count=count, scarce=True)
        if kind in cheap
        else replace(machines, count=PLENTY if count else 0, scarce=False)
        for kind, (machines, count) in enumerate(zip(kinds, counts, strict=True))
    ]


def _cheap(pieces: Sequence[Piece], kinds: Sequence[Machines], counts: Sequence[int]) -> set[int]:
    """The kinds beside which others would not have been bought: none, where none is dear at the prices of the others;
    else those that are worth much more than they cost, at the prices of the dearest that are needed for most.
    """
    free = {kind for kind, count in enumerate(counts) if count and not kinds[kind].price}
    priced = [kind for kind, count in enumerate(counts) if count and kind not in free]
    needed = _needed(pieces)

    def worths(*, limited: bool) -> list[float]:
        there = [(kinds[kind].price, kinds[kind].has, counts[kind] if limited else None) for kind in priced]
        prices = resource_prices(there, [MOST * each for each in needed] if limited else needed)
        return [sum(has * price for has, price in zip(kinds[kind].has, prices, strict=True)) for kind in priced]

    if all(kinds[kind].price <= DEAR * worth for kind, worth in zip(priced, worths(limited=False), strict=True)):
        return free
    worth_of = zip(priced, worths(limited=True), strict=True)
    return free | {kind for kind, worth in worth_of if worth > DEAR * kinds[kind].price}


def _cheapest(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> list[Filled]:
    """The cheapest machines of these kinds; never dearer than what balance alone finds, and no more is left out. The
    order of pieces and kinds has no effect.
    """
    of_pieces = sorted(range(len(pieces)), key=lambda at: (pieces[at].size, pieces[at].tasks, pieces[at].at))[::-1]
    able = able_of(pieces, kinds)
    limited = _limited(pieces, kinds, able)
    of_kinds = sorted(_used(kinds, able), key=lambda kind: (kinds[kind].has, kinds[kind].price, limited.get(kind, 0)))
    number = {kind: at for at, kind in enumerate(of_kinds)}
    sorted_pieces = tuple(
        replace(pieces[at], at=place, kinds=frozenset([number[kind] for kind in able[at] if kind in number]))
        for place, at in enumerate(of_pieces)
    )
    sorted_kinds = tuple(
        Machines(limited.get(kind, PLENTY), kinds[kind].has, kinds[kind].price, kind in limited) for kind in of_kinds
    )
    found = _LAST.value_of(
        (sorted_pieces, sorted_kinds),
        lambda: _chosen(sorted_pieces, sorted_kinds, [piece.kinds for piece in sorted_pieces]),
    )
    return [
        Filled(of_kinds[each.kind], each.machines, {of_pieces[at]: many for at, many in each.content.items()})
        for each in found
    ]


def _chosen(pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able, *, paid: bool = False) -> list[Filled]:
    """`paid`: the first answer that leaves nothing out is good enough."""
    if not _used(kinds, able):
        return []
    whole = _Rounded(pieces, kinds)
    balanced = [way(pieces, kinds, None, able) for way in _BALANCED[: 1 if paid else 2]]
    best = min(balanced, key=whole.rank)
    limits, prices = _limited(pieces, kinds, able), _Pricing(pieces, kinds, able)
    if len(pieces) + len(limits) > MOST_ROWS or len(prices.alike) > MOST_KINDS:
        return best
    if paid and (whole.rank(best)[0] == 0 or not _could_hold_all(pieces, kinds)):
        return best
    program = Program([piece.count for piece in pieces], limits, list(_penalties(pieces, kinds)))
    for pattern in _alone(pieces, kinds, able, limits):
        program.begin_with(pattern)
    for pattern in _first_patterns(pieces, kinds, able, balanced):
        program.add(pattern)
    if paid:
        slot = max((machines.price / machines.has[0] for machines in kinds if machines.has[0]), default=0.0) or 1.0
        for kind in limits:
            program.allow_more(kind, slot * kinds[kind].has[0])
    program.solve()
    for _ in range(ROUNDS):
        if paid and program.complete:
            found = next(_in_whole_machines(program, pieces, kinds, able))
            if whole.rank(found)[0] == 0:
                return found
        if not sum([program.add(pattern) for pattern in prices.gaining(program)]):
            break
        program.solve()
    for _ in range(REST):
        found = min(_in_whole_machines(program, pieces, kinds, able), key=whole.rank)
        if whole.rank(found) >= whole.rank(best):
            break
        best = found
        if not sum([program.add(Pattern(each.kind, each.content, kinds[each.kind].price)) for each in found]):
            break
        program.solve()
    return best


def _could_hold_all(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> bool:
    """Whether the machines have as much of each resource as all pieces need."""
    needed = _needed(pieces)
    return all(
        amount <= sum(machines.has[number] * machines.count for machines in kinds)
        for number, amount in enumerate(needed)
    )


def _needed(pieces: Sequence[Piece]) -> list[int]:
    """Of each resource, for all pieces together."""
    width = len(pieces[0].size) if pieces else 0
    return [sum(piece.size[number] * piece.count for piece in pieces) for number in range(width)]


def _limited(pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able) -> dict[int, int]:
    """The kinds of which there may be too few, with their number: they hold less than twice all that is needed."""
    needed = _needed(pieces)
    return {
        kind: kinds[kind].count
        for kind in _used(kinds, able)
        if kinds[kind].scarce
        or any(kinds[kind].count * has < 2 * amount for amount, has in zip(needed, kinds[kind].has, strict=True) if has)
    }


def _used(kinds: Sequence[Machines], able: _Able) -> list[int]:
    """The kinds that take some piece."""
    of_use = frozenset[int]().union(*able)
    return [kind for kind, machines in enumerate(kinds) if machines.count > 0 and kind in of_use]


def _penalties(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> Iterator[float]:
    most = max((machines.price for machines in kinds), default=0.0) or 1.0
    largest = [max(amounts) or 1 for amounts in zip(*(machines.has for machines in kinds), strict=True)]
    for piece in pieces:
        share = max(size / amount for size, amount in zip(piece.size, largest, strict=True))
        yield PENALTY * most * max(share, SMALLEST)


def _alone(
    pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able, without: Container[int] = ()
) -> Iterator[Pattern]:
    """For each piece alone that with the cheapest kind."""
    for at, (piece, mine) in enumerate(zip(pieces, able, strict=True)):
        alone = [(kind, _most(piece, kinds[kind])) for kind in mine if kinds[kind].count > 0 and kind not in without]
        if alone:
            kind, many = min(alone, key=lambda each: (kinds[each[0]].price / each[1], each))
            yield Pattern(kind, {at: many}, kinds[kind].price)


def _first_patterns(
    pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able, balanced: Sequence[Sequence[Filled]]
) -> Iterator[Pattern]:
    """For each piece alone that with the cheapest kind, and what machines hold that are filled in balance."""
    yield from _alone(pieces, kinds, able)
    for found in balanced:
        for each in found:
            yield Pattern(each.kind, each.content, kinds[each.kind].price)


def _most(piece: Piece, machines: Machines) -> int:
    return min(piece.most, *(has // size for size, has in zip(piece.size, machines.has, strict=True) if size))


class _Pricing:
    """Finds the contents that are worth more than their machine at the values of a program."""

    def __init__(self, pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able) -> None:
        self._kinds = kinds
        found: dict[object, tuple[list[int], Valued]] = {}
        for kind, fitting in takes_of(able, kinds).items():
            if fitting:
                key = kinds[kind].has, tuple(fitting)
                if key not in found:
                    found[key] = [], Valued(pieces, fitting, kinds[kind].has)
                found[key][0].append(kind)
        self.alike = list(found.values())
        """Kinds that have as much and take the same pieces, and what finds their contents."""
        self._unpromising: set[int] = set()

    def gaining(self, program: Program) -> list[Pattern]:
        """Patterns that make the answer of the program cheaper: of the promising kinds, or else of all others."""
        asked = [number for number in range(len(self.alike)) if number not in self._unpromising]
        found = [pattern for number in asked for pattern in self._gaining(number, program)]
        if not found:
            asked = sorted(self._unpromising)
            found = [pattern for number in asked for pattern in self._gaining(number, program)]
        return found

    def _gaining(self, number: int, program: Program) -> Iterator[Pattern]:
        kinds, valued = self.alike[number]
        values = program.values
        least = min([self._kinds[kind].price + program.rent(kind) for kind in kinds])
        content = valued.most(values, HOPELESS * least)
        worth = sum([values[at] * many for at, many in content.items()])
        self._unpromising.add(number)
        for kind in kinds:
            price = self._kinds[kind].price
            cost = price + program.rent(kind)
            if worth >= PROMISING * cost:
                self._unpromising.discard(number)
            if worth - cost > LEAST_GAIN * price:
                yield Pattern(kind, content, price)


def _in_whole_machines(
    program: Program, pieces: Sequence[Piece], kinds: Sequence[Machines], able: _Able
) -> Iterator[list[Filled]]:
    """The answer of a program in whole machines, rounded in several ways."""
    answer = sorted(program.answer(), key=lambda each: -(each[0] % 1.0))
    for least in ROUND_UP:
        rounded = _Rounded(pieces, kinds)
        for amount, pattern in answer:
            rounded.take(pattern, int(amount + 1e-6))
        for amount, pattern in answer:
            if amount + 1e-6 - int(amount + 1e-6) >= least:
                rounded.take(pattern, 1)
        yield [*rounded.found, *_BALANCED[0](pieces, rounded.kinds, rounded.left, able)]


class _Rounded:
    """What is left of pieces and machines while whole machines are taken."""

    def __init__(self, pieces: Sequence[Piece], kinds: Sequence[Machines]) -> None:
        self._pieces, self._kinds = pieces, kinds
        self.left = [piece.count for piece in pieces]
        """How many of each piece are on no machine."""
        self._room = [machines.count for machines in kinds]
        self.found: list[Filled] = []

    def take(self, pattern: Pattern, machines: int) -> None:
        """So many machines with this content, or as many as there are and as pieces fill."""
        machines = min(machines, self._room[pattern.kind], *(self.left[at] // n for at, n in pattern.content.items()))
        if machines > 0:
            self._room[pattern.kind] -= machines
            for at, many in pattern.content.items():
                self.left[at] -= many * machines
            self.found.append(Filled(pattern.kind, machines, pattern.content))

    @property
    def kinds(self) -> list[Machines]:
        return [replace(machines, count=room) for machines, room in zip(self._kinds, self._room, strict=True)]

    def rank(self, found: Sequence[Filled]) -> tuple[int, float]:
        """Slots that are left out, and the price."""
        slots = sum(piece.size[0] * piece.count for piece in self._pieces)
        for each in found:
            slots -= each.machines * sum(self._pieces[at].size[0] * many for at, many in each.content.items())
        return slots, sum(self._kinds[each.kind].price * each.machines for each in found)
