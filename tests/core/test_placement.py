"""Do these demands fit on these hosts: slots, spreading rules, consumables, properties, whole hosts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from autoscaler.core.model.demand_vector import Demand, Property
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.kinds import Kind
from autoscaler.core.placement.needs import hardest_first
from autoscaler.core.placement.placed import Placement
from autoscaler.core.placement.placement import OpenPlacement, as_shares, place, takes_part

MAIN = frozenset({"main.q"})


def a_demand(slots: int = 1, **demand: object) -> Demand:
    return Demand(**{"pools": MAIN, "slots": slots, "per_host": slots, **demand})  # type: ignore[arg-type]


def hosts(*slots: int, **host: object) -> list[Host]:
    return [Host(f"h{at}", {"main.q": count}, **host) for at, count in enumerate(slots)]  # type: ignore[arg-type]


def placed(demand: Demand, count: int, on: list[Host]) -> int:
    return place([(demand, count)], on).placed[0]


def test_single_slots_fill_host_after_host() -> None:
    assert placed(a_demand(), 9, hosts(2, 3)) == 5


def test_slots_for_one_host_do_not_spread() -> None:
    assert placed(a_demand(4), 9, hosts(3, 3, 9)) == 2


def test_slots_that_may_spread_use_every_free_slot() -> None:
    assert placed(a_demand(4, per_host=None), 9, hosts(3, 3, 3)) == 2


def test_slots_per_host_need_as_many_hosts() -> None:
    assert placed(a_demand(8, per_host=4), 9, hosts(16, 4)) == 1


def test_slots_per_host_use_each_host_once_a_task() -> None:
    assert placed(a_demand(8, per_host=4), 9, hosts(16)) == 0


def test_a_total_that_is_not_a_multiple_of_the_slots_per_host_fits_nowhere() -> None:
    assert placed(a_demand(6, per_host=4), 1, hosts(8, 8)) == 0


def test_the_hardest_demand_is_placed_first_whatever_the_order() -> None:
    demands = [(a_demand(1), 4), (a_demand(4), 1)]
    assert place(demands, hosts(4)).placed == (0, 1)


def test_of_two_equal_demands_the_one_for_one_group_is_placed_first() -> None:
    demands = [(a_demand(4, per_host=2), 1), (a_demand(4, per_host=2, together=True), 1)]
    assert place(demands, hosts(2, 2, group="g")).placed == (0, 1)
    assert place(demands[::-1], hosts(2, 2, group="g")).placed == (1, 0)


def test_a_consumable_counts_per_slot() -> None:
    assert placed(a_demand(2, per_slot=(("mem", 3),)), 9, hosts(8, free=(("mem", 20),))) == 3


def test_a_consumable_counts_once_per_job() -> None:
    assert placed(a_demand(2, per_job=(("mem", 3),)), 9, hosts(8, free=(("mem", 10),))) == 3


def test_a_consumable_that_a_host_lacks_is_not_offered() -> None:
    assert placed(a_demand(per_slot=(("mem", 1),)), 1, hosts(8)) == 0


def test_a_default_request_counts_only_on_hosts_that_have_the_consumable() -> None:
    assert placed(a_demand(assumed=(("mem", 4),)), 9, [*hosts(3), *hosts(3, free=(("mem", 8),))]) == 5


def test_fractions_are_exact() -> None:
    assert placed(a_demand(per_slot=(("gpu", 0.1),)), 99, hosts(99, free=(("gpu", 1),))) == 10


def test_a_host_may_limit_the_slots_of_all_its_queues_together() -> None:
    two_queues = Host("h", {"main.q": 4, "other.q": 4}, free=(("slots", 5),))
    assert place([(Demand(frozenset({"main.q", "other.q"}), 1, 1), 9)], [two_queues]).placed == (5,)


def test_slots_of_a_queue_not_requested_do_not_count() -> None:
    assert placed(a_demand(), 1, [Host("h", {"other.q": 4})]) == 0


def test_a_required_property_must_match() -> None:
    asked = a_demand(properties=(Property("arch", "==", "lx-*"),))
    assert place([(asked, 9)], hosts(2, 2, properties={"arch": "lx-amd64"}) + hosts(3)).placed == (4,)


def test_an_exclusive_demand_needs_an_empty_host() -> None:
    assert placed(a_demand(exclusive=True), 9, [*hosts(4, 4), *hosts(4, empty=False)]) == 2


def test_nothing_else_is_placed_on_an_exclusively_used_host() -> None:
    assert place([(a_demand(exclusive=True), 1), (a_demand(), 9)], hosts(4, 4)).placed == (1, 4)


def test_an_exclusive_spread_job_uses_whole_hosts() -> None:
    assert placed(a_demand(6, per_host=None, exclusive=True), 9, hosts(4, 4, 4, 4, 4)) == 2


def test_a_per_job_consumable_is_taken_only_on_the_first_host_of_a_spread_job() -> None:
    on = [*hosts(4), *hosts(4, free=(("scratch", 1),))]
    assert placed(a_demand(8, per_host=None, per_job=(("scratch", 1),)), 1, on) == 1


def test_a_spread_job_without_a_host_for_its_per_job_consumable_does_not_fit() -> None:
    assert placed(a_demand(8, per_host=None, per_job=(("scratch", 1),)), 1, hosts(4, 4)) == 0


def mem(amount: float) -> dict[str, Any]:
    return {"per_job": (("mem", amount),)}


def machines(demands: list[tuple[Demand, int]], new: Host) -> int:
    """How many new hosts these demands use."""
    found = place(demands, (), new, 1000)
    assert found.complete
    return found.new_used


M5_24XLARGE = Host("", {"main.q": 96}, free=(("mem", 384),))


def test_jobs_that_take_half_of_a_hosts_memory_are_placed_before_jobs_that_take_a_slot() -> None:
    assert machines([(a_demand(), 940), (a_demand(**mem(190)), 20)], M5_24XLARGE) == 10


def test_jobs_that_take_a_third_of_a_hosts_memory_are_placed_before_jobs_of_eight_slots() -> None:
    assert machines([(a_demand(8), 33), (a_demand(**mem(120)), 9)], M5_24XLARGE) == 3


@pytest.mark.parametrize("way", ("per_slot", "per_job", "once_a_host"))
def test_amounts_of_every_kind_make_a_demand_hard(way: str) -> None:
    memory_rich = Demand(MAIN, 1, 1, **{way: (("mem", 3),)})  # type: ignore[arg-type]
    assert machines([(a_demand(2), 2), (memory_rich, 2)], Host("", {"main.q": 3}, free=(("mem", 4),))) == 2


def test_what_a_host_has_decides_which_resource_is_scarce() -> None:
    demands = [(a_demand(3), 2), (a_demand(2, **mem(3.5)), 2)]
    assert place(demands, hosts(4, 4, free=(("mem", 4),))).placed == (0, 2), "memory is"
    assert place(demands, hosts(4, 4, free=(("mem", 40),))).placed == (2, 0), "slots are"


def test_a_host_that_got_something_is_filled_before_another_one_is_used() -> None:
    on = [*hosts(2), Host("big", {"main.q": 8})]
    assert place([(a_demand(4), 1), (a_demand(1), 2)], on).used == {"big"}


def test_of_hosts_that_got_something_the_one_with_the_least_left_is_taken() -> None:
    placement = OpenPlacement([Host("a", {"main.q": 8}), Host("b", {"main.q": 7})])
    assert placement.place([(a_demand(5), 2)]).used == {"a", "b"}
    assert placement.place([(a_demand(2), 1)]).used == {"b"}
    assert placement.place([(a_demand(3), 1)]).complete, "the other one still has room for more"


def test_equal_demands_on_equal_hosts_are_placed_once() -> None:
    def found() -> tuple[Placement, Placement]:
        on = OpenPlacement([Host(f"h{at}", {"main.q": at}) for at in range(1, 20)])
        wants = [(a_demand(slots), 2) for slots in (1, 2, 3, 4)]
        return on.place(wants), on.with_new(Host("", {"main.q": 4}), 3).place(wants)

    first, again = found(), found()
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_a_copy_that_takes_more_leaves_the_others_as_they_are() -> None:
    first = OpenPlacement(hosts(2, 3))
    other = first.copy()
    assert other.place([(a_demand(), 9)]).placed == (5,)
    assert first.takes(a_demand(3))
    assert not other.takes(a_demand())
    assert first.place([(a_demand(), 9)]).placed == (5,)


def test_a_consumable_named_slots_is_no_measure_of_free_slots() -> None:
    two = a_demand(2, per_slot=(("slots", 1),))
    assert placed(two, 9, hosts(4, 4, free=(("slots", 3),))) == 2


def test_a_queue_instances_own_memory_is_weighed_too() -> None:
    demands = [(a_demand(3), 1), (a_demand(2, **mem(3.5)), 1)]
    assert place(demands, hosts(4, own={"main.q": (("mem", 4),)})).placed == (0, 1)


GPU = (("gpu", 1),)


def test_a_per_host_consumable_is_taken_once_on_every_host() -> None:
    on = hosts(4, 4, free=(("gpu", 1),))
    assert placed(a_demand(6, per_host=None, once_a_host=GPU), 9, on) == 1
    assert placed(a_demand(3, per_host=None, once_a_host=GPU), 9, on) == 2, "a slot of the first host is left"
    assert placed(a_demand(4, per_host=2, once_a_host=GPU), 9, on) == 1
    assert placed(a_demand(4, once_a_host=GPU), 9, on) == 2


def test_a_host_without_a_per_host_consumable_offers_no_slot() -> None:
    on = [*hosts(4, free=(("gpu", 1),)), *hosts(4)]
    assert placed(a_demand(6, per_host=None, once_a_host=GPU), 1, on) == 0
    assert placed(a_demand(8, per_host=4, once_a_host=GPU), 1, on) == 0


def test_a_per_host_consumable_of_a_queue_instance_is_taken_once_a_host() -> None:
    on = hosts(4, 4, own={"main.q": GPU})
    assert placed(a_demand(6, per_host=None, once_a_host=GPU), 9, on) == 1
    assert placed(a_demand(4, per_host=2, once_a_host=GPU), 9, on) == 1
    assert placed(a_demand(2, once_a_host=GPU), 9, on) == 2


def test_per_job_and_per_host_consumables_are_both_taken_on_the_first_host() -> None:
    on = hosts(2, 2, 2, 2, free=(("gpu", 1), ("scratch", 1)))
    demand = a_demand(4, per_host=None, once_a_host=GPU, per_job=(("scratch", 1),))
    assert placed(demand, 9, on) == 2
    placement = OpenPlacement(hosts(3, 3, free=(("gpu", 2), ("scratch", 1))))
    assert placement.place([(demand, 1)]).complete
    assert placement.place([(a_demand(once_a_host=GPU), 9)]).placed == (1,), "the first host is full"
    assert placement.place([(a_demand(per_job=(("scratch", 1),)), 9)]).placed == (1,), "of the second nothing was taken"


@pytest.mark.parametrize("once", ("per_job", "once_a_host"))
def test_a_consumable_taken_once_and_per_slot_must_suffice_for_both(once: str) -> None:
    demand = a_demand(2, per_host=None, per_slot=(("mem", 3),), **{once: (("mem", 1),)})
    assert placed(demand, 1, hosts(1, 1, free=(("mem", 3),))) == 0
    assert placed(demand, 1, hosts(1, 1, free=(("mem", 4),))) == 1


def test_no_placement_leaves_a_negative_amount() -> None:
    """Found by random snapshots: an overdrawn consumable gave later demands a negative amount."""
    world = OpenPlacement([Host("h1", {"main.q": 2}, (("lic", 2),)), Host("h0", {"main.q": 5}, (("lic", 3),))])
    both = a_demand(1, per_host=None, assumed=(("lic", 1),), once_a_host=(("lic", 1),))
    world.place([(both, 3)])
    found = world.place([(a_demand(1, per_slot=(("lic", 1),)), 9)])
    assert min(*found.placed, *found.unmet) >= 0


def test_shares_of_a_spread_job_take_a_per_host_consumable_once_together() -> None:
    wanted = as_shares(((a_demand(6, per_host=None, once_a_host=GPU), 1),))
    assert place(wanted, hosts(4, 4, free=GPU)).placed == (6,)
    assert place(wanted, [*hosts(4, free=GPU), *hosts(4)]).placed == (4,)


def test_new_hosts_are_used_after_all_others() -> None:
    found = place([(a_demand(), 7)], hosts(2, 2), Host("", {"main.q": 2}), 10)
    assert (found.placed, found.new_used) == ((7,), 2)


def test_a_million_tasks_are_placed_on_new_hosts() -> None:
    found = place([(a_demand(), 10**6)], (), Host("", {"main.q": 3}), 10**6)
    assert found.new_used == 333334


def test_a_spread_job_may_use_existing_and_new_hosts() -> None:
    found = place([(a_demand(8, per_host=None), 1)], hosts(2), Host("", {"main.q": 4}), 5)
    assert (found.placed, found.new_used) == ((1,), 2)


def test_used_lists_the_hosts_that_got_a_task() -> None:
    assert place([(a_demand(), 3)], hosts(2, 2, 2)).used == {"h0", "h1"}


def test_shares_are_the_parts_of_a_spread_job_for_one_host() -> None:
    demands = [(a_demand(8, per_host=None), 2), (a_demand(8, per_host=4), 2), (a_demand(3), 2)]
    assert [(demand.slots, count) for demand, count in as_shares(demands)] == [(1, 16), (4, 4), (3, 2)]


@pytest.mark.parametrize("way", ("per_slot", "per_job", "once_a_host"))
def test_a_consumable_requested_with_0_must_still_be_offered(way: str) -> None:
    """Grid Engine: `-l gpu=0` cannot run where there is no `gpu`: "job requests unknown resource"."""
    none_of_it = a_demand(2, **{way: (("gpu", 0),)})
    assert placed(none_of_it, 1, hosts(2)) == 0
    assert placed(none_of_it, 1, hosts(2, free=(("gpu", 0),))) == 1
    assert placed(none_of_it, 1, hosts(2, own={"main.q": (("gpu", 0),)})) == 1
    assert placed(none_of_it, 1, hosts(2, own={"main.q": (("tape", 0),)})) == 0


@pytest.mark.parametrize(("slots", "fits"), ((3, True), (4, True), (5, False)))
def test_a_host_takes_part_if_it_has_room_for_one_visit(slots: int, fits: bool) -> None:
    assert takes_part(a_demand(slots), Host("h1", {"main.q": 4})) is fits


def test_a_whole_host_that_lacks_what_its_quota_counts_takes_nothing() -> None:
    demand = a_demand(4, per_host=2, exclusive=True, assumed=(("quota", 1.0),))
    assert placed(demand, 1, hosts(2, 2, free=(("quota", 1.0),))) == 0
    assert placed(demand, 1, hosts(2, 2, free=(("quota", 2.0),))) == 1


def test_demands_that_need_the_same_are_placed_in_the_order_of_their_names() -> None:
    """Sets of words have another order in every process, and equal snapshots give equal plans."""
    words = [f"{letter}.q" for letter in "abcdefghij"]
    of_pools = [a_demand(pools=frozenset(pair)) for pair in combinations(words, 2)]
    by_names = [a_demand(names=frozenset(pair)) for pair in combinations(words, 2)]
    assert sorted(of_pools, key=hardest_first) == of_pools
    assert sorted(by_names, key=hardest_first) == by_names


def test_tasks_on_equal_hosts_are_placed_by_division(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not host by host: there may be thousands."""
    split, taken = Kind.split, list[int]()

    def counting(kind: Kind, count: int) -> tuple[Kind, Kind | None]:
        taken.append(count)
        return split(kind, count)

    monkeypatch.setattr(Kind, "split", counting)
    new = Host("", {"main.q": 4})
    assert place([(a_demand(2), 9_999)], (), new, 5_000).placed == (9_999,)
    assert taken == [4_999, 1]


