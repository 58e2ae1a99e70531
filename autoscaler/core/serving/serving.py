"""Which workers in service stay and which leave: collects what demand, requests, groups and floors keep, for
`scale_down`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.facts.facts import Facts
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.placement import place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.requests.targets import Holding, hold
from autoscaler.core.scale_down.empty_queues import queues_empty_since
from autoscaler.core.scale_down.floors import floors_of
from autoscaler.core.scale_down.group_verdicts import judge_groups
from autoscaler.core.scale_down.request_needs import coming_for_requests
from autoscaler.core.scale_down.scale_down import ServiceContext, needed_hosts, scale_down
from autoscaler.core.scale_down.surplus import SurplusContext, surplus_workers
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.step import WorkerStep


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
    snapshot, observed, pass_context, requests = facts.snapshot, facts.observed, facts.pass_context, facts.requests
    policy, grouping = facts.policy, facts.grouping
    dispensable = {host.name for _, host in supply.dispensable}
    called = coming_for_requests(requests, snapshot, observed)
    # Hosts that start nothing yet come last: jobs start on a free one first.
    rest = [host for host in forecast.supply if host.name not in dispensable]
    fixed = [host for host in rest if host.name not in called and host.name not in supply.later]
    last = [host for host in supply.coming if host.name in called]
    last += [host for host in rest if host.name in supply.later]
    demands = facts.possible(forecast)
    needed = needed_hosts(demands, fixed, supply.dispensable, swaps.unplaceable, last)
    long_free = {
        worker.name for worker in observed.workers if worker.in_service and facts.unhelped.free_for_long(worker)
    }
    if needed & long_free:
        other_demands = facts.unhelped.without(demands)
        needed -= long_free - needed_hosts(other_demands, fixed, supply.dispensable, swaps.unplaceable, last)
    used = frozenset[str]()
    if requests.needs or grouping.groups:
        wants = [(want.demand, want.count) for want in demands]
        used = place(wants, [*fixed, *(host for _, host in supply.dispensable), *last]).used | needed
    empty_queue_rule = _empty_queue_rule(facts)
    group_verdicts = judge_groups(
        grouping.groups,
        used,
        grouping.targets,
        grouping.given_up,
        pass_context,
        empty_queue_rule=empty_queue_rule,
        policy=policy,
    )
    going = {*swaps.leaving, *(worker_id for worker_id, suspect in facts.suspects.items() if suspect.acts)}
    holding = _holding(facts, used, forecast.to_enable, going)
    context = ServiceContext(
        pass_context,
        needed=needed,
        floors=floors_of(observed, policy, pass_context, swaps.leaving),
        empty_queue_rule=empty_queue_rule,
        under_way=Counter(
            worker.array.name
            for worker in observed.workers
            if worker.array is not None and worker.draining and not worker.note.seen_disabled
        ),
        swapped_out=swaps.leaving,
        suspects=facts.suspects,
        held={**holding.held, **requests.nodes},
        group_verdicts=group_verdicts,
    )
    steps = scale_down([worker for worker in observed.workers if worker.in_service], context)
    return Serving(steps, holding, group_verdicts)


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
        frozenset(order.id for order in snapshot.fleet.orders if order.asked),
        facts.pass_context,
        requests.service,
        used if snapshot.policy.queue_demand else None,
        facts.silent,
        to_enable,
        going,
    )
    return hold(requests.needs, surplus_workers(surplus))


def _empty_queue_rule(facts: Facts) -> Callable[[NodeArrayPolicy], Reason | None]:
    """A function that says why `scale_down_timeout` keeps an array's workers; None: it does not."""
    policy, now = facts.policy, facts.pass_context.now
    since = queues_empty_since(facts.observed, facts.demand, facts.snapshot.memory, policy, now)

    def empty_queue_rule(array: NodeArrayPolicy) -> Reason | None:
        queue = policy.queue(array.queue)
        timeout = queue.scale_down_timeout if queue else None
        if timeout is None or (since is not None and now - since >= timeout):
            return None
        return because(Code.QUEUE_NOT_EMPTY, limit_s=timeout)

    return empty_queue_rule
