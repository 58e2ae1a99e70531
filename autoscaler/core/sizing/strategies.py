"""Strategies by their name in the settings. A strategy is a function: (unmet demand, remaining supply, options smallest
first) → options, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.sizing import cpu_capacity, naive_cpu_capacity

Strategy = Callable[[Sequence[Want], OpenPlacement, Sequence[LaunchOffer]], tuple[LaunchOffer, ...]]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cpu-capacity": cpu_capacity.order,
        "naive-cpu-capacity": naive_cpu_capacity.order,
        "default": cpu_capacity.order,  # if workers come in batches; `strategy_of` knows the other case
    }
)


def largest_first(
    unmet: Sequence[Want], supply: OpenPlacement, options: Sequence[LaunchOffer]
) -> tuple[LaunchOffer, ...]:
    """For arrays that are not hybrid: the given type, which is the largest allowed, then smaller ones of its family."""
    del unmet, supply
    return tuple(sorted(options, key=lambda option: -option.type.vcpus))


def as_named(unmet: Sequence[Want], supply: OpenPlacement, options: Sequence[LaunchOffer]) -> tuple[LaunchOffer, ...]:
    """For arrays whose types a request named: the options are in its order already."""
    del unmet, supply
    return tuple(options)


def strategy_of(array: NodeArrayPolicy) -> Strategy:
    """The strategy of a node array. `default` is Cloud Pipeline's rule unless workers come in batches."""
    if array.machine_types:
        return as_named
    if not array.hybrid:
        return largest_first
    if array.strategy == "default" and array.scale_up_batch <= 1:
        return naive_cpu_capacity.order
    return STRATEGIES[array.strategy]
