"""What a node array may launch during a swap."""

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
    """What an array may launch during a swap."""

    stuck: frozenset[int]
    """Positions of the wanted demands that the swap is for."""
    replacing: Replacing
    """The options for which there is room now; empty: none yet."""
    reserved: Usage
    """The usage that counts against limits in the meantime, so that nothing else takes the room."""
    before: Usage
    """The array's usage when this pass began; launches of other arrays in this pass count in the total on top."""
    successor: Host
    count: int
    """The stronger worker, and how many of it come."""

    def size_launch(
        self,
        array: NodeArrayPolicy,
        shortfall: Shortfall,
        usage: Usage,
        launch_context: LaunchContext,
    ) -> ArrayLaunch:
        """Once there is room, launch for the stuck demands only. Before that, keep the room, and launch for demand that
        the coming workers will not serve.
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
    """The swaps of all node arrays in this pass."""

    notes: Mapping[str, SwapNote] = field(default_factory=dict)
    leaving: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: the workers that begin to leave now."""
    cancelled: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: the workers that are enabled again."""
    replacements: Mapping[str, Replacement] = field(default_factory=dict)
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """By array: which swap goes on, or why there is none."""
    unplaceable: frozenset[int] = frozenset()
    """Positions of wanted demands that have no room beside the present workers: they keep no worker."""
    due: float | None = None
    """When time alone would change any of this."""
