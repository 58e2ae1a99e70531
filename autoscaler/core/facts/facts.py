"""Everything that a pass knows before it decides: who is there, what waits, what may be launched at all.

`facts_of` reads it off the snapshot, in an order in which each part rests on those before. Nothing is decided here but
what counts and what becomes of lost workers, on which the supply rests: the steps that decide take a `Facts` and
return values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.actions import Enable
from autoscaler.core.capacity.forecast import Forecast, make_forecast
from autoscaler.core.capacity.max_capacity import MaxCapacity
from autoscaler.core.capacity.placement_groups import group_ids
from autoscaler.core.capacity.reported_values import learn_reported
from autoscaler.core.capacity.supply import Supply, SupplyContext, supply_of, usage_of
from autoscaler.core.constraints.ruleset import NONE_KEPT
from autoscaler.core.demand.demand import PendingDemand, read_demand
from autoscaler.core.hosts.load_reports import expected_back, track_silence
from autoscaler.core.limits.backoff import backoffs_in_force, last_failures, stopped_arrays
from autoscaler.core.limits.budgets import no_launches, only_cheapest, over_budget
from autoscaler.core.limits.in_vain import InVain, in_vain
from autoscaler.core.limits.limits import Usage
from autoscaler.core.limits.unanswered_orders import taken, throttled
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import LaunchFailure
from autoscaler.core.model.memory import Backoff, CameUp, ReportedType
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.dispatches import before_dispatch
from autoscaler.core.policy import Policy
from autoscaler.core.recovery.recovery import Recovery, recover_workers
from autoscaler.core.recovery.recovery_context import RecoveryContext, recovery_context
from autoscaler.core.recovery.returning_jobs import returning_jobs
from autoscaler.core.replace.swap_context import boot_time, seen_boot_time
from autoscaler.core.scale_down.quarantine import Suspect, find_suspects
from autoscaler.core.scale_down.request_needs import (
    RequestNeeds,
    asking_to_stop,
    read_request_needs,
)
from autoscaler.core.scale_up.group_launches import Grouping, find_groups
from autoscaler.core.sizing.sizing import LaunchContext
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.alarms import Delayed, delayed
from autoscaler.core.workers.came_up import successes_of
from autoscaler.core.workers.closed_queues import Closed, closed_queues
from autoscaler.core.workers.failed_launches import newly_failed
from autoscaler.core.workers.observed import ObservedWorkers, observe_workers
from autoscaler.core.workers.step import PassContext, WorkerStep


@dataclass(frozen=True, slots=True)
class Facts:
    """What all steps of one pass rest on."""

    snapshot: Snapshot
    """With launches that failed late among its failures, and without those that its provider surely did not take."""
    pass_context: PassContext
    observed: ObservedWorkers
    failed: tuple[LaunchFailure, ...]
    """Launches that turned out to have failed in this pass: their machines ended before they joined."""
    closed: Closed
    delays: Delayed
    demand: PendingDemand
    recovery_context: RecoveryContext
    recovery: Recovery
    returning: tuple[CategoryDemand, ...]
    """What runs on workers that are lost or about to be taken, and will wait again."""
    silent: frozenset[str]
    """Hosts that are expected to report again."""
    came_up: tuple[CameUp, ...]
    reported: tuple[ReportedType, ...]
    backoffs: tuple[Backoff, ...]
    stopped: Mapping[str, str]
    launch_context: LaunchContext
    usage: Mapping[str, Usage]
    grouping: Grouping
    suspects: Mapping[str, Suspect]
    requests: RequestNeeds
    in_vain: InVain
    """Demand that fits on workers on which it never starts."""

    @property
    def policy(self) -> Policy:
        return self.snapshot.policy

    @property
    def blocked(self) -> Reason | None:
        """Why nothing may be launched at all: paused, braked, or the autoscaler gives all workers back, or the cell's
        budget is spent.
        """
        return self.pass_context.held_back or self.pass_context.stopping or self.budget_spent

    @property
    def budget_spent(self) -> Reason | None:
        return no_launches(self.policy, self.snapshot.spending)

    @property
    def given_up(self) -> frozenset[str]:
        """Ids of groups that can never be completed: their workers are no supply."""
        return frozenset(self.grouping.given_up)

    @property
    def replaced(self) -> frozenset[str]:
        """Ids of workers on their way out that their groups are whole without."""
        return frozenset(worker_id for group in self.grouping.groups for worker_id in group.replaced)

    def _enables(self, step: WorkerStep) -> bool:
        """Whether this step enables it, or an earlier one did a moment ago."""
        return isinstance(step.action, Enable) or self.pass_context.recent(step.note.enabled_at)

    def possible(self, forecast: Forecast) -> list[CategoryDemand]:
        """All demand that could be served, what will wait again included."""
        return [*forecast.possible(self.demand.wanted), *self.returning]

    def braked(self, brake: Reason) -> Facts:
        """The same with the circuit breaker on: it only holds back what workers do."""
        pass_context = replace(self.pass_context, held_back=brake)
        cluster, memory = self.snapshot.cluster, self.snapshot.memory
        recovery = recover_workers(self.observed, cluster, memory, pass_context, self.recovery_context)
        return replace(self, pass_context=pass_context, recovery=recovery)

    def forecast(self, making_room: frozenset[str]) -> tuple[Supply, Forecast]:
        """The supply without the workers that make room for a stronger one, and how demand fares with it."""
        cluster, observed, names = self.snapshot.cluster, self.observed, self.demand.names
        supply = supply_of(
            SupplyContext(
                observed,
                self.snapshot,
                self.pass_context,
                names,
                silent=self.silent,
                making_room=making_room,
                given_up=self.given_up,
                replaced=self.replaced,
                recovered=frozenset(step.worker.worker.id for step in self.recovery.steps if self._enables(step)),
                later=self.delays.hosts,
                boot_times={
                    array.name: seen
                    for array in self.policy.node_arrays
                    if (seen := seen_boot_time(array, observed)) is not None
                },
                reported=self.reported,
            )
        )
        most = MaxCapacity(self.policy, self.snapshot.fleet.buckets, supply.persistent_emptied, cluster.complexes)
        groups = {worker.name: worker.worker.group_id or "" for worker in observed.workers if worker.name}
        before = before_dispatch(cluster, self.demand.wanted, names, groups)
        draining = (worker for worker in observed.workers if worker.draining)
        in_vain = frozenset(each.name for each in draining if self.in_vain.disabled_while_they_waited(each))
        hopeful = self.in_vain.without(self.demand.wanted) if in_vain else ()
        return supply, make_forecast(self.demand.wanted, supply, most, before, hopeful, in_vain)


def facts_of(snapshot: Snapshot) -> Facts:
    """Read everything off the snapshot."""
    cluster, policy, now = snapshot.cluster, snapshot.policy, snapshot.now
    pass_context = pass_context_of(snapshot)
    # Who is who: machines matched with hosts, and what this observation adds to what we remember of them.
    observed = observe_workers(cluster, snapshot.fleet, snapshot.memory, policy, now)
    failed = tuple(newly_failed(observed.workers, now))
    snapshot = _with_late_failures(snapshot, failed)
    fleet, memory = snapshot.fleet, snapshot.memory
    # Queues that start nothing now: nothing is launched for them. And hosts that will start something, only not yet.
    boots = {array.name: boot_time(array, observed) for array in policy.node_arrays}
    closed = closed_queues(observed, cluster, policy, boots, now)
    # What waits, and what of it could run if a host were there.
    names = frozenset(worker.name for worker in observed.workers)
    spent = over_budget(policy, snapshot.spending)
    demand = read_demand(cluster, memory, policy, now, names, closed.reasons, spent)
    demand = demand if policy.queue_demand else demand.launching_nothing()
    # Workers that fell silent, are about to be taken, or are gone; and what of their work will wait again.
    after = recovery_context(observed, snapshot)
    returning = returning_jobs(observed, cluster, policy, after, now, closed.reasons) if policy.queue_demand else ()
    # What may be launched at all, and what counts against limits.
    came_up = successes_of(observed.workers, memory, policy, now)
    reported = learn_reported(
        observed.workers, memory.reported, cluster.complexes, now, snapshot.overrides.tried_again_at
    )
    launch_context = _launch_context(snapshot, came_up, reported)
    usage = usage_of(fleet, policy, observed, now)
    return Facts(
        snapshot=snapshot,
        pass_context=pass_context,
        observed=observed,
        failed=failed,
        closed=closed,
        delays=delayed(observed, closed, now),
        demand=demand.offering(want.demand for want in returning),
        recovery_context=after,
        recovery=recover_workers(observed, cluster, memory, pass_context, after),
        returning=tuple(returning),
        # Hosts that fell silent a moment ago, as all do when qmaster starts, count as there.
        silent=expected_back(track_silence(cluster, memory.hearing, now), cluster, now),
        came_up=came_up,
        reported=reported,
        backoffs=tuple(launch_context.backoffs),
        stopped=launch_context.stopped,
        launch_context=launch_context,
        usage=usage,
        # Groups of workers stand, come and go as a whole.
        grouping=find_groups(
            observed, fleet, group_ids(fleet, memory), snapshot.requests, pass_context, launch_context, usage
        ),
        suspects=find_suspects(observed, snapshot.evidence, memory.quarantines, policy, now),
        requests=read_request_needs(snapshot),
        in_vain=in_vain(snapshot, demand.wanted),
    )


def _with_late_failures(snapshot: Snapshot, failed: tuple[LaunchFailure, ...]) -> Snapshot:
    """Machines that were accepted and ended before they joined are launches that failed. What the provider did not take
    for too many calls was not made: it counts nowhere.
    """
    fleet = replace(snapshot.fleet, failures=(*snapshot.fleet.failures, *failed))
    return replace(
        snapshot, fleet=fleet, memory=replace(snapshot.memory, launches=taken(snapshot.memory.launches, fleet))
    )


def _launch_context(
    snapshot: Snapshot, came_up: tuple[CameUp, ...], reported: tuple[ReportedType, ...]
) -> LaunchContext:
    """What may be launched at all."""
    fleet, memory, policy, now = snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now
    return LaunchContext(
        policy,
        fleet.buckets,
        backoffs_in_force(memory, fleet.failures, policy, now, came_up),
        stopped_arrays(memory, fleet, policy, snapshot.overrides.resumed_at),
        memory.launches,
        snapshot.cluster.complexes,
        now,
        last_failures(fleet.orders, fleet.failures, memory.launches, now - policy.batch_delay),
        throttled=throttled(fleet, now),
        resumed_at=snapshot.overrides.resumed_at,
        reported=reported,
        only_cheapest=only_cheapest(policy, snapshot.spending),
    )


def pass_context_of(snapshot: Snapshot) -> PassContext:
    """What every step of a worker depends on besides the worker itself."""
    overrides, interval = snapshot.overrides, snapshot.cluster.schedule_interval
    paused = because(Code.PAUSED, by=overrides.paused_by) if overrides.paused else None
    return PassContext(
        now=snapshot.now,
        overrides=overrides,
        schedule_interval=interval,
        retry_after=max(interval, snapshot.policy.batch_delay),
        complexes=snapshot.cluster.complexes,
        held_back=snapshot.memory.brake or paused,
        keep_alive=snapshot.policy.rules.keep_alive if snapshot.policy.rules is not None else NONE_KEPT,
        asking=asking_to_stop(snapshot),
        refused_ends=MappingProxyType({each.worker_id: each for each in snapshot.fleet.refused_ends}),
        group_pes=snapshot.policy.group_pes,
    )
