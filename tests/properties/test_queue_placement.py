"""Placement on hosts with two queue instances that have values of their own never overcommits one of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.placement import place

QUEUES = ("a.q", "b.q")


class HostState(NamedTuple):
    """What is left on a host: slots and licences by queue, licences of the host. None: it has no such value."""

    slots: tuple[int, int]
    own: tuple[int | None, int | None]
    free: int | None

    def offered(self, name: str) -> Host:
        own = {queue: (("lic", left),) for queue, left in zip(QUEUES, self.own, strict=True) if left is not None}
        free = () if self.free is None else (("lic", self.free),)
        return Host(name, dict(zip(QUEUES, self.slots, strict=True)), free, own=own)

    def charged(self, slots: tuple[int, ...], licences: tuple[int, ...]) -> HostState | None:
        """After this many slots were taken in each queue; None where there are fewer."""
        for left, taken in zip(self.own, licences, strict=True):
            if taken and (left is None and self.free is None):
                return None
        after = HostState(
            (self.slots[0] - slots[0], self.slots[1] - slots[1]),
            (_minus(self.own[0], licences[0]), _minus(self.own[1], licences[1])),
            _minus(self.free, sum(licences)),
        )
        return after if min(*after.slots, *(left or 0 for left in (*after.own, after.free))) >= 0 else None


def _minus(left: int | None, taken: int) -> int | None:
    return None if left is None else left - taken


left = st.sampled_from((None, 0, 1, 2))
hosts = st.builds(HostState, st.tuples(st.integers(0, 3), st.integers(0, 3)), st.tuples(left, left), left)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    pools = frozenset(draw(st.sampled_from((QUEUES, QUEUES, QUEUES[:1], QUEUES[1:]))))
    slots = draw(st.integers(1, 4))
    per_host = 1 if slots == 1 else draw(st.sampled_from((None, 1, slots, *((2,) if slots == 4 else ()))))
    way = draw(st.sampled_from(("per_slot", "per_job", "once_a_host")))
    licences = draw(st.sampled_from(((), (("lic", 1.0),))))
    return Demand(pools, slots, per_host, **{way: licences})  # type: ignore[arg-type]


@given(st.lists(st.tuples(demands(), st.integers(0, 3)), max_size=3), st.lists(hosts, max_size=2))
def test_a_placement_in_two_queues_is_possible_by_brute_force(
    wanted: list[tuple[Demand, int]], states: list[HostState]
) -> None:
    placed = place(wanted, [state.offered(f"h{at}") for at, state in enumerate(states)]).placed
    tasks = [demand for (demand, _), count in zip(wanted, placed, strict=True) for _ in range(count)]
    assert fits(tuple(states), tuple(tasks))


@lru_cache(maxsize=4096)
def fits(states: tuple[HostState, ...], tasks: tuple[Demand, ...]) -> bool:
    """By trying every way: whether all these tasks fit on these hosts together."""
    return not tasks or any(fits(after, tasks[1:]) for after in set(_ways(states, tasks[0])))


def _ways(states: tuple[HostState, ...], task: Demand) -> Iterator[tuple[HostState, ...]]:
    """Every way to start one task: this many of its slots in each queue of each host."""
    choices = [
        tuple(
            slots
            for slots in itertools.product(*(range(min(there, task.slots) + 1) for there in state.slots))
            if all(not taken or queue in task.pools for queue, taken in zip(QUEUES, slots, strict=True))
            and (task.per_host is None or sum(slots) in (0, task.per_host))
        )
        for state in states
    ]
    for shares in itertools.product(*choices):
        if sum(map(sum, shares)) != task.slots:
            continue
        for licences in _licences(task, shares):
            after = tuple(
                state.charged(slots, taken) for state, slots, taken in zip(states, shares, licences, strict=True)
            )
            if None not in after:
                yield after  # type: ignore[misc]


def _licences(task: Demand, shares: tuple[tuple[int, ...], ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way in which such a task takes its licences: from every slot, where it begins, or once on each host."""
    begins = [tuple((0, 1)[at] for at in (0, 1) if slots[at]) for slots in shares]
    none = ((0, 0),) * len(shares)
    if task.per_slot:
        yield shares
    elif task.per_job:
        for host, queues in enumerate(begins):
            for queue in queues:
                yield tuple(_one(queue) if at == host else (0, 0) for at in range(len(shares)))
    elif task.once_a_host:
        yield from itertools.product(*([_one(queue) for queue in queues] or [(0, 0)] for queues in begins))
    else:
        yield none


def _one(queue: int) -> tuple[int, int]:
    return (1, 0) if queue == 0 else (0, 1)
