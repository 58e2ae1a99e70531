"""Trying policies on one workload: which offers they may rent, which decider a name stands for, one run of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.model.fleet import Bucket
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.policy import PACK_OFF, CircuitBreaker, DeadlockAnswer, NodeArrayPolicy, Policy
from autoscaler.simulation.baselines import rule_of
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import NAMES, Billing, Cloud, Delays
from autoscaler.simulation.market import STILL, Market
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.results import Document, document_of
from autoscaler.simulation.rules import Rule
from autoscaler.simulation.run import EPOCH, Decider, PassDurations, Simulation
from autoscaler.simulation.workload import Workload, WorkloadError

Progress = Callable[[str, float, int], None]
"""Called with the policy's name, the simulated second, and the tasks submitted so far."""


@dataclass(frozen=True)
class Conditions:
    """What all policies of a comparison share."""

    buckets: Sequence[Bucket]
    """Everything that the cloud sells."""
    cell: CellConfiguration = field(default_factory=CellConfiguration)
    delays: Delays = field(default_factory=Delays)
    billing: Billing = field(default_factory=Billing)
    durations: PassDurations = field(default_factory=PassDurations)
    market: Market = STILL
    seed: int = 1
    names: str = NAMES
    """What machines are called."""


@dataclass(frozen=True)
class Candidate:
    """A policy to try: settings that `plan` follows, or with `rule` a rule that it is compared with."""

    name: str
    policy: Policy
    rule: str = ""
    polling_delay: float | None = None
    """Of the service with these settings; None: as the conditions have it."""
    buckets: Sequence[Bucket] | None = None
    """What its own catalogue sells; None: that of the conditions."""
    priced_by: str = ""
    """That catalogue, for the assumptions."""

    def durations_in(self, conditions: Conditions) -> PassDurations:
        """When its passes happen."""
        durations = conditions.durations
        return durations if self.polling_delay is None else replace(durations, polling_delay=self.polling_delay)

    def buckets_in(self, conditions: Conditions) -> Sequence[Bucket]:
        """Everything that its cloud sells."""
        return conditions.buckets if self.buckets is None else self.buckets


def for_queue(policy: Policy, queue: str) -> Policy:
    """The policy of one queue alone, of the first if there is none of this name: a simulated cell has one."""
    one = next((each for each in policy.queues if each.name == queue), policy.queues[0])
    array = next(each for each in policy.node_arrays if each.name == one.node_array)
    return replace(policy, queues=(one,), node_arrays=(array,))


def allowed_offers(policy: Policy, buckets: Sequence[Bucket]) -> list[Bucket]:
    """The offers that the first node array may rent, smallest first. Raises WorkloadError if there is none."""
    array = policy.node_arrays[0]
    known = {bucket.type.name: bucket.type for bucket in buckets}
    own = known.get(array.instance_type)
    array = replace(array, family=array.family or (own.family if own is not None else ""))
    allowed = [
        bucket for bucket in buckets if bucket.key.price_type in array.price_types and _is_allowed(bucket, array)
    ]
    if not allowed and not array.instance_type and not array.family:
        raise WorkloadError(
            "these settings name no instance type, so nothing can be rented: set CP_CAP_AUTOSCALE_INSTANCE_TYPE in the "
            "environment, or in a file that `sge-autoscaler --config FILE` names"
        )
    if not allowed:
        wanted = f"family {array.family or '?'}" if array.hybrid else f"type {array.instance_type or '(none)'}"
        raise WorkloadError(
            f"nothing can be rented: the catalogue has no {wanted} at price type "
            f"{', '.join(array.price_types)}; set CP_CAP_AUTOSCALE_INSTANCE_TYPE, or name a catalogue with --catalog"
        )
    return sorted(allowed, key=lambda bucket: (bucket.type.vcpus, bucket.price_per_hour or 0.0))


