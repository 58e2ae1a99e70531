"""What a pass knows that bears on impossible jobs, brought together for `deadlock`.

Costs nothing where growth refused nothing and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from autoscaler.core.capacity import emptied_host
from autoscaler.core.cluster import Ask, ExecutionHost
from autoscaler.core.demand import Reading
from autoscaler.core.fleet import BucketKey, Fleet, InstanceType
from autoscaler.core.impossible.allowed import Allowed, allowed_by, at_best
from autoscaler.core.impossible.certainty import Doubtful, Situation
from autoscaler.core.impossible.deadlock import Judgement, judge_jobs
from autoscaler.core.impossible.proof import Prover, Readings
from autoscaler.core.model import Demand, Host, Snapshot
from autoscaler.core.reasons import Code, Reason
from autoscaler.core.requests import Reader
from autoscaler.core.sight import Sight
from autoscaler.core.verdicts import Fate


def judge_doubts(
    snapshot: Snapshot, sight: Sight, reading: Reading, fates: Sequence[Fate], held_back: Reason | None
) -> Judgement:
    """What becomes of jobs for which nothing could ever be launched."""
    doubtful = [
        Doubtful(job, part.ask, part.oldest, fate.refusal)
        for parts, fate in zip(reading.counted, fates, strict=True)
        if fate.refusal is not None
        for part in parts
        for job in part.jobs
    ]
    if not doubtful and not snapshot.memory.suspicions:
        return Judgement()
    held = [part for part in reading.uncounted if part.reason is not None and part.reason.code in _HELD]
    held = [part for part in held if not snapshot.memory.suspicions.keys().isdisjoint(part.jobs)]
    possible = (
        part for parts, fate in zip(reading.counted, fates, strict=True) if fate.refusal is None for part in parts
    )
    asks = dict.fromkeys((*(one.ask for one in doubtful), *(part.ask for part in held)))
    prover = _prover(snapshot, sight, asks)
    situation = Situation(
        cluster=snapshot.cluster,
        prover=prover,
        answer=snapshot.policy.deadlock,
        findings=snapshot.evidence.answers,
        suspicions=snapshot.memory.suspicions,
        now=snapshot.now,
        held_back=held_back,
    )
    return judge_jobs(doubtful, held, possible, situation)


_HELD = frozenset({Code.HELD, Code.DEPENDENT})


def _prover(snapshot: Snapshot, sight: Sight, asks: Iterable[Ask]) -> Prover:
    cluster, policy, fleet = snapshot.cluster, snapshot.policy, snapshot.fleet
    ours = [*(m.host for m in sight.machines if m.host is not None), *sight.missing_hosts.values()]
    reader = Reader(cluster, policy, frozenset(machine.name for machine in sight.machines))
    readings = Readings(reader, cluster, policy)
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
        allowed=allowed(bare(sight.others), bare(ours)),
        most=allowed(best(sight.others), best(ours)),
        silent=frozenset(host.name for host in sight.others if not host.heard),
        enrols_itself=fleet.enrols_itself,
    )


def _machines(fleet: Fleet) -> Iterator[tuple[str, BucketKey, InstanceType]]:
    """Node array, bucket and type of whatever is there or ordered."""
    for worker in fleet.workers:
        if worker.exists:
            yield worker.node_array, worker.bucket, worker.type
    for order in fleet.orders:
        yield order.node_array, order.bucket, order.type


def _names(demands: tuple[Demand, ...] | Reason) -> Iterator[str]:
    """Complexes that matter."""
    for demand in () if isinstance(demands, Reason) else demands:
        yield from (name for name, _ in (*demand.per_slot, *demand.per_job, *demand.assumed))
        yield from (asked.name for asked in demand.properties)