def test_what_is_scarce_on_hosts_in_use_is_placed_first() -> None:
    demands = [(a_demand(2), 1), (a_demand(1, per_slot=(("lic", 3.0),)), 1)]
    begun = OpenPlacement(hosts(3, free=(("lic", 3.0),)))
    begun.place([(a_demand(1), 1)])
    assert begun.place(demands).placed == place(demands, hosts(2, free=(("lic", 3.0),))).placed == (0, 1)


def test_hosts_with_a_price_take_what_uses_more_of_them() -> None:
    """Hardest first, the two small tasks leave too few slots for one that needs a third of all memory."""
    demands = [(a_demand(3, per_host=None, per_slot=(("mem", 2.0),)), 2), (a_demand(2), 2)]
    plain, priced = hosts(5, free=(("mem", 6.0),)), hosts(5, free=(("mem", 6.0),), price=1.0)
    found = place(demands, priced)
    assert (place(demands, plain).placed, found.placed) == ((0, 2), (1, 1))
    assert found.used == {"h0"}


def test_hosts_with_a_price_are_filled_with_what_tasks_take_once_a_host() -> None:
    demands = [
        (a_demand(1, per_host=None, once_a_host=(("mem", 2.0),)), 2),
        (a_demand(3, per_slot=(("mem", 1.0),)), 2),
    ]
    assert place(demands, hosts(8, free=(("mem", 7.0),), price=1.0)).placed == (2, 1)