def without(candidate: Candidate, conditions: Conditions) -> list[str]:
    """The counted consumables of which no worker that it may rent has any."""
    if not conditions.cell.consumables:
        return []
    array, cell = candidate.policy.node_arrays[0], _fresh(conditions.cell, candidate.policy)
    offers = allowed_offers(candidate.policy, candidate.buckets_in(conditions))
    had = [dict(host_values_of(offer.type, array, cell.complexes).consumables) for offer in offers]
    return [name for name in cell.consumables if not any(each.get(name) for each in had)]


def _is_allowed(bucket: Bucket, array: NodeArrayPolicy) -> bool:
    if not array.hybrid:
        return bucket.type.name == array.instance_type
    cap = array.max_cores_per_worker
    return array.of_family(bucket.type.family) and (cap is None or bucket.type.vcpus <= cap)


def try_policy(
    candidate: Candidate,
    workload: Workload,
    conditions: Conditions,
    progress: Progress | None = None,
    started: Callable[[Simulation], None] = lambda _: None,
) -> Document:
    """One run. `started` gets the simulation before it begins, so that a signal can stop it."""
    policy = simulated(candidate.policy)
    offers = allowed_offers(policy, candidate.buckets_in(conditions))
    chance = random.Random(conditions.seed)
    epoch = workload.started_at or EPOCH
    cloud = Cloud(offers, conditions.delays, conditions.billing, epoch, chance, conditions.market, conditions.names)
    simulation = Simulation(
        workload,
        _fresh(conditions.cell, policy),
        cloud,
        _decider(candidate, policy, offers, workload),
        candidate.durations_in(conditions),
        progress=None if progress is None else lambda now, tasks: progress(candidate.name, now, tasks),
    )
    started(simulation)
    simulation.run()
    return document_of(candidate.name, simulation, least_price_a_core(offers), policy.currency, candidate.rule)


def refuse_unplayable(candidate: Candidate, conditions: Conditions) -> None:
    """Before anything is simulated. Raises WorkloadError if the candidate may rent nothing, or if its rule is wrong."""
    offers = allowed_offers(candidate.policy, candidate.buckets_in(conditions))
    if candidate.rule:
        _rule(candidate, candidate.policy, offers)


def _fresh(cell: CellConfiguration, policy: Policy) -> CellConfiguration:
    """The cell as such a policy is used with: its queue, and where workers get sequence numbers, the scheduler follows
    them.
    """
    array = policy.node_arrays[0]
    packed = any(array.pack != PACK_OFF for array in policy.node_arrays)
    counts = {name for array in policy.node_arrays for name in (array.gpu_complex, array.cpu_complex)}
    return replace(
        cell,
        queue=array.queue,
        host_group=array.host_group,
        pes=dict(cell.pes),
        complexes=dict(cell.complexes),
        fixed_order=cell.fixed_order or packed,
        counts=frozenset(name for name in cell.consumables if name in counts),
    )


def _decider(candidate: Candidate, policy: Policy, offers: Sequence[Bucket], workload: Workload) -> Decider:
    if not candidate.rule:
        return PlanDecider(policy, earlier=workload.earlier)
    return _rule(candidate, policy, offers)


def _rule(candidate: Candidate, policy: Policy, offers: Sequence[Bucket]) -> Rule:
    array = policy.node_arrays[0]
    return rule_of(candidate.rule, offers, array.limits.max_workers, array)


def simulated(policy: Policy) -> Policy:
    """The policy without what needs a person or a real Grid Engine: a circuit breaker that waits for `resume` would end
    the run, nothing deletes jobs here, and they name no queue, so that the one of the simulated cell has to take them.
    """
    breaker = CircuitBreaker(policy.circuit_breaker.window, None, None, None)
    first, *others = policy.queues
    queues = (replace(first, default=True), *others)
    return replace(policy, queues=queues, circuit_breaker=breaker, deadlock=DeadlockAnswer.REPORT, job_context=False)


def least_price_a_core(offers: Sequence[Bucket]) -> float | None:
    """The least price of a core and hour; None: no price is known."""
    prices = [each.price_per_hour / each.type.vcpus for each in offers if each.price_per_hour is not None]
    return min(prices, default=None)
