"""Do these demands fit on these hosts? One function, for growth (hosts added) and shrink (hosts left out) alike.

Greedy and deterministic: the hardest demand first, on the first host in the given order that can take it. Amounts are
exact integers. Equal hosts are one entry with a count, and equal tasks are placed by division, so that cost grows with
demands × kinds of host, not with tasks or machines. Placed tasks really fit (nothing is overcommitted). Tasks that
count as unmet might, rarely, fit in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from math import inf

from autoscaler.core.model.complexes import TOO_MUCH, satisfies
from autoscaler.core.model.demand_vector import Amounts, Demand, Property
from autoscaler.core.model.offered_host import Host
from autoscaler.core.readable.remembered import LastValue

SLOTS = "slots"
"""As a consumable of a host: a limit on its slots over all pools together."""
PLENTY = 1_000_000
"""More workers than any demand would use."""
_SCALE = 1_000_000
"""Fractions of a consumable are counted in millionths."""

Want = tuple[Demand, int]
"""A demand and its number of tasks."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The result. `placed` and `unmet` are parallel to the demands, in tasks."""

    placed: tuple[int, ...]
    unmet: tuple[int, ...]
    used: frozenset[str]
    """Hosts that got something."""
    new_used: int = 0
    """How many of the new hosts got something."""

    @property
    def complete(self) -> bool:
        return not any(self.unmet)


@dataclass(frozen=True, slots=True)
class _Need:
    """A demand prepared for counting: the amounts of one visit to a host. A visit: the slots that must be together."""

    pools: tuple[str, ...]
    visit: int
    """Slots of one visit."""
    visits: int
    """Number of visits of a task; with `apart`, each to a different host."""
    apart: bool
    required: tuple[tuple[str, int], ...]
    assumed: tuple[tuple[str, int], ...]
    once: tuple[tuple[str, int], ...]
    """Once per task, on the host of its first visit, if a task makes several."""
    per_slot: tuple[tuple[str, int], ...]
    each: tuple[tuple[str, int], ...]
    """Once on every host of a task, if a visit is a single slot."""
    per_visit: tuple[tuple[str, int], ...]
    """Once per visit, from the host or queue instance that gives the slots."""
    per_slot_assumed: tuple[tuple[str, int], ...]
    """The same per slot, from a queue instance."""
    properties: tuple[Property, ...]
    exclusive: bool
    together: bool
    """All visits go to hosts of one group."""
    names: frozenset[str]
    """FORCED complexes that it requests."""
    offered: tuple[str, ...]
    """Consumables of which it requests 0: the host or the queue instance must still have a value of them."""
    number: int = field(default=0, compare=False)
    """Each need that is made has its own."""


def place(demands: Sequence[Want], hosts: Sequence[Host], new: Host | None = None, new_count: int = 0) -> Placement:
    """Place as many tasks as fit, on `hosts` in their order and then on up to `new_count` more like `new`."""
    placement = OpenPlacement(hosts)
    return (placement if new is None else placement.with_new(new, new_count)).place(demands)


def takes_part(demand: Demand, host: Host) -> bool:
    """Whether one visit of such a task finds room on this host alone."""
    need = _need(demand)
    return need is not None and _kind_of(host, (host.name,)).room(need) > 0


