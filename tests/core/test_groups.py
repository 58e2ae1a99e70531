"""Groups of workers near each other: made whole, one type and zone, let go whole; and jobs that stay inside one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.group_names import free_number, group_id, host_group_of, is_of_group, pe_of
from autoscaler.core.model import Demand, Host, Snapshot
from autoscaler.core.placement import place
from autoscaler.core.plan import plan
from autoscaler.core.reasons import Code
from tests.core.building import Thing, a_job, a_snapshot, fate

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

    assert found.placed == (2,)
    assert found.used == {"a0", "a1", "b0", "b1"}


def test_new_hosts_complete_a_group_that_lacks_some() -> None:
    found = place(((TOGETHER, 1),), hosts("a", 1), Host("", {"main.q": 4}, group="a"), 1)

    assert found.placed == (1,)
    assert found.new_used == 1


def test_a_demand_for_no_group_may_use_hosts_of_several() -> None:
    anywhere = Demand(frozenset({"main.q"}), slots=8)

    assert place(((anywhere, 1),), [*hosts("a", 1), *hosts("b", 1)]).complete


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    (
        pytest.param("a:b:4-1", "a_b:4-1", id="colon and underscore"),
        pytest.param("a@b:4-1", "a+40+b:4-1", id="a letter and its code"),
        pytest.param("a:4-1", "a:4-11", id="numbers"),
    ),
)
def test_different_groups_have_different_names_in_grid_engine(one: str, other: str) -> None:
    assert host_group_of(one) != host_group_of(other)


def test_a_groups_parallel_environment_is_known_by_its_name() -> None:
    assert is_of_group(pe_of("mpi", group_id("execute:64", 12)), "mpi")


def test_a_parallel_environment_of_somebody_else_is_none_of_a_group() -> None:
    assert not is_of_group("mpi_shm", "mpi")


def test_a_new_group_takes_the_first_number_that_no_group_of_its_array_has() -> None:
    assert free_number(("execute:4-1", "execute:4-3", "execute:64-2"), "execute:4") == 2


# -- what jobs ask for ------------------------------------------------------------------------------------------------


def in_groups(*things: Thing, **kwargs: object) -> Snapshot:
    """A world in which jobs of PE `mpi` stay inside one group."""
    snapshot = a_snapshot(*things, **kwargs)  # type: ignore[arg-type]
    return replace(snapshot, policy=replace(snapshot.policy, group_pes=("mpi",)))


@pytest.mark.parametrize("pe", ("mpi", "mpi_execute_4-1"))
def test_a_job_that_names_one_parallel_environment_of_groups_exactly_is_told_how_to_ask(pe: str) -> None:
    assert fate(plan(in_groups(a_job(slots=4, pe=pe)))) is Code.GROUP_PE_BY_NAME


def test_without_the_setting_jobs_of_the_same_parallel_environment_count_as_ever() -> None:
    assert fate(plan(a_snapshot(a_job(slots=4, pe="mpi*")))) is Code.EXPIRED
