"""Placement never overcommits, never places less with more hosts, and does not depend on the order of demand."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.packing.packed import WAYS, Way
from autoscaler.core.placement import placed, placement
from autoscaler.core.placement.placement import OpenPlacement, place

POOL = frozenset({"q"})


@st.composite
def demands(draw: st.DrawFn, *, spread: bool) -> Demand:
    if spread and draw(st.booleans()):
        per_host = draw(st.sampled_from((None, 1, 2)))
        slots = draw(st.integers(2, 6))
        return Demand(POOL, slots - slots % (per_host or 1), per_host, **draw(requested(("per_slot", "once_a_host"))))
    slots = draw(st.integers(1, 4))
    exclusive = draw(st.integers(0, 5)) == 0
    return Demand(POOL, slots, slots, exclusive=exclusive, **draw(requested(("per_slot", "per_job", "once_a_host"))))


amounts = st.sampled_from(((), (), (("mem", 1),), (("mem", 2),), (("mem", 0.5),)))


def requested(ways: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """A complex counts in one of these ways."""
    return st.builds(lambda way, amount: {way: amount}, st.sampled_from(ways), amounts)


host = st.tuples(st.integers(0, 6), st.integers(0, 8), st.booleans())


def as_hosts(parts: list[tuple[int, int, bool]]) -> list[Host]:
    return [
        Host(f"h{at}", {"q": slots}, (("mem", memory),), empty=empty) for at, (slots, memory, empty) in enumerate(parts)
    ]


def demand_lists(*, spread: bool) -> st.SearchStrategy[list[tuple[Demand, int]]]:
    return st.lists(st.tuples(demands(spread=spread), st.integers(0, 3)), max_size=3)


@given(demand_lists(spread=True), st.lists(host, max_size=3))
def test_a_placement_is_possible_by_brute_force(
    wanted: list[tuple[Demand, int]], parts: list[tuple[int, int, bool]]
) -> None:
    placed = place(wanted, as_hosts(parts)).placed
    tasks = [demand for (demand, _), count in zip(wanted, placed, strict=True) for _ in range(count)]
    assert fits([[slots, memory, empty] for slots, memory, empty in parts], tasks)


@given(demand_lists(spread=True), st.lists(host, max_size=3), st.sampled_from(WAYS), st.integers(0, 3))
def test_a_placement_in_balance_is_possible_by_brute_force(
    wanted: list[tuple[Demand, int]], parts: list[tuple[int, int, bool]], way: Way, dear: int
) -> None:
    hosts = [replace(each, price=1.0 + (at == dear)) for at, each in enumerate(as_hosts(parts))]
    found = OpenPlacement(hosts)._in_balance(tuple(wanted), way)
    if found is not None:
        assert all(0 <= done <= count for (_, count), done in zip(wanted, found.placed, strict=True))
        tasks = [demand for (demand, _), count in zip(wanted, found.placed, strict=True) for _ in range(count)]
        assert fits([[slots, memory, empty] for slots, memory, empty in parts], tasks)


@given(demand_lists(spread=True), st.lists(host, max_size=3))
def test_hosts_with_a_price_take_no_less_than_without(
    wanted: list[tuple[Demand, int]], parts: list[tuple[int, int, bool]]
) -> None:
    """All tasks, if all fit by hardness; the trace tells the same."""
    hosts = as_hosts(parts)
    plain, priced = place(wanted, hosts), [replace(each, price=1.0) for each in hosts]
    assert place(wanted, priced).complete or not plain.complete
    assert OpenPlacement(priced).trace(wanted)[0] == place(wanted, priced)


@given(demand_lists(spread=False), st.lists(host, max_size=4), host)
def test_one_more_host_never_places_fewer_tasks(
    wanted: list[tuple[Demand, int]], parts: list[tuple[int, int, bool]], more: tuple[int, int, bool]
) -> None:
    """If it is no larger than the others: what the largest have says what is scarce, and so the order of demand."""
    slots, memory = (max((part[at] for part in parts if part[0]), default=0) for at in (0, 1))
    more = (min(more[0], slots), min(more[1], memory), more[2])
    without, with_it = (sum(place(wanted, as_hosts(some)).placed) for some in (parts, [*parts, more]))
    assert with_it >= without


@given(st.lists(st.tuples(st.integers(1, 9), amounts), min_size=1, max_size=3), st.lists(host, max_size=3))
def test_the_unmet_slots_are_exactly_what_a_new_host_must_have(
    asked: list[tuple[int, tuple[tuple[str, float], ...]]], parts: list[tuple[int, int, bool]]
) -> None:
    wanted = [(Demand(POOL, slots, None, per_slot=each), 1) for slots, each in asked]
    placement = OpenPlacement(as_hosts(parts))
    unmet = [(demand, missing) for (demand, _), missing in zip(wanted, placement.place(wanted).unmet, strict=True)]
    missing_slots = sum(placement.unmet_pieces(unmet))
    enough, less = (Host("new", {"q": slots}, (("mem", 100),)) for slots in (missing_slots, missing_slots - 1))
    assert placement.with_new(enough, 1).place(unmet).complete
    assert not missing_slots or not placement.with_new(less, 1).place(unmet).complete


@given(demand_lists(spread=True), st.lists(host, max_size=3))
def test_the_order_of_demand_does_not_change_how_many_tasks_are_placed(
    wanted: list[tuple[Demand, int]], parts: list[tuple[int, int, bool]]
) -> None:
    forth, back = place(wanted, as_hosts(parts)), place(wanted[::-1], as_hosts(parts))
    assert sum(forth.placed) == sum(back.placed)


@given(demands(spread=False), st.integers(0, 6), st.lists(host, max_size=3))
def test_a_single_demand_is_placed_as_often_as_possible(
    demand: Demand, count: int, parts: list[tuple[int, int, bool]]
) -> None:
    placed = place([(demand, count)], as_hosts(parts)).placed[0]
    assert placed == count or not fits([list(part) for part in parts], [demand] * (placed + 1))


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), demand_lists(spread=True)), max_size=5),
    st.lists(host, max_size=3),
    host,
)
def test_what_is_remembered_is_what_placing_anew_finds(
    steps: list[tuple[int, int, list[tuple[Demand, int]]]],
    parts: list[tuple[int, int, bool]],
    new: tuple[int, int, bool],
) -> None:
    """Steps: whether a copy or the placement itself goes on, with so many new hosts, and what is put there."""

    def found(*, remembered: bool) -> list[object]:
        if not remembered:
            placed._STATES, placed._SUPPLIES = placed.LastValues(), placed.LastValues()
        first, results = OpenPlacement(as_hosts(parts)), list[object]()
        for own, count, wanted in steps:
            grown = first if own else first.with_new(as_hosts([new])[0], count)
            results += [grown.takes(demand) for demand, _ in wanted]
            results += [grown.place(wanted), grown.unmet_pieces(wanted), grown.place(wanted)]
        return results

    with patch.object(placement, "FEW", 0):
        anew = found(remembered=False)
        assert found(remembered=True) == anew
    with patch.object(placement, "FEW", 1_000):
        assert found(remembered=False) == anew


def fits(hosts: list[list[int | float | bool]], tasks: list[Demand]) -> bool:
    """By trying every way: whether all these tasks fit on these hosts (slots, memory, empty) together."""
    if not tasks:
        return True
    return any(fits(after, tasks[1:]) for after in _ways(hosts, tasks[0]))


def _ways(hosts: list[list[int | float | bool]], task: Demand) -> list[list[list[int | float | bool]]]:
    """Every way to put one task: this many slots on each host."""
    choices = [range(min(int(slots), task.slots) + 1) for slots, _, _ in hosts]
    found = []
    for shares in itertools.product(*choices):
        if sum(shares) != task.slots or any(share % (task.per_host or 1) for share in shares):
            continue
        if task.per_host and any(share not in (0, task.per_host) for share in shares):
            continue
        after = [_charged(host, task, share, shares) for host, share in zip(hosts, shares, strict=True)]
        if all(host is not None for host in after):
            found.append([host for host in after if host is not None])
    return found


def _charged(
    host: list[int | float | bool], task: Demand, share: int, shares: tuple[int, ...]
) -> list[int | float | bool] | None:
    if not share:
        return host
    slots, memory, empty = host
    need = share * dict(task.per_slot).get("mem", 0)
    need += dict(task.once_a_host).get("mem", 0)
    need += dict(task.per_job).get("mem", 0) if sum(1 for s in shares if s) == 1 else 0
    if memory < need or (task.exclusive and not empty):
        return None
    return [0 if task.exclusive else slots - share, memory - need, False]
