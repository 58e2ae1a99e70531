"""When the next pass begins: the same rule for the loop of the service and for the simulation.

After a pass the loop waits for its poll, for what is due, for a worker on its way, or for a ring: an event of Grid
Engine, an answer of the provider, a person's command. Rings of one burst are gathered, and qmaster gets its pauses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.engine.arrivals import Arrivals

SOON = 1.0
"""Seconds from a pass that acted to the next: each step of a worker is small, and the next one may be due."""
GATHER = 0.2
"""Seconds that the loop waits after an event for others of the same burst."""
PERSONS_WAIT = 5.0
"""Seconds that the loop may put off an operator's command to leave qmaster alone."""


@dataclass(slots=True)
class Wait:
    """One wait between two passes, in seconds of one clock."""

    ends: float
    """When it ends if nothing rings."""
    earliest: float
    """A ring does not end it before."""
    earliest_for_person: float
    _gathered: float | None = None
    _person: bool = False

    def ring(self, now: float, *, person: bool = False) -> None:
        """Something may have changed; `person`: somebody gave a command."""
        self._person = self._person or person
        if self._gathered is None:
            self._gathered = now + GATHER

    @property
    def until(self) -> float:
        """When it ends, by all that has rung so far."""
        if self._gathered is None:
            return self.ends
        until = max(self._gathered, self.earliest)
        return min(until, max(self._gathered, self.earliest_for_person)) if self._person else until


@dataclass(slots=True)
class PassTiming:
    """One for the life of a process."""

    _arrivals: Arrivals = field(default_factory=Arrivals)
    _continues: bool = False
    """Whether the last pass took a step of a worker that is paid until the next one: it ordered machines, disabled or
    removed hosts, or waits for the observation that a removal needs.
    """

    def pause_after(
        self,
        workers: Iterable[WorkerVerdict],
        *,
        now: float,
        took: float,
        delay: float,
        due: float | None,
        acted: bool,
        continues: bool,
    ) -> float:
        """Seconds from the end of a pass of `took` seconds until the next, if nothing rings. `delay`: to the next poll;
        `due`: when time alone changes the decision; `continues`: the pass ordered machines, which no listing has shown
        yet, or disabled or removed hosts, whose machines are still to be terminated.
        """
        workers = tuple(workers)
        self._continues = continues or any(each.reason.code is Code.SECOND_OBSERVATION for each in workers)
        arriving = self._arrivals.next_observation(workers, now, took)
        looks = [delay, *([SOON] if acted else []), *([] if arriving is None else [arriving])]
        return min(looks) if due is None else min(*looks, max(GATHER, due - now))

    def wait(self, began: float, pause: float, *, at_least: float, alone: float = 0.0) -> Wait:
        """The wait that begins now. It is never shorter than the last pass took (`at_least`), so that a storm of events
        leaves this machine half of its time, nor shorter than the pause that qmaster needs (`alone`). For an operator's
        command, or a worker that was ordered, boots, joins or leaves empty, that pause is a few seconds at most.
        """
        if self._arrivals.expected or self._continues:
            alone = min(alone, PERSONS_WAIT)
        return Wait(
            began + max(pause, alone),
            began + max(at_least, alone),
            began + max(at_least, min(alone, PERSONS_WAIT)),
        )
