"""What an execution host that a worker's own image made lacks of what such a worker is to have: the values of complexes
that its type or rules give it, and its group. What the image gave it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.capacity import offer_of
from autoscaler.core.cluster import Complex, ExecutionHost
from autoscaler.core.fleet import Worker
from autoscaler.core.grouping.names import COMPLEX
from autoscaler.core.policy import NodeArrayPolicy

Values = tuple[tuple[str, str], ...]
"""Of complexes, in Grid Engine's notation."""


def lacking(
    worker: Worker, host: ExecutionHost, array: NodeArrayPolicy, complexes: Mapping[str, Complex], *, tried: bool
) -> Values:
    """By name; its group as the complex `group_id`. `tried`: it was to get them before, so that of a complex of which
    its execd reports a value as well, only that may be shown now.
    """
    shown = host.consumables.keys() | host.fixed.keys() | (host.load.keys() if tried else frozenset())
    offered = offer_of(worker.type, array, complexes, worker.bucket).complex_values
    lacks = {name: value for name, value in offered if value and name not in shown}
    if worker.group_id and host.fixed.get(COMPLEX) != worker.group_id:
        lacks[COMPLEX] = worker.group_id
    return tuple(sorted(lacks.items()))
