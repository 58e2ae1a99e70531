"""All that one pass decided, before it becomes a plan."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.model.reasons import Reason
from autoscaler.core.scale_down.node_operations import NodeOperations
from autoscaler.core.scale_up.launches import Launches
from autoscaler.core.serving.host_order import HostOrders
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.unsatisfiable.deadlock import DeadlockVerdicts


@dataclass(frozen=True, slots=True)
class Decisions:
    """What each part of a pass decided."""

    circuit_breaker: Reason | None
    kills_stopped: Reason | None
    operations: NodeOperations
    """A step for every worker, with the operations that callers requested."""
    supply: Supply
    forecast: Forecast
    swaps: SwapPlan
    launches: Launches
    protection: Protection
    unsatisfiable: DeadlockVerdicts
    host_orders: HostOrders
