"""What attaches to the loop: reports, records, measures and shows passes, and decides nothing.

A listener that raises does not stop the pass, nor the listeners after it. It is logged once and told in `status` until
it works again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autoscaler.core.actions import Launch, TellWaiting
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.engine.observe import Observation
from autoscaler.errors import LockHeld, StateNotKept, StateReplaced
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.store.database import Database
from autoscaler.store.journal import Outcome, Result

ENDS_THE_PASS = (LockHeld, StateReplaced, StateNotKept)
"""Errors of the state itself, which everything else of the pass has too."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass that could observe."""

    observation: Observation
    """As it was read. Its timings have no `act`."""
    plan: Plan
    snapshot: Snapshot
    """The observation's, as the plan read it: odd values are replaced."""
    observed: ObservedWorkers
    """Its workers."""
    outcomes: Sequence[Outcome] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of its parts: `read`, `parse`, `decide`, `act`."""
    poll: float = 0.0
    """The polling delay of the settings, in seconds."""
    next_in: float = 0.0
    """Seconds from this pass to the next if nothing wakes the loop and nothing is due."""
    ending: frozenset[str] = frozenset()
    """Ids of listed machines that the provider had been asked to end before this pass."""
    stopping: bool = False
    """Whether this is the last pass of the process, in which nothing was done."""

    @property
    def acted(self) -> bool:
        """Whether anything was done, or is under way. Refused actions do not count, since an early repeat would be
        refused again; nor do texts for people, since nothing follows from them.
        """
        return any(
            outcome.result in (Result.DONE, Result.UNDER_WAY) and not isinstance(outcome.action, TellWaiting)
            for outcome in self.outcomes
        )

    @property
    def ordered(self) -> bool:
        """Whether machines were ordered, or are being ordered."""
        return any(
            isinstance(outcome.action, Launch) and outcome.result in (Result.DONE, Result.UNDER_WAY)
            for outcome in self.outcomes
        )

    def did(self, kind: type) -> bool:
        """Whether an action of this class was carried out."""
        return any(isinstance(outcome.action, kind) and outcome.result is Result.DONE for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class FailedPass:
    """A pass that could not observe, or that an error ended."""

    error: Exception
    at: float
    words: str
    """What people are told; '' for a defect, whose traceback is logged."""


class PassListener:
    """The methods of a listener, in the order in which the loop calls them; each of them does nothing here.

    All run on the loop's thread: what takes long, or asks others, belongs on a thread of the listener's own.
    """

    __slots__ = ()

    title: ClassVar[str] = ""
    """What it does, for people who read that it failed; '': the name of its class."""
    in_dry_run: ClassVar[bool] = False
    """Whether it hears of the passes of a dry run, which carry out nothing and store nothing."""

    def begins(self) -> None:
        """Before each pass, whether it will observe or not."""

    def decided(self, seen: ObservedPlan) -> None:
        """After the plan and before its first action."""

    def passed(self, done: Pass) -> None:
        """After the actions. What it stores, it stores by itself."""

    def keep(self, done: Pass) -> None:
        """Within the one transaction that stores the pass, after what the loop itself keeps. What a listener wrote
        there before it raised is undone.
        """

    def failed(self, failure: FailedPass) -> None:
        """After a pass that could not observe, or that an error ended."""

    def released(self) -> None:
        """After the last pass, if a person's `stop` is carried out and all workers are given back. It may take as long
        as a call of the provider.
        """


@dataclass(slots=True)
class PassListeners:
    """The listeners of one loop, called in the order in which they were attached."""

    dry_run: bool = False
    _listeners: list[PassListener] = field(default_factory=list)
    _failing: dict[str, tuple[PassListener, str]] = field(default_factory=dict)
    """By method and listener, what it raised last."""

    def attach(self, listener: PassListener) -> None:
        """Call it from the next pass on; in a dry run only if it wants that."""
        if not self.dry_run or listener.in_dry_run:
            self._listeners.append(listener)

    @property
    def attached(self) -> tuple[PassListener, ...]:
        return tuple(self._listeners)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What an operator should know: each listener that raised when it was called last."""
        return tuple(dict.fromkeys(f"{title_of(one)} failed: {words}" for one, words in self._failing.values()))

    def begins(self) -> None:
        self._call("begins", lambda each: each.begins())

    def decided(self, seen: ObservedPlan) -> None:
        self._call("decided", lambda each: each.decided(seen))

    def passed(self, done: Pass) -> None:
        """Raises StateNotKept, LockHeld, StateReplaced."""
        self._call("passed", lambda each: each.passed(done))

    def keep(self, done: Pass, database: Database) -> None:
        """Raises StateNotKept, LockHeld, StateReplaced."""

        def kept(listener: PassListener) -> None:
            if type(listener).keep is not PassListener.keep:
                with database.part():
                    listener.keep(done)

        self._call("keep", kept)

    def failed(self, failure: FailedPass) -> None:
        """Raises nothing: that the state cannot be kept is what the failed pass itself may be about."""
        self._call("failed", lambda each: each.failed(failure), but=())

    def released(self) -> None:
        """Raises nothing: the last pass is over."""
        self._call("released", lambda each: each.released(), but=())

    def _call(
        self, method: str, call: Callable[[PassListener], None], but: tuple[type[Exception], ...] = ENDS_THE_PASS
    ) -> None:
        for number, listener in enumerate(self._listeners):
            key = f"{method} {number}"
            try:
                call(listener)
            except but:
                raise
            except Exception as error:  # noqa: BLE001 - what only shows or records a pass must not stop it
                self._note(key, listener, error)
            else:
                if key in self._failing:
                    del self._failing[key]
                    log.info("%s: as usual again", title_of(listener))

    def _note(self, key: str, listener: PassListener, error: Exception) -> None:
        words = f"{type(error).__name__}: {error}"
        before = self._failing.get(key)
        self._failing[key] = listener, words
        if before is None or before[1] != words:
            log.error("%s failed, and the pass goes on: %s", title_of(listener), words, exc_info=error)


def title_of(listener: PassListener) -> str:
    return listener.title or type(listener).__name__
