"""The last observation with its plan, for threads that answer questions."""

from __future__ import annotations

from autoscaler.engine.pass_listener import FailedPass, PassListener
from autoscaler.report.observed_plan import ObservedPlan


class LastDecision(PassListener):
    """One for the life of a loop. Any thread may read it: each attribute is replaced as a whole."""

    title = "keeping the last pass for answers"
    in_dry_run = True

    def __init__(self) -> None:
        self.seen: tuple[ObservedPlan, int] | None = None
        """With the pass's number; None: no pass has been made yet."""
        self.unobserved = ""
        """Why nothing was observed since; '' if the last pass observed."""

    def decided(self, seen: ObservedPlan) -> None:
        self.seen, self.unobserved = (seen, seen.plan.memory.passes), ""

    def failed(self, failure: FailedPass) -> None:
        self.unobserved = failure.words or self.unobserved
