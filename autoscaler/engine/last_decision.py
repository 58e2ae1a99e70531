"""The last observation with its plan, for threads that answer questions."""

from __future__ import annotations

from collections.abc import Callable

from autoscaler.engine.cell_lease import since_boot
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.report.observed_plan import ObservedPlan


class LastDecision(PassListener):
    """One for the life of a loop. Any thread may read it: each attribute is replaced as a whole."""

    title = "keeping the last pass for answers"
    in_dry_run = True

    def __init__(self, elapsed: Callable[[], float] = since_boot) -> None:
        self.seen: tuple[ObservedPlan, int] | None = None
        """With the pass's number; None: no pass has been made yet."""
        self.unobserved = ""
        """Why nothing was observed since; '' if the last pass observed."""
        self._elapsed = elapsed
        self._heard = elapsed()

    @property
    def quiet_s(self) -> float:
        """Seconds for which no pass has begun, decided, ended or failed; a clock that is set does not change them."""
        return self._elapsed() - self._heard

    def begins(self) -> None:
        self._heard = self._elapsed()

    def decided(self, seen: ObservedPlan) -> None:
        self._heard = self._elapsed()
        self.seen, self.unobserved = (seen, seen.plan.memory.passes), ""

    def passed(self, done: Pass) -> None:
        self._heard = self._elapsed()

    def failed(self, failure: FailedPass) -> None:
        self._heard = self._elapsed()
        self.unobserved = failure.words or self.unobserved
