"""What a pass comes to: its actions in order, verdicts for every job category, worker and bucket, notes, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.facts.facts import Facts
from autoscaler.core.joining.node_operations import NodeOperations
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.limits.unanswered_orders import told_uncertain, unanswered
from autoscaler.core.model.actions import (
    Action,
)
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.due import next_due
from autoscaler.core.outcome.job_verdicts import job_verdicts
from autoscaler.core.outcome.next_memory import next_memory, with_unhelpful, with_unsatisfiable
from autoscaler.core.outcome.starving import starving
from autoscaler.core.policy import Policy
from autoscaler.core.recovery.recovery import Recovery, jobs_in_doubt
from autoscaler.core.requests.targets import unknown_arrays, unknown_types
from autoscaler.core.scale_down.auto_stop import answers
from autoscaler.core.scale_down.quarantine import quarantine_notes
from autoscaler.core.scale_up.launches import Launches
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.snapshot import Plan, WorkerVerdict
from autoscaler.core.unsatisfiable.deadlock import DeadlockVerdicts
from autoscaler.core.workers.failed_launches import told_with_failures
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import same_host


def outcome_of(
    facts: Facts,
    brake: Reason | None,
    operations: NodeOperations,
    supply: Supply,
    forecast: Forecast,
    swaps: SwapPlan,
    launches: Launches,
    protection: Protection,
    unsatisfiable: DeadlockVerdicts,
) -> Plan:
    """All that was decided, as one Plan. `operations`: a step for every worker, with what callers ask to be done."""
    steps = list(operations.steps)
    snapshot, observed, demand, policy, now = (
        facts.snapshot,
        facts.observed,
        facts.demand,
        facts.policy,
        facts.pass_context.now,
    )
    memory = next_memory(
        snapshot,
        observed,
        demand,
        steps,
        launches.launches,
        swaps.notes,
        facts.recovery,
        facts.backoffs,
        facts.stopped,
        brake,
    )
    memory = replace(
        memory, came_up=facts.came_up, reported=facts.reported, trials=protection.trials, protected=protection.arrays
    )
    memory = replace(memory, closed_since=operations.closed_since, unhelpful=with_unhelpful(snapshot, protection))
    memory = with_unsatisfiable(memory, unsatisfiable, snapshot)
    arrays = {worker.worker.id: worker.worker.node_array for worker in observed.machines}
    due = next_due(
        demand.wanted,
        memory.workers,
        arrays,
        memory.launches,
        snapshot,
        now,
        throttled=facts.launch_context.throttled,
        rate_limited=launches.rate_limited,
        retry_after=facts.pass_context.retry_after,
    )
    dues = (due, swaps.due, facts.recovery.due, unsatisfiable.due, facts.closed.due, protection.due, operations.due)
    uncertain = unanswered(snapshot.fleet.orders)
    told = told_with_failures(launches.told, snapshot.fleet.failures, facts.came_up, policy, now)
    return Plan(
        actions=_actions(steps, launches, facts.recovery, unsatisfiable),
        memory=memory,
        due=min((at for at in dues if at is not None), default=None),
        shapes=told_uncertain(
            job_verdicts(
                demand,
                forecast.results,
                policy,
                facts.delays.instead(told),
                unsatisfiable.told,
                now,
                later=facts.delays.said(supply.coming),
                held_back=launches.held_back,
                unhelped=protection.told_of(demand.wanted, policy),
                starving=cache(
                    lambda: starving(demand.wanted, forecast.results, observed, snapshot.cluster, demand.names)
                ),
            ),
            uncertain,
        ),
        workers=(*(step.verdict for step in steps), *_persistent(observed, policy)),
        buckets=launches.buckets,
        notes=(
            *_notes(facts, launches, protection),
            *uncertain,
            *quarantine_notes(observed, facts.suspects),
            *jobs_in_doubt(observed),
        ),
        waiting=demand.waiting,
        counted=sum(
            want.count if result.refusal is None else result.now + result.coming
            for want, result in zip(demand.wanted, forecast.results, strict=True)
        ),
        fitting=sum(result.now + result.coming for result in forecast.results),
        auto_stops=answers(steps, snapshot.requests.auto_stops),
        withheld=launches.withheld,
        failures=facts.failed,
        refused_operations=operations.refused,
    )


def _actions(
    steps: Sequence[WorkerStep], launches: Launches, recovery: Recovery, unsatisfiable: DeadlockVerdicts
) -> tuple[Action, ...]:
    actions: list[Action] = [step.action for step in steps if step.action is not None]
    actions += launches.launches
    actions += [recovery.release] if recovery.release is not None else []
    actions += unsatisfiable.actions
    return tuple(sorted(actions, key=lambda action: action.order))


def _persistent(observed: ObservedWorkers, policy: Policy) -> tuple[WorkerVerdict, ...]:
    """Hosts that are not ours are never touched."""
    return tuple(
        WorkerVerdict(
            host.name,
            None,
            "keep",
            because(Code.QMASTER_HOST if same_host(host.name, policy.master) else Code.PERSISTENT),
        )
        for host in observed.others
    )


def _notes(facts: Facts, launches: Launches, protection: Protection) -> tuple[Reason, ...]:
    snapshot = facts.snapshot
    first = [reason for reason in (facts.pass_context.held_back, facts.pass_context.stopping) if reason is not None]
    first += protection.notes()
    unknown = unknown_arrays(snapshot.requests, snapshot.policy)
    unknown += unknown_types(snapshot.requests, snapshot.policy)
    return (*first, *launches.notes, *unknown, *snapshot.cluster.set_aside)
