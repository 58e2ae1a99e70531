"""What a job asks for, in Grid Engine's words, turned into a Demand in the words of placement.

Here shortcuts become names, PE rules a way to spread, consumables amounts per slot or per job, other requests
properties of a host, and queue requests pools. Quotas, licences and PE slots that all jobs share are left to
`budgets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.asking.arrays import GROUPS
from autoscaler.core.capacity import HOSTNAME, NEW_HOST
from autoscaler.core.cluster import Ask, Cluster, Complex, Consumable, ParallelEnvironment, Queue
from autoscaler.core.grouping.names import group_id, is_of_group, pe_of
from autoscaler.core.model import Amounts, Demand, Property
from autoscaler.core.placement import SLOTS
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.resources import amount, by_any_name, canonical, matches, satisfies

QUEUE_LIMITS = frozenset(
    f"{kind}_{what}" for kind in "sh" for what in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
)
"""Where not consumable these are limits that a queue sets, not properties of a host."""
_QUEUE_ATTRIBUTES = frozenset({"qname", "rerun", "calendar", "seq_no", "tmpdir", "min_cpu_interval", "priority"})


@dataclass(frozen=True, slots=True)
class Served:
    """A demand, who may grow for it, and what it takes of budgets that all share."""

    demand: Demand
    launches: tuple[str, ...]
    pe: str | None
    asked: Amounts = ()
    """Every consumable it asks for, per task, slots included."""


@dataclass(slots=True)
class _Resources:
    """The hard requests of one Ask, sorted by what they mean."""

    per_slot: dict[str, float] = field(default_factory=dict)
    per_job: dict[str, float] = field(default_factory=dict)
    properties: list[Property] = field(default_factory=list)
    limits: list[tuple[Complex, str]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    exclusive: bool = False


class Reader:
    """Reads Asks against one cluster and policy."""

    def __init__(self, cluster: Cluster, policy: Policy, our_hosts: frozenset[str]) -> None:
        self._cluster = cluster
        self._policy = policy
        self._our_hosts = our_hosts
        self._complexes = by_any_name(cluster.complexes)
        self._queues = {
            **{queue.name: Queue(queue.name, (), 0) for queue in policy.queues},
            **cluster.queues,
        }
        self._unread = frozenset(queue.name for queue in policy.queues) - cluster.queues.keys()
        self._defaults = {
            entry.name: value
            for entry in cluster.complexes.values()
            if entry.consumable is not Consumable.NO and entry.name != SLOTS
            if (value := amount(entry.default, entry.type))
        }

    def read(self, ask: Ask) -> Served | Reason:
        """The demand of one task of this shape, or why it does not count."""
        resources = self._resources(ask.hard)
        if isinstance(resources, Reason):
            return resources
        candidates, pins = self._asked_queues(ask, resources)
        if not any(self._policy.queue(name) for name in candidates):
            return because(Code.FOREIGN_QUEUE, queues=ask.queues or tuple(resources.queues))
        if ask.master_queues and not any(self._policy.queue(name) for name in self._named(ask.master_queues)):
            return because(Code.FOREIGN_QUEUE, queues=ask.master_queues)
        allowed = self._allowing(candidates, resources)
        if isinstance(allowed, Reason):
            return allowed
        spread = self._spread(ask, allowed)
        if isinstance(spread, Reason):
            return spread
        pe, slots, per_host, pools, together = spread
        launches = tuple(
            queue.name
            for queue in self._policy.queues
            if queue.name in pools and (queue.default or ask.queues or resources.queues)
        )
        if not launches:
            return because(Code.FOREIGN_QUEUE, queues=tuple(sorted(pools)))
        pinned = self._pin(pins, resources)
        if isinstance(pinned, Reason):
            return pinned
        expression, new_hosts_too = pinned
        if expression:
            resources.properties.append(Property(HOSTNAME, "==", expression))
        return Served(
            demand=replace(self._demand(resources, pools, slots, per_host), together=together),
            launches=launches if new_hosts_too else (),
            pe=pe,
            asked=_per_task(resources, slots),
        )

    # -- resources ---------------------------------------------------------------------------------------

    def _resources(self, hard: Iterable[tuple[str, str]]) -> _Resources | Reason:
        found = _Resources()
        for name, text in hard:
            entry = self._complexes.get(name)
            if entry is None:
                return because(Code.UNKNOWN_RESOURCE, resource=name)
            if not self._sort(entry, text, found):
                return because(Code.UNKNOWN_RESOURCE, resource=f"{name}={text}")
        return found

    def _sort(self, entry: Complex, text: str, found: _Resources) -> bool:
        """Put one request where it belongs; False where its value cannot be read."""
        if entry.name == SLOTS:
            return True
        if entry.name == HOSTNAME:
            found.hosts.append(text)
        elif entry.name == "qname":
            found.queues.append(text)
        elif entry.relop == "EXCL":
            if amount(text, "BOOL"):
                found.exclusive = True
                found.properties.append(Property(entry.name, "==", canonical("1", entry.type)))
        elif entry.consumable is not Consumable.NO:
            value = amount(text, entry.type)
            if value is None:
                return False
            (found.per_slot if entry.consumable is Consumable.PER_SLOT else found.per_job)[entry.name] = value
        elif entry.name in QUEUE_LIMITS:
            found.limits.append((entry, text))
        elif entry.name not in _QUEUE_ATTRIBUTES:
            found.properties.append(Property(entry.name, entry.relop, canonical(text, entry.type)))
        return True

    def _demand(self, resources: _Resources, pools: frozenset[str], slots: int, per_host: int | None) -> Demand:
        elsewhere = self._cluster.global_consumables.keys() | self._offered_by(pools)
        return Demand(
            pools=pools,
            slots=slots,
            per_host=per_host,
            per_slot=_amounts(resources.per_slot, elsewhere),
            per_job=_amounts(resources.per_job, elsewhere),
            properties=tuple(
                asked
                for asked in sorted(resources.properties, key=lambda asked: (asked.name, asked.relop, asked.value))
                if not all(self._queue_has(pool, asked) for pool in pools)
            ),
            exclusive=resources.exclusive,
            assumed=_amounts(
                {n: v for n, v in self._defaults.items() if n not in resources.per_slot and n not in resources.per_job},
                elsewhere,
            ),
        )

    def _offered_by(self, pools: frozenset[str]) -> frozenset[str]:
        """What queues themselves offer by their `complex_values`: no host has to."""
        return frozenset.intersection(
            *(frozenset(self._queues[pool].complex_values) | self._by_host(self._queues[pool]) for pool in pools)
        )

    @staticmethod
    def _by_host(queue: Queue) -> frozenset[str]:
        return frozenset(name for values in queue.complex_values_by_host.values() for name in values)

    def _queue_has(self, pool: str, asked: Property) -> bool:
        text = self._queues[pool].complex_values.get(asked.name)
        entry = self._complexes.get(asked.name)
        return (
            text is not None and entry is not None and satisfies(asked.value, asked.relop, canonical(text, entry.type))
        )

    # -- queues ------------------------------------------------------------------------------------------

    def _asked_queues(self, ask: Ask, resources: _Resources) -> tuple[frozenset[str], tuple[str, ...] | None]:
        """Queues that the job may use, and the host parts it named (`main.q@w1`); None where some request names no
        host.
        """
        names = self._named(ask.queues) if ask.queues else frozenset(self._queues)
        for expression in resources.queues:
            names = frozenset(name for name in names if matches(expression, name))
        host_parts = [request.partition("@")[2] for request in ask.queues]
        if not ask.queues or any(part in ("", "*") or self._is_our_group(part) for part in host_parts):
            return names, None
        return names, tuple(host_parts)

    def _named(self, requests: Iterable[str]) -> frozenset[str]:
        patterns = [request.partition("@")[0] or "*" for request in requests]
        return frozenset(name for name in self._queues if any(matches(pattern, name) for pattern in patterns))

    def _is_our_group(self, part: str) -> bool:
        return part.startswith("@") and any(array.host_group == part for array in self._policy.node_arrays)

    def _allowing(self, candidates: frozenset[str], resources: _Resources) -> frozenset[str] | Reason:
        """Of these queues those that let such a job in; a reason where no autoscaled one does."""
        allowed: set[str] = set()
        reason: Reason | None = None
        for name in sorted(candidates):
            refusal = self._refusal(self._queues[name], resources)
            if refusal is None:
                allowed.add(name)
            elif self._policy.queue(name):
                reason = reason or refusal
        if any(self._policy.queue(name) for name in allowed):
            return frozenset(allowed)
        return reason or because(Code.FOREIGN_QUEUE, queues=tuple(sorted(candidates)))

    @staticmethod
    def _refusal(queue: Queue, resources: _Resources) -> Reason | None:
        if queue.restricted:
            return because(Code.RESTRICTED_QUEUE, queue=queue.name, by=queue.restricted)
        for entry, text in resources.limits:
            limit = amount(queue.limits.get(entry.name, "INFINITY"), entry.type)
            asked = amount(text, entry.type)
            if asked is not None and limit is not None and asked > limit:
                return because(
                    Code.RESTRICTED_QUEUE, queue=queue.name, by=(f"{entry.name}={queue.limits[entry.name]}",)
                )
        return None

    # -- parallel environments -----------------------------------------------------------------------------

    def _spread(
        self, ask: Ask, queues: frozenset[str]
    ) -> tuple[str | None, int, int | None, frozenset[str], bool] | Reason:
        """The PE chosen, the slots, how many must stand on one host, the queues that have that PE, and whether all must
        stand inside one group.
        """
        if ask.pe is None:
            return None, ask.slots_min, ask.slots_min, queues, False
        grouped = self._grouped(ask, ask.pe, queues)
        if grouped is not None:
            return grouped
        named = [
            pe for name, pe in sorted(self._cluster.pes.items()) if matches(ask.pe, name) and not self._of_groups(name)
        ]
        for pe in sorted(named, key=_strictness):
            offering = frozenset(
                name for name in queues if name in self._unread or pe.name in _pes_of(self._queues[name])
            )
            slots = _slots_under(pe, ask)
            if slots is None or slots[0] > pe.slots or not any(self._policy.queue(name) for name in offering):
                continue
            if pe.user_lists or pe.xuser_lists:
                return because(Code.RESTRICTED_QUEUE, queue=pe.name, by=(*pe.user_lists, *pe.xuser_lists))
            return pe.name, slots[0], slots[1], offering, False
        return because(Code.UNKNOWN_PE, pe=ask.pe, slots=ask.slots_min, queues=tuple(sorted(queues)))

    def _grouped(
        self, ask: Ask, asked: str, queues: frozenset[str]
    ) -> tuple[str | None, int, int | None, frozenset[str], bool] | Reason | None:
        """The same where the job asks for a PE whose jobs are to stay inside one group; None where it does not."""
        pools = frozenset(name for name in queues if self._policy.queue(name) is not None)
        for base in self._policy.group_pes:
            pe = self._cluster.pes.get(base)
            if pe is None or not pools:
                continue
            if not _takes_any_group(asked, base, self._policy):
                if asked == base or is_of_group(asked, base):
                    return because(Code.GROUP_PE_BY_NAME, pe=asked, wildcard=f"{base}*")
                continue
            if pe.user_lists or pe.xuser_lists:
                return because(Code.RESTRICTED_QUEUE, queue=pe.name, by=(*pe.user_lists, *pe.xuser_lists))
            slots = _slots_under(pe, ask)
            if slots is not None and slots[0] <= pe.slots:
                return pe.name, slots[0], slots[1], pools, True
        return None

    def _of_groups(self, pe: str) -> bool:
        return any(pe == base or is_of_group(pe, base) for base in self._policy.group_pes)

    # -- hosts ---------------------------------------------------------------------------------------------

    def _pin(self, parts: tuple[str, ...] | None, resources: _Resources) -> tuple[str, bool] | Reason:
        """An expression for the hosts it may use ('' for any), and whether a new one is among them."""
        expressions = [*resources.hosts]
        if parts is not None:
            hosts = (host for part in parts for host in self._cluster.host_groups.get(part, (part,)))
            expressions.append("|".join(dict.fromkeys(hosts)))
        if not expressions:
            return "", True
        expression = "&".join(f"({part})" for part in expressions)
        if matches(expression, NEW_HOST):
            return expression, True
        if any(matches(expression, host) for host in self._our_hosts):
            return expression, False
        return because(Code.FOREIGN_HOST, hosts=tuple(expressions))


def _takes_any_group(asked: str, base: str, policy: Policy) -> bool:
    """Whether a request for a PE matches that of every group, whatever its number and the size of its workers."""
    arrays = [array.name for array in policy.node_arrays if array.extends is None]
    groups = (group_id(f"{array}{GROUPS}{size}", number) for array in arrays for size, number in _ANY)
    return all(matches(asked, pe_of(base, group)) for group in groups)


_ANY = ((1, 2), (4096, 30))
"""Sizes and numbers of groups that have no digit in common."""


def _pes_of(queue: Queue) -> frozenset[str]:
    return frozenset(queue.pe_list) | {pe for pes in queue.pe_list_by_host.values() for pe in pes}


def _strictness(pe: ParallelEnvironment) -> tuple[int, int, str]:
    """Of several PEs that a wildcard names, the one that leaves most freedom first: Grid Engine tries them all."""
    rule = pe.allocation_rule
    if rule.isdigit():
        return 1, int(rule), pe.name
    return (2 if rule == "$pe_slots" else 0), 0, pe.name


def _slots_under(pe: ParallelEnvironment, ask: Ask) -> tuple[int, int | None] | None:
    """Fewest slots the job starts with under this PE's rule, and how many stand on one host; None where the rule allows
    none.
    """
    rule = pe.allocation_rule
    if rule == "$pe_slots":
        return ask.slots_min, ask.slots_min
    if not rule.isdigit():
        return ask.slots_min, (1 if ask.slots_min == 1 else None)
    each = int(rule)
    slots = -(-ask.slots_min // each) * each if each else 0
    return (slots, each) if 0 < slots <= ask.slots_max else None


def _amounts(values: Mapping[str, float], elsewhere: Iterable[str]) -> Amounts:
    return tuple(sorted((name, value) for name, value in values.items() if value and name not in elsewhere))


def _per_task(resources: _Resources, slots: int) -> Amounts:
    totals = {SLOTS: float(slots), **resources.per_job}
    for name, value in resources.per_slot.items():
        totals[name] = totals.get(name, 0) + value * slots
    return tuple(sorted(totals.items()))
