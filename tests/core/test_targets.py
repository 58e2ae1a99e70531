"""Targets of request sets: their shortfall is launched, workers that they need stay, those of expired sets leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.fleet import FailureKind, LaunchFailure, OrderState, PriceType
from autoscaler.core.model.memory import Disabling, Event
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.requests.targets import Need
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    LARGE,
    NOW,
    X2LARGE,
    XLARGE,
    a_bucket,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    an_order,
    jobs,
    launched,
    note_codes,
    reason_code,
    verdict_and_code,
    verdict_of,
)


def a_set(name: str = "standard", *, expires: float | None = 300.0, **target: Any) -> RequestSet:
    """A set with one target, on `execute` unless given otherwise."""
    requested = Target(target.pop("array", "execute"), **target)
    return RequestSet(name, "ann", NOW - 1, None if expires is None else NOW + expires, (requested,))


def asking(
    *things: Any, sets: tuple[RequestSet, ...], arrays: tuple[ArrayDefinition, ...] = (), **more: Any
) -> Snapshot:
    seen = a_snapshot(*things, **more)
    requests = Requests(sets, arrays)
    return replace(seen, requests=requests, policy=in_force(seen.policy, requests, buckets=seen.fleet.buckets))


def planned(*things: Any, **more: Any) -> Plan:
    return plan(asking(*things, **more))


def without_queue_demand(seen: Snapshot) -> Snapshot:
    return replace(seen, policy=replace(seen.policy, queue_demand=False))


# -- the shortfall is launched -------------------------------------------------------------------------------------


def test_a_targets_count_is_launched_at_once_regardless_of_the_batch() -> None:
    assert launched(planned(sets=(a_set(count=3),), scale_up_batch=1)) == {"m5.large": 3}


@pytest.mark.parametrize(("cores", "workers"), ((1, 1), (2, 1), (3, 2), (8, 4)))
def test_cores_are_rounded_up_to_whole_workers(cores: int, workers: int) -> None:
    assert launched(planned(sets=(a_set(cores=cores),))) == {"m5.large": workers}


def test_targets_of_several_sets_add_up() -> None:
    sets = (a_set("burst", count=2), a_set("standard", cores=6))
    assert launched(planned(sets=sets)) == {"m5.large": 5}


def test_the_reason_of_a_launch_names_the_request_sets() -> None:
    (launch,) = planned(sets=(a_set("burst", count=1), a_set("standard", cores=2))).actions
    assert text(launch.reason).startswith("burst, standard requested workers of execute (1 worker) (2 vCPUs)")


def test_idle_workers_count_towards_a_target() -> None:
    assert launched(planned(a_worker("w1", idle=5), sets=(a_set(count=3),))) == {"m5.large": 2}


def test_booting_and_ordered_workers_are_not_launched_again() -> None:
    assert launched(planned(a_machine(None), an_order(2), sets=(a_set(count=3),))) == {}
    assert launched(planned(a_machine(None), an_order(2), sets=(a_set(count=4),))) == {"m5.large": 1}


def test_queue_demand_is_launched_in_addition_to_request_sets() -> None:
    made = planned(jobs(4), sets=(a_set(count=3),))
    assert sorted(
        count for action in made.actions if isinstance(action, Launch) for count in [action.candidates[0].count]
    ) == [2, 3]


def test_busy_workers_do_not_count_towards_a_target() -> None:
    assert launched(planned(a_worker("w1", used=1), sets=(a_set(count=1),))) == {"m5.large": 1}


def test_an_idle_worker_that_a_waiting_job_would_use_does_not_count_towards_a_target() -> None:
    made = planned(a_worker("w1", idle=5), a_job(slots=2), sets=(a_set(count=1),))
    assert launched(made) == {"m5.large": 1}


def test_limits_win_over_targets() -> None:
    made = planned(a_worker("w1", used=1), sets=(a_set(count=9),), limits=Limits(max_workers=4))
    assert launched(made) == {"m5.large": 3}


def test_a_target_beyond_the_limits_is_reported() -> None:
    made = planned(a_worker("w1", used=1), sets=(a_set(count=9),), limits=Limits(max_workers=1))
    assert (made.actions, note_codes(made)) == ((), [Code.REQUESTED, Code.LAUNCH_WANTED, Code.CAPPED])


def test_demand_is_launched_before_requests_and_counts_against_the_same_limit() -> None:
    made = planned(jobs(4), sets=(a_set(count=9),), limits=Limits(max_workers=5))
    assert [(a.reason.code, a.candidates[0].count) for a in made.actions if isinstance(a, Launch)] == [
        (Code.DEMAND, 2),
        (Code.REQUESTED, 3),
    ]


def test_limits_hold_whichever_candidates_the_launches_get() -> None:
    limits = Limits(max_workers=10, max_cores=10)
    made = planned(jobs(8), sets=(a_set(cores=8),), limits=limits, hybrid=True)
    most = [max(c.count * c.type.vcpus for c in a.candidates) for a in made.actions if isinstance(a, Launch)]
    assert sum(most) <= 10


def test_requests_count_towards_the_launches_an_hour() -> None:
    limits = Limits(max_workers=10, max_launches_per_hour=5)
    made = planned(sets=(a_set(count=9),), limits=limits, launches=(Event(NOW - 60, 3, "execute"),))
    assert launched(made) == {"m5.large": 2}


def test_jobs_nodes_and_requests_share_the_launches_an_hour_within_a_pass() -> None:
    seen = asking(
        jobs(8), sets=(a_set(count=9),), limits=Limits(max_workers=20, max_launches_per_hour=5), scale_up_batch=3
    )
    node = CreatedNode("n1", "n1", "execute", NOW - 1)
    made = plan(replace(seen, requests=replace(seen.requests, nodes=(node,))))
    assert [launch.candidates[0].count for launch in made.actions if isinstance(launch, Launch)] == [3, 1, 1]


def test_requests_do_not_wait_for_the_batch_delay_of_job_demand() -> None:
    order = an_order(1, state=OrderState.ACCEPTED, age=1, ids=("i-w1",))
    made = planned(order, a_worker("w1", used=1), sets=(a_set(count=1),), launches=(Event(NOW - 1, 1, "execute"),))
    assert launched(made) == {"m5.large": 1}


def test_a_requested_worker_is_not_ordered_again_though_a_job_could_use_it() -> None:
    order = an_order(1, for_requests=True)
    assert launched(planned(a_job(waited=1), order, sets=(a_set(count=1),))) == {}


def test_a_worker_ordered_for_jobs_does_not_count_towards_a_target() -> None:
    assert launched(planned(a_job(waited=99), an_order(1), sets=(a_set(count=1),))) == {"m5.large": 1}


def test_an_idle_worker_is_kept_for_a_target_rather_than_a_coming_one_that_a_job_needs() -> None:
    job = a_job(slots=4)
    worker = a_worker("w1", idle=999)
    made = planned(job, worker, an_order(1, for_requests=True, type_=XLARGE), sets=(a_set(count=1),))
    assert verdict_and_code(made, "w1") == ("keep", Code.REQUESTED)


def test_a_launch_planned_a_moment_ago_is_not_planned_again_before_its_order_shows() -> None:
    assert launched(planned(sets=(a_set(count=1),), launches=(Event(NOW, 1, "execute"),))) == {}


def test_after_a_failed_order_requests_wait_a_moment() -> None:
    failed = an_order(1, state=OrderState.FAILED, age=3)
    made = planned(failed, sets=(a_set(count=1),))
    assert (launched(made), note_codes(made)) == ({}, [Code.BATCH_DELAY])


def test_after_a_partly_filled_order_requests_wait_a_moment() -> None:
    order = an_order(1, state=OrderState.ACCEPTED, age=3, ids=("i-1",))
    failure = LaunchFailure(a_bucket(LARGE).key, NOW - 3, FailureKind.CAPACITY, "none", order.id)
    assert launched(planned(order, failure, sets=(a_set(count=2),))) == {}


def test_requested_types_are_tried_in_their_order() -> None:
    definition = ArrayDefinition("execute", machine_types=("m5.2xlarge", "m5.xlarge"))
    (launch,) = planned(sets=(a_set(cores=16),), arrays=(definition,)).actions
    assert isinstance(launch, Launch)
    assert [(c.type.name, c.count) for c in launch.candidates] == [("m5.2xlarge", 2), ("m5.xlarge", 4)]


MISTYPED = ArrayDefinition("execute", machine_types=("m5.lage",))


def test_a_mistyped_machine_type_of_a_request_does_not_stop_launches_for_jobs() -> None:
    made = planned(jobs(4), sets=(a_set(count=3),), arrays=(MISTYPED,))
    assert launched(made) == {"m5.large": 2}


def test_a_request_with_a_mistyped_machine_type_launches_nothing_and_is_reported() -> None:
    made = planned(sets=(a_set("burst", count=3),), arrays=(MISTYPED,))
    assert (launched(made), [text(note) for note in made.notes]) == (
        {},
        [
            "burst requested workers of execute (3 workers); execute has no instance type that can be launched for "
            "it; requested: m5.lage",
            "the provider offers nothing of what is requested for execute: m5.lage; requested by burst; requests get "
            "no worker of it, jobs get what the settings allow",
        ],
    )


def test_a_mistyped_machine_type_of_a_request_does_not_make_jobs_unsatisfiable() -> None:
    made = planned(a_job(slots=99), a_job(slots=2), sets=(a_set(count=3),), arrays=(MISTYPED,))
    assert [category.reason.code for category in made.job_categories].count(Code.NO_INSTANCE_TYPE) == 0


def test_a_mistyped_machine_type_of_a_request_does_not_block_min_workers() -> None:
    made = planned(sets=(a_set(count=3),), arrays=(MISTYPED,), limits=Limits(min_workers=1, max_workers=5))
    assert launched(made) == {"m5.large": 1}


def test_an_array_does_not_inherit_a_mistyped_machine_type() -> None:
    """Such as one of groups that jobs need, which have no definition, or another caller's."""
    definitions = (MISTYPED, ArrayDefinition("burst", dynamic=True, extends="execute"))
    assert launched(planned(sets=(a_set(array="burst", count=2),), arrays=definitions)) == {"m5.large": 2}


