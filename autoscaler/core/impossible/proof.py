"""Whether a job is surely impossible as things are allowed, or why that is not certain (rule 6).

One case for all jobs that ask for the same things: a ladder of early returns, each naming a cause that may pass, or
something that cannot be known before. What comes through is worth asking Grid Engine about. Time, answers and single
jobs are `deadlock`'s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Phantom
from autoscaler.core.capacity import HOSTNAME, offer_of
from autoscaler.core.cluster import Ask, Cluster, ParallelEnvironment, Queue, QuotaRule
from autoscaler.core.impossible.allowed import Allowed
from autoscaler.core.impossible.conflict import conflict
from autoscaler.core.impossible.phantoms import MOST, REPORTED, phantoms_for
from autoscaler.core.model import Demand, Property
from autoscaler.core.policy import Policy
from autoscaler.core.ranges import Range
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.requests import Reader
from autoscaler.core.resources import amount, by_any_name, matches, satisfies
from autoscaler.core.ruled.supply import complexes_given


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of all jobs that ask for the same things, at this look."""

    reason: Reason
    """What stands in their way."""
    unproven: Reason | None = None
    """Why it is not certain; None: as far as we know it, nothing allowed could ever run them."""
    possible: bool = False
    """Whether what can be had could run them."""
    demands: tuple[Demand, ...] = ()
    """What they ask of hosts, under every parallel environment they may use."""
    phantoms: tuple[Phantom, ...] = ()

    @property
    def one_host(self) -> bool:
        return all(demand.one_host for demand in self.demands)


@dataclass(slots=True)
class Readings:
    """What jobs ask for, in the words of placement; read before it is known which complexes of hosts matter."""

    reader: Reader
    cluster: Cluster
    policy: Policy
    _read: dict[tuple[object, ...], tuple[Demand, ...] | Reason] = field(default_factory=dict, init=False)

    def demands(self, ask: Ask) -> tuple[Demand, ...] | Reason:
        """What it asks of hosts, once for every parallel environment it may use; or why that cannot be told."""
        key = request(ask)
        if key not in self._read:
            self._read[key] = self._demands(ask)
        return self._read[key]

    def _demands(self, ask: Ask) -> tuple[Demand, ...] | Reason:
        whole = self.reader.read(ask)
        if not isinstance(whole, Reason) and whole.demand.together:
            return because(Code.GROUP_NOT_ASKED)  # a phantom has none of the groups' parallel environments
        found: list[Demand] = []
        for one in [ask] if ask.pe is None else [replace(ask, pe=pe.name) for pe in matching_pes(ask, self.cluster)]:
            served = self.reader.read(one)
            if not isinstance(served, Reason):
                found.append(served.demand)
            elif served.code is not Code.UNKNOWN_PE:
                return served
            elif self._elsewhere(one.pe or ""):
                return because(Code.OTHER_PE, pe=one.pe)
        return tuple(dict.fromkeys(found))

    def _elsewhere(self, pe: str) -> bool:
        """Whether some queue that is not ours to grow has this parallel environment."""
        return any(
            self.policy.queue(queue.name) is None
            and (pe in queue.pe_list or any(pe in some for some in queue.pe_list_by_host.values()))
            for queue in self.cluster.queues.values()
        )


