"""Terminate an orphan on a person's command, as carefully as any worker: the host is disabled, observed empty once
more, and removed from Grid Engine if Grid Engine allows it. Only then the machine is terminated. After a refusal
everything is as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.core.recovery.orphans import Orphan
from autoscaler.errors import GridEngineRefused
from autoscaler.providers.interface import Provider
from autoscaler.sge.admin import Administrator


@dataclass(frozen=True, slots=True)
class EndOrphanContext:
    """The values that `end_orphan` needs."""

    grid_engine: Administrator
    provider: Provider
    observe_again: Callable[[], Orphan | None]
    """Observes the same machine again, at least a scheduler interval later; None: it is an orphan no more."""


def end_orphan(orphan: Orphan, context: EndOrphanContext) -> None:
    """Remove its host, then terminate it. Raises GridEngineRefused if something runs on it, ProviderError if its
    provider does not end it.
    """
    if orphan.host is not None:
        _refuse_busy(orphan, orphan.host)
        _remove_host(orphan, orphan.host, context)
    context.provider.terminate([orphan.worker.id])


def _remove_host(orphan: Orphan, host: str, context: EndOrphanContext) -> None:
    context.grid_engine.disable(host)
    try:
        later = context.observe_again()
        if later is None or later.host != host:
            raise GridEngineRefused(
                f"{host} has changed since the last observation, so it is not terminated: try again"
            )
        _refuse_busy(later, host)
        removal = context.grid_engine.remove(host)
        if not removal.removed:
            raise GridEngineRefused(f"Grid Engine refuses to remove {host}: {'; '.join(removal.output)}")
    except BaseException:
        for queue in orphan.enabled:
            context.grid_engine.enable(host, queue)
        raise


def _refuse_busy(orphan: Orphan, host: str) -> None:
    if orphan.busy:
        raise GridEngineRefused(f"{host} runs jobs or has reserved slots, so {orphan.worker.id} is not terminated")
