"""Do these demands fit on these hosts? One function, for growth (hosts added) and shrink (hosts left out) alike.

Greedy and deterministic: the hardest demand first (`scarcity`), on the host that already got something and has the
least left of what is scarce, else on the first host in the given order that can take it. Amounts are exact integers.
Equal hosts are one entry with a count, and equal tasks are placed by division, so that cost grows with demands × kinds
of host, not with tasks or machines. Placed tasks really fit (nothing is overcommitted). Tasks that count as unmet
might, rarely, fit in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.packing.packed import Way, filled, ways
from autoscaler.core.packing.pieces import Filled, Machines
from autoscaler.core.placement.kinds import Kind, kind_of
from autoscaler.core.placement.needs import Need, Want, added, need_of
from autoscaler.core.placement.placed import FEW, MOST_ABLE, Placement, State, state_of
from autoscaler.core.placement.scarcity import OpenedHosts, Weights, dominant, orders_of, weights_on
from autoscaler.core.placement.vectors import is_divisible, pieces_for

PLENTY = 1_000_000
"""More workers than any demand would use."""


def place(demands: Sequence[Want], hosts: Sequence[Host], new: Host | None = None, new_count: int = 0) -> Placement:
    """Place as many tasks as fit, on `hosts` in their order and then on up to `new_count` more like `new`."""
    placement = OpenPlacement(hosts)
    return (placement if new is None else placement.with_new(new, new_count)).place(demands)


def takes_part(demand: Demand, host: Host) -> bool:
    """Whether one visit of such a task finds room on this host alone."""
    need = need_of(demand)
    return need is not None and kind_of(host, (host.name,)).room_for(need) > 0


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


class OpenPlacement:
    """Hosts while demands are put on them. Placed tasks stay: a placement can be used again, and a copy of it with new
    hosts shows what these would add.
    """

    def __init__(self, hosts: Sequence[Host] = (), state: State | None = None) -> None:
        self._hosts, self._known = tuple(hosts), state
        """`state_of` the hosts is found when something is placed: in many passes nothing is."""
        self._fresh: dict[int, Kind] = {}
        self._opened = OpenedHosts()
        self._weights: Weights = {}
        self._used: set[str] = set()
        self._new_used = 0
        self._trace: list[tuple[int, tuple[str, ...], int]] | None = None
        """If somebody wants to know which host takes what: demand, hosts, visits of it on each of them."""
        self._demand = 0

    @property
    def state(self) -> object:
        """What the next placement depends on: the same object as long as that is the same."""
        return self._state

    @property
    def _state(self) -> State:
        """Shared with other placements, so never changed: what is this placement's own while it places is apart."""
        if self._known is None:
            self._known = state_of(self._hosts)
        return self._known

    @_state.setter
    def _state(self, state: State) -> None:
        self._known = state

    def with_new(self, new: Host, count: int, names: tuple[str, ...] = ()) -> OpenPlacement:
        """A copy with up to `count` more hosts like `new`, after all others. `names`: theirs, if somebody wants to know
        which of them is used.
        """
        state = self._state
        return OpenPlacement(state=state if count <= 0 else state.with_new(kind_of(new, names, count - len(names))))

    def trace(self, demands: Sequence[Want]) -> tuple[Placement, Sequence[tuple[int, str, int]]]:
        """As `place`, with what each named host takes: the demand by its position, the host, the visits of it there."""
        self._trace = []
        placed = self.place(demands)
        found = [(demand, name, visits) for demand, names, visits in self._trace for name in names]
        self._trace = None
        return placed, found

    def copy(self) -> OpenPlacement:
        return OpenPlacement(self._hosts, self._known)

    def place(self, demands: Sequence[Want]) -> Placement:
        """Place as many tasks as fit beside those placed before. `used` covers these tasks only."""
        if not demands:
            return Placement((), (), frozenset())
        wants, state = tuple(demands), self._state
        if self._trace is not None or 0 < len(wants) * state.size <= FEW:
            return self._place(wants)
        known = state.placed.of(wants)
        if known is None:
            placement = self._place(wants)
            state.placed.keep(wants, (placement, self._state))
            return placement
        placement, self._state = known
        return placement

    def _place(self, wants: tuple[Want, ...]) -> Placement:
        """Place by hardness. On workers that are packed, place in balance as well where that leaves tasks, and keep
        what serves more.
        """
        begun, trace = self._state, self._trace
        placement = self._by_hardness(wants)
        if placement.complete or not begun.packed:
            return placement
        after, traced, most = self._state, self._trace, self._share(wants, placement)
        for way in ways(begun.size):
            self._state, self._trace = begun, None if trace is None else []
            other = self._in_balance(wants, way)
            if other is not None and (share := self._share(wants, other)) > most:
                placement, after, traced, most = other, self._state, self._trace, share
            if placement.complete:
                break
        self._state, self._trace = after, traced
        return placement

    def _share(self, wants: tuple[Want, ...], placement: Placement) -> float:
        """How much is placed, by the dominant shares of the tasks."""
        needs = ((need_of(demand), tasks) for (demand, _), tasks in zip(wants, placement.placed, strict=True))
        return sum(tasks * dominant(need, self._weights) * need.visits for need, tasks in needs if need and tasks)

    def _in_balance(self, wants: tuple[Want, ...], way: Way) -> Placement | None:
        """Place with slots and memory running out together (`balanced`), what needs whole hosts on the cheapest ones;
        None: what was found is not exact.
        """
        self._begin()
        self._fresh = dict(sorted(self._fresh.items(), key=lambda each: each[1].price or 0.0))
        orders = orders_of(wants)
        self._weights = weights_on(orders.consumables, [*self._fresh.values(), *self._opened.kinds.values()])
        placed, order = [0] * len(wants), orders.by(self._weights)
        for index, need in order:
            count, self._demand = wants[index][1], index
            if not is_divisible(need):
                placed[index] = self._put_together(need, count) if need.together else self._put(need, count)
        hosts = [*self._opened.kinds.items(), *self._fresh.items()]
        needs = [(index, need, wants[index][1]) for index, need in order if is_divisible(need)]
        pieces, contents = pieces_for(needs, [kind for _, kind in hosts])
        machines = [
            Machines(kind.count, has, kind.price or 0.0) for (_, kind), has in zip(hosts, contents, strict=True)
        ]
        found, tasks = filled(pieces, machines, way)
        for piece, done in zip(pieces, tasks, strict=True):
            placed[piece.at] = done
        need_at = {index: need for index, need, _ in needs}
        if not self._load(hosts, [(piece.at, need_at[piece.at]) for piece in pieces], found, placed):
            return None
        for index, need in order:
            if placed[index] < wants[index][1] and not need.together:
                self._demand = index
                placed[index] += self._put(need, wants[index][1] - placed[index])
        return self._placement(wants, placed)

    def _load(
        self,
        hosts: Sequence[tuple[int, Kind]],
        pieces: Sequence[tuple[int, Need]],
        found: Sequence[Filled],
        placed: list[int],
    ) -> bool:
        """Charge what machines are filled with. `pieces`: demand and need of each. A task on one host that does not
        fit exactly is no longer placed; False: a share of a task that spreads does not fit.
        """
        by_kind: dict[int, list[Filled]] = {}
        for each in found:
            if each.content:
                by_kind.setdefault(each.kind, []).append(each)
        for at, entries in by_kind.items():
            number, kind = hosts[at]
            if kind.touched:
                self._opened.remove(number)
            else:
                del self._fresh[number]
            rest: Kind | None = kind
            for each in entries:
                if rest is None:
                    return False
                taken, rest = rest.split(each.machines)
                for (demand, need), many in ((pieces[n], many) for n, many in each.content.items()):
                    room = min(taken.room(need), many)
                    if room < many and need.visits > 1:
                        return False
                    placed[demand] -= (many - room) * taken.count
                    taken = self._charged(taken, demand, need, room) if room else taken
                if taken.touched and not taken.full:
                    self._opened.add(taken)
                elif not taken.touched:
                    self._fresh[max(self._fresh, default=-1) + 1] = taken
            if rest is not None and rest.touched:
                self._opened.add(rest)
            elif rest is not None:
                self._fresh[number] = rest
        self._fresh = dict(sorted(self._fresh.items()))
        return True

    def _charged(self, kind: Kind, demand: int, need: Need, visits: int) -> Kind:
        self._used.update(kind.names)
        if self._trace is not None:
            self._trace.append((demand, kind.names, visits))
        if not kind.touched:
            self._new_used += kind.new
        return kind.after(need, visits)

    def _placement(self, wants: tuple[Want, ...], placed: Sequence[int]) -> Placement:
        self._state = State(self._fresh, self._opened, self._state.groups, self._weights, self._state.packed)
        unmet = tuple(count - done for (_, count), done in zip(wants, placed, strict=True))
        return Placement(tuple(placed), unmet, frozenset(self._used), self._new_used)

    def _by_hardness(self, wants: tuple[Want, ...]) -> Placement:
        self._begin()
        placed = [0] * len(wants)
        if self._fresh or self._opened.kinds:
            orders = orders_of(wants)
            self._weights = weights_on(orders.consumables, [*self._fresh.values(), *self._opened.kinds.values()])
            for index, need in orders.by(self._weights):
                if not self._fresh and not self._opened.kinds:  # all are full
                    break
                count, self._demand = wants[index][1], index
                placed[index] = self._put_together(need, count) if need.together else self._put(need, count)
        return self._placement(wants, placed)

    def _begin(self) -> None:
        state = self._state
        self._fresh, self._opened, self._weights = dict(state.fresh), state.opened.copy(), state.weights
        self._used, self._new_used = set(), 0

    def takes(self, demand: Demand) -> bool:
        """Whether one task of it would fit beside those placed before."""
        need, able = need_of(demand), self._state.able
        if need is None:
            return False
        found = able.get(need.number)
        if found is None:
            if len(able) >= MOST_ABLE:
                able.clear()
            placement = OpenPlacement(state=self._state)
            found = able[need.number] = placement._place(((demand, 1),)).complete
        return found

    def unmet_pieces(self, unmet: Sequence[Want]) -> tuple[int, ...]:
        """For demand that does not fit as a whole: the number of pieces (`as_shares`) for which no room is left here,
        at least one for each unmet demand.
        """
        wants, state = tuple(unmet), self._state
        known = state.pieces.of(wants)
        if known is None:
            placement = OpenPlacement(state=state)
            known = placement._unmet_pieces(wants)
            state.pieces.keep(wants, known)
        return known

    def _unmet_pieces(self, unmet: tuple[Want, ...]) -> tuple[int, ...]:
        self._begin()
        pieces = [count for _, count in as_shares(unmet)]
        for index, need in orders_of(unmet).by(self._weights):
            demand, count = unmet[index]
            if demand.one_host or demand.together:
                continue
            rooms, each = list(self._rooms(need, None)), count if need.apart else None
            there = sum(min(room, each or room) * kind.count for _, kind, room in rooms)
            self._take(need, rooms, min(there, pieces[index]), most=each)
            pieces[index] = max(pieces[index] - there, 1)
        return tuple(pieces)

    def _put_together(self, need: Need, count: int) -> int:
        """Place up to `count` tasks, each inside one group, group after group in the order of their first hosts."""
        done = 0
        for group in self._state.groups:
            done += self._put(need, count - done, group)
            if done == count:
                break
        return done

    def _put(self, need: Need, count: int, group: str | None = None) -> int:
        """Place up to `count` tasks, only on hosts of `group` if one is given; return how many."""
        if need.once or (need.each and need.visits > 1) or (need.exclusive and not need.apart):
            return next(done for done in range(count + 1) if done == count or not self._put_alone(need, group))
        rooms = self._enough(need, group, count)
        if not rooms:
            return 0
        if need.apart and need.visits > 1:
            tasks = self._most_apart(rooms, need.visits, count)
            self._take(need, rooms, tasks * need.visits, most=tasks)
        else:
            tasks = min(count, sum(room * kind.count for _, kind, room in rooms) // need.visits)
            self._take(need, rooms, tasks * need.visits)
        return tasks

    def _put_alone(self, need: Need, group: str | None) -> bool:
        """Place one task over several hosts, the first of them charged for the task itself, or one task that needs
        whole hosts.
        """
        once = tuple(added(dict(need.once), dict(need.each)).items())
        most, there = 1 if need.apart else None, 0
        first: _Room | None = None
        rooms: list[_Room] = []
        for number, kind, room in self._rooms(need, group):
            if first is None and kind.holds(need, once) and (able := kind.room(need, need.once)):
                # All hosts of its kind count like the first one, which is also charged for the task.
                first, room = (number, kind, able), able
            else:
                rooms.append((number, kind, room))
            there += min(room, most or room) * kind.count
            if first is not None and there >= need.visits:
                self._take(need, [first, *rooms], need.visits, most=most, once=need.once)
                return True
        return False

    def _rooms(self, need: Need, group: str | None) -> Iterator[_Room]:
        """Hosts with room for visits of this need: those that got something, best fit first, then the others in their
        order.
        """
        if not need.exclusive:
            for number, kind in self._opened.fitting(need, self._weights):
                if group in (None, kind.group) and (room := kind.room(need)):
                    yield number, kind, room
        for number, kind in self._fresh.items():
            if group in (None, kind.group) and (room := kind.room_for(need)):
                yield number, kind, room

    def _enough(self, need: Need, group: str | None, tasks: int) -> list[_Room]:
        """The first of these hosts that have room for this number of tasks; all of them if they have less."""
        found: list[_Room] = []
        needed = tasks * need.visits
        for number, kind, room in self._rooms(need, group):
            found.append((number, kind, room))
            needed -= (min(room, tasks) if need.apart else room) * kind.count
            if needed <= 0:
                break
        return found

    def _most_apart(self, rooms: list[_Room], visits: int, count: int) -> int:
        """The most tasks T that make all their visits on different hosts: hosts offer T × visits, each at most T."""
        low, high = 0, count
        while low < high:
            tasks = (low + high + 1) // 2
            if sum(min(room, tasks) * kind.count for _, kind, room in rooms) >= tasks * visits:
                low = tasks
            else:
                high = tasks - 1
        return low

    def _take(
        self,
        need: Need,
        rooms: list[_Room],
        visits: int,
        *,
        most: int | None = None,
        once: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Take `visits` visits, host after host, at most `most` on each. The first host is also charged `once`."""
        for number, kind, room in rooms:
            if not visits:
                break
            rest: Kind | None = kind
            each, opened = min(room, most or room), kind.touched
            if opened:
                self._opened.remove(number)
            while rest is not None and visits:
                load = min(each, visits)
                hosts = 1 if once or load < each else min(rest.count, visits // each)
                taken, rest = rest.split(hosts)
                self._charge(taken, need, load, once)
                visits, once = visits - hosts * load, ()
            if rest is not None and opened:
                self._opened.add(rest)
            elif rest is not None:
                self._fresh[number] = rest
            elif not opened:
                del self._fresh[number]

    def _charge(self, kind: Kind, need: Need, visits: int, once: tuple[tuple[str, int], ...]) -> None:
        self._used.update(kind.names)
        if self._trace is not None:
            self._trace.append((self._demand, kind.names, visits))
        if not kind.touched:
            self._new_used += kind.new
        after = kind.after(need, visits, once)
        if not after.full:
            self._opened.add(after)


_Room = tuple[int, Kind, int]
"""Hosts, by number among the fresh or the opened ones, and how many visits each of them can take."""
