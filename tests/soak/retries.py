"""Backoffs: `retry` ends all backoffs, and a new one needs a new failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoscaler.core.model.memory import Backoff

if TYPE_CHECKING:
    from tests.soak.world import World

RULE = 11


@dataclass
class Retries:
    """Notified of every answer to a launch, of every terminated machine, and of the backoffs of every plan."""

    world: World
    breaks: Callable[[int, str], None]
    failed_at: dict[str, float] = field(default_factory=dict)
    """By instance type: when the cloud last had too few of it, or gave no answer; or one ended that never served."""

    def fails(self, types: Iterable[str]) -> None:
        self.failed_at |= dict.fromkeys(types, self.world.clock.now)

    def decides(self, backoffs: Iterable[Backoff]) -> None:
        """`backoffs`: those of the plan."""
        retried_at = self.world.people.overrides.retried_at
        if retried_at is None:
            return
        for backoff in backoffs:
            kind = backoff.bucket.instance_type
            if self.failed_at.get(kind, 0.0) < retried_at:
                self.breaks(RULE, f"{kind} backs off ({backoff.kind}), and did not fail since the retry command")
