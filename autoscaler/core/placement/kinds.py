"""Hosts that are alike, as one entry with a count: how much room they have for tasks, and what is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.model.complexes import satisfies
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.needs import Need, added, exact


@dataclass(slots=True)
class Kind:
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
    price: float | None = None
    rooms: dict[int, int] | None = field(default=None, compare=False)
    """The room that was found for needs, by their number. Kinds with the same contents share it."""

    @property
    def count(self) -> int:
        return len(self.names) + self.new

    @property
    def free_slots(self) -> int:
        """Free slots of all pools together."""
        return sum(slots for _, slots in self.slots)

    def left_of(self, name: str) -> int | None:
        """How much of a consumable jobs could get here at most; None: none is offered."""
        left = self.free.get(name)
        if left is None and self.own:
            found = [values[name] for values in self.own.values() if name in values]
            return sum(found) if found else None
        return left

    @property
    def full(self) -> bool:
        return not any(slots for _, slots in self.slots)

    def room_for(self, need: Need) -> int:
        """As `room`, remembered: the same needs are placed on the same hosts many times in a pass."""
        rooms = self.rooms
        if rooms is None:
            rooms = self.rooms = {}
        room = rooms.get(need.number)
        if room is None:
            if len(rooms) >= max(MOST_NEEDS, MOST_ROOMS // (len(_ROOMS) or 1)):
                rooms.clear()
            room = rooms[need.number] = self.room(need)
        return room

    def room(self, need: Need, once: tuple[tuple[str, int], ...] = ()) -> int:
        """How many visits one of these hosts can take if it is also charged `once`."""
        free = self.free
        for name, amount in need.required:
            if name in free and free[name] < amount:
                return 0
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
        if once or need.each:
            free = self._free_after(need, once)
        for name, amount in need.required:
            if name not in free and self.own:  # its queue instances have it
                continue
            if (most := free.get(name, 0) // amount) < visits:
                visits = most
        for name, amount in need.assumed:
            if name in free and (most := free[name] // amount) < visits:
                visits = most
        return 1 if visits > 1 and need.exclusive and need.apart else max(visits, 0)

    def _free_after(self, need: Need, once: tuple[tuple[str, int], ...]) -> dict[str, int]:
        free = dict(self.free)
        for name, amount in (*need.each, *once):
            if name in free:
                free[name] -= amount
        return free

    def _usable(self, need: Need) -> list[tuple[str, int]]:
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

    def _slots_of(self, pool: str, slots: int, need: Need) -> int:
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

    def _tasks_of(self, pool: str, slots: int, need: Need) -> int:
        """How many visits can begin in this pool, if each takes its amounts per visit there."""
        own = self.own.get(pool, {})
        for name, amount in need.per_visit:
            if name in own:
                slots = min(slots, own[name] // amount)
            elif name not in self.free:
                return 0
        return slots

    def holds(self, need: Need, once: tuple[tuple[str, int], ...]) -> bool:
        """Whether a task finds the amounts in `once` here."""
        if any(self.free[name] < amount for name, amount in once if name in self.free):
            return False
        return not once or self._first_pool(need, once) is not None

    def _first_pool(self, need: Need, once: tuple[tuple[str, int], ...]) -> str | None:
        """The queue instance in which a task with such amounts begins."""
        for pool, slots in self._usable(need):
            own = self.own.get(pool, {})
            if slots and all(own.get(name, amount if name in self.free else 0) >= amount for name, amount in once):
                return pool
        return None

    def split(self, count: int) -> tuple[Kind, Kind | None]:
        """The first `count` of these hosts, and the others, if any."""
        if count == self.count:
            return self, None
        named = self.names[:count]
        new = count - len(named)
        return self._of(named, new), self._of(self.names[len(named) :], self.new - new)

    def after(self, need: Need, visits: int, once: tuple[tuple[str, int], ...] = ()) -> Kind:
        """The same hosts after each took this number of visits."""
        slots_left, tasks = visits * need.visit, visits if need.per_visit else 0
        usable, own = dict(self._usable(need)), {pool: dict(values) for pool, values in self.own.items()}
        once = tuple(added(dict(once), dict(need.each)).items()) if need.each else once
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
        return Kind(
            tuple(slots),
            free,
            self.properties,
            False,
            self.names,
            self.new,
            True,
            self.group,
            own,
            self.forced,
            self.price,
        )

    def _of(self, names: tuple[str, ...], new: int) -> Kind:
        touched, group, own = self.touched, self.group, self.own
        return Kind(
            self.slots, self.free, self.properties, self.empty, names, new, touched, group, own, self.forced, self.price
        )


def _take_from(own: dict[str, int], amounts: tuple[tuple[str, int], ...], times: int) -> None:
    for name, amount in amounts:
        if name in own:
            own[name] -= amount * times


def grouped(hosts: Sequence[Host]) -> Iterator[Kind]:
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
            yield kind_of(first, tuple(run))
        first, run = host, [host.name]
    if first is not None:
        yield kind_of(first, tuple(run))


def _alike(one: Host, other: Host) -> bool:
    return (
        one.slots == other.slots
        and one.free == other.free
        and one.empty == other.empty
        and one.properties == other.properties
        and one.group == other.group
        and one.own == other.own
        and one.forced == other.forced
        and one.price == other.price
    )


_KINDS: dict[str, list[tuple[Host, Kind]]] = {}
"""The last kinds that were made of hosts of this name: free, emptied and so on."""
MOST_KINDS, MOST_OF_A_NAME, MOST_NEW = 20_000, 4, 64
"""New hosts have no name yet, whatever their type."""
MOST_NEEDS, MOST_ROOMS = 64, 200_000
"""For how many needs at least a kind remembers its room, and how many rooms all of them remember about."""
_ROOMS: dict[object, dict[int, int]] = {}
"""The rooms of all kinds that were made lately, by their contents: workers of one type with as much free are alike."""


def kind_of(host: Host, names: tuple[str, ...], new: int = 0) -> Kind:
    made = _KINDS.get(host.name)
    if made is None:
        if len(_KINDS) >= MOST_KINDS:
            _KINDS.clear()
        made = _KINDS[host.name] = []
    for known, kind in made:
        if known is host and kind.new == new and kind.names == names:
            return kind
    if len(made) >= (MOST_OF_A_NAME if host.name else MOST_NEW):
        del made[0]
    made.append((host, _made_kind(host, names, new)))
    return made[-1][1]


def _made_kind(host: Host, names: tuple[str, ...], new: int) -> Kind:
    kind = Kind(
        slots=tuple(sorted(host.slots.items())),
        free={name: exact(amount) for name, amount in host.free},
        properties=host.properties,
        empty=host.empty,
        names=names,
        new=new,
        group=host.group,
        own={pool: {name: exact(amount) for name, amount in values} for pool, values in host.own.items()},
        forced=host.forced,
        price=host.price,
    )
    kind.rooms = _rooms_of(kind)
    return kind


def _rooms_of(kind: Kind) -> dict[int, int]:
    """What kinds with the same contents have remembered."""
    own = tuple(sorted((pool, tuple(sorted(values.items()))) for pool, values in kind.own.items()))
    free, properties = tuple(sorted(kind.free.items())), tuple(sorted(kind.properties.items()))
    if len(_ROOMS) >= MOST_KINDS:
        _ROOMS.clear()
    return _ROOMS.setdefault((kind.slots, free, properties, kind.empty, own, kind.forced), {})
