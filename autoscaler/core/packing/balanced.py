"""Machines filled one after the other, so that slots and memory run out together.

Placement by hardness puts demand that takes much memory on the first machines until their memory is used up, and their
free slots are lost. Here each machine is filled with pieces that take most of what it has most left of. Amounts are
vectors: slots, then consumables. It is a rule of thumb: what comes of it is charged exactly afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.packing.pieces import Content, Filled, Machines, Piece, Vector, able_of, takes_of
from autoscaler.core.packing.resource_prices import resource_prices

SCARCE = 0.95
"""As `NEARLY`, for machines of which there are only so many: they are cheap, so they are filled before others."""
NEARLY = 0.995
"""Contents whose worth differs by less, as a share of what their machines are worth, count as equal."""
TINY = 1e-9
PROMISING = 0.97
"""Contents are improved by exchanges where all that a machine has is worth so much of its price."""
EXCHANGES, MOST_PIECES = 6, 40
"""Exchanges of one content; with more pieces they would take too long."""


class Filling:
    """Pieces while machines are filled with them."""

    def __init__(self, pieces: Sequence[Piece], left: Sequence[int] | None = None) -> None:
        self.pieces = pieces
        self.left = [piece.count for piece in pieces] if left is None else list(left)
        self._most = [piece.most for piece in pieces]
        self._known: dict[Hashable, tuple[int, Mapping[int, Sequence[int]]]] = {}
        """By kind: its queues, and how many pieces may be gone until they are made anew."""
        self._gone = 0

    def take(self, content: Content, machines: int) -> None:
        for at, many in content.items():
            self.left[at] -= many * machines
            self._gone += not self.left[at]

    def has(self, content: Content) -> bool:
        """Whether the pieces that are left still fill one machine in this way."""
        return all(self.left[at] >= many for at, many in content.items())

    def most_alike(self, content: Content) -> int:
        """How many machines the pieces that are left fill in this way."""
        return min(self.left[at] // many for at, many in content.items())

    def content(self, kind: int, has: Vector, first: int | None = None) -> dict[int, int]:
        """What to put on one machine of this kind that has so much left; empty: nothing fits. `first`: a piece that
        must be among it.
        """
        found: dict[int, int] = {}
        there, whole = list(has), [float(amount) or 1.0 for amount in has]
        queues = self._queues(kind, has)
        place = dict.fromkeys(sorted(queues), 0)
        if first is not None:
            found[first] = 1
            there = [amount - each for amount, each in zip(there, self.pieces[first].size, strict=True)]
        while place and there[0] > 0:
            scarcest, most, second = -1, -1.0, 0.0
            for number in place:
                share = there[number] / whole[number]
                if share > most:
                    scarcest, most, second = number, share, max(most, 0.0)
                elif share > second:
                    second = share
            at = self._next(queues[scarcest], place, scarcest, there, found)
            if at is None:
                del place[scarcest]
                continue
            size, taken = self.pieces[at].size, found.get(at, 0)
            many = min(self.left[at], self._most[at]) - taken
            for each, amount in zip(size, there, strict=True):
                if each and amount < each * many:
                    many = amount // each
            if many > 1 and len(place) > 1:
                many = max(1, min(many, int((most - second) * whole[scarcest] / size[scarcest])))
            found[at] = taken + many
            there = [amount - each * many for amount, each in zip(there, size, strict=True)]
        return found

    def improved(self, content: Content, kind: int, has: Vector, worths: Sequence[float], first: int | None) -> Content:
        """A content that is worth more by exchanges of one piece for others, or by more pieces. `first` stays in it."""
        others = [at for at, piece in enumerate(self.pieces) if self.left[at] and kind in piece.kinds]
        if len(others) > MOST_PIECES:
            return content
        found, there = dict(content), list(has)
        for at, many in content.items():
            there = self._with(there, at, -many)
        for _ in range(EXCHANGES):
            gain, out, at, many = max(
                (
                    each
                    for out in (None, *found)
                    if out is None or out != first or found[out] > 1
                    for each in self._exchanges(found, there, out, others, worths)
                ),
                default=(0.0, None, 0, 0),
                key=lambda each: each[0],
            )
            if gain <= TINY * sum(worths[piece] * count for piece, count in found.items()):
                break
            if out is not None:
                there = self._with(there, out, 1)
                found[out] -= 1
                if not found[out]:
                    del found[out]
            there = self._with(there, at, -many)
            found[at] = found.get(at, 0) + many
        return found

    def _exchanges(
        self,
        found: Content,
        there: Sequence[int],
        out: int | None,
        others: Sequence[int],
        worths: Sequence[float],
    ) -> Iterator[tuple[float, int | None, int, int]]:
        """What is gained if one piece goes out (None: none) and as many of another as fit come in: gain, the piece that
        goes, the one that comes, how many.
        """
        free = there if out is None else self._with(there, out, 1)
        lost = 0.0 if out is None else worths[out]
        for at in others:
            piece = self.pieces[at]
            many = min(self.left[at], self._most[at]) - found.get(at, 0)
            if at == out or many <= 0:
                continue
            for size, amount in zip(piece.size, free, strict=True):
                if size and amount // size < many:
                    many = amount // size
            if many > 0:
                yield worths[at] * many - lost, out, at, many

    def _with(self, there: Sequence[int], at: int, many: int) -> list[int]:
        """What is left if so many of a piece go out."""
        return [amount + each * many for amount, each in zip(there, self.pieces[at].size, strict=True)]

    def _next(
        self, queue: Sequence[int], place: dict[int, int], number: int, there: Sequence[int], found: Content
    ) -> int | None:
        """The first piece of this queue that still fits. What does not fit now never will on this machine."""
        for position in range(place[number], len(queue)):
            at = queue[position]
            piece, taken = self.pieces[at], found.get(at, 0)
            if self.left[at] > taken < self._most[at]:
                for size, amount in zip(piece.size, there, strict=True):
                    if size > amount:
                        break
                else:
                    place[number] = position
                    return at
        return None

    def _queues(self, kind: int, has: Vector) -> Mapping[int, Sequence[int]]:
        """Pieces by the resource of which they take most of this machine, the largest first."""
        key = kind, has
        known = self._known.get(key)
        if known is None or self._gone >= known[0]:
            whole = [float(amount) or 1.0 for amount in has]
            sized: dict[int, list[tuple[float, int, int]]] = {}
            there = 0
            for at, piece in enumerate(self.pieces):
                if self.left[at] and kind in piece.kinds:
                    shares = [size / amount for size, amount in zip(piece.size, whole, strict=True)]
                    most = max(shares)
                    if most <= 1.0:
                        sized.setdefault(shares.index(most), []).append((-most, piece.at, at))
                        there += 1
            queues = {number: [at for _, _, at in sorted(found)] for number, found in sized.items()}
            known = self._known[key] = self._gone + there // 4 + 1, queues
        return known[1]


@dataclass(frozen=True, slots=True)
class Balance:
    """A way to fill machines. All are rules of thumb, and each is the best one at times."""

    constrained_first: bool = True
    """Each machine holds the piece that fewest kinds could hold."""
    exchanges: bool = False
    """Contents are improved by exchanges of one piece for others."""

    def __call__(
        self,
        pieces: Sequence[Piece],
        kinds: Sequence[Machines],
        left: Sequence[int] | None = None,
        able: Sequence[frozenset[int]] | None = None,
    ) -> list[Filled]:
        """Machines filled one after the other, those first whose content uses most of what they are worth. `left`: how
        many there are of each piece, if not all. `able`: `able_of` them, where that is known.
        """
        filling = Filling(pieces, left)
        found: list[Filled] = []
        room = {
            kind: kinds[kind].count for kind in sorted(range(len(kinds)), key=lambda kind: _rank(kind, kinds[kind]))
        }
        room = {kind: count for kind, count in room.items() if count > 0}
        able = able_of(pieces, kinds) if able is None else able
        contents = _Contents(filling, kinds, able, self)
        while room and any(filling.left):
            more = _fill(filling, kinds, room, able, contents)
            if not more:
                break
            found += more
        return found


class _Contents:
    """What to put on machines: the same on kinds that have as much and take the same pieces, and as long as enough
    pieces are left.
    """

    def __init__(
        self, filling: Filling, kinds: Sequence[Machines], able: Sequence[frozenset[int]], way: Balance
    ) -> None:
        self._filling = filling
        self.kinds, self.way = kinds, way
        alike: dict[object, int] = {}
        self._alike = {
            kind: alike.setdefault((kinds[kind].has, tuple(taken)), kind)
            for kind, taken in takes_of(able, kinds).items()
        }
        """By kind, the first one that is alike."""
        self._found: dict[tuple[int, int | None, bool], Content] = {}

    def of(self, kind: int, first: int | None, each_worth: Sequence[float], worth: float) -> Content:
        """`first`: the piece that must be among it. `worth`: of all that a machine has."""
        has, price = self.kinds[kind].has, self.kinds[kind].price
        improved = self.way.exchanges and PROMISING * price <= worth
        kind = self._alike[kind]
        key = kind, first, improved
        content = self._found.get(key)
        if content is None or (content and not self._filling.has(content)):
            content = self._filling.content(kind, has, first)
            if content and improved:
                content = self._filling.improved(content, kind, has, each_worth, first)
            self._found[key] = content
        return content


def _fill(
    filling: Filling,
    kinds: Sequence[Machines],
    room: dict[int, int],
    able: Sequence[frozenset[int]],
    contents: _Contents,
) -> list[Filled]:
    """Machines at the resource prices of what is left, until one kind is used up."""
    worths = _worths(filling, kinds, room)
    worth_of = {kind: _worth(kinds[kind].has, worths) for kind in room}
    each_worth = [_worth(piece.size, worths) for piece in filling.pieces]
    there = {at: able[at] & room.keys() for at, left in enumerate(filling.left) if left}
    anchors = sorted(
        (at for at, each in there.items() if each),
        key=lambda at: (len(there[at]), -each_worth[at], filling.pieces[at].at),
    )
    found: list[Filled] = []
    for anchor in anchors:
        first = anchor if contents.way.constrained_first else None
        tried = [kind for kind in room if first is None or kind in there[anchor]]
        while filling.left[anchor]:
            chosen = _best(tried, contents, each_worth, worth_of, first)
            if chosen is None:
                break
            best, content = chosen
            machines = min(filling.most_alike(content), room[best])
            filling.take(content, machines)
            found.append(Filled(best, machines, content))
            room[best] -= machines
            if not room[best]:
                del room[best]
                return found
    return found


def _rank(kind: int, machines: Machines) -> tuple[bool, int, float, int]:
    """Of nearly equal contents those on scarce machines count first, then those on the smallest."""
    return not machines.scarce, machines.has[0], machines.price, kind


def _best(
    tried: Sequence[int],
    contents: _Contents,
    each_worth: Sequence[float],
    worth_of: Mapping[int, float],
    first: int | None,
) -> tuple[int, Content] | None:
    """The kind whose content is worth most, as a share of the machine, and this content; of nearly equal ones the first
    that is tried.
    """
    kinds = contents.kinds
    could = {kind: worth_of[kind] / max(kinds[kind].price, worth_of[kind], TINY) for kind in tried}
    most_possible = max(could.values(), default=0.0)
    most = 0.0
    found: list[tuple[float, int, Content]] = []
    for kind in tried:
        nearly = SCARCE if kinds[kind].scarce else NEARLY
        if could[kind] < most * nearly:
            continue
        content = contents.of(kind, first, each_worth, worth_of[kind])
        if not content:
            continue
        worth = sum([each_worth[at] * many for at, many in content.items()])
        value = worth / max(kinds[kind].price, worth_of[kind], TINY)
        most = max(most, value)
        # Those that could be worth more would be nearly equal.
        if value >= most_possible * nearly and all(
            other < most * (SCARCE if kinds[before].scarce else NEARLY) for other, before, _ in found
        ):
            return kind, content
        found.append((value, kind, content))
    for value, kind, content in found:
        if value >= most * (SCARCE if kinds[kind].scarce else NEARLY):
            return kind, content
    return None


def _worths(filling: Filling, kinds: Sequence[Machines], room: Mapping[int, int]) -> tuple[float, ...]:
    pieces, left = filling.pieces, filling.left
    demand = [0] * len(pieces[0].size)
    for at, piece in enumerate(pieces):
        if left[at] and not piece.kinds.isdisjoint(room):
            for number, size in enumerate(piece.size):
                demand[number] += size * left[at]
    return resource_prices(
        [(kinds[kind].price, kinds[kind].has, room[kind] if kinds[kind].scarce else None) for kind in room], demand
    )


def _worth(size: Sequence[float], worths: Sequence[float]) -> float:
    return sum(each * worth for each, worth in zip(size, worths, strict=True))