SPOT = ArrayDefinition("execute", price_type=PriceType.SPOT)


def test_an_unmet_request_for_spot_workers_does_not_block_job_demand() -> None:
    made = planned(jobs(4), sets=(a_set(count=3),), arrays=(SPOT,))
    assert (launched(made), [text(note) for note in made.notes]) == (
        {"m5.large": 2},
        [
            "standard requested workers of execute (3 workers); execute has no instance type that can be launched for "
            "it; requested: spot m5.large",
            "the provider offers nothing of what is requested for execute: spot m5.large; requested by standard; "
            "requests get no worker of it, jobs get what the settings allow",
        ],
    )


def test_types_not_offered_at_the_requested_price_type_are_reported_and_jobs_get_others() -> None:
    definition = replace(SPOT, machine_types=("m5.xlarge", "m5.lage"))
    made = planned(jobs(4), sets=(), arrays=(definition,))
    assert (launched(made), note_codes(made)) == ({"m5.large": 2}, [Code.TYPES_NOT_OFFERED])


def test_requested_spot_workers_are_launched_if_offered() -> None:
    made = planned(jobs(4), a_bucket(LARGE, price_type=PriceType.SPOT), a_bucket(LARGE), sets=(), arrays=(SPOT,))
    (launch,) = made.actions
    assert isinstance(launch, Launch)
    assert launch.candidates[0].buckets[0].key.price_type is PriceType.SPOT


