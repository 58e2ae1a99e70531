"""Everything that a pass knows before it decides: workers, waiting jobs, and what may be launched at all.

`facts_of` reads it off the snapshot, each part from those before. Two decisions are made here because the supply
depends on them: which jobs count, and what happens to lost workers. The steps that decide the rest take a `Facts` and
return values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.actions import Enable
from autoscaler.core.capacity.alarms import Delayed, delayed
from autoscaler.core.capacity.closed_queues import Closed, closed_queues
from autoscaler.core.capacity.forecast import Forecast, make_forecast
from autoscaler.core.capacity.max_capacity import max_capacity
from autoscaler.core.capacity.placement_groups import group_ids
from autoscaler.core.capacity.reported_values import learn_reported
from autoscaler.core.capacity.supply import Supply, SupplyContext, supply_of, usage_of
from autoscaler.core.constraints.ruleset import NONE_KEPT
from autoscaler.core.demand.demand import PendingDemand, read_demand
from autoscaler.core.hosts.load_reports import expected_back, track_silence
from autoscaler.core.joining.seq_nos import seq_nos_of
from autoscaler.core.limits.backoff import (
    attributed,
    backoffs_in_force,
    last_failures,
    refused_buckets,
    stopped_arrays,
    without_retried_failures,
)
from autoscaler.core.limits.budgets import no_launches, only_cheapest, over_budget
from autoscaler.core.limits.circuit_breaker import slowed_owners
from autoscaler.core.limits.launched import settled
from autoscaler.core.limits.limits import HOUR, Usage
from autoscaler.core.limits.lost_state import wait_for_listings
from autoscaler.core.limits.spot_seen import interruption_rates, spot_seen
from autoscaler.core.limits.unanswered_orders import taken, throttled
from autoscaler.core.limits.unhelped_demand import UnhelpedDemand, unhelped_demand
from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import Cluster, JobRequest
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import LaunchFailure
from autoscaler.core.model.memory import CameUp, Memory, OwnerSeen, ReportedType
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import main_owner, seen_owners
from autoscaler.core.placement.constraint_effects import under_rules
from autoscaler.core.placement.dispatches import before_dispatch
from autoscaler.core.placement.queue_instances import with_queue_instances
from autoscaler.core.policy import OwnerKind, Policy
from autoscaler.core.readable.remembered import LastEqual, LastObjects
from autoscaler.core.readable.screening import readable
from autoscaler.core.recovery.recovery import Recovery, recover_workers
from autoscaler.core.recovery.recovery_context import RecoveryContext, recovery_context
from autoscaler.core.recovery.returning_jobs import returning_jobs
from autoscaler.core.replace.swap_context import boot_time, seen_boot_time
from autoscaler.core.rights.barred import Barred
from autoscaler.core.rights.host_quotas import with_host_limits
from autoscaler.core.scale_down.empty_queues import queues_empty_since
from autoscaler.core.scale_down.quarantine import Suspect, find_suspects
from autoscaler.core.scale_down.request_needs import (
    RequestNeeds,
    read_request_needs,
    stop_requests_of,
)
from autoscaler.core.scale_up.group_launches import Grouping, find_groups
from autoscaler.core.sizing.sizing import LaunchContext
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.came_up import successes_of
from autoscaler.core.workers.failed_launches import newly_failed
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import PassContext, WorkerStep
from autoscaler.core.workers.worker_observation import observe_workers


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that all steps of one pass use."""

    snapshot: Snapshot
    """The snapshot with late launch failures added, and without launches that the provider surely did not make."""
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
    """Jobs that run on workers that are lost or about to be taken, and will wait again."""
    silent_since: Mapping[str, float | None]
    """By name of each host that ever reported: None if it reports, else since when it has been silent."""
    silent: frozenset[str]
    """Hosts that are expected to report again."""
    came_up: tuple[CameUp, ...]
    spot: Mapping[str, tuple[float, float]]
    """What was seen of spot machines that ended."""
    reported: tuple[ReportedType, ...]
    launch_context: LaunchContext
    usage: Mapping[str, Usage]
    grouping: Grouping
    suspects: Mapping[str, Suspect]
    queues_empty_since: float | None
    """Since when no counted job waits and none runs in any autoscaled queue."""
    requests: RequestNeeds
    owners: tuple[OwnerSeen, ...]
    """The owners whose jobs were seen last."""
    unhelped: UnhelpedDemand
    """Demand that no launch has helped: it fits on workers and never starts there."""

    @property
    def policy(self) -> Policy:
        return self.snapshot.policy

    @property
    def blocked(self) -> Reason | None:
        """Why nothing may be launched at all: a pause, the circuit breaker, a `stop`, a spent budget of the cell, or a
        state that was lost a moment ago.
        """
        snapshot = self.snapshot
        lost = wait_for_listings(snapshot.memory, snapshot.fleet, snapshot.now)
        return self.pass_context.paused or self.pass_context.stopping or self.budget_spent or lost

    @property
    def budget_spent(self) -> Reason | None:
        return no_launches(self.policy, self.snapshot.spending)

    @property
    def given_up(self) -> frozenset[str]:
        """Ids of groups that can never be completed. Their workers are no supply."""
        return frozenset(self.grouping.given_up)

    @property
    def replaced(self) -> frozenset[str]:
        """Ids of workers on their way out without which their groups are whole."""
        return frozenset(worker_id for group in self.grouping.groups for worker_id in group.replaced)

    @property
    def quarantined(self) -> frozenset[str]:
        """Ids of the workers that are quarantined in this pass: no demand keeps them."""
        context = self.pass_context
        acting = {worker_id for worker_id, suspect in self.suspects.items() if suspect.acts and not context.paused}
        workers = self.observed.workers if acting else ()
        return frozenset(each.worker.id for each in workers if each.worker.id in acting and context.kept(each) is None)

    def _enables(self, step: WorkerStep) -> bool:
        """Whether this step enables its worker, or an earlier one did a moment ago."""
        return isinstance(step.action, Enable) or self.pass_context.recent(step.note.enabled_at)

    def possible(self, forecast: Forecast) -> tuple[CategoryDemand, ...]:
        """All demand that could be served, jobs that will wait again included."""
        possible = forecast.possible(self.demand.wanted)
        return (*possible, *self.returning) if self.returning else possible

    def needless(self, forecast: Forecast) -> Reason | None:
        """Why no further worker joins: all are given back in the end, and no waiting job could use one first."""
        if self.pass_context.winding_down is None or any(want.count for want in self.possible(forecast)):
            return None
        return self.pass_context.winding_down

    def with_circuit_breaker(self, circuit_breaker: Reason) -> Facts:
        """The same with the circuit breaker on. Of these facts only `pass_context` and `recovery` change; launches see
        it by `blocked`.
        """
        pass_context = replace(self.pass_context, paused=circuit_breaker)
        cluster, memory = self.snapshot.cluster, self.snapshot.memory
        recovery = recover_workers(self.observed, cluster, memory, pass_context, self.recovery_context)
        return replace(self, pass_context=pass_context, recovery=recovery)

    def after(self, forecast: Forecast) -> Facts:
        """The same, where jobs that nothing allowed can run expire no queue: their owner's jobs are no reason to launch
        for others sooner. Nor are they a reason to keep workers.
        """
        memory, now = self.snapshot.memory, self.snapshot.now
        possible = forecast.possible(self.demand.wanted)
        return changed(
            self,
            demand=self.demand.not_expired_by(forecast.refused, now, self.policy),
            queues_empty_since=queues_empty_since(self.observed, possible, memory, self.policy, now),
        )

    def without_unsatisfiable(self, forecast: Forecast, swapped_out: frozenset[str]) -> Facts:
        """The same, where jobs that nothing allowed can run use up no licence, slot of a PE or quota: such a job waits
        for ever, and kept those from workers that could run. Only if some job does not count because of these.
        """
        if not self.demand.limited or not any(forecast.refused):
            return self
        unlimited_facts = self._with_demand(None)
        _, unlimited = unlimited_facts.forecast(swapped_out)
        wanted = unlimited_facts.demand.wanted
        unsatisfiable = frozenset(
            ask
            for want, result in zip(wanted, unlimited.results, strict=True)
            if result.refusal is not None
            for ask in want.asks
        )
        return self._with_demand(unsatisfiable) if unsatisfiable else self

    def _with_demand(self, unsatisfiable: frozenset[JobRequest] | None) -> Facts:
        demand = _demand_of(self.snapshot, self.observed, self.closed, self.pass_context, unsatisfiable)
        return replace(
            self,
            demand=demand.offering(want.demand for want in self.returning),
            unhelped=unhelped_demand(self.snapshot, demand.wanted),
        )

    def forecast(self, swapped_out: frozenset[str]) -> tuple[Supply, Forecast]:
        """The supply without the workers that a stronger one replaces, and the forecast with it."""
        cluster, observed, names = self.snapshot.cluster, self.observed, self.demand.names
        supply = _SUPPLY.of(
            supply_of(
                SupplyContext(
                    observed,
                    self.snapshot,
                    self.pass_context,
                    names,
                    silent=self.silent,
                    leaving=swapped_out | self.quarantined,
                    given_up=self.given_up,
                    replaced=self.replaced,
                    recovered=frozenset(step.worker.worker.id for step in self.recovery.steps if self._enables(step)),
                    later=self.delays.hosts,
                    boot_times=self.launch_context.boots,
                    reported=self.reported,
                )
            )
        )
        most = max_capacity(self.policy, self.snapshot.fleet.buckets, supply.persistent_emptied, cluster.complexes)
        before = before_dispatch(cluster, self.demand.wanted, names, observed.groups)
        for_others = frozenset(
            each.name for each in observed.draining if self.unhelped.disabled_while_they_waited(each)
        )
        other_demands = self.unhelped.without(self.demand.wanted) if for_others else ()
        return supply, make_forecast(self.demand.wanted, supply, most, before, other_demands, for_others)


