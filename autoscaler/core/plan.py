"""`plan`: from a snapshot to the actions and their reasons.

Pure: equal snapshots give equal plans. `_decide` calls one decision after the other; two of
them are lists here: the steps of workers (`_steps`: why they stay, go on or leave) and the launches (`_launches`: why
workers come). Each takes values and returns values.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.facts.facts import Facts, facts_of, prepared
from autoscaler.core.joining.joining import join
from autoscaler.core.limits.circuit_breaker import too_many_kills, tripped
from autoscaler.core.limits.protected_mode import Protection, protect
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.decisions import Decisions
from autoscaler.core.outcome.outcome import outcome_of
from autoscaler.core.replace.swap import swap_workers, under_way
from autoscaler.core.scale_down.auto_stop import remember_stop_requests, stop_if_requested
from autoscaler.core.scale_down.leaving import leave_alone, leave_further
from autoscaler.core.scale_down.node_operations import carry_out
from autoscaler.core.scale_up.group_launches import launch_groups
from autoscaler.core.scale_up.launches import Launches, launch_all
from autoscaler.core.serving.contexts import launch_needs, swap_context
from autoscaler.core.serving.host_order import order_hosts
from autoscaler.core.serving.serving import Serving, judge_serving
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable.judgement import judge_unsatisfiable
from autoscaler.core.workers.group_verdict import group_verdict_of
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import WorkerState


def plan(snapshot: Snapshot) -> Plan:
    """The actions of this pass, their reasons, and the memory for the next one.

    If the pass would do more than the circuit breaker allows, it decides again on the same facts with the circuit
    breaker on, which then stays on. Deleting actions instead would leave their memory behind (docs/decisions/0049).
    """
    facts = facts_of(prepared(snapshot))
    snapshot = facts.snapshot
    circuit_breaker, kills_stopped = snapshot.memory.circuit_breaker, snapshot.memory.kills_stopped
    decided = _decide(facts, circuit_breaker, kills_stopped)
    if circuit_breaker is not None:
        return decided
    memory, limits, resumed_at = decided.memory, snapshot.policy.circuit_breaker, snapshot.overrides.resumed_at
    several = len(memory.owners) > 1
    circuit_breaker = tripped(
        limits,
        memory.removals,
        snapshot.now,
        resumed_at,
        kills=memory.kills,
        helped_no_job=memory.unhelpful,
        several_owners=several,
        known=len(memory.owners),
    )
    if several and kills_stopped is None:
        kills_stopped = too_many_kills(limits, memory.kills, snapshot.now, resumed_at, known=len(memory.owners))
    if (circuit_breaker, kills_stopped) == (None, snapshot.memory.kills_stopped):
        return decided
    return _decide(
        facts if circuit_breaker is None else facts.with_circuit_breaker(circuit_breaker),
        circuit_breaker,
        kills_stopped,
    )


def _decide(facts: Facts, circuit_breaker: Reason | None, kills_stopped: Reason | None) -> Plan:
    # If the limits are reached and waiting jobs need stronger workers, one replaces a weaker worker.
    swapped_out = under_way(facts.snapshot.memory.swaps)
    supply, forecast = facts.forecast(swapped_out)
    satisfiable = facts.without_unsatisfiable(forecast, swapped_out)
    if satisfiable is not facts:
        facts = satisfiable
        supply, forecast = facts.forecast(swapped_out)
    facts = facts.after(forecast)
    serving = judge_serving(facts, supply, forecast)
    swaps = swap_workers(
        swap_context(facts, supply, forecast, serving),
        facts.snapshot.memory.swaps,
        allowed=facts.policy.swap and not facts.budget_spent,
    )
    if swaps.cancelled or swaps.leaving:
        supply, forecast = facts.forecast(under_way(swaps.notes))
    # No worker is kept for jobs that only have room once it is gone.
    if swaps.cancelled or swaps.leaving or swaps.unplaceable:
        serving = judge_serving(facts, supply, forecast, swaps)
    # Machines that a person has disabled are restarted or reimaged as callers request.
    operations = carry_out(
        _steps(facts, forecast, serving, swaps),
        facts.snapshot.requests.operations,
        facts.snapshot.memory.closed_since,
        facts.pass_context,
    )
    launches, protection = _launches(facts, supply, forecast, serving, swaps)
    # Jobs that may be unsatisfiable: Grid Engine is asked, and only on proof they are deleted or held.
    unsatisfiable = judge_unsatisfiable(
        facts.snapshot,
        facts.observed,
        facts.demand,
        forecast.results,
        facts.blocked,
        no_more=kills_stopped,
        owners=facts.owners,
    )
    # Where work ends latest, jobs go first.
    host_orders = order_hosts(facts, operations.steps)
    decisions = Decisions(
        circuit_breaker,
        kills_stopped,
        operations,
        supply,
        forecast,
        swaps,
        launches,
        protection,
        unsatisfiable,
        host_orders,
    )
    return outcome_of(facts, decisions)


def _steps(facts: Facts, forecast: Forecast, serving: Serving, swaps: SwapPlan) -> Sequence[WorkerStep]:
    """One step for each worker: it stays, goes on, or leaves."""
    pass_context, observed = facts.pass_context, facts.observed
    needless = facts.needless(forecast)
    return remember_stop_requests(
        (
            # Workers on their way in go on even if paused, because they cost already; unless all are given back in the
            # end and no waiting job could use them first.
            *[_join(worker, facts, serving, needless) for worker in observed.coming],
            # Workers on their way out go on, unless demand needs them again: that is cheaper than a launch.
            *[_leave(worker, facts, forecast, serving, swaps) for worker in observed.leaving],
            # Workers in service leave for the first of `MOTIVES` that applies and that nothing overrules.
            *serving.steps,
            # Lost workers: disabled, terminated, removed, their jobs rescheduled.
            *facts.recovery.steps,
            # All others are only reported.
            *[leave_alone(worker, pass_context) for worker in observed.set_aside],
        ),
        facts.snapshot.requests.auto_stops,
        pass_context.now,
    )


def _join(worker: WorkerState, facts: Facts, serving: Serving, needless: Reason | None) -> WorkerStep:
    pass_context, array, requests = facts.pass_context, worker.array, facts.snapshot.requests
    closed_by_hand = array is not None and array.queue in facts.closed.by_hand
    step = join(
        worker,
        pass_context,
        group_verdict_of(worker, serving.group_verdicts),
        needless=needless,
        closed=facts.closed.reasons.get(array.queue) if array is not None and closed_by_hand else None,
        wanted=bool(requests.sets or requests.nodes) or (array is not None and bool(array.limits.min_workers)),
    )
    return stop_if_requested(step, pass_context.stop_requests)


def _leave(worker: WorkerState, facts: Facts, forecast: Forecast, serving: Serving, swaps: SwapPlan) -> WorkerStep:
    of_group = worker.worker.id in group_verdict_of(worker, serving.group_verdicts).returning
    needed_again = because(Code.NEEDED_AGAIN) if of_group or worker.name in forecast.to_enable else None
    needed = swaps.cancelled.get(worker.worker.id) or needed_again or serving.holding.to_enable.get(worker.worker.id)
    needed = None if worker.worker.id in facts.replaced else needed
    return stop_if_requested(leave_further(worker, facts.pass_context, needed=needed), facts.pass_context.stop_requests)


def _launches(
    facts: Facts, supply: Supply, forecast: Forecast, serving: Serving, swaps: SwapPlan
) -> tuple[Launches, Protection]:
    """Why workers come: launches cover only the demand that nothing else covers."""
    # If launches helped no job that they were for, whatever the cause, the next ones wait.
    usable = {host.name: host for host in supply.there}
    protection = protect(facts.snapshot, facts.observed, facts.pass_context, facts.demand.wanted, usable)
    needs = launch_needs(facts, supply, forecast, serving, protection)
    # For the queues' demand and floors first, then for created nodes, then for the shortfall of request sets.
    launches = launch_all(needs, facts.launch_context, facts.usage, swaps, facts.blocked)
    if facts.blocked is None:
        # Groups of workers are launched as a whole.
        groups = launch_groups(facts.grouping, serving.group_verdicts, needs, launches.launches)
        launches = launches.besides(groups.without(facts.closed.missing, facts.policy))
    return launches, protection