def test_a_dynamic_array_whose_spot_workers_are_not_offered_is_reported() -> None:
    burst = ArrayDefinition("burst", dynamic=True, extends="execute", price_type=PriceType.SPOT)
    made = planned(sets=(a_set(array="burst", count=1),), arrays=(burst,))
    assert [text(note) for note in made.notes] == [
        "standard requested workers of burst (1 worker); burst has no instance type that can be launched for it; "
        "requested: spot m5.large"
    ]


def test_one_offered_type_of_several_named_ones_is_launched() -> None:
    definition = ArrayDefinition("execute", machine_types=("m5.lage", "m5.xlarge"))
    assert launched(planned(jobs(4), arrays=(definition,), sets=())) == {"m5.xlarge": 1}


def test_the_next_named_type_is_launched_if_the_first_is_unavailable() -> None:
    definition = ArrayDefinition("execute", machine_types=("m5.2xlarge", "m5.xlarge"))
    buckets = (a_bucket(X2LARGE, available=0), a_bucket(XLARGE))
    made = planned(*buckets, sets=(a_set(cores=16),), arrays=(definition,))
    assert launched(made) == {"m5.xlarge": 4}


def test_hybrid_cores_use_the_smallest_type_that_fits_all_within_the_limits() -> None:
    made = planned(sets=(a_set(cores=12),), hybrid=True, limits=Limits(max_workers=2))
    assert launched(made) == {"m5.2xlarge": 2}


def test_a_dynamic_array_gets_its_own_workers() -> None:
    definition = ArrayDefinition("burst", dynamic=True, machine_types=("m5.xlarge",))
    made = planned(sets=(a_set(array="burst", count=2),), arrays=(definition,))
    assert [
        (a.node_array, a.candidates[0].type, a.candidates[0].count) for a in made.actions if isinstance(a, Launch)
    ] == [("burst", XLARGE, 2)]