_SUPPLY = LastEqual[Supply]()


def prepared(snapshot: Snapshot) -> Snapshot:
    """The snapshot as a pass uses it: with values that it can read, without failures from before a `retry`, launches
    with what they brought, hosts as rules, the configuration of queues and quotas have them.
    """
    snapshot = readable(snapshot)  # first, since all else reads these values
    snapshot = settled(without_retried_failures(changed(snapshot, fleet=attributed(snapshot.fleet))))
    return with_host_limits(with_queue_instances(under_rules(snapshot)))


def facts_of(snapshot: Snapshot) -> Facts:
    """Read everything off the snapshot."""
    cluster, policy, now = snapshot.cluster, snapshot.policy, snapshot.now
    pass_context = pass_context_of(snapshot)
    # Machines matched with hosts, and the memory of each updated.
    observed = observe_workers(cluster, snapshot.fleet, snapshot.memory, policy, now)
    failed = tuple(newly_failed(observed.failed, now))
    snapshot = _with_late_failures(snapshot, failed)
    fleet, memory = snapshot.fleet, snapshot.memory
    # Queues that start nothing now, for which nothing is launched; and hosts that will start something, only not yet.
    boots = {array.name: boot_time(array, observed) for array in policy.node_arrays}
    closed = closed_queues(observed, cluster, policy, boots, now)
    # The waiting jobs, and which of them could run if a host were there.
    demand = _demand_of(snapshot, observed, closed, pass_context)
    # Workers that are silent, about to be taken, or gone; and which of their jobs will wait again.
    context = recovery_context(observed, snapshot)
    returning = returning_jobs(observed, cluster, policy, context, now, closed.reasons) if policy.queue_demand else ()
    # What may be launched at all, and what counts against limits.
    came_up = successes_of(observed, memory, policy, now)
    spot = spot_seen(observed.gone, memory, now)
    reported = learn_reported(
        observed.workers, memory.reported, cluster.complexes, now, snapshot.overrides.tried_again_at
    )
    owners = seen_owners(_owners_here(cluster, demand, policy.owner), memory.owners, now)
    launch_context = _launch_context(snapshot, came_up, reported, len(owners), observed, spot)
    usage = usage_of(fleet, policy, observed, now)
    silent_since = track_silence(cluster, memory.silent_since, now)
    return Facts(
        snapshot=snapshot,
        pass_context=pass_context,
        observed=observed,
        failed=failed,
        closed=closed,
        delays=delayed(observed, closed, now),
        demand=demand.offering(want.demand for want in returning),
        recovery_context=context,
        recovery=recover_workers(observed, cluster, memory, pass_context, context),
        returning=tuple(returning),
        # Hosts that fell silent a moment ago, as all do when qmaster starts, count as there.
        silent_since=silent_since,
        silent=expected_back(silent_since, cluster, now),
        came_up=came_up,
        spot=spot,
        reported=reported,
        launch_context=launch_context,
        usage=usage,
        # Groups of workers are judged as a whole.
        grouping=find_groups(
            observed, fleet, group_ids(fleet, memory), snapshot.requests, pass_context, launch_context, usage
        ),
        suspects=find_suspects(observed, snapshot.evidence, memory.quarantines, policy, now),
        queues_empty_since=queues_empty_since(observed, demand.wanted, memory, policy, now),
        requests=read_request_needs(snapshot),
        owners=owners,
        unhelped=unhelped_demand(snapshot, demand.wanted),
    )


