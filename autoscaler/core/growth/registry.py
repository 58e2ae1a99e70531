"""Strategies by the name settings give them. A strategy is one function: (unmet demand, options smallest first) →
options, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from autoscaler.core.growth import cpu_capacity, naive_cpu_capacity
from autoscaler.core.growth.options import Option
from autoscaler.core.placement import Want
from autoscaler.core.policy import NodeArrayPolicy

Strategy = Callable[[Sequence[Want], Sequence[Option]], tuple[Option, ...]]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cpu-capacity": cpu_capacity.order,
        "naive-cpu-capacity": naive_cpu_capacity.order,
    }
)


def largest_first(unmet: Sequence[Want], options: Sequence[Option]) -> tuple[Option, ...]:
    """For arrays that are not hybrid: the given type, which is the largest allowed, and then ever smaller ones of its
    family.
    """
    del unmet
    return tuple(sorted(options, key=lambda option: -option.type.vcpus))


def as_named(unmet: Sequence[Want], options: Sequence[Option]) -> tuple[Option, ...]:
    """For arrays whose types a request named: in its order, which options have already."""
    del unmet
    return tuple(options)


def strategy_of(array: NodeArrayPolicy) -> Strategy:
    """The strategy of a node array. `default` is the seed's rule unless workers come in batches."""
    if array.machine_types:
        return as_named
    if not array.hybrid:
        return largest_first
    if array.strategy == "default":
        return naive_cpu_capacity.order if array.scale_up_batch <= 1 else cpu_capacity.order
    return STRATEGIES.get(array.strategy, cpu_capacity.order)