def test_workers_of_a_dynamic_array_count_against_the_limits_of_what_it_extends() -> None:
    definition = ArrayDefinition("burst", dynamic=True)
    sets = (a_set("one", count=3), a_set("two", array="burst", count=3))
    made = planned(sets=sets, arrays=(definition,), limits=Limits(max_workers=4))
    assert [(a.node_array, a.candidates[0].count) for a in made.actions if isinstance(a, Launch)] == [
        ("execute", 3),
        ("burst", 1),
    ]


def test_a_permanent_failure_of_a_callers_array_stops_no_other_array() -> None:
    order = replace(an_order(1, state=OrderState.FAILED, age=60), node_array="burst")
    refused = LaunchFailure(a_bucket(LARGE).key, NOW - 60, FailureKind.PERMANENT, "no such image", order.id)
    sets = (a_set("one", array="burst", count=1), a_set("two", count=1))
    made = planned(order, refused, sets=sets, arrays=(ArrayDefinition("burst", dynamic=True),))
    assert [(a.node_array, note_codes(made)) for a in made.actions if isinstance(a, Launch)] == [
        ("execute", [Code.NODE_ARRAY_STOPPED])
    ]


def test_an_array_that_extends_a_stopped_one_is_stopped_with_it() -> None:
    seen = asking(sets=(a_set(array="burst", count=1),), arrays=(ArrayDefinition("burst", dynamic=True),))
    made = plan(replace(seen, memory=replace(seen.memory, stopped={"execute": "no such image"})))
    assert (launched(plan(seen)), launched(made), note_codes(made)) == (
        {"m5.large": 1},
        {},
        [Code.NODE_ARRAY_STOPPED],
    )


def test_nothing_is_launched_for_an_array_that_is_no_longer_requested() -> None:
    definition = ArrayDefinition("burst", dynamic=True, requested=False)
    assert launched(planned(sets=(a_set(array="burst", count=2),), arrays=(definition,))) == {}


def test_a_target_on_an_unknown_array_is_reported() -> None:
    assert note_codes(planned(sets=(a_set(array="gone", count=2),))) == [Code.NO_SUCH_NODE_ARRAY]


def test_nothing_is_launched_for_an_expired_set() -> None:
    assert launched(planned(sets=(a_set(count=2, expires=0),))) == {}


def test_a_set_without_expiry_holds() -> None:
    assert launched(planned(sets=(a_set(count=2, expires=None),))) == {"m5.large": 2}


def test_nothing_is_launched_while_paused() -> None:
    assert planned(Overrides(paused=True), sets=(a_set(count=2),)).actions == ()


def test_nothing_is_launched_for_a_target_during_stop_drain() -> None:
    assert planned(Overrides(stop="drain"), sets=(a_set(count=2),)).actions == ()
    assert launched(planned(sets=(a_set(count=2),))) == {"m5.large": 2}


def test_min_workers_are_not_launched_in_addition_to_requested_ones() -> None:
    made = planned(sets=(a_set(count=2),), limits=Limits(max_workers=10, min_workers=2))
    assert acts(made) == [("launch", {"m5.large": 2})]


def test_min_workers_are_launched_if_requests_want_fewer() -> None:
    made = planned(a_worker("w1", idle=5), sets=(a_set(count=1),), limits=Limits(max_workers=10, min_workers=3))
    assert acts(made) == [("launch", {"m5.large": 2})]


# -- workers that they need stay --------------------------------------------------------------------------------------


def test_a_requested_worker_stays_and_its_reason_names_the_set() -> None:
    made = planned(a_worker("w1", idle=999), sets=(a_set("burst", count=1),))
    assert (verdict_and_code(made, "w1"), verdict_of(made, "w1").reason["sets"]) == (
        ("keep", Code.REQUESTED),
        ("burst",),
    )


def test_idle_workers_beyond_the_target_leave() -> None:
    made = planned(a_worker("w1", idle=999), a_worker("w2", idle=99), sets=(a_set(count=1),))
    assert acts(made) == [("disable", "w1")]


def test_workers_leave_when_a_target_drops_to_zero() -> None:
    assert acts(planned(a_worker("w1", idle=999), sets=(a_set(count=0),))) == [("disable", "w1")]


def test_workers_of_an_expired_set_leave() -> None:
    assert acts(planned(a_worker("w1", idle=999), sets=(a_set(count=1, expires=0),))) == [("disable", "w1")]