_RUNNING = LastObjects[frozenset[str]]()


def _owners_here(cluster: Cluster, demand: PendingDemand, kind: OwnerKind) -> frozenset[str]:
    """The owners of waiting jobs; where these are users, of running ones, too."""
    hosts, waiting = cluster.hosts, demand.owners(kind)
    if kind is not OwnerKind.USER:
        return waiting
    return waiting | _RUNNING.value_of(
        (hosts,), lambda: frozenset([job.owner for host in hosts for each in host.instances for job in each.jobs])
    )


def _demand_of(
    snapshot: Snapshot,
    observed: ObservedWorkers,
    closed: Closed,
    pass_context: PassContext,
    unsatisfiable: frozenset[JobRequest] | None = frozenset(),
) -> PendingDemand:
    policy = snapshot.policy
    barred = Barred(over_budget(policy, snapshot.spending), pass_context.slowed)
    demand = read_demand(
        snapshot.cluster,
        snapshot.memory,
        policy,
        snapshot.now,
        observed.names,
        closed.reasons,
        barred,
        closed.hours,
        unsatisfiable=unsatisfiable,
    )
    return demand if policy.queue_demand else demand.launching_nothing()


def _with_late_failures(snapshot: Snapshot, failed: tuple[LaunchFailure, ...]) -> Snapshot:
    """Machines that were accepted and ended before they joined count as failed launches. Launches that the provider
    throttled were not made, and count nowhere.
    """
    fleet = changed(snapshot.fleet, failures=(*snapshot.fleet.failures, *failed))
    memory = changed(snapshot.memory, launches=taken(snapshot.memory.launches, fleet))
    return changed(snapshot, fleet=fleet, memory=memory)


