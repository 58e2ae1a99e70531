"""Limits of one queue against those of the whole cell: what several queues multiply, and what cannot all hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autoscaler.settings.table import Process, QueueSettings

_Read = Callable[[QueueSettings], float | None]
_CAPS: tuple[tuple[str, str, str, _Read], ...] = (
    ("CP_CAP_AUTOSCALE_WORKERS", "workers", "CP_CAP_AUTOSCALE_TOTAL_WORKERS", lambda queue: queue.workers),
    ("CP_CAP_AUTOSCALE_MAX_CORES", "cores", "CP_CAP_AUTOSCALE_TOTAL_CORES", lambda queue: queue.max_cores),
    (
        "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        "an hour",
        "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
        lambda queue: queue.max_price_per_hour,
    ),
)


def multiplied(process: Process, queues: Mapping[str, QueueSettings]) -> Iterator[str]:
    """Each limit that every queue has again, with what that comes to, where no limit of the cell is lower."""
    totals = (process.total_workers, process.total_cores, process.total_price_per_hour)
    for (env, unit, total_env, read), total in zip(_CAPS, totals, strict=True):
        each = {queue.queue: read(queue) for queue in queues.values()}
        set_ = [cap for cap in each.values() if cap is not None]
        if len(queues) < 2 or not set_:
            continue
        free = [name for name, cap in each.items() if cap is None]
        if total is not None and (free or total < sum(set_)):
            continue
        parts = ", ".join(f"{name} {cap:g}" for name, cap in each.items() if cap is not None)
        whole = f"together {sum(set_):g} {unit}" if not free else f"{', '.join(free)} without a limit"
        yield f"{env} applies to each queue separately: {parts}; {whole}. {total_env} limits the whole cell"


def contradictory(process: Process, queues: Mapping[str, QueueSettings]) -> Iterator[str]:
    """Floors that the limit of the whole cell does not leave room for."""
    floors = sum(queue.min_workers for queue in queues.values())
    if process.total_workers is not None and floors > process.total_workers:
        yield (
            f"CP_CAP_AUTOSCALE_MIN_WORKERS of all queues together ({floors}) "
            f"is above CP_CAP_AUTOSCALE_TOTAL_WORKERS ({process.total_workers})"
        )
