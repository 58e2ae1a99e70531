"""What the growth of a node array is kept to while weak workers make room there for a stronger one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.limits.limits import Usage
from autoscaler.core.model.memory import SwapNote
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Reason
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.sizing.sizing import ArrayLaunch, LaunchContext, Replacing, Shortfall, size_launch


@dataclass(frozen=True, slots=True)
class Replacement:
    """What growth of an array is kept to while a worker makes room there."""

    stuck: frozenset[int]
    """Positions among the wanted demands of those that it is for."""
    replacing: Replacing
    """What there is room for now; no option: nothing yet."""
    reserved: Usage
    """What limits are to hold for meanwhile, so that nothing else takes the room."""
    before: Usage
    """Of the array when this pass began; what other arrays launch in it counts in the total besides."""
    successor: Host
    count: int
    """What comes, and how many of it."""

    def size_launch(
        self,
        array: NodeArrayPolicy,
        shortfall: Shortfall,
        usage: Usage,
        launch_context: LaunchContext,
    ) -> ArrayLaunch:
        """Launch for the stuck demands alone once there is room for them; before, beside that room, for what those who
        come will not serve either.
        """
        unmet = shortfall.unmet
        stuck = replace(
            shortfall, unmet=[count if at in self.stuck else 0 for at, count in enumerate(unmet)], workers=0
        )
        if self.replacing.options:
            return size_launch(array, stuck, usage, launch_context, replacing=self.replacing)
        ahead = shortfall.placement.with_new(self.successor, self.count)
        ahead.place(stuck.demands)
        others = replace(shortfall, unmet=[0 if at in self.stuck else count for at, count in enumerate(unmet)])
        left = ahead.place(others.demands).unmet
        shortfall = replace(shortfall, unmet=left, workers=shortfall.workers - self.count)
        return size_launch(array, shortfall, self.reserved.since(self.before, usage), launch_context)


@dataclass(frozen=True, slots=True)
class SwapPlan:
    """What all node arrays swap in this pass."""

    notes: Mapping[str, SwapNote] = field(default_factory=dict)
    leaving: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: who begins to leave now."""
    called_off: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: who is enabled again."""
    replacements: Mapping[str, Replacement] = field(default_factory=dict)
    told: Mapping[str, Reason] = field(default_factory=dict)
    """By array: what makes room, or why nothing does."""
    hopeless: frozenset[int] = frozenset()
    """Positions among the wanted demands of those that workers who stay would only stand in the way of."""
    due: float | None = None
    """When time alone would change any of it."""
