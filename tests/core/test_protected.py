"""Protected mode: launches that helped none of their jobs delay the next ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.categories import assignment_of, category_key
from autoscaler.core.model.demand_vector import CategoryDemand, Demand, Property
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import LaunchTrial, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from tests.core.building import NOW, Thing, a_job, a_machine, a_snapshot, a_worker, category_of, codes, jobs, launched
from tests.properties.unhelpful_launches import BOOT, POLL, Cause, UnhelpfulLaunches
from tests.properties.world import LIMITS

HOUR = 3600.0


def first_failure(world: UnhelpfulLaunches) -> None:
    world.go_on(HOUR, until=lambda: bool(failing(world)))
    assert failing(world)


def failing(world: UnhelpfulLaunches) -> dict[str, int]:
    """Category → failures in a row."""
    arrays = world.memory.protected.values()
    return {key: one.failures for array in arrays for key, one in array.categories.items()}


def stopped(world: UnhelpfulLaunches) -> bool:
    return any(array.stopped is not None for array in world.memory.protected.values())


# -- the key ----------------------------------------------------------------------------------------------------------


def test_the_key_of_a_category_is_the_same_in_every_process_and_version() -> None:
    demand = Demand(
        frozenset({"main.q", "long.q"}), 4, 2, (("h_vmem", 4 * 1024.0**3),), (), (Property("a", "==", "x"),)
    )
    assert category_key(Demand(frozenset({"main.q"}))) == PLAIN
    assert category_key(demand) == ASKING
    assert category_key(replace(demand, per_slot=(("h_vmem", 4 * 1024**3),))) == ASKING


PLAIN, ASKING = "9221ddde027b73ce", "c5027b07aee2391d"


def test_jobs_that_may_use_other_queues_are_another_category() -> None:
    assert category_key(Demand(frozenset({"main.q"}))) != category_key(Demand(frozenset({"main.q", "long.q"})))


def test_a_launch_is_assigned_to_its_categories_with_task_counts() -> None:
    made = plan(a_snapshot(jobs(3, first=10), a_job(2, slots=2), scale_up_batch=2))
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    small, large = Demand(frozenset({"main.q"}), 1, 1), Demand(frozenset({"main.q"}), 2, 2)
    wants = [CategoryDemand(demand, 1, NOW, expired=True) for demand in (large, small)]
    assert launch.assignment == assignment_of(wants, (1, 2))
    assert launch.candidates[0].count == 2  # of two slots each: one task of the three has to wait


# -- what counts as a failure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", (Cause.CALENDAR, Cause.ERROR, Cause.NO_SLOTS, Cause.DIES))
def test_after_launches_that_helped_no_job_the_next_waits_a_boot_time_then_twice_that(
    cause: Cause,
) -> None:
    world = UnhelpfulLaunches(cause=cause)
    world.ask(1)
    first_failure(world)
    ((_, first),) = world.memory.protected["execute"].categories.items()
    world.go_on(3 * HOUR, until=lambda: max(failing(world).values()) == 2)
    ((_, second),) = world.memory.protected["execute"].categories.items()
    boot = 900.0 if cause is Cause.DIES else first.wait_s
    assert first.wait_s == boot
    assert cause is Cause.DIES or BOOT <= boot <= BOOT + 3 * POLL
    assert second.wait_s == 2 * boot


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.NONE}))
def test_a_launch_that_helped_no_job_says_what_shows_why(cause: Cause) -> None:
    world = UnhelpfulLaunches(cause=cause)
    world.ask(1)
    first_failure(world)
    records = world.memory.protected["execute"].categories.values()
    assert all(one.seen for one in records), records


@pytest.mark.parametrize("cause", (Cause.ERROR, Cause.NO_SLOTS))
def test_with_a_short_boot_time_the_first_wait_is_a_tenth_of_protected_after(
    cause: Cause,
) -> None:
    world = UnhelpfulLaunches(cause=cause, boot_s=1.0, protected_after=3000.0)
    world.ask(1)
    first_failure(world)
    ((_, first),) = world.memory.protected["execute"].categories.items()
    assert first.wait_s == 300.0


def test_the_wait_between_unhelpful_launches_is_an_hour_at_most() -> None:
    world = UnhelpfulLaunches()
    world.ask(1)
    world.go_on(5 * HOUR)
    assert [one.wait_s for one in world.memory.protected["execute"].categories.values()] == [HOUR]


def test_after_the_wait_a_launch_is_for_one_task_however_many_wait() -> None:
    world = UnhelpfulLaunches()
    for _ in range(16):
        world.ask(1)
    first_failure(world)
    ((key, record),) = world.memory.protected["execute"].categories.items()
    before = len(world.launched)
    world.go_on(record.until - world.now)
    assert len(world.launched) == before
    world.go_on(HOUR, until=lambda: len(world.launched) > before)
    assert world.launched[-1].assignment == ((key, 1),)
    assert Code.LAUNCHES_DID_NOT_HELP in codes(world.launched[-1].reason)


@pytest.mark.parametrize(("first", "other"), ((1, 2), (2, 1)))
def test_a_launch_for_other_jobs_does_not_say_that_launches_helped_none(first: int, other: int) -> None:
    world = UnhelpfulLaunches()
    world.ask(first)
    first_failure(world)
    before = len(world.launched)
    world.ask(other)
    world.go_on(HOUR, until=lambda: len(world.launched) > before)
    ((category, _),) = world.launched[-1].assignment
    assert category not in failing(world)
    assert Code.LAUNCHES_DID_NOT_HELP not in codes(world.launched[-1].reason)


def test_no_second_worker_is_ordered_while_a_joined_one_starts_no_job() -> None:
    world = UnhelpfulLaunches(cause=Cause.CALENDAR)
    world.ask(4)
    world.go_on(HOUR, until=lambda: any(one.joined_at for one in world.memory.trials.values()))
    made = world.step()
    assert len(world.launched) == 1
    assert Code.LAUNCH_AWAITED in codes(category_of(made).reason)


@pytest.mark.parametrize("cause", (Cause.LESS_MEMORY, Cause.NO_MEMORY))
@pytest.mark.parametrize("jobs_", (1, 4, 40))
def test_no_more_workers_are_launched_while_those_that_joined_do_not_fit_the_jobs(cause: Cause, jobs_: int) -> None:
    world = UnhelpfulLaunches(cause=cause, memory_asked="15G")
    for _ in range(jobs_):
        world.ask(4)
    world.go_on(HOUR, until=lambda: any(one.joined_at for one in world.memory.trials.values()))
    before = len(world.launched)
    world.go_on(HOUR, until=lambda: bool(failing(world)))
    assert len(world.launched) == before
    assert failing(world)


def test_a_success_ends_the_failures_of_a_category() -> None:
    world = UnhelpfulLaunches()
    for _ in range(8):
        world.ask(4)
    first_failure(world)
    world.cause = Cause.NONE
    world.go_on(HOUR, until=lambda: not failing(world))
    assert not failing(world)
    assert world.memory.protected["execute"].failures == 0
    world.go_on(HOUR, until=lambda: not world.waiting)
    assert not world.waiting


def test_a_job_whose_prolog_fails_does_not_count_as_a_success_though_observed_running() -> None:
    world = UnhelpfulLaunches(cause=Cause.ERROR)
    world.ask(1)
    world.go_on(HOUR, until=lambda: bool(world.running))
    world.go_on(HOUR, until=lambda: bool(failing(world)))
    assert set(failing(world).values()) == {1}


def test_a_deleted_job_does_not_count_as_a_failed_launch() -> None:
    world = UnhelpfulLaunches()
    job = world.ask(1)
    world.go_on(HOUR, until=lambda: bool(world.launched))
    del world.waiting[job]
    world.go_on(HOUR)
    assert not failing(world)


def test_a_job_that_started_elsewhere_does_not_count_as_a_failed_launch() -> None:
    world = UnhelpfulLaunches()
    first = world.ask(1)
    world.go_on(HOUR, until=lambda: any(one.joined_at for one in world.memory.trials.values()))
    world.ask(1)
    del world.waiting[first]
    world.go_on(HOUR, until=lambda: all(one.closed for one in world.memory.trials.values()))
    assert not failing(world)


def test_a_worker_that_a_person_drains_does_not_count_as_a_failed_launch() -> None:
    world = UnhelpfulLaunches()
    world.ask(1)
    world.go_on(HOUR, until=lambda: bool(world.machines))
    world.overrides = Overrides(drain=frozenset(world.machines))
    world.go_on(2 * BOOT, until=lambda: not world.machines)
    assert not failing(world)


@pytest.mark.parametrize("rest_is_coming", (True, False))
def test_a_launch_for_part_of_a_job_has_not_failed_while_another_brings_the_rest(rest_is_coming: bool) -> None:
    parts = ((category_key(Demand(frozenset({"main.q"}), 4)), 1),)
    trials = {"o1": LaunchTrial("execute", NOW - 1000, parts, workers=1, joined_at=NOW - 700, joined_s=650)}
    things: list[Thing] = [a_job(slots=4, pe="mpi"), a_worker("w1", idle=30, order_id="o1")]
    if rest_is_coming:
        trials["o2"] = LaunchTrial("execute", NOW - 60, parts, workers=1)
        things.append(a_machine("w2", order_id="o2", state=MachineState.PENDING, age=50))
    made = plan(a_snapshot(*things, Memory(passes=7, observed_at=NOW - 15, trials=trials)))
    assert made.memory.trials["o1"].closed is not rest_is_coming


@pytest.mark.parametrize(("workers", "more"), ((2, 1), (3, 0)))
def test_only_the_task_of_a_worker_that_takes_no_job_waits(workers: int, more: int) -> None:
    """Of three tasks one fits on `w2`, and `w1` has come for another one. A third worker that is gone was for the
    last.
    """
    parts = ((category_key(Demand(frozenset({"main.q"}), 2, 2)), workers),)
    trials = {"o1": LaunchTrial("execute", NOW - 300, parts, workers=workers, joined_at=NOW - 90, joined_s=75)}
    there = (a_worker("w1", states="E", idle=60, order_id="o1"), a_worker("w2", idle=60, order_id="o1"))
    made = plan(a_snapshot(jobs(3, slots=2), *there, Memory(passes=7, observed_at=NOW - 15, trials=trials)))
    assert launched(made) == ({"m5.large": more} if more else {})


def test_a_launch_that_its_cloud_refused_does_not_count_for_protected_mode() -> None:
    world = UnhelpfulLaunches(capacity=False)
    world.ask(1)
    world.go_on(HOUR)
    assert world.launched
    assert not failing(world)


# -- what goes on, and what ends it -----------------------------------------------------------------------------------


def test_an_array_is_stopped_after_unhelpful_launches_for_three_categories_of_two_owners() -> None:
    world = UnhelpfulLaunches()
    for slots, owner in ((1, "ann"), (2, "ann"), (3, "bob")):
        world.ask(slots, owner)
    world.go_on(3 * HOUR, until=lambda: stopped(world))
    launches = len(world.launched)
    world.go_on(2 * HOUR)
    assert len(world.launched) == launches
    assert world.plans[-1].notes[0].code is Code.PROTECTED_MODE
    world.retry()
    world.go_on(HOUR)
    assert len(world.launched) == launches  # only a person's `resume` ends it
    world.resume()
    world.cause = Cause.NONE
    world.go_on(HOUR, until=lambda: not world.waiting)
    assert not world.waiting
    assert not stopped(world)


def test_failures_of_one_owner_do_not_stop_an_array() -> None:
    world = UnhelpfulLaunches()
    for slots in (1, 2, 3):
        world.ask(slots)
    world.go_on(4 * HOUR)
    assert failing(world)
    assert not stopped(world)


def test_a_retry_launches_again_at_once() -> None:
    world = UnhelpfulLaunches()
    world.ask(1)
    world.go_on(3 * HOUR)
    launches = len(world.launched)
    world.retry()
    world.step()
    assert len(world.launched) == launches + 1


def test_min_workers_are_launched_though_the_array_is_stopped_for_jobs() -> None:
    world = UnhelpfulLaunches()
    for slots, owner in ((1, "ann"), (2, "ann"), (3, "bob")):
        world.ask(slots, owner)
    world.go_on(3 * HOUR, until=lambda: stopped(world))
    world.go_on(HOUR)
    snapshot = world.snapshot()
    (array,) = snapshot.policy.node_arrays
    floor = replace(array, limits=Limits(max_workers=9, min_workers=2))
    made = plan(replace(snapshot, policy=replace(snapshot.policy, node_arrays=(floor,))))
    assert launched(made)
    assert all(not action.assignment for action in made.actions if isinstance(action, Launch))


def test_after_a_store_loss_failures_count_anew_and_max_workers_holds() -> None:
    world = UnhelpfulLaunches()
    world.ask(1)
    first_failure(world)
    world.memory = replace(world.memory, protected={}, trials={})
    world.orders.clear()
    world.go_on(HOUR)
    assert failing(world)
    assert len(world.machines) <= LIMITS.max_workers


# -- workers that came for nothing ------------------------------------------------------------------------------------


def test_a_worker_whose_job_never_starts_leaves_and_is_relaunched_ever_more_rarely() -> None:
    """As where Grid Engine refuses it for what no listing shows: a queue for interactive jobs only, no `ckpt_list`."""
    world = UnhelpfulLaunches(cause=Cause.FREE)
    world.ask(1)
    first_failure(world)
    world.go_on(HOUR / 6, until=lambda: not world.hosts)
    assert not world.hosts
    world.go_on(5 * HOUR)
    assert max(failing(world).values()) >= 3
    assert len(world.launched) <= 2 + 6 + 6


def test_a_joined_worker_is_kept_for_a_job_whose_earlier_launches_failed() -> None:
    world = UnhelpfulLaunches(cause=Cause.DIES)
    world.ask(1)
    first_failure(world)
    world.cause = Cause.FREE
    world.go_on(2 * HOUR, until=lambda: bool(world.hosts))
    assert world.hosts
    world.go_on(300.0)
    assert world.hosts
