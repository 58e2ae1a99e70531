"""Groups of workers near each other: made whole, one type and zone, let go whole; and jobs that stay inside one."""

from __future__ import annotations

from autoscaler.core.model import Demand, Host
from autoscaler.core.placement import place

TOGETHER = Demand(frozenset({"main.q"}), slots=8, together=True)


def hosts(group: str, count: int, slots: int = 4) -> list[Host]:
    return [Host(f"{group}{number}", {"main.q": slots}, group=group) for number in range(count)]


# -- jobs that stay inside one group ----------------------------------------------------------------------------------


def test_a_demand_for_one_group_is_never_spread_over_two() -> None:
    assert place(((TOGETHER, 1),), [*hosts("a", 1), *hosts("b", 1)]).unmet == (1,)


def test_a_demand_for_one_group_takes_no_host_outside_of_any() -> None:
    assert place(((TOGETHER, 1),), [Host("h1", {"main.q": 8})]).unmet == (1,)


def test_each_task_may_have_a_group_of_its_own() -> None:
    found = place(((TOGETHER, 3),), [*hosts("a", 2), Host("h1", {"main.q": 8}), *hosts("b", 2)])

    assert (found.placed, found.used) == ((2,), {"a0", "a1", "b0", "b1"})


def test_new_hosts_complete_a_group_that_lacks_some() -> None:
    found = place(((TOGETHER, 1),), hosts("a", 1), Host("", {"main.q": 4}, group="a"), 1)

    assert (found.placed, found.new_used) == ((1,), 1)


def test_a_demand_for_no_group_may_use_hosts_of_several() -> None:
    anywhere = Demand(frozenset({"main.q"}), slots=8)

    assert place(((anywhere, 1),), [*hosts("a", 1), *hosts("b", 1)]).complete
