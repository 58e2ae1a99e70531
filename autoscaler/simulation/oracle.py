"""A rule that knows how long each task will run: what better estimates could save where no task waits for others.

It does not know what will be submitted, and tasks go where the scheduler puts them. No policy is bound by it: one that
lets tasks wait until they fill a worker together may be cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.model.fleet import Bucket
from autoscaler.simulation.hosts import SimulatedHost
from autoscaler.simulation.rules import (
    EXACT,
    Room,
    Rule,
    Size,
    Task,
    left_on,
    less,
    more,
    needs_in,
    open_hosts,
    task_of,
)
from autoscaler.simulation.run import Simulation


@dataclass(frozen=True, order=True, slots=True)
class Piece:
    """What of a task runs on one host."""

    seconds: float
    size: Size
    """Its slots, with the consumables of all of them."""


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
        """What waits longer than a boot takes, in the largest pieces that one host holds."""
        room = self._room_soon(run)
        for category in run.engine.pending():
            task = task_of(run, category)
            for pending in category.jobs:
                for _ in range(pending.left):
                    if not room.takes(task) and self.is_possible(task, run):
                        yield from self._pieces(task, pending.job.seconds)

    def _pieces(self, task: Task, seconds: float) -> Iterator[Piece]:
        largest, left = max(self.most_on(offer, task) for offer in self.offers), task.slots
        while left > 0:
            yield Piece(seconds, task.of(min(left, largest)))
            left -= largest

    def _room_soon(self, run: Simulation) -> Room:
        """What is left when a machine that is ordered now would be there, on booting ones, too."""
        soon = run.now + run.cloud.delays.boot + run.cloud.delays.join
        return Room([*(_left_at(soon, run, host) for host in open_hosts(run)), *self.booting(run)])

    def _best(self, pieces: Sequence[Piece]) -> tuple[Bucket, list[Piece]]:
        """The offer of which most is used for its price while its longest task runs, with what it then takes. `pieces`:
        the longest first.
        """
        fitting = [offer for offer in self.offers if self.holds(offer, pieces[0].size)]
        filled = [(offer, _taken(self.size_of(offer.type), pieces)) for offer in fitting]
        return max(filled, key=lambda pair: _used(*pair))


def _left_at(soon: float, run: Simulation, host: SimulatedHost) -> Size:
    """What no job has then."""
    left = left_on(run, host)
    for task, share in host.runs.items():
        if task.ends <= soon and task.lost_at is None:
            needs = needs_in(run, run.engine.needs_of(task.job))
            left = more(left, (share, *(each * share for each in needs)))
    return left


def _taken(size: Size, pieces: Sequence[Piece]) -> list[Piece]:
    taken: list[Piece] = []
    for piece in pieces:
        if all(have + EXACT >= each for have, each in zip(size, piece.size, strict=True)):
            taken.append(piece)
            size = less(size, piece.size)
        if not size[0]:
            break
    return taken


def _used(offer: Bucket, taken: Sequence[Piece]) -> tuple[float, int]:
    """Core-seconds that are used for the price of an hour; of equal ones the smaller machine."""
    price = offer.price_per_hour or float("inf")
    return sum(piece.seconds * piece.size[0] for piece in taken) / (price * taken[0].seconds), -offer.type.vcpus
