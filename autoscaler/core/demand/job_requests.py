"""Turns a job's request, in Grid Engine's terms, into a `Demand`, in terms of placement.

Shortcuts become names, PE rules a way to spread, consumables amounts per slot or per job, other requests properties of
a host, and queue requests pools. Quotas, licences and PE slots that all jobs share are left to `shared_limits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from autoscaler.core.demand.alike import QUEUE_LIMITS, alike_in
from autoscaler.core.model.cluster import BATCH, Cluster, Complex, Consumable, JobRequest, ParallelEnvironment, Queue
from autoscaler.core.model.complexes import TOO_MUCH, amount, by_any_name, canonical, matches, satisfies
from autoscaler.core.model.demand_vector import Amounts, Demand, Property
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import HOSTNAME
from autoscaler.core.placement.master_queues import master_request
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.queue_instances import NEW_HOST, forced_in, queue_at
from autoscaler.core.policy import Policy
from autoscaler.core.readable.left_hosts import foreign_host
from autoscaler.core.readable.values import fault_of_request
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.requests.group_names import group_id, is_of_group, pe_of
from autoscaler.core.rights.open_hours import RUN_TIMES, OpenHours
from autoscaler.core.rights.rights import Rights

_QUEUE_ATTRIBUTES = frozenset({"qname", "rerun", "calendar", "seq_no", "tmpdir", "min_cpu_interval", "priority"})
_OF_EVERY_QUEUE = QUEUE_LIMITS | _QUEUE_ATTRIBUTES | {HOSTNAME}
"""Complexes that every queue instance has a value of."""
_OF_GLOBAL_HOST = " of the global host"
ANY_TIME = OpenHours()
MOST_REQUESTS = 65_536
"""So many requests a reader remembers."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A demand, the queues that may launch workers for it, and what it takes of shared limits."""

    demand: Demand
    launches: tuple[str, ...]
    pe: str | None
    withheld: Reason | None = None
    """Why no queue launches for it, although it counts."""
    requested: Amounts = ()
    """Every consumable it asks for, per task, slots included."""


