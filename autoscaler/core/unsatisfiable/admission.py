"""Which jobs are refused when they are submitted: those whose request alone shows that they can never run.

The loop stores an `Admission`, all that a request is judged by, for the verifier that Grid Engine asks. The verifier
refuses fewer jobs than a plan would: it accepts a job if a load value, an access list, another queue or something not
understood might let it run. Its reasons are those that a plan gives for the same job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.demand.job_requests import ReadRequest, RequestReader
from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    JobRequest,
    ParallelEnvironment,
    Queue,
)
from autoscaler.core.model.complexes import by_any_name, matches
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.constraint_effects import complexes_given
from autoscaler.core.placement.hosts import emptied_host
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.queue_instances import as_configured
from autoscaler.core.policy import DeadlockAnswer, Policy
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.requests.group_names import is_of_group
from autoscaler.core.unsatisfiable.best_cluster import Allowed, allowed_by, at_best
from autoscaler.core.unsatisfiable.conflict import conflict

UNLIMITED = 1e15
"""More of a consumable than any host has, used if it is not known what an empty host would have."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Hosts with equal offers: the first of them, and their number."""

    host: Host
    count: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Everything that a request is judged by. It has no job, no user and no load, so it seldom changes."""

    policy: Policy
    buckets: tuple[Bucket, ...]
    complexes: Mapping[str, Complex]
    queues: Mapping[str, Queue]
    pes: Mapping[str, ParallelEnvironment]
    host_groups: Mapping[str, tuple[str, ...]]
    containing_groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    licences: tuple[str, ...] = ()
    """Consumables of the global host."""
    persistent: tuple[Alike, ...] = ()
    present: tuple[Alike, ...] = ()
    """Workers that are execution hosts."""
    there: tuple[tuple[str, BucketKey, InstanceType], ...] = ()
    """Node array, bucket and type of existing or ordered machines, those of types no longer allowed included."""
    perhaps: tuple[Alike, ...] = ()
    """The existing hosts again, with all that they might have if nothing ran on them."""
    enrols_itself: bool = False
    """Whether workers enrol themselves: their values are then not known before."""
    pools: Mapping[str, Queue] = field(default_factory=lambda: MappingProxyType({}))
    """Queues as their instances have them."""
    by_rules: tuple[str, ...] = ()
    """Complexes that rules give values for: requests for them are not judged."""


def admission_of(cluster: Cluster, fleet: Fleet, policy: Policy) -> Admission:
    """The admission that holds until the next observation."""
    cluster, policy = as_configured(cluster, policy)
    names = frozenset(name for name, entry in cluster.complexes.items() if entry.consumable is not Consumable.NO)
    rented = {worker.name.lower().partition(".")[0] for worker in fleet.workers if worker.exists and worker.name}
    ours = [host for host in cluster.hosts if host.name.partition(".")[0] in rented]
    persistent = [host for host in cluster.hosts if host.name.partition(".")[0] not in rented]
    perhaps = (_perhaps(host, cluster.complexes, names) for host in (*persistent, *ours))
    machines = [(worker.node_array, worker.bucket, worker.type) for worker in fleet.workers if worker.exists]
    machines += [(order.node_array, order.bucket, order.type) for order in fleet.orders]
    existing = {(array, type_.name): (array, bucket, type_) for array, bucket, type_ in machines}
    return Admission(
        policy=_without_functions(under(None, policy)),
        buckets=fleet.buckets,
        complexes=cluster.complexes,
        queues=cluster.queues,
        pools=cluster.pools,
        pes=cluster.pes,
        host_groups={name: cluster.host_groups[name] for name in _groups(policy) if name in cluster.host_groups},
        containing_groups={name: cluster.places_of(name)[1:] for name in _groups(policy)},
        licences=tuple(sorted(cluster.global_consumables)),
        persistent=_grouped(emptied_host(host, cluster.complexes, names) for host in persistent),
        present=_grouped(emptied_host(host, cluster.complexes, names) for host in ours),
        there=tuple(existing[key] for key in sorted(existing)),
        perhaps=_grouped(host for host in perhaps if host is not None),
        enrols_itself=fleet.enrols_itself,
        by_rules=tuple(sorted(complexes_given(policy.rules))),
    )


def _without_functions(policy: Policy) -> Policy:
    """A policy that can be written: who judges a submission launches nothing."""
    return replace(policy, node_arrays=tuple(replace(array, proposes=None) for array in policy.node_arrays))


class Judge:
    """Judges requests by one admission."""

    def __init__(self, admission: Admission) -> None:
        self._policy = admission.policy
        self._complexes = admission.complexes
        self._pes = admission.pes
        self._queues = tuple(admission.queues.values())
        self._enrols_itself = admission.enrols_itself
        self._by_rules = frozenset(admission.by_rules)
        cluster = _cluster(admission)
        self._reader = RequestReader(cluster, admission.policy, frozenset())
        persistent, present = _spread_out(admission.persistent), _spread_out(admission.present)

        def allowed(persistent: Sequence[Host]) -> Allowed:
            return allowed_by(admission.policy, admission.buckets, cluster, persistent, present, admission.there)

        self._allowed = allowed(persistent)
        self._most = allowed((*persistent, *_spread_out(admission.perhaps)))

    def wildcard(self, pe: str | None) -> str | None:
        """The wildcard that a job should request instead of this parallel environment, so that it finds the groups' own
        ones; None: no change. There is none if it would also match parallel environments of no group.
        """
        if pe is None or pe not in self._policy.group_pes:
            return None
        wildcard = f"{pe}*"
        others = [name for name in self._pes if matches(wildcard, name) and name != pe and not is_of_group(name, pe)]
        return None if others else wildcard

    def refusal(self, ask: JobRequest) -> Reason | None:
        """Why such a job could never run on any cluster within the limits; None: it may, or that is not certain."""
        if self._policy.deadlock is DeadlockAnswer.REPORT or self._enrols_itself or self._names_a_place(ask):
            return None
        asks = [ask] if ask.pe is None else [replace(ask, pe=pe) for pe in self._pes if matches(ask.pe, pe)]
        if not asks or not all(self._impossible(one) for one in asks):
            return None
        served = self._reader.read(ask)
        return None if isinstance(served, Reason) else conflict(served.demand, self._allowed)

    def _impossible(self, ask: JobRequest) -> bool:
        """Whether a job with this very parallel environment can never run."""
        served = self._reader.read(ask)
        if (
            isinstance(served, Reason)
            or not served.launches
            or any(self._may_take(ask, queue) for queue in self._queues)
        ):
            return False
        return self._known(served) and not self._most.serves(self._certain(served.demand))

    def _may_take(self, ask: JobRequest, queue: Queue) -> bool:
        """Whether a queue might run it whose hosts or users the autoscaler cannot predict."""
        if ask.queues and not any(matches(pattern.partition("@")[0] or "*", queue.name) for pattern in ask.queues):
            return False
        pes = {*queue.pe_list, *(pe for names in queue.pe_list_by_host.values() for pe in names)}
        if ask.pe is not None and ask.pe not in pes:
            return False
        return bool(queue.restricted) or self._policy.queue(queue.name) is None

    def _certain(self, demand: Demand) -> Demand:
        """The part of a demand that the request alone decides. A host's properties are known only once it reports, and
        its image may provide consumables that no type is known to have.
        """
        offered = {name for each in self._most.of(demand) for kind in each.kinds for name, _ in kind.host.free}
        offered -= self._by_rules
        return replace(
            demand,
            per_slot=tuple(pair for pair in demand.per_slot if pair[0] in offered),
            per_job=tuple(pair for pair in demand.per_job if pair[0] in offered),
            once_a_host=tuple(pair for pair in demand.once_a_host if pair[0] in offered),
            properties=(),
            exclusive=False,
        )

    def _known(self, served: ReadRequest) -> bool:
        """Whether the provider knows types for every node array that could launch for it: an empty catalogue proves
        nothing.
        """
        ranges = self._most.of(served.demand)
        queues = {each.array.queue for each in ranges}
        return bool(queues) and {each.array.queue for each in ranges if each.kinds} == queues

    def _names_a_place(self, ask: JobRequest) -> bool:
        """Whether it names hosts or queues: such may be added later, so they cannot be predicted."""
        names = by_any_name(self._complexes)
        hard = (names[name].name for name, _ in ask.hard if name in names)
        hosts = (request.partition("@")[2] for request in (*ask.queues, *ask.master_queues))
        return any(name in ("hostname", "qname") for name in hard) or any(part not in ("", "*") for part in hosts)


def _cluster(admission: Admission) -> Cluster:
    return Cluster(
        hosts=(),
        job_categories=(),
        queues=admission.queues,
        pools=admission.pools,
        pes=admission.pes,
        complexes=admission.complexes,
        host_groups=admission.host_groups,
        containing_groups=admission.containing_groups,
        global_consumables=dict.fromkeys(admission.licences, ""),
    )


def _groups(policy: Policy) -> tuple[str, ...]:
    return tuple(sorted({array.host_group for array in policy.node_arrays}))


def _grouped(hosts: Iterable[Host]) -> tuple[Alike, ...]:
    """Each offer once, with its number: a cell of a thousand hosts has a handful of kinds."""
    first: dict[object, Host] = {}
    counts: dict[object, int] = {}
    for host in map(_bare, hosts):
        offer = (tuple(sorted(host.slots.items())), host.free, tuple(sorted(host.own.items())))
        first.setdefault(offer, host)
        counts[offer] = counts.get(offer, 0) + 1
    return tuple(Alike(host, counts[offer]) for offer, host in first.items())


def _spread_out(groups: Iterable[Alike]) -> tuple[Host, ...]:
    return tuple(group.host for group in groups for _ in range(group.count))


def _perhaps(host: ExecutionHost, complexes: Mapping[str, Complex], names: frozenset[str]) -> Host | None:
    """The host with all that it might have; None: that is not more than is known.

    If an execd reports a value that jobs also use up, it is not known what an empty host has.
    """
    if not (names - {SLOTS}).intersection(host.consumables):
        return None
    empty, best = emptied_host(host, complexes, names), at_best(host, complexes, names)
    # A job that began after the jobs were listed holds more than is known: no proof follows here as for a plan.
    unknown = {*host.load, *(host.consumables if host.jobs else ())}
    free = {name: UNLIMITED if name in unknown else min(value, UNLIMITED) for name, value in best.free}
    perhaps = tuple(sorted({**free, **{name: value for name, value in empty.free if name == SLOTS}}.items()))
    return None if perhaps == empty.free else replace(empty, free=perhaps)


def _bare(host: Host) -> Host:
    """Without properties, by which a request is not judged, so that equal offers are equal."""
    return replace(host, properties={})