def test_the_next_pass_is_due_when_a_set_expires() -> None:
    assert planned(a_worker("w1", idle=999), sets=(a_set(count=1, expires=42),)).due == NOW + 42


def test_the_expiry_of_one_set_does_not_affect_others() -> None:
    workers = [a_worker(f"w{n}", idle=999 - n) for n in range(3)]
    made = planned(*workers, sets=(a_set("one", count=1), a_set("two", count=2, expires=0)), scale_down_batch=9)
    assert [verdict_of(made, f"w{n}").reason.code for n in range(3)] == [Code.IDLE, Code.IDLE, Code.REQUESTED]


def test_no_more_workers_are_kept_for_cores_than_needed() -> None:
    workers = (a_worker("w1", idle=999, type_=LARGE), a_worker("w2", idle=99, type_=X2LARGE))
    made = planned(*workers, sets=(a_set(cores=8),))
    assert acts(made) == [("disable", "w1")]


def test_a_draining_worker_is_enabled_again_for_a_target() -> None:
    worker = a_worker("w1", mark=Disabling.IDLE, empty=1)
    assert acts(planned(worker, sets=(a_set(count=1),))) == [("enable", "w1")]


def test_a_draining_worker_that_a_person_had_disabled_before_is_not_enabled_for_a_target() -> None:
    worker = a_worker("w1", mark=Disabling.COMMAND, empty=5)
    assert worker.note is not None
    theirs = replace(worker, note=replace(worker.note, left_disabled=("main.q",)))
    assert [kind for kind, _ in acts(planned(theirs, sets=(a_set(count=1),)))] == ["launch"]


def test_a_worker_that_a_person_drains_does_not_count_towards_a_target() -> None:
    made = planned(a_worker("w1", idle=5), Overrides(drain=frozenset({"w1"})), sets=(a_set(count=1),))
    assert acts(made) == [("launch", {"m5.large": 1}), ("disable", "w1")]


def test_a_worker_that_fell_silent_a_moment_ago_is_not_replaced_for_a_target() -> None:
    worker = a_worker("w1", heard=False)
    seen = asking(worker, sets=(a_set(count=1),))
    first = plan(replace(seen, memory=replace(seen.memory, silent_since={"w1": None})))
    assert launched(first) == {}


def test_idle_workers_of_an_array_no_longer_requested_leave() -> None:
    definition = ArrayDefinition("burst", dynamic=True, requested=False)
    made = planned(a_worker("w1", idle=999, node_array="burst"), sets=(), arrays=(definition,))
    assert acts(made) == [("disable", "w1")]


def test_a_second_pass_over_an_unchanged_snapshot_changes_nothing() -> None:
    seen = asking(a_worker("w1", idle=999), an_order(2), sets=(a_set(count=3),))
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory))
    assert (again.actions, replace(again.memory, passes=0)) == ((), replace(made.memory, passes=0))


# -- without the queues' demand --------------------------------------------------------------------------------------


def test_without_queue_demand_nothing_is_launched_for_jobs() -> None:
    assert plan(without_queue_demand(asking(jobs(4), sets=()))).actions == ()


def test_without_queue_demand_a_job_that_fits_nowhere_has_that_reason() -> None:
    assert reason_code(plan(without_queue_demand(asking(a_job(), sets=())))) is Code.QUEUE_DEMAND_OFF


def test_without_queue_demand_busy_workers_count_towards_a_target() -> None:
    made = plan(without_queue_demand(asking(a_worker("w1", used=1), sets=(a_set(count=2),))))
    assert launched(made) == {"m5.large": 1}


def test_without_queue_demand_an_idle_worker_beyond_the_target_leaves_though_another_is_busy() -> None:
    made = plan(without_queue_demand(asking(a_worker("w1", used=1), a_worker("w2", idle=99), sets=(a_set(count=1),))))
    assert acts(made) == [("disable", "w2")]


# -- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "cores", "there", "each", "shortfall"),
    (
        (0, 0, (), 2, 0),
        (3, 0, (), 2, 3),
        (3, 0, (2, 2), 2, 1),
        (0, 7, (), 2, 4),
        (0, 7, (4,), 2, 2),
        (1, 4, (2, 8), 2, 0),
        (1, 4, (8,), 2, 1),
        (2, 4, (), 4, 3),
        (0, 1, (), 64, 1),
    ),
)
def test_a_shortfall_counts_the_smallest_workers_first_and_the_rest_as_cores(
    workers: int, cores: int, there: tuple[int, ...], each: int, shortfall: int
) -> None:
    assert Need("execute", workers, cores).shortfall(there, each) == shortfall
