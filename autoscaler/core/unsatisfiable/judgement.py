"""Collects what a pass knows about unsatisfiable jobs, for `deadlock`.

Costs nothing if no demand was refused and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from autoscaler.core.capacity.forecast import PlacementResult
from autoscaler.core.demand.demand import PendingDemand
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.limits.circuit_breaker import by_owner
from autoscaler.core.model.cluster import ExecutionHost, JobRequest
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import BucketKey, Fleet, InstanceType
from autoscaler.core.model.memory import OwnerSeen
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.owners import owner_of
from autoscaler.core.placement.hosts import emptied_host
from autoscaler.core.placement.needs import requested_amounts
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.best_cluster import Allowed, allowed_by, at_best
from autoscaler.core.unsatisfiable.certainty import Candidate, DeadlockContext
from autoscaler.core.unsatisfiable.deadlock import DeadlockVerdicts, judge_jobs
from autoscaler.core.unsatisfiable.proof import Prover, Readings
from autoscaler.core.workers.observed import ObservedWorkers


def judge_unsatisfiable(
    snapshot: Snapshot,
    observed: ObservedWorkers,
    reading: PendingDemand,
    results: Sequence[PlacementResult],
    held_back: Reason | None,
    *,
    no_more: Reason | None = None,
    owners: Sequence[OwnerSeen] = (),
) -> DeadlockVerdicts:
    """Judge the jobs for which no launch could ever help. `no_more`: why none is deleted or held; those that are held
    may be released all the same. `owners`: those that the cell has had.
    """
    circuit_breaker = snapshot.policy.circuit_breaker
    candidates = [
        Candidate(job, part.ask, part.oldest, result.refusal)
        for parts, result in zip(reading.counted, results, strict=True)
        if result.refusal is not None
        for part in parts
        for job in part.jobs
    ]
    candidates += [
        Candidate(job, part.ask, part.oldest, part.reason)
        for part in reading.uncounted
        if part.reason is not None and part.reason.code in _BEYOND_CELL
        for job in part.jobs
    ]
    if not candidates and not snapshot.memory.unsatisfiable_jobs:
        return DeadlockVerdicts()
    held = [part for part in reading.uncounted if part.reason is not None and part.reason.code in _HELD]
    held = [part for part in held if not snapshot.memory.unsatisfiable_jobs.keys().isdisjoint(part.jobs)]
    possible = (
        part for parts, result in zip(reading.counted, results, strict=True) if result.refusal is None for part in parts
    )
    asks = dict.fromkeys((*(one.ask for one in candidates), *(part.ask for part in held)))
    prover = _prover(snapshot, observed, asks)
    owner = partial(owner_of, kind=snapshot.policy.owner)
    context = DeadlockContext(
        cluster=snapshot.cluster,
        prover=prover,
        answer=snapshot.policy.deadlock,
        findings=snapshot.evidence.answers,
        notes=snapshot.memory.unsatisfiable_jobs,
        now=snapshot.now,
        owner=owner,
        owners={job: owner(part.ask) for part in reading.parts for job in part.jobs},
        done=by_owner(snapshot.memory.kills, circuit_breaker.window, snapshot.now, snapshot.overrides.resumed_at),
        known={each.owner: each for each in owners},
        most=circuit_breaker.max_kills if len(owners) > 1 else None,
        window=circuit_breaker.window,
        held_back=held_back,
        no_more=no_more,
    )
    return judge_jobs(candidates, held, possible, context)


_HELD = frozenset({Code.HELD, Code.DEPENDENT})
_BEYOND_CELL = frozenset({Code.TOO_MUCH_FOR_CELL, Code.PE_SLOTS})
"""They ask for more of a shared resource than the whole cell has."""
UNBOUNDED = 10**9
"""More slots than any cell has."""


def _prover(snapshot: Snapshot, observed: ObservedWorkers, asks: Iterable[JobRequest]) -> Prover:
    cluster, policy, fleet = snapshot.cluster, snapshot.policy, snapshot.fleet
    ours = [*(m.host for m in observed.workers if m.host is not None), *observed.missing_hosts.values()]
    reader = RequestReader(cluster, policy, observed.names)
    unlimited = {name: replace(pe, slots=UNBOUNDED) for name, pe in cluster.pes.items()}
    readings = Readings(
        reader,
        cluster,
        policy,
        RequestReader(replace(cluster, pes=unlimited), policy, observed.names, rights=reader.rights),
    )
    names = frozenset(name for ask in asks for name in _names(readings.demands(ask)))
    there = list(_machines(fleet))

    def allowed(persistent: Sequence[Host], present: Sequence[Host]) -> Allowed:
        return allowed_by(policy, fleet.buckets, cluster, persistent, present, there)

    def bare(hosts: Sequence[ExecutionHost]) -> list[Host]:
        return [emptied_host(host, cluster.complexes, names) for host in hosts]

    def best(hosts: Sequence[ExecutionHost]) -> list[Host]:
        return [at_best(host, cluster.complexes, names) for host in hosts]

    return Prover(
        readings=readings,
        cluster=cluster,
        policy=policy,
        allowed=allowed(bare(observed.others), bare(ours)),
        most=allowed(best(observed.others), best(ours)),
        silent=frozenset(host.name for host in observed.others if not host.heard),
        enrols_itself=fleet.enrols_itself,
    )


def _machines(fleet: Fleet) -> Iterator[tuple[str, BucketKey, InstanceType]]:
    """Node array, bucket and type of existing or ordered machines."""
    for worker in fleet.workers:
        if worker.exists:
            yield worker.node_array, worker.bucket, worker.type
    for order in fleet.orders:
        yield order.node_array, order.bucket, order.type


def _names(demands: tuple[Demand, ...] | Reason) -> Iterator[str]:
    """The complexes that these demands use."""
    for demand in () if isinstance(demands, Reason) else demands:
        yield from (name for name, _ in (*requested_amounts(demand), *demand.assumed))
        yield from (requested.name for requested in demand.properties)
