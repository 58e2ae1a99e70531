"""What of a request makes a difference: jobs whose requests differ in nothing else are judged once.

Workflow managers give every job a run time and a memory limit of its own. Where these are limits of queues, all that
matters is which queues' limits they are beyond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from autoscaler.core.model.cluster import Complex, Consumable, JobRequest, Queue
from autoscaler.core.model.complexes import amount, by_any_name
from autoscaler.core.readable.by_identity import ByIdentity

QUEUE_LIMITS = frozenset(
    f"{kind}_{what}" for kind in "sh" for what in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
)
"""Where not consumable these are limits that a queue sets, not properties of a host."""

_Limits = tuple[tuple[str, str, str, tuple[float, ...]], ...]
"""A name or shortcut of a complex, its name, its type, and the values that queues limit it to, in their order."""


class Alike:
    """Requests by what makes a difference, in one configuration."""

    def __init__(self, limits: _Limits) -> None:
        self._limits = {called: (name, kind, values) for called, name, kind, values in limits}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known = ByIdentity[int]()

    def numbers(self, asks: Sequence[JobRequest]) -> list[int]:
        """A number for each; those that are asked alike have the same one in this call."""
        if len(self._numbers) > 2 * len(asks) + 1000:  # most of them are of jobs that ended
            self._numbers, self._known = {}, ByIdentity[int]()
        return self._known.each(asks, self._number)

    def _number(self, ask: JobRequest) -> int:
        asked = ask.slots_min, ask.slots_max, ask.pe, self._that_matter(ask.hard), ask.queues, ask.master_queues
        return self._numbers.setdefault(asked, len(self._numbers))

    def _that_matter(self, hard: Iterable[tuple[str, str]]) -> tuple[tuple[str, str | int], ...]:
        """The requests, with the number of queues' limits that it is beyond for one that can be read and is limited by
        queues alone; left out where it is beyond none.
        """
        found: list[tuple[str, str | int]] = []
        for name, text in hard:
            limited = self._limits.get(name)
            value = amount(text, limited[1]) if limited is not None else None
            if limited is None or value is None:
                found.append((name, text))
            elif beyond := bisect_left(limited[2], value):
                found.append((limited[0], beyond))
        return tuple(found)


def alike_in(complexes: Mapping[str, Complex], queues: Mapping[str, Queue]) -> Alike:
    """The same one as before where these complexes and limits are the same."""
    by_name = by_any_name(complexes)
    return _alike(
        tuple(
            (called, entry.name, entry.type, _limits_of(entry, queues.values()))
            for called, entry in sorted(by_name.items())
            if entry.name in QUEUE_LIMITS and entry.consumable is Consumable.NO and entry.relop != "EXCL"
        )
    )


@lru_cache(maxsize=4)
def _alike(limits: _Limits) -> Alike:
    return Alike(limits)


def _limits_of(entry: Complex, queues: Iterable[Queue]) -> tuple[float, ...]:
    values = {amount(queue.limits[entry.name], entry.type) for queue in queues if entry.name in queue.limits}
    return tuple(sorted(value for value in values if value is not None))