def test_what_hosts_with_a_price_take_is_told_by_demand() -> None:
    demands = [
        (a_demand(3, per_host=None, per_slot=(("mem", 3.0),)), 1),
        (a_demand(1, per_job=(("mem", 2.0),)), 3),
        (a_demand(1, per_host=None, per_job=(("mem", 3.0),)), 3),
    ]
    found, taken = OpenPlacement(hosts(3, free=(("mem", 7.0),), price=1.0)).trace(demands)
    assert (found.placed, sorted(taken)) == ((0, 2, 1), [(1, "h0", 2), (2, "h0", 1)])


def test_on_hosts_with_a_price_each_way_is_tried_until_all_tasks_have_room() -> None:
    demands = [
        (a_demand(3, per_slot=(("mem", 1.0),)), 1),
        (a_demand(3, per_job=(("mem", 1.0),)), 3),
        (a_demand(2, per_host=None, per_slot=(("mem", 3.0),)), 1),
    ]

    def found(price: float | None) -> tuple[int, ...]:
        small, large = (Host(name, {"main.q": slots}, (("mem", slots + 1.0),), price=price) for name, slots in SIZES)
        return place(demands, [small, large]).placed

    assert (found(None), found(1.0)) == ((1, 1, 0), (1, 1, 1))


SIZES = (("small", 4), ("large", 5))


def test_a_task_that_begins_in_one_queue_instance_takes_nothing_of_another() -> None:
    own = {"a.q": (("lic", 1.0),), "b.q": (("lic", 3.0),)}
    both = OpenPlacement([Host("h1", {"a.q": 4, "b.q": 4}, own=own)])
    demand = a_demand(pools=frozenset(own), per_job=(("lic", 1.0),))
    assert [both.place([(demand, count)]).placed for count in (2, 9)] == [(2,), (2,)]