def as_shares(demands: Sequence[Want]) -> tuple[Want, ...]:
    """The same demands in pieces that single hosts could take: partial progress of demands that spread over hosts.
    Pieces that share an amount per host have no `per_host`.
    """
    return tuple(
        (demand, count)
        if demand.one_host
        else (replace(demand, slots=demand.per_host or 1, per_host=_of_share(demand), per_job=()), count * pieces)
        for demand, count in demands
        for pieces in (demand.slots // (demand.per_host or 1),)
    )


def _of_share(demand: Demand) -> int | None:
    return demand.per_host or (None if demand.once_a_host else 1)


def requested_amounts(demand: Demand) -> Amounts:
    """All requested consumables: per slot, per job and per host."""
    return (*demand.per_slot, *demand.per_job, *demand.once_a_host)


@lru_cache(maxsize=65536)
def hardest_first(demand: Demand) -> tuple[object, ...]:
    """Sorting key: demands with most properties first, then those that need most of one host, then of many; the rest
    makes the order fixed.
    """
    together = demand.per_host or 1
    memory = max((amount * together for _, amount in demand.per_slot), default=0)
    return (
        -len(demand.properties),
        not demand.exclusive,
        -together,
        -memory,
        -demand.slots,
        tuple(sorted(demand.pools)),
        demand.per_slot,
        demand.per_job,
        demand.once_a_host,
        demand.assumed,
        tuple((requested.name, requested.relop, requested.value) for requested in demand.properties),
        not demand.together,
        tuple(sorted(demand.names)),
    )


_NUMBERS = count(1)


@lru_cache(maxsize=65536)
def _need(demand: Demand) -> _Need | None:
    """None: no number of hosts could ever do, because the total is no multiple of the slots per host."""
    visit = demand.per_host or 1
    if demand.slots < 1 or demand.slots % visit:
        return None
    whole = demand.slots == visit
    required = {name: _exact(amount) * visit for name, amount in demand.per_slot if amount > 0}
    once = {name: _exact(amount) for name, amount in demand.per_job if amount > 0}
    each = {name: _exact(amount) for name, amount in demand.once_a_host if amount > 0}
    per_visit = _sum(once if whole else {}, each if demand.per_host else {})
    required = _sum(required, per_visit)
    single = {name: _exact(amount) for name, amount in demand.assumed if amount > 0}
    assumed = {SLOTS: _SCALE * visit} | {name: amount * visit for name, amount in single.items()}
    return _Need(
        pools=tuple(sorted(demand.pools)),
        visit=visit,
        visits=demand.slots // visit,
        apart=demand.per_host is not None,
        required=tuple(required.items()),
        assumed=tuple((name, amount) for name, amount in assumed.items() if name not in required),
        once=() if whole else tuple(once.items()),
        per_slot=tuple((name, _exact(amount)) for name, amount in demand.per_slot if amount > 0),
        each=() if demand.per_host else tuple(each.items()),
        per_visit=tuple(per_visit.items()),
        per_slot_assumed=tuple((name, amount) for name, amount in single.items() if name not in required),
        properties=demand.properties,
        exclusive=demand.exclusive,
        together=demand.together,
        names=demand.names,
        offered=tuple(name for name, amount in requested_amounts(demand) if not amount),
        number=next(_NUMBERS),
    )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{name: one.get(name, 0) + amount for name, amount in other.items()}}


def _exact(amount: float) -> int:
    most = min(amount, TOO_MUCH)
    return most * _SCALE if isinstance(most, int) else round(most * _SCALE)


