"""The settings that a trial changes one at a time, to see which of them matter on a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoscaler.commands.context import Invocation
from autoscaler.report.wording import duration

if TYPE_CHECKING:
    from autoscaler.settings.queue_settings import QueueSettings

FACTOR = 4
"""By which a duration is multiplied and divided."""
LARGE = 16
"""Cores to which a family without a cap is capped."""
LEAST = 15.0
"""Seconds that are tried in place of none."""


@dataclass(frozen=True, slots=True)
class VariedSetting:
    """One setting with another value. `now` and `tried` are for people."""

    setting: str
    now: str
    tried: str
    environ: dict[str, str]


def varied_settings(invocation: Invocation, name_of_queue: str) -> Iterator[VariedSetting]:
    """Of one queue of the settings."""
    suffix, queue = next(each for each in invocation.settings.queues.items() if each[1].queue == name_of_queue)
    for name, now, tried, value in _values(queue):
        setting = f"{name}_{suffix}" if suffix else name
        yield VariedSetting(setting, now, tried, {setting: value})


def _values(queue: QueueSettings) -> Iterator[tuple[str, str, str, str]]:
    """Setting, its value now, the one to try, and how a settings file writes that."""
    for workers in dict.fromkeys((queue.workers * 2, max(1, queue.workers // 2))):
        if workers != queue.workers:
            yield "CP_CAP_AUTOSCALE_WORKERS", f"{queue.workers}", f"{workers}", f"{workers}"
    for name, seconds in (
        ("CP_CAP_AUTOSCALE_IDLE_TIMEOUT", queue.idle_timeout),
        ("CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT", queue.scale_up_timeout),
    ):
        for tried in (seconds * FACTOR, seconds / FACTOR) if seconds else (LEAST, LEAST * FACTOR):
            yield name, duration(seconds), duration(tried), f"{tried:g}"
    batch = FACTOR if queue.scale_up_batch == 1 else 1
    yield "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE", f"{queue.scale_up_batch}", f"{batch}", f"{batch}"
    hybrid = "false" if queue.hybrid else "true"
    yield "CP_CAP_AUTOSCALE_HYBRID", f"{queue.hybrid}".lower(), hybrid, hybrid
    if queue.hybrid:
        cap = 0 if queue.hybrid_max_cores else LARGE
        yield "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE", f"{queue.hybrid_max_cores}", f"{cap}", f"{cap}"
        if queue.strategy != "cost":
            yield "CP_CAP_AUTOSCALE_SCALE_UP_STRATEGY", queue.strategy, "cost", "cost"
