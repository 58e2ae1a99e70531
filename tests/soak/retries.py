"""What rests must have failed: a person who wants failures tried again ends all that rests, and nothing rests anew
before it fails anew.
"""

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
    """Told of every answer that a launch got, of every machine that was ended, and of what a plan lets rest."""

    world: World
    breaks: Callable[[int, str], None]
    failed_at: dict[str, float] = field(default_factory=dict)
    """By instance type: when the cloud last had too few of it, or gave no answer; or one ended that never served."""

    def fails(self, types: Iterable[str]) -> None:
        self.failed_at |= dict.fromkeys(types, self.world.clock.now)

    def decides(self, rests: Iterable[Backoff]) -> None:
        """`rests`: what the plan lets rest."""
        retried_at = self.world.people.overrides.retried_at
        if retried_at is None:
            return
        for rest in rests:
            kind = rest.bucket.instance_type
            if self.failed_at.get(kind, 0.0) < retried_at:
                self.breaks(RULE, f"{kind} rests ({rest.kind}), and did not fail since a person wanted it tried again")