@dataclass(slots=True)
class _Kind:
    """Hosts that are alike now: the named ones and `new` more without a name. It is never changed, but not frozen: a
    pass makes thousands, and a frozen one takes five times as long to make.
    """

    slots: tuple[tuple[str, int], ...]
    free: Mapping[str, int]
    properties: Mapping[str, str]
    empty: bool
    names: tuple[str, ...]
    new: int = 0
    touched: bool = False
    group: str = ""
    own: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    forced: frozenset[str] = frozenset()
    rooms: dict[int, int] | None = field(default=None, compare=False)
    """The room that was found for needs, by their number."""

    @property
    def count(self) -> int:
        return len(self.names) + self.new

    @property
    def full(self) -> bool:
        return not any(slots for _, slots in self.slots)

    def room_for(self, need: _Need) -> int:
        """As `room`, remembered: the same needs are placed on the same hosts many times in a pass."""
        if self.rooms is None or len(self.rooms) >= MOST_NEEDS:
            self.rooms = {}
        room = self.rooms.get(need.number)
        if room is None:
            room = self.rooms[need.number] = self.room(need)
        return room

    def room(self, need: _Need, once: tuple[tuple[str, int], ...] = ()) -> int:
        """How many visits one of these hosts can take if it is also charged `once`."""
        if not self.forced <= need.names:
            return 0
        if need.exclusive and not self.empty:
            return 0
        usable, slots = self._usable(need), 0
        for _, of_pool in usable:
            slots += of_pool
        visits = slots // need.visit
        if not visits:
            return 0
        if need.each and not self.holds(need, need.each):
            return 0
        if self.own and need.per_visit:
            visits = min(visits, sum(self._tasks_of(pool, slots, need) for pool, slots in usable))
        free = self._free_after(need, once) if once or need.each else self.free
        for name, amount in need.required:
            if name not in free and self.own:  # its queue instances have it
                continue
            if (most := free.get(name, 0) // amount) < visits:
                visits = most
        for name, amount in need.assumed:
            if name in free and (most := free[name] // amount) < visits:
                visits = most
        return 1 if visits > 1 and need.exclusive and need.apart else max(visits, 0)

    def _free_after(self, need: _Need, once: tuple[tuple[str, int], ...]) -> dict[str, int]:
        free = dict(self.free)
        for name, amount in (*need.each, *once):
            if name in free:
                free[name] -= amount
        return free

    def _usable(self, need: _Need) -> list[tuple[str, int]]:
        """The pools that can serve such a demand here, with the slots that each alone can give to it."""
        pools = need.pools
        for name in need.offered:
            if name not in self.free:
                pools = tuple(pool for pool in pools if name in self.own.get(pool, {}))
        for requested in need.properties:
            offered = self.properties.get(requested.name)
            if offered is None:
                pools = tuple(pool for pool in pools if pool in requested.pools)
            elif not satisfies(requested.value, requested.relop, offered):
                return []
        if not self.own:
            return [(pool, slots) for pool, slots in self.slots if pool in pools]
        return [(pool, self._slots_of(pool, slots, need)) for pool, slots in self.slots if pool in pools]

    def _slots_of(self, pool: str, slots: int, need: _Need) -> int:
        """How many slots of this pool such a demand can take, by the queue instance's own consumables."""
        own = self.own.get(pool, {})
        for name, amount in need.per_slot:
            if name in own:
                slots = min(slots, own[name] // amount)
            elif name not in self.free:
                return 0
        for name, amount in need.per_slot_assumed:
            if name in own:
                slots = min(slots, own[name] // amount)
        return slots

    def _tasks_of(self, pool: str, slots: int, need: _Need) -> int:
        """How many visits can begin in this pool, if each takes its amounts per visit there."""
        own = self.own.get(pool, {})
        for name, amount in need.per_visit:
            if name in own:
                slots = min(slots, own[name] // amount)
            elif name not in self.free:
                return 0
        return slots

    def holds(self, need: _Need, once: tuple[tuple[str, int], ...]) -> bool:
        """Whether a task finds the amounts in `once` here."""
        if any(self.free[name] < amount for name, amount in once if name in self.free):
            return False
        return not once or self._first_pool(need, once) is not None

    def _first_pool(self, need: _Need, once: tuple[tuple[str, int], ...]) -> str | None:
        """The queue instance in which a task with such amounts begins."""
        for pool, slots in self._usable(need):
            own = self.own.get(pool, {})
            if slots and all(own.get(name, amount if name in self.free else 0) >= amount for name, amount in once):
                return pool
        return None

    def split(self, count: int) -> tuple[_Kind, _Kind | None]:
        """The first `count` of these hosts, and the others, if any."""
        if count == self.count:
            return self, None
        named = self.names[:count]
        new = count - len(named)
        return self._of(named, new), self._of(self.names[len(named) :], self.new - new)

    def after(self, need: _Need, visits: int, once: tuple[tuple[str, int], ...] = ()) -> _Kind:
        """The same hosts after each took this number of visits."""
        slots_left, tasks = visits * need.visit, visits if need.per_visit else 0
        usable, own = dict(self._usable(need)), {pool: dict(values) for pool, values in self.own.items()}
        once = tuple(_sum(dict(once), dict(need.each)).items()) if need.each else once
        first = self._first_pool(need, once) if once else None
        if first is not None and first in own:
            _take_from(own[first], once, 1)
        taken: dict[str, int] = {}
        # A task that begins in a pool has a slot there.
        for pool in usable if first is None else sorted(usable, key=lambda pool: pool != first):
            begun = self._tasks_of(pool, usable[pool], need) if tasks else 0
            taken[pool] = min(begun if tasks and need.visit == 1 else usable[pool], slots_left)
            slots_left -= taken[pool]
            if pool in own:
                _take_from(own[pool], (*need.per_slot, *need.per_slot_assumed), taken[pool])
                _take_from(own[pool], need.per_visit, min(begun, tasks))
                tasks -= min(begun, tasks)
        slots = [(pool, 0 if need.exclusive else there - taken.get(pool, 0)) for pool, there in self.slots]
        free = self.free
        if free:
            free = dict(free)
            for name, amount in (*need.required, *need.assumed):
                if name in free:
                    free[name] -= amount * visits
            for name, amount in once:
                if name in free:
                    free[name] -= amount
        return _Kind(
            tuple(slots), free, self.properties, False, self.names, self.new, True, self.group, own, self.forced
        )

    def _of(self, names: tuple[str, ...], new: int) -> _Kind:
        touched, group, own = self.touched, self.group, self.own
        return _Kind(self.slots, self.free, self.properties, self.empty, names, new, touched, group, own, self.forced)


def _take_from(own: dict[str, int], amounts: tuple[tuple[str, int], ...], times: int) -> None:
    for name, amount in amounts:
        if name in own:
            own[name] -= amount * times


def _grouped(hosts: Sequence[Host]) -> Iterator[_Kind]:
    """Alike neighbours in the given order as one kind. Only neighbours, because first fit must not skip a host between
    them.
    """
    run: list[str] = []
    first: Host | None = None
    for host in hosts:
        if first is not None and _alike(first, host):
            run.append(host.name)
            continue
        if first is not None:
            yield _kind_of(first, tuple(run))
        first, run = host, [host.name]
    if first is not None:
        yield _kind_of(first, tuple(run))


def _alike(one: Host, other: Host) -> bool:
    return (
        one.slots == other.slots
        and one.free == other.free
        and one.empty == other.empty
        and one.properties == other.properties
        and one.group == other.group
        and one.own == other.own
        and one.forced == other.forced
    )


_KINDS: dict[str, list[tuple[Host, _Kind]]] = {}
"""The last kinds that were made of hosts of this name: free, emptied and so on."""
MOST_KINDS, MOST_OF_A_NAME = 20_000, 4
MOST_NEEDS = 64
"""For how many needs a kind remembers its room: of thousands, the memory would cost more than it saves."""


def _kind_of(host: Host, names: tuple[str, ...], new: int = 0) -> _Kind:
    made = _KINDS.get(host.name)
    if made is None:
        if len(_KINDS) >= MOST_KINDS:
            _KINDS.clear()
        made = _KINDS[host.name] = []
    for known, kind in made:
        if known is host and kind.new == new and kind.names == names:
            return kind
    if len(made) >= MOST_OF_A_NAME:
        del made[0]
    made.append((host, _made_kind(host, names, new)))
    return made[-1][1]


def _made_kind(host: Host, names: tuple[str, ...], new: int) -> _Kind:
    return _Kind(
        slots=tuple(sorted(host.slots.items())),
        free={name: _exact(amount) for name, amount in host.free},
        properties=host.properties,
        empty=host.empty,
        names=names,
        new=new,
        group=host.group,
        own={pool: {name: _exact(amount) for name, amount in values} for pool, values in host.own.items()},
        forced=host.forced,
    )


_LAST_ORDER = LastValue[tuple[tuple[int, _Need], ...]]()
"""The same demands are placed repeatedly, on one type of worker after the other."""


def _in_order(demands: Sequence[Want]) -> tuple[tuple[int, _Need], ...]:
    """Positions of the demands that can be placed at all, the hardest first."""
    return _LAST_ORDER.value_of(tuple(demands), lambda: tuple(_ordered(demands)))


def _ordered(demands: Sequence[Want]) -> Iterator[tuple[int, _Need]]:
    for index in sorted(range(len(demands)), key=lambda i: hardest_first(demands[i][0])):
        demand, count = demands[index]
        need = _need(demand)
        if need is not None and count > 0:
            yield index, need


class OpenPlacement:
    """Hosts while demands are put on them, in the given order. Placed tasks stay: a placement can be used again, and a
    copy of it with new hosts shows what these would add.
    """

    def __init__(self, hosts: Sequence[Host] = ()) -> None:
        self._kinds = [kind for kind in _grouped(hosts) if not kind.full]
        self._used: set[str] = set()
        self._new_used = 0

    def with_new(self, new: Host, count: int) -> OpenPlacement:
        """A copy with up to `count` more hosts like `new`, after all others."""
        placement = OpenPlacement()
        placement._kinds = [*self._kinds, *([_kind_of(new, (), count)] if count > 0 else [])]
        return placement

    def copy(self) -> OpenPlacement:
        copied = OpenPlacement()
        copied._kinds = list(self._kinds)
        return copied

    def place(self, demands: Sequence[Want]) -> Placement:
        """Place as many tasks as fit beside those placed before. `used` covers these tasks only."""
        self._used, self._new_used = set(), 0
        placed = [0] * len(demands)
        for index, need in _in_order(demands) if self._kinds else ():
            if not self._kinds:  # all are full
                break
            count = demands[index][1]
            placed[index] = self._put_together(need, count) if need.together else self._put(need, count)
        unmet = tuple(count - done for (_, count), done in zip(demands, placed, strict=True))
        return Placement(tuple(placed), unmet, frozenset(self._used), self._new_used)

    def unmet_pieces(self, unmet: Sequence[Want]) -> tuple[int, ...]:
        """For demand that does not fit as a whole: the number of pieces (`as_shares`) for which no room is left here,
        at least one for each unmet demand.
        """
        placement = OpenPlacement()
        placement._kinds = list(self._kinds)
        pieces = [count for _, count in as_shares(unmet)]
        for index in sorted(range(len(unmet)), key=lambda i: hardest_first(unmet[i][0])):
            demand, count = unmet[index]
            need = _need(demand)
            if need is None or not count or demand.one_host or demand.together:
                continue
            rooms, each = placement._rooms(need, None), count if need.apart else None
            there = sum(min(room, each or room) * placement._kinds[at].count for at, room in rooms)
            placement._take(need, rooms, min(there, pieces[index]), most=each)
            pieces[index] = max(pieces[index] - there, 1)
        return tuple(pieces)

    def _put_together(self, need: _Need, count: int) -> int:
        """Place up to `count` tasks, each inside one group, group after group in the order of their first hosts."""
        done = 0
        for group in dict.fromkeys(kind.group for kind in self._kinds if kind.group):
            done += self._put(need, count - done, group)
            if done == count:
                break
        return done

    def _put(self, need: _Need, count: int, group: str | None = None) -> int:
        """Place up to `count` tasks, only on hosts of `group` if one is given; return how many."""
        if need.once or (need.each and need.visits > 1) or (need.exclusive and not need.apart):
            return next(done for done in range(count + 1) if done == count or not self._put_alone(need, group))
        rooms = self._rooms(need, group, count)
        if not rooms:
            return 0
        if need.apart and need.visits > 1:
            tasks = self._most_apart(rooms, need.visits, count)
            self._take(need, rooms, tasks * need.visits, most=tasks)
        else:
            tasks = min(count, sum(room * self._kinds[at].count for at, room in rooms) // need.visits)
            self._take(need, rooms, tasks * need.visits)
        return tasks

    def _put_alone(self, need: _Need, group: str | None) -> bool:
        """Place one task over several hosts, the first of them charged for the task itself, or one task that needs
        whole hosts.
        """
        rooms, once = self._rooms(need, group), tuple(_sum(dict(need.once), dict(need.each)).items())
        able = (at for at, _ in rooms if self._kinds[at].holds(need, once) and self._kinds[at].room(need, need.once))
        first = next(able, None)
        if first is None:
            return False
        most = 1 if need.apart else None
        # All hosts of its kind count like the first one, which is also charged for the task.
        rooms = [(first, self._kinds[first].room(need, need.once)), *(pair for pair in rooms if pair[0] != first)]
        there = sum(min(room, most or room) * self._kinds[at].count for at, room in rooms)
        if there < need.visits:
            return False
        self._take(need, rooms, need.visits, most=most, once=need.once)
        return True

    def _rooms(self, need: _Need, group: str | None, tasks: int | None = None) -> list[tuple[int, int]]:
        """Kinds with room for visits of this need: index, and number of visits on each of its hosts. All such kinds, or
        the first ones with room for this number of tasks.
        """
        found: list[tuple[int, int]] = []
        needed = inf if tasks is None else tasks * need.visits
        most = tasks if need.apart else None
        for at, kind in enumerate(self._kinds):
            if group in (None, kind.group) and (room := kind.room_for(need)):
                found.append((at, room))
                needed -= (room if most is None else min(room, most)) * kind.count
                if needed <= 0:
                    break
        return found

    def _most_apart(self, rooms: list[tuple[int, int]], visits: int, count: int) -> int:
        """The most tasks T that make all their visits on different hosts: hosts offer T × visits, each at most T."""
        low, high = 0, count
        while low < high:
            tasks = (low + high + 1) // 2
            if sum(min(room, tasks) * self._kinds[at].count for at, room in rooms) >= tasks * visits:
                low = tasks
            else:
                high = tasks - 1
        return low

    def _take(
        self,
        need: _Need,
        rooms: list[tuple[int, int]],
        visits: int,
        *,
        most: int | None = None,
        once: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Take `visits` visits, host after host, at most `most` on each. The first host is also charged `once`."""
        pieces: dict[int, list[_Kind]] = {}
        for at, room in rooms:
            if not visits:
                break
            rest: _Kind | None = self._kinds[at]
            each, pieces[at] = min(room, most or room), []
            while rest is not None and visits:
                load = min(each, visits)
                hosts = 1 if once or load < each else min(rest.count, visits // each)
                taken, rest = rest.split(hosts)
                self._charge(taken, need, load, once, pieces[at])
                visits, once = visits - hosts * load, ()
            if rest is not None:
                pieces[at].append(rest)
        if pieces:
            self._kinds = [piece for at, kind in enumerate(self._kinds) for piece in pieces.get(at, (kind,))]

    def _charge(
        self, kind: _Kind, need: _Need, visits: int, once: tuple[tuple[str, int], ...], pieces: list[_Kind]
    ) -> None:
        self._used.update(kind.names)
        if not kind.touched:
            self._new_used += kind.new
        after = kind.after(need, visits, once)
        if not after.full:
            pieces.append(after)
