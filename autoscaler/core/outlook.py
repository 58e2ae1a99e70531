"""How the counted demand fares with what is there, what is coming, and what could be let in again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model import Host, Wanted
from autoscaler.core.placement import Board, place
from autoscaler.core.reach import Reach
from autoscaler.core.supply import Supply
from autoscaler.core.verdicts import Fate


@dataclass(frozen=True, slots=True)
class Outlook:
    """How the counted demand fares with what is there, coming, and let in again."""

    fates: tuple[Fate, ...]
    """Parallel to the wanted demands."""
    again: frozenset[str]
    """Draining hosts that demand would use."""
    supply: tuple[Host, ...]
    """Everything that counts, hosts let in again included."""
    board: Board
    """That supply with all demand placed on it that fits."""

    def possible(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Each demand without the tasks that no allowed configuration could ever run: nobody is kept for those."""
        return [
            want if fate.refusal is None else replace(want, count=fate.now + fate.coming)
            for want, fate in zip(wanted, self.fates, strict=True)
        ]

    def lacking(self, wanted: Sequence[Wanted]) -> list[int]:
        """Tasks of each demand that something could be launched for."""
        return [
            0 if fate.refusal is not None else want.count - fate.now - fate.coming
            for want, fate in zip(wanted, self.fates, strict=True)
        ]


def foresee(wanted: Sequence[Wanted], supply: Supply, reach: Reach) -> Outlook:
    wants = [(want.demand, want.count) for want in wanted]
    hosts, again = supply.all, frozenset[str]()
    board = Board(hosts)
    found = board.place(wants)
    if supply.draining and not found.complete:
        # Let in again only those without which it would not fit as well: first in order, first used.
        hosts = (*hosts, *supply.draining)
        board = Board(hosts)
        found = board.place(wants)
        again = found.used & frozenset(host.name for host in supply.draining)
        hosts = tuple(host for host in hosts if host not in supply.draining or host.name in again)
    at_once = found.placed
    if len(hosts) > len(supply.there):
        at_once = place(wants, supply.there).placed
    fates = tuple(
        Fate(
            now=min(first, placed),
            coming=placed - min(first, placed),
            refusal=reach.refusal(want) if unmet and want.launches else None,
        )
        for want, first, placed, unmet in zip(wanted, at_once, found.placed, found.unmet, strict=True)
    )
    return Outlook(fates, again, hosts, board)
