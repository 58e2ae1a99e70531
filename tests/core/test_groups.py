"""Groups of workers near each other: launched whole, of one type and zone, removed whole; and jobs inside one group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Disable, Enable, Enrol, Launch, Terminate
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import (
    FailureKind,
    InstanceType,
    LaunchFailure,
    MachineState,
    Order,
    OrderedFor,
    OrderState,
)
from autoscaler.core.model.memory import Disabling, Event, OwnerSeen
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import ArrayDefinition, AutoStopAnswer, Requests, RequestSet, Target
from autoscaler.core.placement.placement import place
from autoscaler.core.plan import plan
from autoscaler.core.policy import CircuitBreaker, Limits
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.requests.group_names import group_id, host_group_of, is_of_group, pe_of
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    LARGE,
    LONG_AGO,
    NOW,
    XLARGE,
    AWorker,
    Thing,
    a_bucket,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    an_order,
    category_of,
    codes,
    jobs,
    note_codes,
    reason_code,
    verdict_and_code,
    with_pes_of_groups,
)

TOGETHER = Demand(frozenset({"main.q"}), slots=8, together=True)


def hosts(group: str, count: int, slots: int = 4) -> list[Host]:
    return [Host(f"{group}{number}", {"main.q": slots}, group=group) for number in range(count)]


# -- jobs that stay inside one group ----------------------------------------------------------------------------------


def test_a_demand_for_one_group_is_never_spread_over_two() -> None:
    assert place(((TOGETHER, 1),), [*hosts("a", 1), *hosts("b", 1)]).unmet == (1,)


def test_a_demand_for_one_group_uses_no_host_outside_groups() -> None:
    assert place(((TOGETHER, 1),), [Host("h1", {"main.q": 8})]).unmet == (1,)


def test_each_task_may_have_a_group_of_its_own() -> None:
    found = place(((TOGETHER, 3),), [*hosts("a", 2), Host("h1", {"main.q": 8}), *hosts("b", 2)])

    assert found.placed == (2,)
    assert found.used == {"a0", "a1", "b0", "b1"}


def test_new_hosts_complete_a_group_that_is_short_of_hosts() -> None:
    found = place(((TOGETHER, 1),), hosts("a", 1), Host("", {"main.q": 4}, group="a"), 1)

    assert found.placed == (1,)
    assert found.new_used == 1


def test_a_demand_without_a_group_may_use_hosts_of_several_groups() -> None:
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


def test_a_groups_parallel_environment_is_recognised_by_its_name() -> None:
    assert is_of_group(pe_of("mpi", group_id("execute:64", 12)), "mpi")
    assert is_of_group(pe_of("mpi", group_id("execute:64", 12, of_workers=True)), "mpi")


def test_another_parallel_environment_is_not_taken_for_one_of_a_group() -> None:
    assert not is_of_group("mpi_shm", "mpi")


# -- what jobs ask for ------------------------------------------------------------------------------------------------


NOTHING = Requests()


def in_groups(*things: Thing, requests: Requests = NOTHING, **kwargs: Any) -> Snapshot:
    """A snapshot in which jobs of PE `mpi` stay inside one group, with 100 workers allowed."""
    snapshot = with_pes_of_groups(a_snapshot(*things, **{"limits": Limits(max_workers=100), **kwargs}))
    policy = replace(snapshot.policy, group_pes=("mpi",))
    present = arrays_present(snapshot.fleet, snapshot.memory)
    return replace(snapshot, policy=in_force(policy, requests, present), requests=requests)


@pytest.mark.parametrize("pe", ("mpi", "mpi_execute_4-1"))
def test_a_job_that_names_a_groups_pe_exactly_is_told_to_use_a_wildcard(pe: str) -> None:
    assert reason_code(plan(in_groups(a_job(slots=4, pe=pe)))) is Code.GROUP_PE_NEEDS_WILDCARD


def test_without_the_setting_jobs_of_the_same_pe_count_like_any_other() -> None:
    assert reason_code(plan(a_snapshot(a_job(slots=4, pe="mpi*")))) is Code.EXPIRED


def test_jobs_get_groups_also_if_workers_enrol_themselves() -> None:
    decided = plan(in_groups(a_job(slots=4, pe="mpi*"), enrols_itself=True))

    assert [(array, group) for array, group, _ in launches(decided)] == [("execute:4", "execute:4-1")]


def test_a_self_enrolled_group_is_not_enabled_before_every_host_is_in_it() -> None:
    group = "execute:4-1"
    first, second = (
        a_worker(
            name,
            mark=Disabling.ENROL,
            node_array="execute:4",
            group_id=group,
            host=a_host(name, slots=2, states="d", consumables={"h_vmem": "8G"}, fixed=fixed),
        )
        for name, fixed in (("w1", {"group_id": group}), ("w2", {}))
    )
    made = plan(in_groups(a_job(slots=4, pe="mpi*"), first, second, enrols_itself=True))

    assert [action for action in made.actions if isinstance(action, Enable)] == []
    (joins,) = (action for action in made.actions if isinstance(action, Enrol))
    assert (joins.host, joins.joined, joins.complex_values) == ("w2", True, ())
    assert (joins.group_id, joins.group_pes) == (group, ("mpi",))


# -- what is launched -------------------------------------------------------------------------------------------------


def requests_for(
    groups: int, *, cores: int = 4, types: tuple[str, ...] = ("m5.large",), name: str = "standard"
) -> Requests:
    """A request set for groups of this many cores."""
    array = f"execute:{cores}"
    target = Target(array, groups=groups, group_cores=cores)
    definition = ArrayDefinition(array, dynamic=True, extends="execute", machine_types=types, group_cores=cores)
    return Requests(sets=(RequestSet(name, "ann", NOW, None, (target,)),), arrays=(definition,))


def launches(decided: Plan) -> list[tuple[str, str, dict[str, int]]]:
    """Of every launch: node array, group, and its candidates."""
    return [
        (action.node_array, action.group_id, {each.type.name: each.count for each in action.candidates})
        for action in decided.actions
        if isinstance(action, Launch)
    ]


def a_member(name: str, *, group: str = "execute:4-1", **kwargs: Any) -> AWorker:
    """A worker of a group of 4 cores, in service."""
    array = group.rpartition("-")[0]
    return a_worker(name, node_array=array, group_id=group, **kwargs)


def a_ready(name: str, **kwargs: Any) -> AWorker:
    """A worker of a group that reports and waits to be enabled."""
    return a_member(name, mark=Disabling.ENROL, **kwargs)


BOTH = frozenset({"i-w1", "i-w2"})


def a_booting(name: str, *, group: str = "execute:4-1", **kwargs: Any) -> AWorker:
    return a_machine(name, node_array=group.rpartition("-")[0], group_id=group, age=20.0, **kwargs)


def capacity_failure(order_id: str = "order-1", type_: InstanceType = LARGE) -> LaunchFailure:
    return replace(a_failure(type_), order_id=order_id)


def ordered(count: int, *, group: str = "execute:4-1", state: OrderState = OrderState.SENT, **kwargs: Any) -> Order:
    return replace(an_order(count, state=state, **kwargs), node_array=group.rpartition("-")[0], group_id=group)


def test_four_groups_of_64_cores_of_a_type_with_4_are_four_times_16_workers() -> None:
    decided = plan(in_groups(requests=requests_for(4, cores=64, types=("m5.xlarge",))))

    assert launches(decided) == [("execute:64", f"execute:64-{number}", {"m5.xlarge": 16}) for number in (1, 2, 3, 4)]


def test_groups_of_another_size_are_in_another_array() -> None:
    one, other = requests_for(1, cores=64), requests_for(1, cores=128, name="other")
    both = Requests(sets=(*one.sets, *other.sets), arrays=(*one.arrays, *other.arrays))

    assert {array for array, _, _ in launches(plan(in_groups(requests=both)))} == {"execute:64", "execute:128"}


def test_the_groups_of_several_request_sets_add_up() -> None:
    one, other = requests_for(1), requests_for(2, name="other")
    both = Requests(sets=(*one.sets, *other.sets), arrays=one.arrays)

    assert len(launches(plan(in_groups(requests=both)))) == 3


def test_types_are_tried_in_list_order_each_for_a_whole_group() -> None:
    decided = plan(in_groups(requests=requests_for(1, cores=8, types=("m5.xlarge", "m5.2xlarge", "m5.large"))))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.xlarge": 2, "m5.2xlarge": 1, "m5.large": 4})]


def test_a_type_with_too_few_left_for_a_whole_group_is_skipped() -> None:
    buckets = (a_bucket(XLARGE, available=1), a_bucket(LARGE))
    decided = plan(in_groups(*buckets, requests=requests_for(1, cores=8, types=("m5.xlarge", "m5.large"))))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.large": 4})]


def test_a_type_with_a_recent_capacity_failure_is_skipped_for_a_group() -> None:
    decided = plan(in_groups(a_failure(XLARGE), requests=requests_for(1, cores=8, types=("m5.xlarge", "m5.large"))))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.large": 4})]


def test_a_type_with_a_recent_failure_of_another_kind_is_launched_for_a_group() -> None:
    failed = a_failure(XLARGE, kind=FailureKind.BOOT)
    decided = plan(in_groups(failed, requests=requests_for(1, cores=8, types=("m5.xlarge",))))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.xlarge": 2})]


def test_the_type_of_a_group_is_chosen_for_all_of_its_cores() -> None:
    (_, _, types), *_ = launches(plan(in_groups(a_job(slots=8, pe="mpi*"), hybrid=True)))

    assert next(iter(types.items())) == ("m5.2xlarge", 1)


def test_no_group_is_launched_for_a_queue_that_its_workers_could_not_join() -> None:
    seen = in_groups(requests=requests_for(1))
    cluster = replace(seen.cluster, host_groups={"@allhosts": ()}, configuration_read=True)

    assert launches(plan(replace(seen, cluster=cluster)))
    assert not launches(plan(replace(seen, cluster=replace(cluster, queues={}))))


def test_groups_are_launched_if_the_circuit_breaker_has_no_limit_of_launches() -> None:
    unlimited = CircuitBreaker(max_launches=None)

    assert len(launches(plan(in_groups(requests=requests_for(2), circuit_breaker=unlimited)))) == 2


def test_each_candidate_is_in_one_zone() -> None:
    buckets = (a_bucket(zone="a", price=0.2), a_bucket(zone="b", price=0.1))
    decided = plan(in_groups(*buckets, requests=requests_for(1)))

    (launch,) = (action for action in decided.actions if isinstance(action, Launch))
    assert [[bucket.key.zone for bucket in each.buckets] for each in launch.candidates] == [["b"], ["a"]]


def test_a_group_is_launched_in_a_placement_group_if_there_is_one() -> None:
    buckets = (a_bucket(), a_bucket(node_array="execute", placement_group="near", price=9.0))
    decided = plan(in_groups(*buckets, requests=requests_for(1)))

    (launch,) = (action for action in decided.actions if isinstance(action, Launch))
    assert [each.buckets[0].key.placement_group for each in launch.candidates] == ["near"]


def test_a_group_that_does_not_fit_the_limits_as_a_whole_is_not_launched() -> None:
    decided = plan(in_groups(requests=requests_for(2, cores=8), limits=Limits(max_workers=7)))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.large": 4})]
    assert Code.GROUP_TOO_LARGE in note_codes(decided)


def test_a_groups_workers_count_towards_the_limits_of_its_base_array() -> None:
    others = [a_worker(f"o{number}", used=1) for number in range(3)]

    assert not launches(plan(in_groups(*others, requests=requests_for(1), limits=Limits(max_workers=4))))


def test_workers_ordered_for_a_group_are_not_ordered_again() -> None:
    assert not launches(plan(in_groups(ordered(2), requests=requests_for(1))))


def test_coming_workers_of_a_group_are_not_ordered_again() -> None:
    coming = (a_booting("w1"), ordered(2, state=OrderState.ACCEPTED, ids=("i-w1", "i-w2")))

    assert not launches(plan(in_groups(*coming, requests=requests_for(1))))


def test_a_new_group_does_not_get_the_id_of_one_that_still_drains() -> None:
    ending = a_member("w1", mark=Disabling.GROUP, used=1)

    assert [group for _, group, _ in launches(plan(in_groups(ending, requests=requests_for(1))))] == ["execute:4-2"]


def test_a_new_group_takes_the_first_number_that_no_group_of_its_array_has() -> None:
    there = (ordered(2), replace(ordered(2, group="execute:4-3"), id="order-3"))

    assert [group for _, group, _ in launches(plan(in_groups(*there, requests=requests_for(4))))] == [
        "execute:4-2",
        "execute:4-4",
    ]


def test_groups_launched_in_one_pass_share_the_availability_of_a_type() -> None:
    buckets = (a_bucket(LARGE, available=3), a_bucket(XLARGE, available=5))
    decided = plan(in_groups(*buckets, requests=requests_for(2, types=("m5.large", "m5.xlarge"))))

    assert [next(iter(types)) for _, _, types in launches(decided)] == ["m5.large", "m5.xlarge"]


# -- jobs that need one group -----------------------------------------------------------------------------------------


MPI = a_job(slots=4, pe="mpi*")


def test_a_job_with_a_group_pe_gets_a_group_of_its_size() -> None:
    assert launches(plan(in_groups(MPI))) == [("execute:4", "execute:4-1", {"m5.large": 2})]


def test_the_launch_of_a_group_records_for_how_many_tasks_of_whom_it_is() -> None:
    decided = plan(in_groups(a_job(slots=4, pe="mpi*", owner="ann")))

    (launch,) = (action for action in decided.actions if isinstance(action, Launch))
    assert [tasks for _, tasks in launch.assignment] == [1]
    assert launch.ordered_for == (OrderedFor("ann", slots=4),)


@pytest.mark.parametrize("own", ({"max_count": 2}, {"max_cores": 4}), ids=str)
def test_a_jobs_group_may_be_as_large_as_a_request_allows_its_base_array(own: dict[str, Any]) -> None:
    """`MaxCount` and `MaxCoreCount` of a request hold for each array alone."""
    kept = RequestSet("standard", "ann", NOW, None, (Target("execute", count=1),))
    requests = Requests((kept,), (ArrayDefinition("execute", **own),))
    there = (a_worker("w1", used=2), a_worker("w2", used=2))

    assert launches(plan(in_groups(MPI, *there, requests=requests))) == [("execute:4", "execute:4-1", {"m5.large": 2})]


def test_jobs_of_which_some_get_no_group_are_told_the_launch_of_the_others() -> None:
    decided = plan(in_groups(jobs(2, slots=4, pe="mpi*"), limits=Limits(max_workers=3)))

    assert len(launches(decided)) == 1
    assert Code.GROUP_LAUNCHED in codes(category_of(decided).reason)


def test_group_workers_launched_for_a_job_count_towards_the_launches_an_hour() -> None:
    limits = Limits(max_workers=100, max_launches_per_hour=3)
    first = plan(in_groups(a_job(slots=4, pe="mpi*"), limits=limits))
    earlier = tuple(replace(event, at=NOW - 900) for event in first.memory.launches)
    memory = replace(first.memory, launches=earlier)
    later = plan(replace(in_groups(a_job(2, slots=4, pe="mpi*"), limits=limits), memory=memory))

    assert (len(launches(first)), launches(later)) == (1, [])


def test_a_group_waits_if_the_circuit_breakers_window_has_no_room_for_it() -> None:
    waiting = a_job(1, slots=8, pe="mpi*"), a_job(2, slots=4, pe="mpi*")
    decided = plan(in_groups(*waiting, circuit_breaker=CircuitBreaker(max_launches=5)))

    assert (launches(decided), codes(category_of(decided, 2).reason)[-1]) == (
        [("execute:8", "execute:8-1", {"m5.large": 4})],
        Code.LAUNCH_RATE_LIMIT,
    )


def test_a_group_larger_than_the_circuit_breakers_window_is_launched_alone() -> None:
    waiting = a_job(1, slots=8, pe="mpi*"), a_job(2, slots=4, pe="mpi*")
    decided = plan(in_groups(*waiting, circuit_breaker=CircuitBreaker(max_launches=3)))

    assert [types for _, _, types in launches(decided)] == [{"m5.large": 4}]


def test_a_group_does_not_wait_for_an_owner_who_used_up_the_circuit_breakers_window() -> None:
    def launched_for(owner: str, *owners: str) -> int:
        world = in_groups(a_job(4, slots=8, pe="mpi*", owner=owner), circuit_breaker=CircuitBreaker(max_launches=5))
        launches_ = (Event(NOW - 60, 5, "execute", owner="eve"),)
        seen = tuple(OwnerSeen(each, NOW) for each in owners)
        return len(launches(plan(replace(world, memory=replace(world.memory, launches=launches_, owners=seen)))))

    assert [launched_for("ann", "ann", "eve"), launched_for("eve", "ann", "eve"), launched_for("eve", "eve")] == [
        1,
        0,
        0,
    ]


def test_a_group_larger_than_an_owners_part_of_an_hour_is_launched_whole() -> None:
    """Unless workers that were launched for this owner have not helped yet."""
    world = in_groups(
        replace(MPI, ask=replace(MPI.ask, owner="eve")), limits=Limits(max_workers=100, max_launches_per_hour=2)
    )
    seen = tuple(OwnerSeen(each, NOW) for each in ("ann", "eve"))
    made = plan(replace(world, memory=replace(world.memory, owners=seen)))
    assert [types for _, _, types in launches(made)] == [{"m5.large": 2}]
    unhelpful = (Event(NOW - 900, 1, "execute", owner="eve"),)
    assert launches(plan(replace(world, memory=replace(world.memory, owners=seen, unhelpful=unhelpful)))) == []


def test_every_job_gets_a_group_of_its_own() -> None:
    decided = plan(in_groups(MPI, a_job(2, slots=8, pe="mpi*")))

    assert [(array, types) for array, _, types in launches(decided)] == [
        ("execute:8", {"m5.large": 4}),
        ("execute:4", {"m5.large": 2}),
    ]


def test_a_job_whose_hosts_cannot_be_filled_gets_a_larger_group() -> None:
    """Two cores of each worker are 16 GiB: with 6 GiB a slot only one slot fits on each."""
    decided = plan(in_groups(a_job(slots=4, pe="mpi*", hard={"h_vmem": "6G"})))

    assert launches(decided) == [("execute:8", "execute:8-1", {"m5.large": 4})]


def test_a_job_that_fits_into_an_idle_group_launches_nothing() -> None:
    decided = plan(in_groups(MPI, a_member("w1", idle=999), a_member("w2", idle=999)))

    assert reason_code(decided) is Code.FITS
    assert not decided.actions


def test_a_group_without_a_pe_of_its_own_is_not_supply_for_jobs() -> None:
    snapshot = in_groups(MPI, a_member("w1"), a_member("w2"))
    pes = {name: pe for name, pe in snapshot.cluster.pes.items() if not is_of_group(name, "mpi")}
    decided = plan(replace(snapshot, cluster=replace(snapshot.cluster, pes=pes)))

    assert launches(decided) == [("execute:4", "execute:4-2", {"m5.large": 2})]


def test_a_job_for_a_group_does_not_use_workers_outside_groups() -> None:
    decided = plan(in_groups(MPI, a_worker("w1"), a_worker("w2")))

    assert [array for array, _, _ in launches(decided)] == ["execute:4"]


def test_a_job_waits_for_the_group_that_comes_for_it() -> None:
    decided = plan(in_groups(MPI, a_booting("w1"), a_booting("w2")))

    assert reason_code(decided) is Code.WAITS_FOR_COMING
    assert not launches(decided)


def test_an_incomplete_group_is_completed_rather_than_another_launched() -> None:
    decided = plan(in_groups(MPI, a_member("w1", idle=5)))

    assert launches(decided) == [("execute:4", "execute:4-1", {"m5.large": 1})]


def test_the_missing_worker_of_a_group_is_ordered_once_for_a_job_and_a_request() -> None:
    decided = plan(in_groups(MPI, a_member("w1", idle=5), requests=requests_for(1)))

    assert launches(decided) == [("execute:4", "execute:4-1", {"m5.large": 1})]


def test_a_job_for_which_no_group_is_available_has_that_reason() -> None:
    decided = plan(in_groups(MPI, a_failure()))

    assert Code.NOTHING_TO_LAUNCH in codes(category_of(decided).reason)


def test_a_job_too_large_for_any_group_has_that_reason_and_causes_no_action() -> None:
    decided = plan(in_groups(a_job(slots=400, pe="mpi*")))

    assert codes(category_of(decided).reason)[-2:] == [Code.UNPROVEN, Code.GROUP_NOT_PROBED]
    assert not decided.actions


def test_jobs_that_have_not_waited_long_enough_get_no_group() -> None:
    assert not launches(plan(in_groups(a_job(slots=4, pe="mpi*", waited=5))))
    assert launches(plan(in_groups(a_job(slots=4, pe="mpi*", waited=60))))


@pytest.mark.parametrize(("slots", "ordered"), ((8, 1), ((5, 7), 0)), ids=("they suit it", "they do not"))
def test_slots_have_to_suit_the_rule_of_a_groups_pe(slots: Any, ordered: int) -> None:
    snapshot = in_groups(a_job(slots=slots, pe="mpi4*"), hybrid=True)
    grouped = replace(snapshot, policy=replace(snapshot.policy, group_pes=("mpi4",)))
    assert len(launches(plan(grouped))) == ordered


# -- all of a group or none -------------------------------------------------------------------------------------------


def test_no_worker_is_enabled_before_its_whole_group_is_ready() -> None:
    decided = plan(in_groups(MPI, a_ready("w1"), a_booting("w2")))

    assert not [action for action in decided.actions if isinstance(action, Enable)]
    assert verdict_and_code(decided, "w1") == ("wait", Code.GROUP_INCOMPLETE)


def test_all_workers_of_a_group_are_enabled_once_all_are_ready() -> None:
    decided = plan(in_groups(MPI, a_ready("w1"), a_ready("w2")))

    assert [action.host for action in decided.actions if isinstance(action, Enable)] == ["w1", "w2"]


def test_a_worker_that_completes_a_group_in_service_is_enabled_at_once() -> None:
    decided = plan(in_groups(MPI, a_member("w1"), a_ready("w2")))

    assert [action.host for action in decided.actions if isinstance(action, Enable)] == ["w2"]


def test_after_a_store_loss_no_worker_of_a_partly_enrolled_group_is_enabled() -> None:
    """Grid Engine shows a worker that waited for its group as it shows one that a person disabled."""
    decided = plan(in_groups(a_member("w1", states="d", known=False), a_ready("w2"), requests=requests_for(1)))

    assert not decided.actions
    assert verdict_and_code(decided, "w1") == ("keep", Code.DISABLED_BY_HAND)
    assert verdict_and_code(decided, "w2") == ("wait", Code.GROUP_INCOMPLETE)


def test_a_replacement_is_enabled_though_a_person_disabled_the_rest_of_its_group() -> None:
    memory = plan(in_groups(MPI, a_member("w1"))).memory
    w1 = replace(a_member("w1", states="d"), note=memory.workers["i-w1"])

    assert verdict_and_code(plan(in_groups(w1, a_ready("w2"), requests=requests_for(1))), "w2") == (
        "enable",
        Code.JOINED,
    )


def test_a_surplus_worker_never_enabled_does_not_count_its_group_as_in_service() -> None:
    surplus = a_member("w3", mark=Disabling.IDLE, empty=5.0)
    assert surplus.note is not None
    surplus = replace(surplus, note=replace(surplus.note, opened=False))
    decided = plan(in_groups(MPI, a_ready("w1"), a_booting("w2"), surplus))

    assert not [action for action in decided.actions if isinstance(action, Enable)]


def test_an_unneeded_partly_hand_disabled_group_loses_its_other_workers() -> None:
    decided = plan(in_groups(a_member("w1", states="d", known=False), a_ready("w2")))

    assert verdict_and_code(decided, "w2") == ("disable", Code.GROUP_NOT_NEEDED)
    assert verdict_and_code(decided, "w1") == ("keep", Code.DISABLED_BY_HAND)


def test_jobs_get_another_group_if_only_hand_disabled_workers_are_left_of_one() -> None:
    decided = plan(in_groups(MPI, a_member("w1", states="d", known=False)))

    assert [group for _, group, _ in launches(decided)] == ["execute:4-2"]


@pytest.mark.parametrize("states", ("", "d"))
def test_after_a_store_loss_a_worker_with_an_unfinished_enrolment_counts_as_joining(states: str) -> None:
    """Its host is in its queue and has no slots yet: no job of a group may start beside it."""
    host = a_host("w1", slots=1, states=states, consumables={"slots": "0"})
    decided = plan(in_groups(MPI, a_member("w1", host=host, known=False), a_ready("w2")))

    assert not decided.actions
    assert decided.memory.workers["i-w1"].disabling is Disabling.ENROL
    assert verdict_and_code(decided, "w2") == ("wait", Code.GROUP_INCOMPLETE)


def test_after_a_store_loss_a_worker_that_a_person_left_without_slots_is_left_alone() -> None:
    host = a_host("w1", slots=2, states="d", consumables={"slots": "0"})

    assert not plan(a_snapshot(a_worker("w1", host=host, known=False))).actions


def test_a_worker_is_enrolled_with_its_group_and_pe() -> None:
    decided = plan(in_groups(MPI, a_booting("w1"), a_booting("w2")))

    enrolled = [action for action in decided.actions if isinstance(action, Enrol)]
    assert [(action.group_id, action.group_pes) for action in enrolled] == [("execute:4-1", ("mpi",))] * 2


def test_a_group_that_cannot_be_completed_is_terminated_before_another_is_ordered() -> None:
    """Its workers may take the quota that the next type needs."""
    part = (
        a_booting("w1", order_id="order-1"),
        ordered(2, state=OrderState.ACCEPTED, ids=("i-w1",)),
        capacity_failure(),
    )
    decided = plan(in_groups(*part, requests=requests_for(1, types=("m5.large", "m5.xlarge"))))

    assert [action.worker_id for action in decided.actions if isinstance(action, Terminate)] == ["i-w1"]
    assert Code.GROUP_NOT_COMPLETED in note_codes(decided)
    assert not launches(decided)


def test_after_an_incomplete_group_was_terminated_the_next_type_is_tried() -> None:
    gone = a_booting("w1", order_id="order-1", state=MachineState.TERMINATED)
    part = (gone, ordered(2, state=OrderState.ACCEPTED, ids=("i-w1",)), capacity_failure())
    decided = plan(in_groups(*part, requests=requests_for(1, types=("m5.large", "m5.xlarge"))))

    assert launches(decided) == [("execute:4", "execute:4-2", {"m5.xlarge": 1})]


def test_right_after_a_failed_order_no_other_group_is_ordered() -> None:
    part = ordered(2, state=OrderState.FAILED, age=2.0)
    decided = plan(in_groups(part, requests=requests_for(1)))

    assert not launches(decided)
    assert Code.BATCH_DELAY in note_codes(decided)


def test_terminating_a_worker_with_its_group_is_not_a_failure_of_the_worker() -> None:
    part = (
        a_booting("w1", order_id="order-1"),
        ordered(2, state=OrderState.ACCEPTED, ids=("i-w1",)),
        capacity_failure(),
    )

    (ended,) = (action for action in plan(in_groups(*part)).actions if isinstance(action, Terminate))
    assert ended.failure is None


def test_a_joined_worker_is_disabled_when_its_group_cannot_be_completed() -> None:
    part = (a_ready("w1", order_id="order-1"), ordered(2, state=OrderState.ACCEPTED, ids=("i-w1",)), capacity_failure())
    decided = plan(in_groups(*part, requests=requests_for(1)))

    assert [action.host for action in decided.actions if isinstance(action, Disable)] == ["w1"]
    assert verdict_and_code(decided, "w1") == ("disable", Code.GROUP_NOT_COMPLETED)


def test_a_group_whose_worker_did_not_boot_gets_another_of_the_same_type() -> None:
    late = a_machine("w2", node_array="execute:4", group_id="execute:4-1", age=2000.0, note=None)
    late = replace(late, note=replace(a_worker("w2").note, first_seen=LONG_AGO, host=None, joined_at=None))  # type: ignore[type-var]
    decided = plan(in_groups(a_ready("w1"), late, requests=requests_for(1)))

    assert launches(decided) == [("execute:4", "execute:4-1", {"m5.large": 1})]


def test_a_late_worker_of_a_complete_group_is_disabled() -> None:
    decided = plan(in_groups(a_member("w1"), a_member("w2"), a_ready("w3"), requests=requests_for(1)))

    assert verdict_and_code(decided, "w3") == ("disable", Code.GROUP_COMPLETE)
    assert [action.host for action in decided.actions if isinstance(action, Disable)] == ["w3"]


def test_a_group_in_service_is_completed_with_the_same_type_and_zone() -> None:
    buckets = (a_bucket(zone="a", price=0.1), a_bucket(zone="b", price=0.2), a_bucket(XLARGE, zone="a"))
    left = a_member("w1", zone="b")
    decided = plan(in_groups(*buckets, left, requests=requests_for(1, types=("m5.xlarge", "m5.large"))))

    (launch,) = (action for action in decided.actions if isinstance(action, Launch))
    assert [(each.type.name, each.count, each.buckets[0].key.zone) for each in launch.candidates] == [
        ("m5.large", 1, "b")
    ]


def test_a_group_is_completed_in_its_own_placement_group() -> None:
    near, far = (a_bucket(node_array="execute", placement_group=name) for name in ("near", "far"))
    left = a_member("w1", placement_group="near")
    (launch,) = (
        action
        for action in plan(in_groups(far, near, left, requests=requests_for(1))).actions
        if isinstance(action, Launch)
    )

    assert [each.buckets[0].key.placement_group for each in launch.candidates] == ["near"]


RETURNS = (Disabling.IDLE, Disabling.COMMAND, Disabling.SWAP, Disabling.INTERRUPTED)


@pytest.mark.parametrize("mark", RETURNS)
@pytest.mark.parametrize(("things", "requests"), (((MPI,), NOTHING), ((), requests_for(1))), ids=("job", "request"))
def test_a_draining_worker_is_enabled_again_rather_than_replaced_in_its_group(
    mark: Disabling, things: tuple[Thing, ...], requests: Requests
) -> None:
    """Before a launch, a draining worker is enabled again: with both, the group would have one worker too many."""
    returning = a_member("w2", mark=mark, empty=5.0)
    decided = plan(in_groups(*things, a_member("w1"), returning, requests=requests))

    assert [(action.kind, getattr(action, "host", "")) for action in decided.actions] == [("enable", "w2")]


def test_a_draining_worker_is_not_enabled_again_if_its_group_is_complete_without_it() -> None:
    replaced = a_member("w3", mark=Disabling.COMMAND, empty=5.0)
    busy = [a_member(name, used=2) for name in ("w1", "w2")]
    decided = plan(in_groups(MPI, *busy, replaced))

    assert not [action for action in decided.actions if isinstance(action, Enable)]


def test_only_as_many_draining_workers_are_enabled_again_as_a_group_is_short_of() -> None:
    drained = [a_member(name, mark=Disabling.COMMAND, empty=5.0) for name in ("w2", "w3")]
    decided = plan(in_groups(MPI, a_member("w1"), *drained))

    assert [action.host for action in decided.actions if isinstance(action, Enable)] == ["w2"]


def test_a_group_in_service_is_not_removed_because_a_worker_is_missing() -> None:
    decided = plan(in_groups(a_member("w1", idle=5), a_failure(), requests=requests_for(1)))

    assert not decided.actions


def test_an_incomplete_group_waits_until_the_launches_an_hour_allow_its_completion() -> None:
    snapshot = in_groups(
        a_ready("w1"), requests=requests_for(1), limits=Limits(max_workers=100, max_launches_per_hour=2)
    )

    def after(seconds: float) -> Plan:
        launched = (Event(NOW - seconds, 2, "execute:4", "execute"),)
        return plan(replace(snapshot, memory=replace(snapshot.memory, launches=launched)))

    assert (after(1800).actions, verdict_and_code(after(1800), "w1")) == ((), ("wait", Code.GROUP_INCOMPLETE))
    assert launches(after(3601)) == [("execute:4", "execute:4-1", {"m5.large": 1})]


def test_an_incomplete_group_that_is_no_longer_needed_is_disabled() -> None:
    assert verdict_and_code(plan(in_groups(a_ready("w1"))), "w1") == ("disable", Code.GROUP_NOT_NEEDED)


# -- removed as a whole -----------------------------------------------------------------------------------------------


def test_an_idle_group_leaves_as_a_whole_whatever_the_batch() -> None:
    decided = plan(in_groups(a_member("w1", idle=60), a_member("w2", idle=60), scale_down_batch=1))

    assert [action.host for action in decided.actions if isinstance(action, Disable)] == ["w1", "w2"]


def test_a_group_with_one_busy_worker_stays_as_a_whole() -> None:
    decided = plan(in_groups(a_member("w1", idle=60), a_member("w2", used=1)))

    assert verdict_and_code(decided, "w1") == ("keep", Code.GROUP_IN_USE)


@pytest.mark.parametrize("age", (60.0, 3000.0), ids=("its order counts still", "its order counts no more"))
def test_a_group_whose_busy_worker_is_unlisted_stays_as_a_whole(age: float) -> None:
    order = ordered(2, state=OrderState.ACCEPTED, ids=("i-w1", "i-w2"), age=age)
    idle = a_member("w1", order_id=order.id, idle=60)
    busy = a_member("w2", order_id=order.id, used=1)
    seen = in_groups(order, idle, busy)
    listed = replace(seen.fleet, workers=tuple(each for each in seen.fleet.workers if each.name == "w1"))
    later = replace(seen, fleet=listed, memory=plan(seen).memory, now=NOW + 5)

    assert verdict_and_code(plan(later), "w1") == ("keep", Code.GROUP_IN_USE)


def test_a_group_with_one_worker_not_idle_long_enough_stays_as_a_whole() -> None:
    decided = plan(in_groups(a_member("w1", idle=60), a_member("w2", idle=5)))

    assert verdict_and_code(decided, "w1") == ("keep", Code.IDLE_NOT_LONG_ENOUGH)


def test_a_group_stays_as_long_as_one_of_its_workers_is_paid_for() -> None:
    members = a_member("w1", idle=60, age=55 * 60.0), a_member("w2", idle=60, age=20 * 60.0)
    hourly = plan(in_groups(*members, billing_step=3600.0))
    assert verdict_and_code(hourly, "w1") == verdict_and_code(hourly, "w2") == ("keep", Code.PAID_FOR)
    assert verdict_and_code(plan(in_groups(*members)), "w1")[0] == "disable"


def test_a_requested_group_stays() -> None:
    decided = plan(in_groups(a_member("w1", idle=60), a_member("w2", idle=60), requests=requests_for(1)))

    assert verdict_and_code(decided, "w1") == ("keep", Code.REQUESTED)


def test_groups_beyond_the_request_leave() -> None:
    members = [a_member(f"w{number}{each}", group=f"execute:4-{number}", idle=60) for number in (1, 2) for each in "ab"]
    decided = plan(in_groups(*members, requests=requests_for(1)))

    assert [action.host for action in decided.actions if isinstance(action, Disable)] == ["w2a", "w2b"]


def test_keeping_one_worker_keeps_its_group() -> None:
    decided = plan(in_groups(a_member("w1", idle=60), a_member("w2", idle=60), Overrides(keep=frozenset({"w2"}))))

    assert verdict_and_code(decided, "w1") == ("keep", Code.KEPT_BY_COMMAND)


def test_a_leaving_group_is_not_enabled_again_for_a_job() -> None:
    """A draining group gets no further job, and a job that comes meanwhile gets another."""
    leaving = [a_member(name, mark=Disabling.GROUP, empty=5) for name in ("w1", "w2")]
    decided = plan(in_groups(MPI, *leaving))

    assert not [action for action in decided.actions if isinstance(action, Enable)]
    assert [group for _, group, _ in launches(decided)] == ["execute:4-2"]


def test_a_booting_worker_that_a_person_keeps_is_not_terminated_with_its_group() -> None:
    leaving = [a_member("w1", mark=Disabling.GROUP, used=1), a_booting("w2"), a_booting("w3")]
    decided = plan(in_groups(*leaving, Overrides(keep=frozenset({"w2"}))))

    assert verdict_and_code(decided, "w2") == ("keep", Code.KEPT_BY_COMMAND)
    assert [action.worker_id for action in decided.actions if isinstance(action, Terminate)] == ["i-w3"]


def test_the_rest_of_a_leaving_group_is_disabled_too() -> None:
    decided = plan(in_groups(a_member("w1", mark=Disabling.GROUP), a_member("w2", idle=5)))

    assert verdict_and_code(decided, "w2") == ("disable", Code.GROUP_LEAVES)


def test_workers_of_a_leaving_group_may_stop_when_they_ask() -> None:
    snapshot = in_groups(a_member("w1", idle=5), a_member("w2", idle=5), requests=Requests(auto_stops=BOTH))

    reasons = {(answer, reason.code) for answer, reason in plan(snapshot).auto_stops.values()}
    assert reasons == {(AutoStopAnswer.STOPS, Code.GROUP_LEAVES)}


def test_a_stopping_group_that_a_person_enables_stays() -> None:
    enabled = [a_member(name, mark=Disabling.GROUP, empty=1, states="") for name in ("w1", "w2")]
    snapshot = in_groups(*enabled, requests=Requests(auto_stops=BOTH))
    made = plan(snapshot)
    again = plan(replace(snapshot, memory=made.memory, now=NOW + 5))

    assert (made.actions, again.actions) == ((), ())
    assert {answer for answer, _ in again.auto_stops.values()} == {AutoStopAnswer.STAYS}


def test_workers_of_an_idle_group_that_a_person_enabled_may_ask_to_stop_later() -> None:
    enabled = [a_member(name, mark=Disabling.GROUP, empty=1, states="") for name in ("w1", "w2")]
    snapshot = in_groups(*enabled)
    asks = replace(snapshot, memory=plan(snapshot).memory, now=NOW + 5, requests=Requests(auto_stops=BOTH))

    assert {answer for answer, _ in plan(asks).auto_stops.values()} == {AutoStopAnswer.STOPS}


@pytest.mark.parametrize(
    ("ago", "idle", "answer"),
    (
        (590, 595, AutoStopAnswer.STOPS),
        (600, 605, AutoStopAnswer.STAYS),
        (100, 90, AutoStopAnswer.STAYS),
    ),
    ids=("of late", "too long ago", "busy since"),
)
def test_workers_of_a_group_may_ask_to_stop_one_after_another(ago: float, idle: float, answer: AutoStopAnswer) -> None:
    first = a_member("w1", idle=idle)
    assert first.note is not None
    first = replace(first, note=replace(first.note, asked_to_stop_at=NOW - ago))
    asks = Requests(auto_stops=BOTH - {"i-w1"})
    made = plan(in_groups(first, a_member("w2", idle=5), requests=asks, idle_timeout=3600.0))

    assert [given for given, _ in made.auto_stops.values()] == [answer]


def test_a_worker_that_asks_to_stop_alone_gets_the_names_of_the_others_it_waits_for() -> None:
    asks = Requests(auto_stops=BOTH - {"i-w2"})
    made = plan(in_groups(a_member("w1", idle=5), a_member("w2", idle=5), requests=asks))

    ((_, reason),) = made.auto_stops.values()
    assert (reason.code, dict(reason.facts)["others"]) == (Code.GROUP_STAYS, ("w2",))
    assert [made.memory.workers[name].asked_to_stop_at for name in ("i-w1", "i-w2")] == [NOW, None]


def test_a_single_worker_of_a_group_may_not_stop() -> None:
    snapshot = in_groups(a_member("w1", idle=5), a_member("w2", idle=5), requests=Requests(auto_stops=BOTH - {"i-w2"}))

    assert [answer for answer, _ in plan(snapshot).auto_stops.values()] == [AutoStopAnswer.STAYS]


def test_a_group_used_by_a_job_does_not_count_towards_a_request() -> None:
    busy = [a_member(name, used=2) for name in ("w1", "w2")]

    assert len(launches(plan(in_groups(*busy, requests=requests_for(1))))) == 1


def test_without_queue_demand_a_busy_group_counts_towards_a_request() -> None:
    snapshot = in_groups(*[a_member(name, used=2) for name in ("w1", "w2")], requests=requests_for(1))
    off = replace(snapshot, policy=replace(snapshot.policy, queue_demand=False))

    assert not launches(plan(off))


# -- groups of as many vCPUs and workers ------------------------------------------------------------------------------


def requests_for_both(*, of_vcpus: int = 0, of_workers: int = 0) -> Requests:
    """This many groups of 4 vCPUs and this many of 4 workers, as two callers ask for them."""
    by_cores, by_count = requests_for(of_vcpus), requests_for(of_workers, name="other")
    counted = replace(by_count.sets[0], targets=(Target("execute:4", groups=of_workers, group_count=4),))
    definition = replace(by_cores.arrays[0], group_cores=4 if of_vcpus else None, group_count=4 if of_workers else None)
    return Requests(sets=(*by_cores.sets, counted), arrays=(definition,))


def members(group: str, count: int, **kwargs: Any) -> list[AWorker]:
    return [a_member(f"{group[-2:].strip('-')}{number}", group=group, idle=5, **kwargs) for number in range(count)]


def test_an_array_may_have_groups_by_vcpus_and_by_workers_with_distinct_ids() -> None:
    decided = plan(in_groups(requests=requests_for_both(of_vcpus=1, of_workers=2)))

    assert launches(decided) == [
        ("execute:4", "execute:4-1", {"m5.large": 2}),
        ("execute:4", "execute:4-w1", {"m5.large": 4}),
        ("execute:4", "execute:4-w2", {"m5.large": 4}),
    ]


@pytest.mark.parametrize(
    ("there", "missing"),
    (
        pytest.param(members("execute:4-1", 2), ["execute:4-w1"], id="vCPUs first"),
        pytest.param(members("execute:4-w1", 4), ["execute:4-1"], id="workers first"),
    ),
)
def test_the_missing_kind_of_group_is_launched_whichever_kind_exists(there: list[AWorker], missing: list[str]) -> None:
    decided = plan(in_groups(*there, requests=requests_for_both(of_vcpus=1, of_workers=1)))

    assert [group for _, group, _ in launches(decided)] == missing
    assert {verdict_and_code(decided, each.worker.name or "") for each in there} == {("keep", Code.REQUESTED)}


def test_a_group_by_vcpus_does_not_count_towards_a_target_by_workers() -> None:
    there = [replace(each, note=None) for each in members("execute:4-1", 2)]
    decided = plan(in_groups(*there, requests=requests_for_both(of_workers=1)))

    assert [group for _, group, _ in launches(decided)] == ["execute:4-w1"]


def test_a_job_gets_a_group_by_vcpus_in_an_array_of_groups_by_workers() -> None:
    decided = plan(in_groups(a_job(slots=4, pe="mpi*"), requests=requests_for_both(of_workers=1)))

    assert [group for _, group, _ in launches(decided)] == ["execute:4-1", "execute:4-w1"]


def test_after_a_store_loss_a_group_by_workers_keeps_its_size() -> None:
    """A job that needs the whole group has the rest of it ordered."""
    decided = plan(in_groups(*members("execute:4-w1", 3), a_job(slots=8, pe="mpi*")))

    assert launches(decided) == [("execute:4", "execute:4-w1", {"m5.large": 1})]


def test_a_job_fits_on_a_group_whose_pe_the_queue_has_for_its_host_group() -> None:
    group = "execute:4-1"
    workers = [a_worker(name, node_array="execute:4", group_id=group) for name in ("w1", "w2")]
    snapshot = in_groups(a_job(slots=4, pe="mpi*"), *workers)
    place_ = host_group_of(group)
    queue = replace(
        snapshot.cluster.queues["main.q"],
        pe_list=("local",),
        pe_list_by_host={place_: ("local", pe_of("mpi", group))},
    )
    groups = {**snapshot.cluster.host_groups, place_: ("w1", "w2")}
    cluster = replace(snapshot.cluster, queues={"main.q": queue}, host_groups=groups)
    assert reason_code(plan(replace(snapshot, cluster=cluster))) is Code.FITS
