"""Whether a job is certainly unsatisfiable under the present settings, or why that is not certain (rule 6).

One case for all jobs with the same request. Each early return names a cause that may pass, or something that cannot be
known yet. If none applies, Grid Engine is asked. `deadlock` handles time, answers and single jobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import ProbeHost
from autoscaler.core.capacity.array_ranges import Range
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.demand.shared_limits import more_than_the_cell_has
from autoscaler.core.limits.limits import switched_off
from autoscaler.core.model.cluster import Cluster, JobRequest, ParallelEnvironment, Queue, QuotaRule
from autoscaler.core.model.complexes import amount, by_any_name, matches, satisfies
from autoscaler.core.model.demand_vector import Demand, Property
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.constraint_effects import complexes_given
from autoscaler.core.placement.hosts import HOSTNAME, host_values_of
from autoscaler.core.placement.needs import requested_amounts
from autoscaler.core.placement.queue_instances import places_of
from autoscaler.core.policy import Policy
from autoscaler.core.unsatisfiable.best_cluster import Allowed, visits_on
from autoscaler.core.unsatisfiable.conflict import conflict
from autoscaler.core.unsatisfiable.probe_hosts import MOST, REPORTED, probe_hosts_for


@dataclass(frozen=True, slots=True)
class Case:
    """What this observation shows about all jobs with the same request."""

    reason: Reason
    """Why they cannot run."""
    unproven: Reason | None = None
    """Why that is not certain; None: as far as known, nothing allowed could ever run them."""
    possible: bool = False
    """Whether workers that can be had now could run them."""
    demands: tuple[Demand, ...] = ()
    """Their demand, once for every parallel environment that they may use."""
    probe_hosts: tuple[ProbeHost, ...] = ()
    beside: Reason | None = None
    """Why Grid Engine may call it possible all the same: beside the probe hosts, which offer all that is allowed, it
    sees the present workers. With fewer probe hosts, a "never" would rest on workers that come and go (rule 6).
    """

    @property
    def one_host(self) -> bool:
        return all(demand.one_host for demand in self.demands)


@dataclass(slots=True)
class Readings:
    """Requests of jobs in terms of placement; read before it is known which complexes of hosts matter."""

    reader: RequestReader
    cluster: Cluster
    policy: Policy
    unlimited: RequestReader | None = None
    """Reads requests as if parallel environments had any number of slots."""
    _read: dict[tuple[object, ...], tuple[Demand, ...] | Reason] = field(default_factory=dict, init=False)

    def demands(self, ask: JobRequest) -> tuple[Demand, ...] | Reason:
        """The demand, once for every parallel environment that it may use; or why that is not known."""
        key = self.key(ask)
        if key not in self._read:
            self._read[key] = self._demands(ask)
        return self._read[key]

    def key(self, ask: JobRequest) -> tuple[object, ...]:
        """Two jobs with the same key are alike: same request, and same rights of their owners."""
        return (*request(ask), ask.ckpt, *self.reader.rights.key(ask))

    def _demands(self, ask: JobRequest) -> tuple[Demand, ...] | Reason:
        whole = self.reader.read(ask)
        if not isinstance(whole, Reason) and whole.demand.together:
            return because(Code.GROUP_NOT_PROBED)  # a probe host has none of the groups' parallel environments
        found: list[Demand] = []
        for one in [ask] if ask.pe is None else [replace(ask, pe=pe.name) for pe in matching_pes(ask, self.cluster)]:
            served = self.reader.read(one)
            if isinstance(served, Reason) and served.code is Code.PE_SLOTS and self.beyond_cell(ask) is not None:
                served = served if self.unlimited is None else self.unlimited.read(one)
            if not isinstance(served, Reason):
                found.append(served.demand)
            elif served.code not in (Code.UNKNOWN_PE, Code.PE_RULE, Code.PE_SLOTS):
                return served
            elif self._elsewhere(one.pe or ""):
                return because(Code.OTHER_PE, pe=one.pe)
        return tuple(dict.fromkeys(found))

    def beyond_cell(self, ask: JobRequest) -> Reason | None:
        """Why it needs more of a shared resource than the whole cell has: a licence, or the slots of every parallel
        environment that it may use. A parallel environment without slots does not count: it is closed for a while.
        """
        whole = self.reader.read(ask)
        if not isinstance(whole, Reason):
            return more_than_the_cell_has(self.cluster, ask, whole)
        return whole if whole.code is Code.PE_SLOTS and whole["most"] != 0 else None

    def _elsewhere(self, pe: str) -> bool:
        """Whether some queue that is not autoscaled has this parallel environment."""
        return any(
            self.policy.queue(queue.name) is None
            and (pe in queue.pe_list or any(pe in some for some in queue.pe_list_by_host.values()))
            for queue in self.cluster.queues.values()
        )


@dataclass(slots=True)
class Prover:
    """Judges requests against the best that is allowed."""

    readings: Readings
    cluster: Cluster
    policy: Policy
    allowed: Allowed
    """For reasons: hosts as if nothing ran there, as far as is known."""
    most: Allowed
    """For judgements: hosts with all that they might have."""
    silent: frozenset[str] = frozenset()
    """Persistent hosts that do not report: their values are not known now."""
    enrols_itself: bool = False
    """Whether workers enrol themselves: then their values cannot be predicted."""
    _cases: dict[tuple[object, ...], Case] = field(default_factory=dict, init=False)
    _prints: dict[tuple[object, ...], str] = field(default_factory=dict, init=False)

    def case(self, ask: JobRequest, refusal: Reason | None = None) -> Case:
        """`refusal`: the forecast's reason, used if no smaller conflict is found."""
        key = self.readings.key(ask)
        if key not in self._cases:
            self._cases[key] = self._case(ask, refusal or because(Code.HELD, state=ask.state))
        return self._cases[key]

    def _case(self, ask: JobRequest, refusal: Reason) -> Case:
        if refusal.code is Code.RULES_FORBID:
            return Case(refusal, unproven=because(Code.ONLY_RULES))
        if refusal.code is Code.MUST_BE_REQUESTED:
            return Case(refusal, unproven=because(Code.ONLY_FORCED))
        demands = self.readings.demands(ask)
        if isinstance(demands, Reason):
            return Case(refusal, unproven=demands)
        beyond = self.readings.beyond_cell(ask)
        if not demands:
            unknown = because(Code.UNKNOWN_PE, pe=ask.pe, slots=ask.slots_min, queues=ask.queues)
            return Case(beyond or refusal, unproven=unknown)
        nothing = self._nothing_known(demands)
        if beyond is not None:
            # It needs more of a shared resource than the whole cell has. Grid Engine is shown everything else that it
            # needs, so that its answer depends only on that resource.
            return self._to_prove(ask, beyond, demands) if nothing is None else Case(beyond, nothing, demands=demands)
        possible = any(self.allowed.serves(demand, only_to_be_had=True) for demand in demands)
        if nothing is not None or any(self.most.serves(demand) for demand in demands):
            cause = nothing or self._may_pass(ask, demands)
            return Case(refusal, unproven=cause, possible=possible and nothing is None, demands=demands)
        return self._to_prove(ask, conflict(demands[0], self.allowed), demands)

    def _to_prove(self, ask: JobRequest, reason: Reason, demands: tuple[Demand, ...]) -> Case:
        """The case with the hosts on which Grid Engine is to try the job, unless its answer would prove nothing."""
        uncertain = next(self._uncertainties(ask, demands), None)
        if uncertain is not None:
            return Case(reason, unproven=uncertain, demands=demands)
        probe_hosts = probe_hosts_for(demands, self.most)
        if probe_hosts is None:
            return Case(reason, unproven=because(Code.TOO_MANY_PROBE_HOSTS, most=MOST), demands=demands)
        beside = next(self._beside(demands), None)
        return Case(reason, demands=demands, probe_hosts=probe_hosts, beside=beside)

    def _beside(self, demands: Iterable[Demand]) -> Iterator[Reason]:
        for demand in demands:
            most, present = self.most.most_slots(demand), self.most.present_slots(demand)
            if not demand.one_host and most < demand.slots <= most + present:
                yield because(Code.ASKED_BESIDE_WORKERS, most=most, present=present)

    def _nothing_known(self, demands: Iterable[Demand]) -> Reason | None:
        """Why nothing follows for these demands: the catalogue shows no type for a node array that may serve them, or a
        limit allows it no worker at all, as operators set it for a while.
        """
        for demand in demands:
            ranges = self.most.of(demand)
            if not ranges:
                return because(Code.NO_INSTANCE_TYPE, node_array=", ".join(sorted(demand.pools)), requested=None)
            for each in ranges:
                if not each.known:
                    type_name = each.array.family or each.array.instance_type
                    return because(Code.NO_INSTANCE_TYPE, node_array=each.array.name, requested=type_name or None)
                if not each.kinds:
                    nothing = because(Code.NO_WORKER_ALLOWED, node_array=each.array.name)
                    return switched_off(each.array.limits) or nothing
        return None

    def _may_pass(self, ask: JobRequest, demands: Iterable[Demand]) -> Reason:
        """Why nothing is launched for demand that could be served."""
        served = next(demand for demand in demands if self.most.serves(demand))
        if self.most.there(served):
            return because(Code.FITS_WHEN_FREE)
        read = self.readings.reader.read(ask)
        launches = () if isinstance(read, Reason) else read.launches
        if launches and not self.most.of_queues(launches).serves(served):
            return because(Code.QUEUE_NOT_NAMED, queues=tuple(sorted(served.pools - set(launches))))
        if self.most.serves(served, only_to_be_had=True):
            return because(Code.MIXED_TYPES)
        return next(self.most.obstacles(served), because(Code.MIXED_TYPES))

    # -- what is not certain -------------------------------------------------------------------------------------

    def _uncertainties(self, ask: JobRequest, demands: Iterable[Demand]) -> Iterator[Reason]:
        if self.cluster.set_aside:
            yield self.cluster.set_aside[0]
        if self.enrols_itself:
            yield because(Code.UNPREDICTABLE_RESOURCE, resource="slots")
        named = sorted(set(self._places_named(ask)))
        if named:
            yield because(Code.NAMES_HOST_OR_QUEUE, named=tuple(named))
        yield from self._uncertain_queues(ask, demands)
        for demand in demands:
            for each in self.most.of(demand):
                yield from self._uncertain_values(demand, each)

    def _places_named(self, ask: JobRequest) -> Iterator[str]:
        """Hosts, host groups and foreign queues that the request names."""
        for request_ in (*ask.queues, *ask.master_queues):
            queue, _, host = request_.partition("@")
            if host not in ("", "*") or not self._ours(queue or "*"):
                yield request_
        complexes = by_any_name(self.cluster.complexes)
        for name, text in ask.hard:
            known = complexes[name].name if name in complexes else name
            if known == HOSTNAME or (known == "qname" and not self._ours(text)):
                yield f"{name}={text}"

    def _ours(self, expression: str) -> bool:
        named = [queue for queue in self.cluster.queues if matches(expression, queue)]
        return bool(named) and all(self.policy.queue(queue) is not None for queue in named)

    def _uncertain_queues(self, ask: JobRequest, demands: Iterable[Demand]) -> Iterator[Reason]:
        """Queues whose rules are not fully known, or differ between a worker and a probe host."""
        for demand in demands:
            for queue in self.cluster.queues.values():
                # Its lists may be incomplete, so perhaps it admits the job.
                if not (queue.restricted and self._may_use(ask, queue.name)):
                    continue
                if self.most.serves(replace(demand, pools=demand.pools | {queue.name})):
                    yield because(Code.RESTRICTED_QUEUE, queue=queue.name, by=queue.restricted)
            for each in self.most.of(demand):
                known = self.cluster.queues.get(each.array.queue)
                if known is None:
                    yield because(Code.UNPREDICTABLE_RESOURCE, resource=f"queue {each.array.queue}")
                # A probe host stands in no host group.
                elif of_workers := {*self.cluster.places_of(each.array.host_group)}.intersection(places_of(known)):
                    resource = f"{' '.join(sorted(of_workers))} in {known.name}"
                    yield because(Code.UNPREDICTABLE_RESOURCE, resource=resource)

    @staticmethod
    def _may_use(ask: JobRequest, queue: str) -> bool:
        return not ask.queues or any(matches(pattern.partition("@")[0] or "*", queue) for pattern in ask.queues)

    def _uncertain_values(self, demand: Demand, each: Range) -> Iterator[Reason]:
        """Requests for which it is not known whether an enrolled worker would have them."""
        queue = self.cluster.queues.get(each.array.queue)
        given = {name for kind in each.kinds for name, _ in self._values(each, kind.type.name)}
        given -= complexes_given(each.array.rules)
        for name, _ in requested_amounts(demand):
            if name not in given or (queue is not None and name in queue.complex_values):
                yield because(Code.UNPREDICTABLE_RESOURCE, resource=name)
        for requested in demand.properties:
            if requested.name in given:
                continue
            silent = self._silent(demand) if requested.name in REPORTED else ()
            if silent:
                yield because(Code.SILENT_HOSTS, hosts=silent, resource=requested.name)
            elif not self._certain(requested, demand, each):
                yield because(Code.UNPREDICTABLE_RESOURCE, resource=requested.name)

    def _silent(self, demand: Demand) -> tuple[str, ...]:
        """Silent hosts that might run a part of it. A host without slots for it (such as the master with
        `CP_CAP_SGE_MASTER_CORES=0`) does not count.
        """
        slots = replace(demand, per_slot=(), per_job=(), once_a_host=(), properties=(), assumed=())
        hosts = (host for host in self.most.persistent if host.name in self.silent)
        return tuple(sorted(host.name for host in hosts if visits_on(slots, host)))

    def _values(self, each: Range, type_: str) -> tuple[tuple[str, str], ...]:
        found = next(kind.type for kind in each.kinds if kind.type.name == type_)
        return host_values_of(found, each.array, self.cluster.complexes).complex_values

    def _certain(self, requested: Property, demand: Demand, each: Range) -> bool:
        """Whether the execd's value is known, as far as this demand depends on it."""
        if requested.name not in REPORTED or requested.name in complexes_given(each.array.rules):
            return False
        without = replace(demand, properties=tuple(one for one in demand.properties if one is not requested))
        if not self.most.serves(without):
            return True
        offered = [kind.host.properties.get(requested.name, "") for kind in each.kinds]
        if requested.name == "num_proc":
            # An execd may show half as many if threads do not count as processors.
            return (amount(requested.value, "INT") or 0) > max((amount(value, "INT") or 0) for value in offered)
        if requested.name == "arch":
            # The spelling must have been seen from an execd of this very Grid Engine (lx-amd64, lx26-amd64, …).
            seen = {host.load.get("arch") for host in self.cluster.hosts if host.heard}
            return all(value in seen for value in offered if not satisfies(requested.value, requested.relop, value))
        return requested.relop == "<="

    # -- what an answer rests on -----------------------------------------------------------------------------------

    def fingerprint(self, ask: JobRequest) -> str:
        """A hash of all that Grid Engine's answer about this request, and our own verdict, rest on."""
        key = (*request(ask), ask.ckpt, ask.owner, ask.group, ask.project, ask.array)
        if key not in self._prints:
            rests_on = (key, self._rests_on(ask, self.case(ask)))
            self._prints[key] = hashlib.sha256(repr(rests_on).encode()).hexdigest()[:16]
        return self._prints[key]

    def _rests_on(self, ask: JobRequest, case: Case) -> tuple[object, ...]:
        complexes = by_any_name(self.cluster.complexes)
        queues = {queue for demand in case.demands for queue in demand.pools}
        return (
            [complexes.get(name) for name, _ in ask.hard],
            _sorted(self.cluster.global_values),
            matching_pes(ask, self.cluster),
            [_described(queue) for _, queue in sorted(self.cluster.queues.items())],
            [known for _, known in sorted(self.cluster.access_lists.items())],
            [
                (quota.name, [(_sorted(rule.limits), sorted(rule.each), _bare(rule)) for rule in quota.rules])
                for quota in self.cluster.quotas
                if quota.enabled
            ],
            [
                (each.array, [(kind.type, kind.most(each.array.limits)) for kind in each.kinds])
                for each in self.allowed.ranges
                if each.array.queue in queues
            ],
            sorted((host.name, _sorted(host.slots)) for host in self.allowed.persistent),
            case.probe_hosts,
            case.beside,  # without these workers Grid Engine may answer otherwise
        )


