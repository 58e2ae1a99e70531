"""A rule that knows how long each task will run: what better estimates could save where no task waits for others.

It does not know what will be submitted, and tasks go where the scheduler puts them. No policy is bound by it: one that
lets tasks wait until they fill a worker together may be cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.model.fleet import Bucket
from autoscaler.simulation.rules import Room, Rule
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import SPREAD

Piece = tuple[float, int]
"""Seconds that a task will run, and its slots on one host."""


@dataclass
class Oracle(Rule):
    """Tasks that will find room on present workers before a new one could be there launch nothing. For all others the
    machines are bought of which most of the price is used: tasks that end at about the same time share one. A worker
    leaves as soon as it is idle.
    """

    idle_timeout: float = 0.0

    def launch(self, run: Simulation) -> None:
        pieces = sorted(self._without_room(run), reverse=True)
        while pieces:
            offer, taken = self._best(pieces)
            self.order(run, offer, 1)
            for piece in taken:
                pieces.remove(piece)

    def _without_room(self, run: Simulation) -> Iterator[Piece]:
        """What waits longer than a boot takes, with the largest pieces that one host holds."""
        room, largest = self._room_soon(run), max(offer.type.vcpus for offer in self.offers)
        for category in run.engine.pending():
            spreads = category.ask.pe == SPREAD
            for pending in category.jobs:
                for _ in range(pending.left):
                    left = 0 if room.takes(category.ask.slots_max, spreads=spreads) else category.ask.slots_max
                    while left > 0:
                        yield pending.job.seconds, min(left, largest)
                        left -= largest

    def _room_soon(self, run: Simulation) -> Room:
        """Free slots when a machine that is ordered now would be there, booting ones included."""
        soon = run.now + run.cloud.delays.boot + run.cloud.delays.join
        hosts = [host for host in run.engine.hosts.values() if not host.disabled]
        free = [
            host.free + sum(slots for task, slots in host.runs.items() if task.ends <= soon and task.lost_at is None)
            for host in hosts
        ]
        return Room([*free, *self.booting(run)])

    def _best(self, pieces: Sequence[Piece]) -> tuple[Bucket, list[Piece]]:
        """The offer of which most is used for its price while its longest task runs, with what it then takes. `pieces`:
        the longest first.
        """
        fitting = [offer for offer in self.offers if offer.type.vcpus >= pieces[0][1]] or list(self.offers)
        filled = [(offer, _taken(offer.type.vcpus, pieces)) for offer in fitting]
        return max(filled, key=lambda pair: _used(*pair))


def _taken(vcpus: int, pieces: Sequence[Piece]) -> list[Piece]:
    left, taken = vcpus, []
    for piece in pieces:
        if piece[1] <= left:
            taken.append(piece)
            left -= piece[1]
        if not left:
            break
    return taken or [pieces[0]]


def _used(offer: Bucket, taken: Sequence[Piece]) -> tuple[float, int]:
    """Core-seconds that are used for the price of an hour; of equal ones the smaller machine."""
    price = offer.price_per_hour or float("inf")
    return sum(seconds * slots for seconds, slots in taken) / (price * taken[0][0]), -offer.type.vcpus