def _launch_context(
    snapshot: Snapshot,
    came_up: tuple[CameUp, ...],
    reported: tuple[ReportedType, ...],
    owners: int,
    observed: ObservedWorkers,
    spot: Mapping[str, tuple[float, float]],
) -> LaunchContext:
    """What limits launches in this pass."""
    fleet, memory, policy, now = snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now
    resumed_at = snapshot.overrides.resumed_at
    refused = refused_buckets(memory, fleet.failures, resumed_at)
    return LaunchContext(
        policy,
        fleet.buckets,
        (*refused, *backoffs_in_force(memory, fleet.failures, policy, now, came_up)),
        stopped_arrays(memory, fleet, policy, refused, resumed_at),
        memory.launches,
        snapshot.cluster.complexes,
        now,
        last_failures(fleet.orders, fleet.failures, memory.launches, now - policy.batch_delay),
        throttled=throttled(fleet, now),
        resumed_at=resumed_at,
        reported=reported,
        only_cheapest=only_cheapest(policy, snapshot.spending),
        owners=owners,
        unhelped=_unhelped_by_owner(memory, policy, max(now - HOUR, resumed_at or 0.0)) if owners > 1 else {},
        cluster=snapshot.cluster,
        estimates=snapshot.estimates,
        boots=_seen_boots(policy, observed),
        interruptions=interruption_rates(observed.workers, spot, now),
        once=frozenset(job for job, detail in memory.details.items() if detail.rerun is False),
    )


def _seen_boots(policy: Policy, observed: ObservedWorkers) -> Mapping[str, float]:
    return {array.name: seen for array in policy.node_arrays if (seen := seen_boot_time(array, observed)) is not None}


def _unhelped_by_owner(memory: Memory, policy: Policy, since: float) -> Mapping[tuple[str, str], int]:
    """By array of the settings and owner: the workers launched since then that helped no job, or not yet."""
    found: Counter[tuple[str, str]] = Counter()
    for event in memory.unhelpful:
        if event.at > since:
            found[event.node_array, event.owner] += event.count
    for trial in memory.trials.values():
        if trial.ordered_at > since and not trial.closed and trial.ran_at is None:
            found[trial.node_array, main_owner(trial.ordered_for, policy.owner)] += max(trial.workers, 1)
    return found


def pass_context_of(snapshot: Snapshot) -> PassContext:
    """What each worker's step depends on besides the worker itself."""
    overrides, interval = snapshot.overrides, snapshot.cluster.schedule_interval
    paused = because(Code.PAUSED, by=overrides.paused_by) if overrides.paused else None
    return PassContext(
        now=snapshot.now,
        overrides=overrides,
        schedule_interval=interval,
        retry_after=max(interval, snapshot.policy.batch_delay),
        complexes=snapshot.cluster.complexes,
        paused=snapshot.memory.circuit_breaker or paused,
        keep_alive=snapshot.policy.rules.keep_alive if snapshot.policy.rules is not None else NONE_KEPT,
        stop_requests=stop_requests_of(snapshot),
        refused_ends=MappingProxyType({each.worker_id: each for each in snapshot.fleet.refused_ends}),
        group_pes=snapshot.policy.group_pes,
        owner=snapshot.policy.owner,
        seq_nos=seq_nos_of(snapshot.policy, snapshot.cluster, snapshot.fleet),
        slowed=_slowed(snapshot),
    )


def _slowed(snapshot: Snapshot) -> Mapping[str, Reason]:
    """Owners for whom nothing is launched and no worker is removed, where there are others."""
    memory, circuit_breaker = snapshot.memory, snapshot.policy.circuit_breaker
    if len(memory.owners) < 2 or not (memory.removals or memory.unhelpful):
        return MappingProxyType({})
    return slowed_owners(
        circuit_breaker, memory.removals, memory.unhelpful, snapshot.now, snapshot.overrides.resumed_at
    )