def request(ask: JobRequest) -> tuple[object, ...]:
    """The request of a job, whatever its owner and state."""
    return ask.slots_min, ask.slots_max, ask.pe, ask.hard, ask.queues, ask.master_queues


def matching_pes(ask: JobRequest, cluster: Cluster) -> list[ParallelEnvironment]:
    """The parallel environments that its request names, by name."""
    return [pe for name, pe in sorted(cluster.pes.items()) if ask.pe is not None and matches(ask.pe, name)]


def _described(queue: Queue) -> tuple[object, ...]:
    """The values of a queue that decide what may run there, without its hosts, which change."""
    overrides = sorted((place, _sorted(values)) for place, values in queue.complex_values_by_host.items())
    pes = (sorted(queue.pe_list), sorted(queue.pe_list_by_host.items()))
    kinds = (sorted(queue.qtype), sorted(queue.qtype_by_host.items()))
    ckpts = (sorted(queue.ckpt_list), sorted(queue.ckpt_list_by_host.items()))
    limits = _sorted(queue.limits), sorted((place, _sorted(own)) for place, own in queue.limits_by_host.items())
    return queue.name, pes, kinds, ckpts, _sorted(queue.complex_values), overrides, queue.restricted, limits


def _bare(rule: QuotaRule) -> QuotaRule:
    """The rule without its unordered parts."""
    return replace(rule, limits={}, each=frozenset())


def _sorted(values: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(values.items())
