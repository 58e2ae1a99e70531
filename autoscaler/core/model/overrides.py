"""Operator overrides: pause, keep, drain, stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides in force."""

    paused: bool = False
    paused_by: str = ""
    resumed_at: float | None = None
    """When a person last resumed: the circuit breaker counts from then on. `Memory.circuit_breaker` is
    empty then: the observer clears it.
    """
    retried_at: float | None = None
    """When a person last gave `retry`."""
    last_command: int = 0
    """The number of the last command in these. A command takes effect in the first plan that is made with it, whatever
    time it was given.
    """
    stopped_by: str = ""
    stop: str | None = None
    """`drain`: launch nothing more, and give each worker back when no job needs it. `now`: disable all workers, and
    give each back when it is empty.
    """
    keep: frozenset[str] = frozenset()
    """Hosts that are never to be removed."""
    drain: frozenset[str] = frozenset()
    """Hosts to be emptied and removed."""
    asked_by: Mapping[str, str] = field(default_factory=dict)
    """Who keeps or drains a host, by its name there."""

    @property
    def tried_again_at(self) -> float:
        """When a person last gave `resume` or `retry`, so that failed launches are tried again; 0: never."""
        return max(self.resumed_at or 0.0, self.retried_at or 0.0)