@dataclass(slots=True)
class _Resources:
    """The hard requests of one job category, sorted by meaning."""

    per_slot: dict[str, float] = field(default_factory=dict)
    per_job: dict[str, float] = field(default_factory=dict)
    once_a_host: dict[str, float] = field(default_factory=dict)
    properties: list[Property] = field(default_factory=list)
    limits: list[tuple[Complex, str]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    exclusive: bool = False

    def amounts(self, consumable: Consumable) -> dict[str, float]:
        """The amounts requested of complexes that are used up in this way."""
        match consumable:
            case Consumable.PER_SLOT:
                return self.per_slot
            case Consumable.PER_HOST:
                return self.once_a_host
            case _:
                return self.per_job


class RequestReader:
    """Reads requests against one cluster and policy."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        our_hosts: frozenset[str],
        closed: Mapping[str, Reason] = MappingProxyType({}),
        rights: Rights | None = None,
        hours: OpenHours = ANY_TIME,
    ) -> None:
        """`closed`: queues that start nothing now, and why. `rights`: who may use what; None: as the cluster says.
        `hours`: when calendars let jobs start.
        """
        self.rights = Rights.of(cluster) if rights is None else rights
        self._cluster = cluster
        self._closed = closed
        self._hours = hours
        self._policy = policy
        self._our_hosts = our_hosts
        self._complexes = by_any_name(cluster.complexes)
        self._new_names = _names_of_workers(policy, our_hosts) or (NEW_HOST,)
        """Names that a worker to come may have, as far as patterns go."""
        self._our_groups = frozenset(
            place for array in policy.node_arrays for place in cluster.places_of(array.host_group)
        )
        """Host groups that all workers of a node array are in."""
        self._queues = {
            **{queue.name: Queue(queue.name, (), 0) for queue in policy.queues},
            **(cluster.pools or cluster.queues),
        }
        self.remembered = lru_cache(MOST_REQUESTS)(self.read)
        self.alike = alike_in(cluster.complexes, self._queues, cluster.quotas, RUN_TIMES if hours else frozenset())
        """Requests by what makes a difference to `read`, except who asks."""
        self._unread = frozenset(queue.name for queue in policy.queues) - cluster.queues.keys()
        self._forced = frozenset(cluster.complexes[name] for name in forced_in(cluster.complexes))
        self._defaults = {
            entry.name: value
            for entry in cluster.complexes.values()
            if entry.consumable is not Consumable.NO and entry.name != SLOTS
            if (value := amount(entry.default, entry.type)) and 0 < value <= TOO_MUCH
        }

    def read(self, ask: JobRequest) -> ReadRequest | Reason:
        """The demand of one task of this category, or why such tasks do not count."""
        found = self._read(ask)
        on_hosts = tuple(request for request in ask.queues if not self._names_no_host(request))
        if isinstance(found, Reason) and 0 < len(on_hosts) < len(ask.queues):
            there = self._read(replace(ask, queues=on_hosts))
            return found if isinstance(there, Reason) else there
        return found

    def _read(self, ask: JobRequest) -> ReadRequest | Reason:
        resources = self._all_resources(ask)
        if isinstance(resources, Reason):
            return resources
        candidates, pins = self._named_queues(ask, resources)
        master = master_request(ask)
        if master is not None and master.name in self._cluster.masters:
            of_master = self._named(ask.master_queues)
            candidates |= of_master
            pins = pins if pins is None or self._anywhere(ask.master_queues) else (*pins, *_places(ask.master_queues))
        else:
            master, of_master = None, frozenset[str]()
        if not any(self._policy.queue(name) for name in candidates):
            return self._foreign(ask.queues or tuple(resources.queues), candidates)
        if ask.master_queues and not any(self._policy.queue(name) for name in self._named(ask.master_queues)):
            return self._foreign(ask.master_queues, self._named(ask.master_queues))
        allowed = self._allowing(ask, candidates, resources)
        if isinstance(allowed, Reason):
            return allowed
        spread = self._spread(ask, allowed)
        if isinstance(spread, Reason):
            return spread
        pe, slots, per_host, pools, together = spread
        if master is not None and pools.isdisjoint(of_master):
            return because(Code.UNKNOWN_PE, pe=ask.pe, slots=ask.slots_min, queues=ask.master_queues)
        launches = tuple(
            queue.name
            for queue in self._policy.queues
            if queue.name in pools and (queue.default or ask.queues or resources.queues or queue.name in of_master)
        )
        # A worker for its master task first: without one no other helps.
        launches = tuple(sorted(launches, key=lambda name: name not in of_master)) if of_master else launches
        if not launches:
            ours = {self._queues[pool].name for pool in pools if self._policy.queue(pool)}
            return because(Code.QUEUE_NOT_NAMED, queues=tuple(sorted(ours)))
        late = {name: self._runs_into_closing(name, ask, new=True) for name in launches}
        in_time = tuple(name for name in launches if late[name] is None)
        pinned = self._pin(pins, [*resources.hosts, *self._admitting_hosts(ask, pools)])
        if isinstance(pinned, Reason):
            return pinned
        expression, new_hosts_too = pinned
        if expression:
            resources.properties.append(Property(HOSTNAME, "==", expression))
        demand = self._demand(resources, pools, slots, per_host)
        if master is not None:
            demand = replace(
                demand,
                per_job=tuple(sorted((*demand.per_job, (master.name, 1)))),
                assumed=tuple(sorted((*demand.assumed, *(((master.alone, 1),) if ask.queues else ())))),
            )
        return ReadRequest(
            demand=replace(
                demand,
                together=together,
                names=frozenset(entry.name for entry in self._forced & self._requested(ask)),
            ),
            launches=in_time if new_hosts_too else (),
            withheld=late[launches[0]] if new_hosts_too and not in_time else None,
            pe=pe,
            requested=_per_task(resources, slots),
        )

    # -- resources ---------------------------------------------------------------------------------------

    def _all_resources(self, ask: JobRequest) -> _Resources | Reason:
        """Requests of every scope. Those for all tasks but the master's count for each slot, and what the master task
        requests beyond that once a job; what is no amount must be met on every host: a launch brings hosts of one type.
        """
        if not (ask.slave_hard or ask.master_hard):
            return self._resources(ask.hard)
        others = self._resources(tuple({**dict(ask.hard), **dict(ask.slave_hard)}.items()))
        master = self._resources(ask.master_hard)
        if isinstance(others, Reason) or isinstance(master, Reason):
            return others if isinstance(others, Reason) else master
        # The slot of the master task holds what each slot holds already.
        more = {name: value - others.per_slot.get(name, 0) for name, value in master.per_slot.items()}
        once = {**{name: value for name, value in more.items() if value > 0}, **master.per_job, **master.once_a_host}
        others.per_job = {**others.per_job, **{name: once[name] + others.per_job.get(name, 0) for name in once}}
        others.properties += master.properties
        others.limits += master.limits
        others.hosts += master.hosts
        others.queues += master.queues
        others.exclusive |= master.exclusive
        return others

    def _resources(self, hard: Iterable[tuple[str, str]]) -> _Resources | Reason:
        found = _Resources()
        for name, text in hard:
            entry = self._complexes.get(name)
            if entry is None:
                return because(Code.UNKNOWN_RESOURCE, resource=name)
            why = fault_of_request(entry, text)
            if why is not None:
                return because(Code.CANNOT_BE_READ, what="its request", value=f"{name}={text}", why=why)
            self._sort(entry, text, found)
        return found

    @staticmethod
    def _sort(entry: Complex, text: str, found: _Resources) -> None:
        """Put one request, which can be read, where it belongs."""
        if entry.name == SLOTS:
            return
        if entry.name == HOSTNAME:
            found.hosts.append(text)
        elif entry.name == "qname":
            found.queues.append(text)
        elif entry.relop == "EXCL":
            if amount(text, "BOOL"):
                found.exclusive = True
                found.properties.append(Property(entry.name, "==", canonical("1", entry.type)))
        elif entry.consumable is not Consumable.NO:
            found.amounts(entry.consumable)[entry.name] = amount(text, entry.type) or 0
        elif entry.name in QUEUE_LIMITS:
            found.limits.append((entry, text))
        elif entry.name not in _QUEUE_ATTRIBUTES:
            found.properties.append(Property(entry.name, entry.relop, canonical(text, entry.type)))

    def _demand(self, resources: _Resources, pools: frozenset[str], slots: int, per_host: int | None) -> Demand:
        everywhere = self._cluster.global_consumables.keys()
        # Hosts and queues need not offer what the global host offers; if they do, they limit it too.
        shared = {name: value for name, value in resources.per_slot.items() if name in everywhere}
        requested = resources.per_slot.keys() | resources.per_job.keys() | resources.once_a_host.keys()
        return Demand(
            pools=pools,
            slots=slots,
            per_host=per_host,
            per_slot=_amounts(resources.per_slot, everywhere),
            per_job=_amounts(resources.per_job, everywhere),
            once_a_host=_amounts(resources.once_a_host, everywhere),
            properties=tuple(
                replace(each, pools=frozenset(pool for pool in pools if self._has_beside_hosts(pool, each)))
                for each in sorted(resources.properties, key=lambda each: (each.name, each.relop, each.value))
            ),
            exclusive=resources.exclusive,
            # A job that does not request a consumable holds its default.
            assumed=_amounts({**{n: v for n, v in self._defaults.items() if n not in requested}, **shared}, ()),
        )

    def _has_beside_hosts(self, pool: str, requested: Property) -> bool:
        """Whether the queue, or the global host for all queues, has the requested value, so that no host needs it."""
        values = (self._queues[pool].complex_values, self._cluster.global_values)
        return any(self._is_met(self._value_in(one, requested), requested) for one in values)

    def _value_in(self, values: Mapping[str, str], requested: Property) -> str | None:
        found = ((self._complexes.get(name), text) for name, text in values.items())
        return next((text for entry, text in found if entry is not None and entry.name == requested.name), None)

    def _is_met(self, text: str | None, requested: Property) -> bool | None:
        """Whether this value is as requested; None: there is none."""
        entry = self._complexes.get(requested.name)
        if text is None or entry is None:
            return None
        return entry.relop == "EXCL" or satisfies(requested.value, requested.relop, canonical(text, entry.type))

    # -- queues ------------------------------------------------------------------------------------------

    def _named_queues(self, ask: JobRequest, resources: _Resources) -> tuple[frozenset[str], tuple[str, ...] | None]:
        """Queues that the job may use, and the host parts that it named (`main.q@w1`); None: some request names no
        host.
        """
        anywhere = [request for request in ask.queues if self._names_no_host(request)]
        # If it names whole queues too, single instances of others are left out: free slots of such a queue on other
        # hosts are not for the job, but would count as supply and keep it waiting without a launch.
        names = self._named(anywhere or ask.queues) if ask.queues else frozenset(self._queues)
        for expression in resources.queues:
            names = frozenset(pool for pool in names if matches(expression, self._queues[pool].name))
        if anywhere or not ask.queues:
            return names, None
        return names, _places(ask.queues)

    def _anywhere(self, requests: Iterable[str]) -> bool:
        """Whether one of these names no host."""
        return any(map(self._names_no_host, requests))

    def _names_no_host(self, request: str) -> bool:
        part = request.partition("@")[2]
        return part in ("", "*") or self._is_our_group(part)

    def _named(self, requests: Iterable[str]) -> frozenset[str]:
        patterns = [request.partition("@")[0] or "*" for request in requests]
        return frozenset(
            pool for pool, queue in self._queues.items() if any(matches(pattern, queue.name) for pattern in patterns)
        )

    def _is_our_group(self, part: str) -> bool:
        return part.startswith("@") and part in self._our_groups

    def _allowing(self, ask: JobRequest, candidates: frozenset[str], resources: _Resources) -> frozenset[str] | Reason:
        """The candidates that admit such a job; a reason if no autoscaled one does."""
        refused = self.rights.refusal("any host", self.rights.everywhere, ask)
        if refused is not None:
            return refused
        allowed: set[str] = set()
        reason: Reason | None = None
        for name in sorted(candidates):
            queue = self._queues[name]
            refusal = (
                self._access_refusal(queue, ask)
                or self._refusal(queue, resources)
                or self._other_value(name, resources)
                or self._must_be_requested(name, ask)
                or self._other_kind(name, ask)
                or self._closed.get(queue.name)
                or self._runs_into_closing(name, ask)
            )
            if refusal is None:
                allowed.add(name)
            elif self._policy.queue(name):
                reason = reason or refusal
        if any(self._policy.queue(name) for name in allowed):
            return frozenset(allowed)
        return reason or self._foreign(tuple(sorted(candidates)), candidates)

    def _foreign(self, shown: tuple[str, ...], names: Iterable[str]) -> Reason:
        return because(Code.FOREIGN_QUEUE, queues=shown, on_workers=self._on_workers(names))

    def _on_workers(self, names: Iterable[str]) -> tuple[str, ...] | None:
        """The queues among these that are not autoscaled and have instances on workers all the same; None: none."""
        groups = self._our_groups
        queues = {self._queues[name].name: self._queues[name].hostlist for name in names}
        return (
            tuple(sorted(q for q, hosts in queues.items() if groups & {*hosts} and not self._policy.queue(q))) or None
        )

    def _access_refusal(self, queue: Queue, ask: JobRequest) -> Reason | None:
        """Why the job may not use a queue: an autoscaled one on a new worker, another one anywhere."""
        if not queue.restricted:
            return None
        # The values for a group override those for the groups that it is in.
        places = [tuple(reversed(some)) for some in self._places_in(queue.name)]
        if self._policy.queue(queue.name) is None:
            places = [(), *((place,) for place in queue.access_by_host)]
        reasons = [self.rights.queue_refusal(queue, ask, some) for some in dict.fromkeys(places or [()])]
        return None if None in reasons else reasons[0]

    def _places_in(self, queue: str) -> list[tuple[str, ...]]:
        """The host groups of workers to come in a queue, for each of its node arrays."""
        return [self._cluster.places_of(array.host_group) for array in self._policy.node_arrays if array.queue == queue]

    def _admitting_hosts(self, ask: JobRequest, pools: frozenset[str]) -> list[str]:
        """An expression that excludes the hosts that do not admit this job, if there are any."""
        if not self.rights.restricts:
            return []
        queues = {name: self._queues[name] for name in pools}
        barred = self.rights.barred_hosts(ask, queues, self._cluster.host_groups)
        return [f"!({'|'.join(barred)})"] if barred else []

    def _refusal(self, queue: Queue, resources: _Resources) -> Reason | None:
        """The queue limit that keeps the job out: of an autoscaled queue on a new worker, of another one anywhere."""
        if not resources.limits:
            return None
        places = self._places_in(queue.name)
        if self._policy.queue(queue.name) is None:
            places = [(), *((place,) for place in queue.limits_by_host)]
        refusals = [self._refusal_at(queue, some, resources) for some in dict.fromkeys(places or [()])]
        return None if None in refusals else refusals[0]

    @staticmethod
    def _refusal_at(queue: Queue, places: Sequence[str], resources: _Resources) -> Reason | None:
        limits = queue_at(queue, places).limits
        for entry, text in resources.limits:
            limit = amount(limits.get(entry.name, "INFINITY"), entry.type)
            requested = amount(text, entry.type)
            if requested is not None and limit is not None and requested > limit:
                return because(Code.RESTRICTED_QUEUE, queue=queue.name, by=(f"{entry.name}={limits[entry.name]}",))
        return None

    def _other_value(self, pool: str, resources: _Resources) -> Reason | None:
        """Why a value of the queue itself, or of the global host, is not as requested: a value of the host cannot
        replace it.
        """
        queue = self._queues[pool]
        for requested in resources.properties:
            for values, whose in ((queue.complex_values, ""), (self._cluster.global_values, _OF_GLOBAL_HOST)):
                text = self._value_in(values, requested)
                if self._is_met(text, requested) is False:
                    return because(Code.RESTRICTED_QUEUE, queue=queue.name, by=(f"{requested.name}={text}{whose}",))
        return None

    def _must_be_requested(self, pool: str, ask: JobRequest) -> Reason | None:
        """The FORCED complex of the queue or the global host that the job does not request, as a reason."""
        missing = self._forced - self._requested(ask)
        if not missing:
            return None
        queue = self._queues[pool]
        # A queue always has its own attributes, even without a limit.
        own = {entry.name: queue.limits.get(entry.name, "") for entry in missing if entry.name in _OF_EVERY_QUEUE}
        shared = self._cluster.global_consumables
        for name, text in {**own, **shared, **queue.complex_values}.items():
            if self._complexes.get(name) in missing:
                whose = _OF_GLOBAL_HOST if name in shared and name not in queue.complex_values else ""
                value = f"{name}={text}{whose}" if text else name
                return because(Code.RESTRICTED_QUEUE, queue=queue.name, by=(f"{value}, which is FORCED",))
        return None

    def _requested(self, ask: JobRequest) -> set[Complex]:
        return {self._complexes[name] for name, _ in ask.hard}

    def _runs_into_closing(self, pool: str, ask: JobRequest, *, new: bool = False) -> Reason | None:
        """Why the calendar of the queue keeps the job out, although the queue is open; `new`: of a worker to come."""
        if not self._hours:
            return None
        return self._hours.refusal(self._queues[pool], self._hours.run_time(ask.hard, self._complexes), new=new)

    def _other_kind(self, pool: str, ask: JobRequest) -> Reason | None:
        """Why the queue starts no jobs of this kind. Its type does not matter for parallel jobs, nor for checkpointing
        jobs if it has no parallel environment.
        """
        queue = self._queues[pool]
        if ask.ckpt is not None and ask.ckpt not in queue.ckpt_list and pool not in self._unread:
            return because(Code.NOT_IN_CKPT_LIST, ckpt=ask.ckpt, queue=queue.name)
        if ask.pe is not None or BATCH in queue.qtype or (ask.ckpt is not None and not queue.pe_list):
            return None
        return because(Code.NO_BATCH_QUEUE, queue=queue.name, qtype=" ".join(queue.qtype) or "NONE")

    # -- parallel environments -----------------------------------------------------------------------------

    def _spread(
        self, ask: JobRequest, queues: frozenset[str]
    ) -> tuple[str | None, int, int | None, frozenset[str], bool] | Reason:
        """The chosen PE, the number of slots, how many of them must be on one host, the queues with that PE, and
        whether all must be inside one group.
        """
        if ask.pe is None:
            return None, ask.slots_min, ask.slots_min, queues, False
        grouped = self._grouped(ask, ask.pe, queues)
        if grouped is not None:
            return grouped
        named = [
            pe for name, pe in sorted(self._cluster.pes.items()) if matches(ask.pe, name) and not self._of_groups(name)
        ]
        refusals: list[Reason] = []
        offerings = {pe.name: self._offering(pe, queues) for pe in named}
        for pe in sorted(named, key=lambda pe: (*_strictness(pe), -len(offerings[pe.name]), pe.name)):
            offering = offerings[pe.name]
            slots = _slots_under(pe, ask)
            refusal = self._refused_by(pe, ask, slots, offering) or self._no_access(pe, ask)
            if refusal is not None or slots is None:
                refusals += [refusal] if refusal is not None else []
                continue
            if slots == (1, 1):  # a single slot is the same under each of them
                alike = (one for one in named if _slots_under(one, ask) == slots)
                others = (one for one in alike if self._no_access(one, ask) is None)
                offering = offering.union(*(offerings[one.name] for one in others if one.slots))
            return pe.name, slots[0], slots[1], offering, False
        if refusals:
            return min(refusals, key=lambda refusal: _NEAREST.index(refusal.code) if refusal.code in _NEAREST else -1)
        return because(Code.UNKNOWN_PE, pe=ask.pe, slots=ask.slots_min, queues=tuple(sorted(queues)))

    def _offering(self, pe: ParallelEnvironment, queues: frozenset[str]) -> frozenset[str]:
        return frozenset(name for name in queues if name in self._unread or pe.name in _pes_of(self._queues[name]))

    def _refused_by(
        self, pe: ParallelEnvironment, ask: JobRequest, slots: tuple[int, int | None] | None, offering: frozenset[str]
    ) -> Reason | None:
        """Why a parallel environment that the job names admits it on no worker; None: it does."""
        if not offering:
            return because(Code.UNKNOWN_PE, pe=pe.name, slots=ask.slots_min, queues=self._ours())
        if not any(self._policy.queue(name) for name in offering):
            on_workers = self._on_workers(offering)
            return because(Code.PE_ELSEWHERE, pe=pe.name, queues=tuple(sorted(offering)), on_workers=on_workers)
        if slots is None:
            return because(Code.PE_RULE, pe=pe.name, slots=_slot_range(ask), rule=pe.allocation_rule)
        return because(Code.PE_SLOTS, pe=pe.name, slots=slots[0], most=pe.slots) if slots[0] > pe.slots else None

    def _no_access(self, pe: ParallelEnvironment, ask: JobRequest) -> Reason | None:
        return self.rights.refusal(f"PE {pe.name}", pe.access, ask)

    def _ours(self) -> tuple[str, ...]:
        return tuple(queue.name for queue in self._policy.queues)

    def _grouped(
        self, ask: JobRequest, requested: str, queues: frozenset[str]
    ) -> tuple[str | None, int, int | None, frozenset[str], bool] | Reason | None:
        """The same if the job asks for a PE whose jobs stay inside one group; None: it does not."""
        pools = frozenset(name for name in queues if self._policy.queue(self._queues[name].name) is not None)
        for base in self._policy.group_pes:
            # qsub refuses a wildcard that matches no parallel environment, so the one that groups copy has to exist.
            pe = self._cluster.pes.get(base)
            if pe is None or not pools:
                continue
            if not _takes_any_group(requested, base, self._policy):
                # Workers have the copies only: a job with the plain name never starts there.
                if requested == base or is_of_group(requested, base):
                    return because(Code.GROUP_PE_NEEDS_WILDCARD, pe=requested, wildcard=f"{base}*")
                continue
            refusal = self.rights.refusal(f"PE {pe.name}", pe.access, ask)
            if refusal is not None:
                return refusal
            slots = _slots_under(pe, ask)
            if slots is not None and slots[0] <= pe.slots:
                return pe.name, slots[0], slots[1], pools, True
        return None

    def _of_groups(self, pe: str) -> bool:
        return any(pe == base or is_of_group(pe, base) for base in self._policy.group_pes)

    # -- hosts ---------------------------------------------------------------------------------------------

    def _pin(self, parts: tuple[str, ...] | None, requested: Iterable[str]) -> tuple[str, bool] | Reason:
        """An expression for the hosts that it may use ('': any), and whether a new worker is among them."""
        expressions = [*requested]
        if parts is not None:
            hosts = (host for part in parts for host in self._cluster.host_groups.get(part, (part,)))
            expressions.append("|".join(dict.fromkeys(hosts)))
        if not expressions:
            return "", True
        expression = "&".join(f"({part})" for part in expressions)
        new = any(matches(expression, name) for name in self._new_names)
        # Placement knows no name of a worker to come: the expression gets the placeholder that it has.
        if new is not matches(expression, NEW_HOST):
            expression = f"({expression})|{NEW_HOST}" if new else f"({expression})&!{NEW_HOST}"
        if new:
            return expression, True
        if any(matches(expression, host) for host in self._our_hosts):
            return expression, False
        return foreign_host(expressions, self._cluster.hosts, self._our_hosts, self._new_names)


def _names_of_workers(policy: Policy, present: Iterable[str]) -> tuple[str, ...]:
    """Names such as workers to come have, by the provider and by present workers. The numbers in these are those of
    other workers: a job that names a present one does not name a new one.
    """
    others = (_DIGITS.sub(digit * 5, name) for name in present for digit in "07")
    return tuple(dict.fromkeys((*policy.host_names, *others)))


_DIGITS = re.compile(r"\d+")


def _places(requests: Iterable[str]) -> tuple[str, ...]:
    """The host parts of requests for queues (`main.q@w1`)."""
    return tuple(request.partition("@")[2] for request in requests)


def _takes_any_group(requested: str, base: str, policy: Policy) -> bool:
    """Whether a PE request matches the PE of every group, whatever the group's number and size."""
    arrays = [array.name for array in policy.node_arrays if array.extends is None]
    groups = (group_id(f"{array}{GROUPS}{size}", number) for array in arrays for size, number in _ANY)
    return all(matches(requested, pe_of(base, group)) for group in groups)


_ANY = ((1, 2), (4096, 30))
"""Sizes and numbers of groups that have no digit in common."""


def _pes_of(queue: Queue) -> frozenset[str]:
    return frozenset(queue.pe_list) | {pe for pes in queue.pe_list_by_host.values() for pe in pes}


_NEAREST = (Code.PE_RULE, Code.PE_SLOTS, Code.PE_ELSEWHERE, Code.UNKNOWN_PE)
"""If a wildcard names several parallel environments, the reason that a job's owner could most easily act on comes
first.
"""


def _slot_range(ask: JobRequest) -> str:
    return str(ask.slots_min) if ask.slots_min == ask.slots_max else f"{ask.slots_min}-{ask.slots_max}"


def _strictness(pe: ParallelEnvironment) -> tuple[int, int]:
    """Sorting key of several PEs that a wildcard names: the least strict first, because Grid Engine tries them all."""
    rule = pe.allocation_rule
    if rule.isdecimal():
        return 1, int(rule)
    return (2 if rule == "$pe_slots" else 0), 0


def _slots_under(pe: ParallelEnvironment, ask: JobRequest) -> tuple[int, int | None] | None:
    """The fewest slots that the job starts with under this PE's rule, and how many of them are on one host; None: the
    rule allows none.
    """
    rule = pe.allocation_rule
    if rule == "$pe_slots":
        return ask.slots_min, ask.slots_min
    if not rule.isdecimal():
        return ask.slots_min, (1 if ask.slots_min == 1 else None)
    each = int(rule)
    # With a fixed number of slots a host, a job starts with a multiple of it only.
    slots = -(-ask.slots_min // each) * each if each else 0
    return (slots, each) if 0 < slots <= ask.slots_max else None


def _amounts(values: Mapping[str, float], elsewhere: Iterable[str]) -> Amounts:
    """Without requests of 0 of a limit of queues, which are met everywhere: each queue has a value of it."""
    asked = ((name, value) for name, value in values.items() if value or name not in QUEUE_LIMITS)
    return tuple(sorted((name, value) for name, value in asked if name not in elsewhere))


def _per_task(resources: _Resources, slots: int) -> Amounts:
    """Every consumable per task. For shared resources, an amount per host counts once per job."""
    totals = {SLOTS: float(slots), **resources.per_job, **resources.once_a_host}
    for name, value in resources.per_slot.items():
        totals[name] = totals.get(name, 0) + value * slots
    return tuple(sorted(totals.items()))