@dataclass(slots=True)
class Prover:
    """Judges what is asked for against the best that is allowed."""

    readings: Readings
    cluster: Cluster
    policy: Policy
    allowed: Allowed
    """As it is told: hosts as if nothing ran there, as far as is known."""
    most: Allowed
    """As it is judged by: hosts with all that they might have."""
    silent: frozenset[str] = frozenset()
    """Persistent hosts that do not report: what they are is not known now."""
    enrols_itself: bool = False
    """Whether workers tell Grid Engine by themselves what they have: it is then not ours to predict."""
    _cases: dict[tuple[object, ...], Case] = field(default_factory=dict, init=False)
    _prints: dict[tuple[object, ...], str] = field(default_factory=dict, init=False)

    def case(self, ask: Ask, refusal: Reason | None = None) -> Case:
        """`refusal`: what growth said of it, where nothing smaller is found to stand in the way."""
        key = request(ask)
        if key not in self._cases:
            self._cases[key] = self._case(ask, refusal or because(Code.HELD, state=ask.state))
        return self._cases[key]

    def _case(self, ask: Ask, refusal: Reason) -> Case:
        if refusal.code is Code.RULES_FORBID:
            return Case(refusal, unproven=because(Code.ONLY_RULES))
        demands = self.readings.demands(ask)
        if isinstance(demands, Reason):
            return Case(refusal, unproven=demands)
        if not demands:
            return Case(refusal, unproven=because(Code.UNKNOWN_PE, pe=ask.pe, slots=ask.slots_min, queues=ask.queues))
        possible = any(self.allowed.serves(demand, only_to_be_had=True) for demand in demands)
        nothing = self._nothing_known(demands)
        if nothing is not None or any(self.most.serves(demand) for demand in demands):
            cause = nothing or self._may_pass(demands)
            return Case(refusal, unproven=cause, possible=possible and nothing is None, demands=demands)
        reason = conflict(demands[0], self.allowed)
        doubt = next(self._doubts(ask, demands), None)
        if doubt is not None:
            return Case(reason, unproven=doubt, demands=demands)
        phantoms = phantoms_for(demands, self.most)
        if phantoms is None:
            return Case(reason, unproven=because(Code.TOO_MANY_PHANTOMS, most=MOST), demands=demands)
        return Case(reason, demands=demands, phantoms=phantoms)

    def _nothing_known(self, demands: Iterable[Demand]) -> Reason | None:
        """Where the catalogue shows nothing for a node array that may serve them, nothing follows from it; nor where a
        limit allows it no worker at all, as an operator sets it for a while.
        """
        for demand in demands:
            ranges = self.most.of(demand)
            if not ranges:
                return because(Code.NO_INSTANCE_TYPE, node_array=", ".join(sorted(demand.pools)), asked=None)
            for each in ranges:
                if not each.known:
                    asked = each.array.family or each.array.instance_type
                    return because(Code.NO_INSTANCE_TYPE, node_array=each.array.name, asked=asked or None)
                if not each.kinds:
                    return because(Code.NO_WORKER_ALLOWED, node_array=each.array.name)
        return None

    def _may_pass(self, demands: Iterable[Demand]) -> Reason:
        """What keeps something from being launched for demand that could be served."""
        served = next(demand for demand in demands if self.most.serves(demand))
        if self.most.there(served):
            return because(Code.FITS_WHEN_FREE)
        if self.most.serves(served, only_to_be_had=True):
            return because(Code.MIXED_TYPES)
        return next(self.most.obstacles(served), because(Code.MIXED_TYPES))

    # -- what is not certain -------------------------------------------------------------------------------------

    def _doubts(self, ask: Ask, demands: Iterable[Demand]) -> Iterator[Reason]:
        if self.cluster.set_aside:
            yield self.cluster.set_aside[0]
        if self.enrols_itself:
            yield because(Code.UNPREDICTABLE, resource="slots")
        named = sorted(set(self._places_named(ask)))
        if named:
            yield because(Code.NAMES_PLACE, named=tuple(named))
        yield from self._doubts_of_queues(ask, demands)
        for demand in demands:
            for each in self.most.of(demand):
                yield from self._doubts_of_worker(demand, each)

    def _places_named(self, ask: Ask) -> Iterator[str]:
        """Hosts, host groups and queues that are not ours, as it names them."""
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

    def _doubts_of_queues(self, ask: Ask, demands: Iterable[Demand]) -> Iterator[Reason]:
        """Queues whose rules are not all known, or not the same for a worker and for a phantom of it."""
        for demand in demands:
            for queue in self.cluster.queues.values():
                # Who is on its lists is not known: perhaps it lets the job in.
                if not (queue.restricted and self._may_use(ask, queue.name)):
                    continue
                if self.most.serves(replace(demand, pools=demand.pools | {queue.name})):
                    yield because(Code.RESTRICTED_QUEUE, queue=queue.name, by=queue.restricted)
            for each in self.most.of(demand):
                known = self.cluster.queues.get(each.array.queue)
                if known is None:
                    yield because(Code.UNPREDICTABLE, resource=f"queue {each.array.queue}")
                # A phantom stands in no host group.
                elif each.array.host_group in {*known.pe_list_by_host, *known.complex_values_by_host}:
                    yield because(Code.UNPREDICTABLE, resource=f"{each.array.host_group} in {known.name}")

    @staticmethod
    def _may_use(ask: Ask, queue: str) -> bool:
        return not ask.queues or any(matches(asked.partition("@")[0] or "*", queue) for asked in ask.queues)

    def _doubts_of_worker(self, demand: Demand, each: Range) -> Iterator[Reason]:
        """What it asks for that an enrolled worker's execution host would not be known to have or to lack."""
        queue = self.cluster.queues.get(each.array.queue)
        given = {name for kind in each.kinds for name, _ in self._values(each, kind.type.name)}
        given -= complexes_given(each.array.rules)
        for name, _ in (*demand.per_slot, *demand.per_job):
            if name not in given or (queue is not None and name in queue.complex_values):
                yield because(Code.UNPREDICTABLE, resource=name)
        for asked in demand.properties:
            if asked.name in given:
                continue
            if asked.name in REPORTED and self.silent:
                yield because(Code.SILENT_HOSTS, hosts=tuple(sorted(self.silent)), resource=asked.name)
            elif not self._certain(asked, demand, each):
                yield because(Code.UNPREDICTABLE, resource=asked.name)

    def _values(self, each: Range, type_: str) -> tuple[tuple[str, str], ...]:
        found = next(kind.type for kind in each.kinds if kind.type.name == type_)
        return offer_of(found, each.array, self.cluster.complexes).complex_values

    def _certain(self, asked: Property, demand: Demand, each: Range) -> bool:
        """Whether it is known what an execd would report, as far as this demand depends on it."""
        if asked.name not in REPORTED or asked.name in complexes_given(each.array.rules):
            return False
        without = replace(demand, properties=tuple(one for one in demand.properties if one is not asked))
        if not self.most.serves(without):
            return True
        offered = [kind.host.properties.get(asked.name, "") for kind in each.kinds]
        if asked.name == "num_proc":
            # Half as many may show where a processor's threads do not count.
            return (amount(asked.value, "INT") or 0) > max((amount(value, "INT") or 0) for value in offered)
        if asked.name == "arch":
            # Spelt so at least once by an execd of this very Grid Engine (lx-amd64, lx26-amd64, …).
            seen = {host.load.get("arch") for host in self.cluster.hosts if host.heard}
            return all(value in seen for value in offered if not satisfies(asked.value, asked.relop, value))
        return asked.relop == "<="

    # -- what an answer rests on -----------------------------------------------------------------------------------

    def fingerprint(self, ask: Ask) -> str:
        """Of all that Grid Engine's answer about a job with this request rests on, and what we hold against it."""
        key = (*request(ask), ask.owner, ask.project, ask.array)
        if key not in self._prints:
            rests_on = (key, self._rests_on(ask, self.case(ask)))
            self._prints[key] = hashlib.sha256(repr(rests_on).encode()).hexdigest()[:16]
        return self._prints[key]

    def _rests_on(self, ask: Ask, case: Case) -> tuple[object, ...]:
        complexes = by_any_name(self.cluster.complexes)
        queues = {queue for demand in case.demands for queue in demand.pools}
        return (
            [complexes.get(name) for name, _ in ask.hard],
            matching_pes(ask, self.cluster),
            [_described(queue) for _, queue in sorted(self.cluster.queues.items())],
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
            case.phantoms,
        )


def request(ask: Ask) -> tuple[object, ...]:
    """What makes two jobs ask for the same things, whoever owns them and in whatever state they are."""
    return ask.slots_min, ask.slots_max, ask.pe, ask.hard, ask.queues, ask.master_queues


def matching_pes(ask: Ask, cluster: Cluster) -> list[ParallelEnvironment]:
    """The parallel environments that its request names, in the order that leaves it most freedom first."""
    return [pe for name, pe in sorted(cluster.pes.items()) if ask.pe is not None and matches(ask.pe, name)]


def _described(queue: Queue) -> tuple[object, ...]:
    """What of a queue decides who may run there; its hosts come and go."""
    overrides = sorted((place, _sorted(values)) for place, values in queue.complex_values_by_host.items())
    pes = (sorted(queue.pe_list), sorted(queue.pe_list_by_host.items()))
    return queue.name, pes, _sorted(queue.complex_values), overrides, queue.restricted, _sorted(queue.limits)


def _bare(rule: QuotaRule) -> QuotaRule:
    """Without what has no order of its own."""
    return replace(rule, limits={}, each=frozenset())


def _sorted(values: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(values.items())
