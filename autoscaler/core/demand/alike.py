"""Which parts of a request make a difference: jobs whose requests differ in nothing else are judged once.

Workflow managers give every job a run time and a memory limit of its own. If these are limits of queues, all that
matters is which queues' limits they exceed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from autoscaler.core.model.cluster import Complex, Consumable, JobRequest, Queue, QuotaSet
from autoscaler.core.model.complexes import amount, by_any_name
from autoscaler.core.placement.queue_instances import is_forced

QUEUE_LIMITS = frozenset(
    f"{kind}_{what}" for kind in "sh" for what in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
)
"""If not consumable, these are limits that a queue sets, not properties of a host."""


class Alike:
    """Requests by what makes a difference, in one configuration."""

    def __init__(self, limits: Mapping[str, tuple[str, str, tuple[float, ...]]]) -> None:
        """`limits`: by a name or shortcut of a complex: its name, its type, and the limits of queues in ascending
        order.
        """
        self._limits = limits
        self._numbers: dict[tuple[object, ...], int] = {}

    def number(self, ask: JobRequest) -> int:
        """The same number for all requests that are alike."""
        request = (
            ask.slots_min,
            ask.slots_max,
            ask.pe,
            self._that_matter(ask.hard),
            ask.queues,
            ask.master_queues,
            ask.master_hard,
            ask.slave_hard,
            ask.ckpt,
        )
        return self._numbers.setdefault(request, len(self._numbers))

    def _that_matter(self, hard: Iterable[tuple[str, str]]) -> tuple[tuple[str, str | int], ...]:
        """The requests. A request that only queues limit stands as the number of queue limits that it exceeds, and is
        left out if it exceeds none.
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


def alike_in(
    complexes: Mapping[str, Complex],
    queues: Mapping[str, Queue],
    quotas: Iterable[QuotaSet] = (),
    besides: frozenset[str] = frozenset(),
) -> Alike:
    """`quotas`: resources that these limit are not limited by queues alone; neither are those `besides`."""
    by_quota = {name for quota in quotas if quota.enabled for rule in quota.rules for name in rule.limits}
    return Alike(
        {
            called: (entry.name, entry.type, _limits_of(entry, queues.values()))
            for called, entry in by_any_name(complexes).items()
            if entry.name in QUEUE_LIMITS - besides
            and entry.consumable is Consumable.NO
            and entry.relop != "EXCL"
            and not is_forced(entry)
            and by_quota.isdisjoint((entry.name, entry.shortcut))
        }
    )


def _limits_of(entry: Complex, queues: Iterable[Queue]) -> tuple[float, ...]:
    all_limits = (limits for queue in queues for limits in (queue.limits, *queue.limits_by_host.values()))
    values = {amount(limits[entry.name], entry.type) for limits in all_limits if entry.name in limits}
    return tuple(sorted(value for value in values if value is not None))
