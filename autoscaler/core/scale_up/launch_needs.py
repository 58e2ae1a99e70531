"""All that workers may be launched for in a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.reasons import Reason
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.targets import Holding, Need


@dataclass(frozen=True, slots=True)
class LaunchNeeds:
    """The demand, floors, nodes and requests that workers may be launched for."""

    wanted: Sequence[CategoryDemand]
    unmet: Sequence[int]
    """Parallel to `wanted`: tasks that fit nowhere."""
    placement: OpenPlacement
    """The supply with all demand placed on it that fits."""
    floors: Mapping[str, int]
    """By node array: workers missing to reach `min_workers`."""
    nodes: Sequence[CreatedNode] = ()
    """Created nodes without a worker, oldest first."""
    requests: Mapping[str, Need] = field(default_factory=dict)
    holding: Holding = field(default_factory=Holding)
    protection: Protection = field(default_factory=Protection)
    missing: Mapping[str, Reason] = field(default_factory=dict)
    """By queue that workers could not join: why nothing is launched for it, whatever asks for workers."""
    waiting_for_free: Mapping[int, Reason] = field(default_factory=dict)
    """By position of a demand of which all tasks wait for workers to be free, and count as met."""
    due: float | None = None
    """When that is to be judged again."""

    def has_shortfall(self, node_array: str) -> bool:
        """Whether request sets need more workers of it than they have."""
        need = self.requests.get(node_array)
        return need is not None and not need.met_by(self.holding.vcpus.get(node_array, ()))

    def short_of_floor(self, array: NodeArrayPolicy) -> int:
        """Missing workers for the floor; 0 if requests need workers, which are launched anyway and count for the floor,
        unless the provider offers no type for them.
        """
        launched_anyway = self.has_shortfall(array.name) and not array.unknown_types
        return 0 if launched_anyway else self.floors.get(array.name, 0)
