"""Strategies by their name in the settings, and the one of each node array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import COST, NodeArrayPolicy
from autoscaler.core.sizing import cpu_capacity, naive_cpu_capacity
from autoscaler.core.sizing.cheapest.cheapest import propose
from autoscaler.core.sizing.problem import ByType, Problem, Proposal, Settled, Strategy, settled

CPU_CAPACITY, NAIVE_CPU_CAPACITY = cpu_capacity.CpuCapacity(cpu_capacity.order), ByType(naive_cpu_capacity.order)
STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "cpu-capacity": CPU_CAPACITY,
        "naive-cpu-capacity": NAIVE_CPU_CAPACITY,
        COST: propose,
        "default": CPU_CAPACITY,  # if workers come in batches; `strategy_of` knows the other case
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
        return ByType(as_named)
    if not array.hybrid:
        return ByType(largest_first)
    if array.proposes is not None:
        return array.proposes
    if array.strategy == "default" and array.scale_up_batch <= 1:
        return NAIVE_CPU_CAPACITY
    return STRATEGIES[array.strategy]


def proposals_for(strategy: Strategy, problem: Problem) -> tuple[Proposal, ...]:
    """What a strategy proposes. What one that is not ours proposes is placed and capped anew."""
    proposals = tuple(strategy(problem))
    return proposals if isinstance(strategy, ByType | Settled) or strategy is propose else settled(problem, proposals)


def preferred(array: NodeArrayPolicy, problem: Problem) -> tuple[LaunchOffer, ...]:
    """All offers, in the order in which the array's strategy prefers them: for groups and requests, whose workers are
    of one type.
    """
    strategy = strategy_of(array)
    if isinstance(strategy, ByType):
        return tuple(strategy.order(problem.unmet, problem.placement, problem.offers))
    named = [proposal.parts[0].offer for proposal in proposals_for(strategy, problem)]
    first = [offer for at, offer in enumerate(named) if all(offer is not each for each in named[:at])]
    return (*first, *(offer for offer in problem.offers if all(offer is not each for each in first)))
