"""For whose jobs nothing is launched now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.cost.spending import Whose
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Barred:
    """Users and projects that have spent their budgets, and owners who are slowed down, each with why."""

    over_budget: Mapping[tuple[Whose, str], Reason] = field(default_factory=lambda: MappingProxyType({}))
    slowed: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))

    def reason(self, ask: JobRequest, owner: str) -> Reason | None:
        """Why nothing is launched for jobs with this request; None: something may be. `owner`: as the setting says."""
        if not self.over_budget:
            return self.slowed.get(owner)
        whose = (Whose.USER, ask.owner), (Whose.PROJECT, ask.project or "")
        spent = (self.over_budget[each] for each in whose if each in self.over_budget)
        return next(spent, None) or self.slowed.get(owner)


NOBODY_BARRED = Barred()
