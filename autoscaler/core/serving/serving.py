"""Which workers in service stay and which leave: collects what demand, requests, groups and floors keep, for
`scale_down`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.facts.facts import Facts
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.needs import wants_of
from autoscaler.core.placement.placement import place
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.requests.targets import Holding, hold
from autoscaler.core.scale_down.floors import floors_of
from autoscaler.core.scale_down.group_verdicts import judge_groups
from autoscaler.core.scale_down.request_needs import coming_for_requests
from autoscaler.core.scale_down.scale_down import ServiceContext, needed_hosts, scale_down
from autoscaler.core.scale_down.surplus import SurplusContext, surplus_workers
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Serving:
    """A step for every worker in service, and the workers that requests and groups keep."""

    steps: list[WorkerStep]
    holding: Holding
    group_verdicts: Mapping[str, GroupVerdict]

    @property
    def leaving(self) -> frozenset[str]:
        """Ids of the workers with an action."""
        return frozenset(step.worker.worker.id for step in self.steps if step.action is not None)


def judge_serving(facts: Facts, supply: Supply, forecast: Forecast, swaps: SwapPlan | None = None) -> Serving:
    """One step for every worker in service. `swaps`: the workers that are replaced."""
    swaps = swaps or SwapPlan()
    observed, pass_context, requests = facts.observed, facts.pass_context, facts.requests
    policy, grouping = facts.policy, facts.grouping
    use_order = _use_order(facts, supply, forecast)
    demands = facts.possible(forecast)
    needed = _needed(facts, demands, use_order, swaps.unplaceable)
    used = use_order.used(demands) | needed if requests.needs or grouping.groups else frozenset[str]()
    queue_not_empty = _queue_not_empty(facts)
    group_verdicts = judge_groups(
        grouping.groups,
        used,
        grouping.targets,
        grouping.given_up,
        pass_context,
        queue_not_empty=queue_not_empty,
        policy=policy,
    )
    holding = _holding(facts, used, forecast.to_enable, {*swaps.leaving, *facts.quarantined})
    context = ServiceContext(
        pass_context,
        needed=needed,
        floors=floors_of(observed, policy, pass_context, swaps.leaving),
        queue_not_empty=queue_not_empty,
        under_way=Counter(
            [
                worker.array.name
                for worker in observed.tried
                if worker.array is not None
                if (worker.draining and not worker.note.seen_disabled) or pass_context.recent(worker.note.tried_at)
            ]
        ),
        swapped_out=swaps.leaving,
        suspects=facts.suspects,
        held={**holding.held, **requests.nodes},
        group_verdicts=group_verdicts,
    )
    steps = scale_down(observed, context)
    return Serving(steps, holding, group_verdicts)


@dataclass(frozen=True, slots=True)
class _UseOrder:
    """The supply in the order in which demand uses it."""

    first: Sequence[Host]
    dispensable: Sequence[tuple[WorkerState, Host]]
    """Workers that could leave."""
    last: Sequence[Host]
    """Hosts that are coming for requests, and hosts that start nothing yet: jobs start on a free one first."""

    def needed(self, demands: Sequence[CategoryDemand], unplaceable: frozenset[int]) -> frozenset[str]:
        """Names of the workers that could leave but are needed."""
        return needed_hosts(demands, self.first, self.dispensable, unplaceable, self.last)

    def used(self, demands: Sequence[CategoryDemand]) -> frozenset[str]:
        """Names of all hosts that demand uses."""
        hosts = [*self.first, *(host for _, host in self.dispensable), *self.last]
        return place(wants_of(demands), hosts).used


def _use_order(facts: Facts, supply: Supply, forecast: Forecast) -> _UseOrder:
    dispensable = {host.name for _, host in supply.dispensable}
    requested = coming_for_requests(facts.requests, facts.snapshot, facts.observed)
    others = [host for host in forecast.supply if host.name not in dispensable]
    first = [host for host in others if host.name not in requested and host.name not in supply.later]
    last = [host for host in supply.coming if host.name in requested]
    last += [host for host in others if host.name in supply.later]
    return _UseOrder(first, supply.dispensable, last)


def _needed(
    facts: Facts, demands: Sequence[CategoryDemand], use_order: _UseOrder, unplaceable: frozenset[int]
) -> frozenset[str]:
    """Names of the workers that waiting demand needs. Demand that no launch has helped keeps no worker that has been
    free for long.
    """
    needed, unhelped = use_order.needed(demands, unplaceable), facts.unhelped
    if not unhelped.failed:
        return needed
    long_free = {worker.name for worker in facts.observed.in_service if unhelped.free_for_long(worker)}
    if not needed & long_free:
        return needed
    return needed - (long_free - use_order.needed(unhelped.without(demands), unplaceable))


def _holding(facts: Facts, used: Set[str], to_enable: Set[str], going: Set[str]) -> Holding:
    """The workers that requests keep. `used`: names of the supply's hosts that demand uses; `to_enable` and `going`: as
    in `SurplusContext`.
    """
    requests, snapshot = facts.requests, facts.snapshot
    if not requests.needs:
        return Holding()
    surplus = SurplusContext(
        facts.observed,
        outstanding(snapshot.fleet, snapshot.policy, snapshot.now),
        frozenset(order.id for order in snapshot.fleet.orders if order.for_requests),
        facts.pass_context,
        requests.service,
        used if snapshot.policy.queue_demand else None,
        facts.silent,
        to_enable,
        going,
    )
    return hold(requests.needs, surplus_workers(surplus))


def _queue_not_empty(facts: Facts) -> Mapping[str, Reason]:
    """By queue: why `scale_down_timeout` keeps its workers."""
    since, now = facts.queues_empty_since, facts.pass_context.now
    timeouts = {queue.name: queue.scale_down_timeout for queue in facts.policy.queues}
    return {
        name: because(Code.QUEUE_NOT_EMPTY, limit_s=timeout)
        for name, timeout in timeouts.items()
        if timeout is not None and (since is None or now - since < timeout)
    }
