"""How often clouds took spot machines of a type in a zone, by those that were seen.

A type in a zone is one failure domain: its machines are taken together, and those of other zones are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autoscaler.core.model.fleet import BucketKey, Ending, PriceType
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.workers.worker_state import WorkerState

HOUR = 3600.0
MOST_HOURS = 1_000.0
"""Of machine time that counts of each type and zone: what was seen earlier counts less and less."""
UNSEEN = 24.0
"""Hours without an interruption that are taken for granted, so that one of the first machines proves little."""


def domain_of(bucket: BucketKey) -> str:
    """The failure domain of a machine."""
    return f"{bucket.instance_type} {bucket.zone}".rstrip()


def spot_seen(machines: Iterable[WorkerState], memory: Memory, now: float) -> Mapping[str, tuple[float, float]]:
    """`Memory.spot`, with the spot machines that this observation shows ended for the first time."""
    found: dict[str, tuple[float, float]] | None = None
    for each in machines:
        if each.worker.price_type is not PriceType.SPOT or not each.note.gone or each.before is None:
            continue
        if not each.before.gone:
            found = dict(memory.spot) if found is None else found
            domain = domain_of(each.worker.bucket)
            hours, taken = found.get(domain, (0.0, 0.0))
            hours, taken = hours + max(now - each.made_at, 0.0) / HOUR, taken + _was_taken(each)
            less = min(1.0, MOST_HOURS / hours) if hours else 1.0
            found[domain] = hours * less, taken * less
    return memory.spot if found is None else found


def _was_taken(worker: WorkerState) -> bool:
    return worker.worker.ending is Ending.INTERRUPTED or worker.note.disabling is Disabling.INTERRUPTED


def interruption_rates(
    machines: Iterable[WorkerState], seen: Mapping[str, tuple[float, float]], now: float
) -> Mapping[str, float]:
    """Interruptions an hour of one machine, by failure domain; 0 where it is missing."""
    living: dict[str, float] = {}
    for each in machines if seen else ():
        if each.worker.price_type is PriceType.SPOT and each.worker.exists:
            domain = domain_of(each.worker.bucket)
            living[domain] = living.get(domain, 0.0) + max(now - each.made_at, 0.0) / HOUR
    return {
        domain: taken / (hours + living.get(domain, 0.0) + UNSEEN) for domain, (hours, taken) in seen.items() if taken
    }
