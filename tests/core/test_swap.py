"""When a full cluster's weak worker is swapped for a stronger one, which it is, and when it is enabled again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.core.model.fleet import Interruption, MachineState
from autoscaler.core.model.memory import Disabling, Event, Memory, SwapNote, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.replace import change
from autoscaler.core.replace.change import Change, Readiness, ReplacedWorker
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    GIB,
    LARGE,
    NOW,
    X2LARGE,
    X4LARGE,
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
    acts,
    category_of,
    codes,
    details_of,
    jobs,
    launched,
    note_codes,
    verdict_and_code,
)

FULL = Limits(max_workers=2)
CONSIDERED = SwapNote(("i-w1",), ("w1",), "m5.4xlarge", since=NOW - 15)
BEGUN = replace(CONSIDERED, since=NOW - 60, begun_at=NOW - 60)


def remembering(note: SwapNote) -> Memory:
    return Memory(passes=7, swaps={"execute": note})


def a_full_cluster(*things: Thing, limits: Limits = FULL, **array: Any) -> Snapshot:
    """Hybrid m5, all its workers there; job 1 requests 16 slots on one host, which none of them has."""
    return a_snapshot(a_job(slots=16), *things, limits=limits, **{"hybrid": True, "idle_timeout": 9999.0, **array})


def idle(name: str = "w1", seconds: float = 20.0, **worker: Any) -> AWorker:
    return a_worker(name, idle=seconds, **worker)


def busy(name: str = "w1", used: int = 1, **worker: Any) -> AWorker:
    return a_worker(name, used=used, **worker)


def swapped(name: str = "w1", *, used: int = 0, empty: float | None = None, **worker: Any) -> AWorker:
    """Disabled for a swap, and observed so before."""
    made = a_worker(name, mark=Disabling.SWAP, used=used, empty=empty, **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, seen_disabled=True))


def limited(name: str, h_rt: str, *, ran: float, **worker: Any) -> AWorker:
    """A worker whose one job has a time limit and has run for this many seconds."""
    made = a_worker(name, host=a_host(name, used=1, hard={"h_rt": h_rt}), **worker)
    assert made.host is not None
    (instance,) = made.host.instances
    running = replace(instance.jobs[0], started=NOW - ran)
    return replace(made, host=replace(made.host, instances=(replace(instance, jobs=(running,)),)))


def swap_of(made: Plan) -> SwapNote | None:
    return made.memory.swaps.get("execute")


# -- an idle worker ---------------------------------------------------------------------------------------------------


def test_an_idle_weak_worker_is_disabled_for_a_swap_at_once() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.SWAP))


def test_a_swap_is_remembered_with_its_leaving_worker() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2")))
    assert made.memory.workers["i-w1"].disabling is Disabling.SWAP
    assert swap_of(made) == SwapNote(("i-w1",), ("w1",), "m5.4xlarge", since=NOW, begun_at=NOW)


def test_the_waiting_jobs_reason_names_the_swap() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2")))
    assert Code.SWAP_UNDER_WAY in codes(category_of(made).reason)


def test_nothing_is_launched_before_the_swapped_worker_is_gone() -> None:
    for worker in (swapped("w1", empty=99), a_machine("w1")):
        assert launched(plan(a_full_cluster(worker, busy("w2"), remembering(BEGUN)))) == {}


def test_a_swapped_worker_is_removed_like_any_other() -> None:
    assert acts(plan(a_full_cluster(swapped("w1", empty=99), busy("w2"), remembering(BEGUN)))) == [("remove", "w1")]


def test_the_stronger_worker_is_launched_once_the_weak_one_is_gone() -> None:
    made = plan(a_full_cluster(busy("w2"), remembering(BEGUN)))
    assert (launched(made), codes(made.actions[0].reason)[:2]) == (
        {"m5.4xlarge": 1},
        [Code.DEMAND, Code.LAUNCH_REPLACES],
    )


def test_the_launch_of_a_swap_is_sized_for_its_job_whatever_else_waits() -> None:
    made = plan(a_full_cluster(busy("w2"), jobs(200, 100), remembering(BEGUN), scale_up_batch=1))
    assert launched(made) == {"m5.4xlarge": 1}


def test_a_swap_ends_when_the_stronger_worker_is_coming() -> None:
    coming = a_machine(None, type_=X4LARGE, age=5)
    note = swap_of(plan(a_full_cluster(busy("w2"), coming, remembering(BEGUN))))
    assert note == SwapNote(ended_at=NOW)


def test_a_worker_that_just_became_empty_is_swapped_after_a_second_observation() -> None:
    made = plan(a_full_cluster(idle("w1", seconds=5), busy("w2")))
    assert (acts(made), swap_of(made)) == ([], SwapNote(("i-w1",), ("w1",), "m5.4xlarge", since=NOW))


def test_a_swap_waits_neither_for_the_idle_timeout_nor_for_empty_queues() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2"), queue={"scale_down_timeout": 60.0}))
    assert acts(made) == [("disable", "w1")]


# -- which worker is swapped ------------------------------------------------------------------------------------------


def test_an_idle_worker_is_swapped_before_a_busy_one() -> None:
    assert acts(plan(a_full_cluster(busy("w1"), idle("w2")))) == [("disable", "w2")]


def test_the_swap_with_the_smallest_price_increase_is_chosen() -> None:
    made = plan(a_full_cluster(idle("w1"), idle("w2", type_=XLARGE)))
    assert acts(made) == [("disable", "w2")]


def test_of_two_workers_at_the_same_price_the_weaker_is_swapped() -> None:
    weak, strong = idle("w1", price_per_hour=0.2), idle("w2", type_=XLARGE, price_per_hour=0.2)
    assert acts(plan(a_full_cluster(strong, weak))) == [("disable", "w1")]


def test_a_worker_that_would_serve_more_waiting_jobs_is_not_swapped() -> None:
    small = jobs(50, 100)
    made = plan(a_full_cluster(busy("w1", 2), busy("w2", 4, type_=XLARGE), small))
    note = swap_of(made)
    assert note is not None
    assert note.leaving == ("i-w1",)


def test_of_busy_workers_the_one_that_a_time_limit_frees_first_is_swapped() -> None:
    made = plan(a_full_cluster(limited("w1", "9000", ran=60), limited("w2", "0:10:0", ran=500)))
    note = swap_of(made)
    assert note is not None
    assert note.leaving == ("i-w2",)


def test_only_as_many_workers_are_swapped_as_the_core_limit_requires() -> None:
    workers = [idle(f"w{n}") for n in range(8)]
    made = plan(a_full_cluster(*workers, limits=Limits(max_workers=20, max_cores=20), scale_down_batch=1))
    assert acts(made) == [("disable", f"w{n}") for n in range(6)]


def test_a_worker_whose_cores_are_not_needed_is_not_swapped() -> None:
    workers = (idle("w1"), idle("w2", type_=XLARGE), idle("w3", type_=X2LARGE))
    made = plan(a_full_cluster(*workers, limits=Limits(max_workers=20, max_cores=18)))
    assert sorted(acts(made)) == [("disable", "w2"), ("disable", "w3")]


def test_one_larger_idle_worker_is_swapped_rather_than_many_small_ones() -> None:
    workers = [idle(f"w{n}") for n in range(4)]
    large = idle("w9", type_=X2LARGE)
    made = plan(a_full_cluster(*workers, large, limits=Limits(max_workers=20, max_cores=24)))
    assert acts(made) == [("disable", "w9")]


def test_workers_are_swapped_to_fit_under_the_price_cap() -> None:
    made = plan(a_full_cluster(idle("w1"), idle("w2"), limits=Limits(max_workers=9, max_price_per_hour=0.85)))
    assert acts(made) == [("disable", "w1"), ("disable", "w2")]


def test_no_worker_is_swapped_for_a_type_of_unknown_price_under_a_price_cap() -> None:
    priceless = a_bucket(X4LARGE, price=-1)
    limits = Limits(max_workers=2, max_price_per_hour=9.0)
    made = plan(a_full_cluster(idle("w1"), idle("w2"), a_bucket(LARGE), priceless, limits=limits))
    assert acts(made) == []


def test_the_smallest_sufficient_type_replaces_the_worker() -> None:
    note = swap_of(plan(a_full_cluster(idle("w1"), busy("w2"))))
    assert note is not None
    assert note.type == "m5.4xlarge"


def test_the_type_that_serves_most_waiting_jobs_replaces_the_worker() -> None:
    note = swap_of(plan(a_full_cluster(a_job(2, slots=16), idle("w1"), busy("w2"))))
    assert note is not None
    assert note.type == "m5.8xlarge"


def test_a_type_in_backoff_replaces_no_worker() -> None:
    failures = [a_failure(X4LARGE, age=60.0 + n) for n in range(5)]
    note = swap_of(plan(a_full_cluster(idle("w1"), busy("w2"), *failures)))
    assert note is not None
    assert note.type == "m5.8xlarge"


def test_a_worker_that_serves_more_waiting_jobs_than_its_replacement_is_not_swapped() -> None:
    fat = replace(LARGE, name="m5.fat", memory=64 * GIB)
    buckets, much = (a_bucket(XLARGE), a_bucket(fat)), a_job(1, hard={"h_vmem": "40G"})
    worker = busy("w1", 4, type_=XLARGE)
    array: dict[str, Any] = {"hybrid": True, "family": "m5", "limits": Limits(max_workers=1)}
    backlogs = [plan(a_snapshot(much, jobs(count, 10), worker, *buckets, **array)) for count in (3, 1)]
    assert [made.memory.swaps != {} for made in backlogs] == [False, True]


def test_a_worker_that_alone_can_run_a_waiting_job_is_not_swapped() -> None:
    arm = replace(XLARGE, name="m5.arm", arch="lx-arm64", memory=64 * GIB)
    worker = a_worker("w1", type_=XLARGE, host=a_host("w1", slots=4, used=4, load={"arch": "lx-amd64"}))
    much, bound = a_job(1, hard={"h_vmem": "40G"}), a_job(2, hard={"arch": "lx-amd64"})
    array: dict[str, Any] = {"hybrid": True, "family": "m5", "limits": Limits(max_workers=1)}
    alone, both = (
        plan(a_snapshot(*waiting, worker, a_bucket(XLARGE), a_bucket(arm), **array))
        for waiting in ((much,), (much, bound))
    )
    assert (alone.memory.swaps != {}, both.memory.swaps) == (True, {})


def test_no_worker_is_swapped_for_its_own_type() -> None:
    """The catalogue has 16 cores, and Grid Engine shows 8 slots: another one would be no better."""
    smaller_than_expected = a_worker("w1", host=a_host("w1", slots=8, used=8), type_=X4LARGE)
    wide = a_job(slots=12, pe="mpi")
    made = plan(
        a_snapshot(wide, smaller_than_expected, hybrid=True, max_cores_per_worker=16, limits=Limits(max_workers=1))
    )
    assert swap_of(made) is None


def test_no_worker_is_swapped_for_a_type_whose_existing_worker_cannot_run_the_job() -> None:
    """The catalogue has 16 cores, and Grid Engine shows 8 slots: another one would be no better."""
    smaller_than_expected = a_worker("w2", host=a_host("w2", slots=8, used=8), type_=X4LARGE)
    made = plan(a_full_cluster(idle("w1"), smaller_than_expected, max_cores_per_worker=16))
    assert swap_of(made) is None


# -- which is not -----------------------------------------------------------------------------------------------------


def test_a_worker_that_waiting_jobs_could_use_is_not_swapped_if_its_replacement_would_be_full() -> None:
    made = plan(a_full_cluster(jobs(2, 10), idle("w1"), busy("w2", 2), max_cores_per_worker=16))
    assert ("disable", "w1") not in acts(made)


def test_a_worker_that_waiting_jobs_could_use_is_swapped_if_its_replacement_has_room_for_them() -> None:
    made = plan(a_snapshot(a_job(slots=12), jobs(2, 10), idle("w1"), busy("w2", 2), limits=FULL, hybrid=True))
    assert acts(made) == [("disable", "w1")]


def test_a_worker_kept_by_a_person_is_not_swapped() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2"), Overrides(keep=frozenset({"w1", "w2"}))))
    assert (acts(made), swap_of(made)) == ([], None)


def test_a_worker_disabled_by_a_person_is_not_swapped() -> None:
    made = plan(a_full_cluster(a_worker("w1", states="d"), a_worker("w2", states="d")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_persistent_host_is_never_swapped() -> None:
    made = plan(a_full_cluster(a_host("h1"), busy("w1"), busy("w2"), Overrides(keep=frozenset({"w1", "w2"}))))
    assert acts(made) == []


def test_no_swap_begins_at_the_first_observation_of_the_workers() -> None:
    assert swap_of(plan(a_full_cluster(a_worker("w1", known=False), a_worker("w2", known=False)))) is None


def test_a_swap_that_would_break_min_workers_is_not_made() -> None:
    limits = Limits(max_workers=20, min_workers=8, max_cores=20)
    made = plan(a_full_cluster(*(idle(f"w{n}") for n in range(8)), limits=limits))
    assert (acts(made), note_codes(made)[-1]) == ([], Code.NO_SWAP)


def test_a_pass_judges_at_most_eight_sets_of_several_workers_for_a_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is a placement of its own, and a full array may have thousands of workers."""
    judged: list[int] = []
    judge = change.judge_change

    def counting(state: Any, leaving: Any, option: Any) -> Any:
        judged.append(len(leaving))
        return judge(state, leaving, option)

    monkeypatch.setattr(change, "judge_change", counting)
    limits = Limits(max_workers=30, min_workers=30, max_cores=60)
    made = plan(a_full_cluster(*(idle(f"w{n}") for n in range(30)), limits=limits, max_cores_per_worker=16))
    assert (note_codes(made)[-1], len([count for count in judged if count > 1])) == (Code.NO_SWAP, 8)


def test_a_swap_of_one_for_one_is_made_at_min_workers() -> None:
    limits = Limits(max_workers=2, min_workers=2)
    assert acts(plan(a_full_cluster(idle("w1"), busy("w2"), limits=limits))) == [("disable", "w1")]


# -- when no swap is called for ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("things", "array"),
    (
        pytest.param((a_host("h1", slots=16),), {}, id="it fits on a persistent host"),
        pytest.param((a_machine("w3", type_=X4LARGE),), {}, id="a worker that it fits on is coming"),
        pytest.param((a_worker("w3", used=16, type_=X4LARGE),), {}, id="a busy worker could run it one day"),
        pytest.param((Overrides(paused=True),), {}, id="paused"),
        pytest.param((Overrides(stop="drain"),), {}, id="stopping"),
        pytest.param((), {"hybrid": False}, id="no other type is allowed"),
        pytest.param((), {"max_cores_per_worker": 8}, id="no type is large enough"),
        pytest.param((), {"queue": {"scale_up_timeout": 90.0}}, id="its job has not waited long enough"),
    ),
)
def test_no_swap_is_made_if_it_is_unnecessary_or_not_allowed(things: tuple[Thing, ...], array: dict[str, Any]) -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2"), *things, limits=Limits(max_workers=2), **array))
    assert (verdict_and_code(made, "w1")[1] is not Code.SWAP, swap_of(made)) == (True, None)


def test_no_busy_worker_is_considered_for_a_swap_while_everything_stops() -> None:
    assert swap_of(plan(a_full_cluster(busy("w1"), busy("w2"), Overrides(stop="drain")))) is None


def test_a_swap_is_made_if_waiting_jobs_will_take_the_slots_that_a_launch_would_need() -> None:
    """12 slots fit on the free 4 and a new worker's 8, were these 4 not taken by the jobs that fit there."""
    cell = (a_job(slots=12, pe="mpi"), jobs(4, 100), idle("w1"), idle("w2"))
    limits = Limits(max_workers=3)
    made = plan(a_snapshot(*cell, limits=limits, hybrid=True, max_cores_per_worker=8, idle_timeout=9999.0))
    assert acts(made) == [("disable", "w1")]


@pytest.mark.parametrize(
    "worker",
    (
        pytest.param(
            replace(a_worker("w1", mark=Disabling.IDLE, empty=20), host=a_host("w1")), id="a person enabled it"
        ),
        pytest.param(busy("w1", mark=Disabling.STOP), id="leaves anyway"),
        pytest.param(busy("w1", host=a_host("w1", used=1, reserved=1)), id="has reserved slots"),
        pytest.param(
            busy("w1", host=a_host("w1", slots=1, used=1, more=(QueueInstance("b.q", "w1", 1, 0, 1, "", ()),))),
            id="has reserved slots in another queue",
        ),
        pytest.param(busy("w1", states="E"), id="is in error state"),
    ),
)
def test_another_worker_is_swapped_if_one(worker: AWorker) -> None:
    made = plan(a_full_cluster(worker, busy("w2"), details_of(1, group="users")))
    assert swap_of(made) == SwapNote(("i-w2",), ("w2",), "m5.4xlarge", since=NOW)


def test_a_worker_that_a_request_set_needs_is_not_swapped() -> None:
    seen = a_full_cluster(idle("w1"), busy("w2"))
    requested = RequestSet("standard", "ann", NOW - 1, NOW + 300, (Target("execute", count=1),))
    made = plan(replace(seen, requests=Requests((requested,))))
    assert swap_of(made) == SwapNote(("i-w2",), ("w2",), "m5.4xlarge", since=NOW)


def test_no_swap_is_made_if_a_launch_suffices() -> None:
    made = plan(a_full_cluster(idle("w1"), limits=FULL))
    assert acts(made) == [("launch", {"m5.4xlarge": 1, "m5.8xlarge": 1})]


def test_no_swap_is_made_if_a_draining_worker_leaves_room() -> None:
    leaving = a_worker("w2", mark=Disabling.IDLE, empty=5)
    assert swap_of(plan(a_full_cluster(idle("w1"), leaving))) is None


@pytest.mark.parametrize(
    ("worker", "notices"),
    (
        pytest.param(a_machine("w2", state=MachineState.STOPPING), (), id="stops"),
        pytest.param(busy("w2"), (Interruption("i-w2", NOW + 100, "terminate"),), id="is interrupted"),
    ),
)
def test_no_swap_is_made_if_a_worker_that_ends_leaves_room(worker: AWorker, notices: tuple[Interruption, ...]) -> None:
    for limits in (FULL, Limits(max_workers=9, max_cores=18)):
        seen = a_full_cluster(idle("w1"), worker, limits=limits)
        assert swap_of(plan(replace(seen, fleet=replace(seen.fleet, interruptions=notices)))) is None


def test_no_room_is_expected_of_a_worker_that_ends_but_its_own() -> None:
    """16 cores are needed; of 17, w1 has 2 and w2 another 2."""
    ending = a_machine("w2", state=MachineState.STOPPING)
    made = plan(a_full_cluster(idle("w1"), ending, limits=Limits(max_workers=9, max_cores=17)))
    assert note_codes(made)[-1] is Code.NO_SWAP


def test_a_swap_is_made_if_it_is_not_known_when_a_draining_workers_job_ends() -> None:
    drained = Overrides(drain=frozenset({"w2"}))
    made = plan(a_full_cluster(idle("w1"), busy("w2", mark=Disabling.COMMAND), drained))
    assert acts(made) == [("disable", "w1")]


def test_no_swap_is_made_if_a_persistent_hosts_jobs_end_soon() -> None:
    large = replace(X4LARGE, vcpus=16)
    host = limited("h1", "600", ran=100, type_=large).host
    assert host is not None
    (instance,) = host.instances
    (job,) = instance.jobs
    host = replace(host, instances=(replace(instance, slots=16, used=16, jobs=(replace(job, slots=16),)),))
    assert swap_of(plan(a_full_cluster(idle("w1"), busy("w2"), host))) is None


def test_a_swap_is_made_if_a_persistent_hosts_jobs_have_no_time_limit() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2"), a_host("h1", slots=16, used=16)))
    assert acts(made) == [("disable", "w1")]


def test_with_swaps_turned_off_nothing_is_swapped_and_the_pass_reports_it() -> None:
    seen = a_full_cluster(idle("w1"), busy("w2"))
    made = plan(replace(seen, policy=replace(seen.policy, swap=False)))
    assert (acts(made), note_codes(made)[-1]) == ([], Code.SWAP_OFF)


def test_an_idle_worker_leaves_if_a_job_over_several_hosts_has_no_room_even_with_it() -> None:
    seen = a_snapshot(
        a_job(slots=6, pe="mpi"), a_host("h1", slots=16, used=14), idle("w1", 900), limits=Limits(1), hybrid=True
    )
    assert acts(plan(replace(seen, policy=replace(seen.policy, swap=False)))) == [("disable", "w1")]


def test_no_swap_is_made_when_the_launches_an_hour_are_used_up() -> None:
    limits = Limits(max_workers=2, max_launches_per_hour=1)
    made = plan(a_full_cluster(idle("w1"), busy("w2"), limits=limits, launches=(Event(NOW - 600, 1, "execute"),)))
    assert swap_of(made) is None


def test_a_swap_is_made_with_the_last_launch_of_an_hour() -> None:
    limits = Limits(max_workers=2, max_launches_per_hour=2)
    made = plan(a_full_cluster(idle("w1"), busy("w2"), limits=limits, launches=(Event(NOW - 600, 1, "execute"),)))
    assert acts(made) == [("disable", "w1")]


def test_no_swap_is_made_in_an_array_whose_launches_are_refused_for_good() -> None:
    stopped = Memory(passes=7, stopped={"execute": "You are not authorized."})
    assert swap_of(plan(a_full_cluster(idle("w1"), busy("w2"), stopped))) is None


def test_after_a_swap_the_next_one_waits_for_a_boot_time() -> None:
    done, ninety_seconds_to_boot = SwapNote(ended_at=NOW - 60), idle("w1", age=3600 + 90)
    made = plan(a_full_cluster(ninety_seconds_to_boot, busy("w2"), remembering(done)))
    assert (acts(made), note_codes(made)[-1:], made.due) == ([], [Code.SWAP_COOLDOWN], NOW + 30)


def test_a_worker_of_a_descending_smaller_type_is_swapped_for_the_configured_type() -> None:
    made = plan(
        a_snapshot(a_job(slots=16), idle("w1"), busy("w2"), instance_type="m5.4xlarge", descending=True, limits=FULL)
    )
    assert acts(made) == [("disable", "w1")]


# -- a busy worker ----------------------------------------------------------------------------------------------------


def test_a_busy_worker_is_only_considered_for_a_swap_at_the_first_observation() -> None:
    made = plan(a_full_cluster(busy("w1"), busy("w2", 2)))
    assert (acts(made), swap_of(made)) == ([], SwapNote(("i-w1",), ("w1",), "m5.4xlarge", since=NOW))


def test_a_considered_busy_worker_is_disabled_after_a_second_equal_observation() -> None:
    made = plan(a_full_cluster(busy("w1"), busy("w2"), remembering(CONSIDERED)))
    assert acts(made) == [("disable", "w1")]


def test_two_observations_within_a_scheduler_interval_do_not_start_a_swap() -> None:
    made = plan(a_full_cluster(busy("w1"), busy("w2"), remembering(replace(CONSIDERED, since=NOW - 14))))
    assert acts(made) == []


def test_the_second_observation_for_a_swap_is_due_after_a_scheduler_interval() -> None:
    assert plan(a_full_cluster(busy("w1"), busy("w2"))).due == NOW + 15


def test_the_considered_worker_is_swapped_though_another_would_now_be_chosen() -> None:
    considered = SwapNote(("i-w2",), ("w2",), "m5.4xlarge", since=NOW - 15)
    made = plan(a_full_cluster(busy("w1"), busy("w2"), remembering(considered)))
    assert acts(made) == [("disable", "w2")]


def test_an_idle_worker_is_swapped_instead_of_the_considered_busy_one() -> None:
    assert acts(plan(a_full_cluster(busy("w1"), idle("w2"), remembering(CONSIDERED)))) == [("disable", "w2")]


def test_a_swapped_worker_is_not_removed_while_busy() -> None:
    made = plan(a_full_cluster(swapped("w1", used=1), busy("w2"), remembering(BEGUN)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.RUNS_JOBS))


def test_waiting_small_jobs_do_not_cancel_a_swap() -> None:
    made = plan(a_full_cluster(swapped("w1", used=1), busy("w2", 2), jobs(50, 100), remembering(BEGUN)))
    assert acts(made) == []


# -- cancelled --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "things",
    (
        pytest.param((busy("w2", 2, type_=X4LARGE),), id="a worker that it fits on is there"),
        pytest.param((busy("w2"), a_host("h1", slots=16)), id="a persistent host was freed"),
        pytest.param((a_machine("w2", type_=X4LARGE),), id="one is coming"),
        pytest.param((a_worker("w2", mark=Disabling.IDLE, empty=5),), id="another worker leaves anyway"),
        pytest.param((busy("w2"), Overrides(keep=frozenset({"w1"}))), id="a person keeps it"),
    ),
)
def test_a_swap_is_cancelled_and_its_worker_enabled_if_it_is_no_longer_needed(things: tuple[Thing, ...]) -> None:
    made = plan(a_full_cluster(swapped("w1", used=1), *things, remembering(BEGUN)))
    assert (("enable", "w1") in acts(made), swap_of(made)) == (True, SwapNote(ended_at=NOW))


def test_a_swap_is_cancelled_when_its_job_is_gone() -> None:
    made = plan(a_snapshot(swapped("w1", used=1), busy("w2"), remembering(BEGUN), limits=FULL, hybrid=True))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.SWAP_CANCELLED))


def test_a_swap_is_cancelled_when_swaps_are_turned_off() -> None:
    seen = a_full_cluster(swapped("w1", used=1), busy("w2"), remembering(BEGUN))
    assert acts(plan(replace(seen, policy=replace(seen.policy, swap=False)))) == [("enable", "w1")]


def test_a_swap_is_cancelled_when_no_stronger_type_is_available() -> None:
    sold_out = (a_bucket(LARGE), a_bucket(X4LARGE, available=0))
    made = plan(a_full_cluster(swapped("w1", used=1), busy("w2"), *sold_out, remembering(BEGUN)))
    assert acts(made) == [("enable", "w1")]


def test_a_worker_that_becomes_idle_is_swapped_instead_of_the_busy_one() -> None:
    made = plan(a_full_cluster(swapped("w1", used=1), idle("w2"), remembering(BEGUN)))
    note = swap_of(made)
    assert note is not None
    assert (acts(made), note.leaving) == ([("enable", "w1"), ("disable", "w2")], ("i-w2",))


def test_a_swap_that_takes_another_worker_goes_on_as_the_same_with_that_ones_type() -> None:
    larger = replace(BEGUN, type="m5.8xlarge")
    made = plan(a_full_cluster(swapped("w1", used=1), idle("w2"), remembering(larger)))
    assert swap_of(made) == replace(BEGUN, leaving=("i-w2",), hosts=("w2",))


def test_a_swap_keeps_its_type_while_that_is_possible() -> None:
    larger = replace(BEGUN, type="m5.8xlarge")
    assert swap_of(plan(a_full_cluster(swapped("w1", used=1), busy("w2"), remembering(larger)))) == larger


def test_a_swap_whose_type_the_limits_no_longer_allow_takes_another_type() -> None:
    """Beside w2's 8 cores, 26 may come."""
    limits, larger = Limits(max_workers=2, max_cores=34), replace(BEGUN, type="m5.8xlarge")
    made = plan(a_full_cluster(swapped("w1", used=1), busy("w2", type_=X2LARGE), remembering(larger), limits=limits))
    assert swap_of(made) == BEGUN


def test_a_swapped_worker_that_is_empty_is_not_exchanged_for_another_idle_one() -> None:
    made = plan(a_full_cluster(swapped("w1", empty=5), idle("w2"), remembering(BEGUN)))
    assert acts(made) == []


def test_a_worker_disabled_for_a_swap_that_memory_lost_is_enabled_again() -> None:
    assert ("enable", "w1") in acts(plan(a_full_cluster(swapped("w1"), busy("w2"))))


def test_nothing_is_launched_for_jobs_that_a_worker_enabled_again_could_run() -> None:
    made = plan(a_snapshot(swapped("w1"), jobs(2), remembering(BEGUN), limits=Limits(max_workers=5), hybrid=True))
    assert acts(made) == [("enable", "w1")]


def test_after_a_swap_ended_the_next_one_waits_for_the_default_boot_time() -> None:
    made = plan(a_full_cluster(idle("w1"), busy("w2"), remembering(SwapNote(ended_at=NOW - 899))))
    assert acts(made) == []


def test_a_swapped_worker_that_a_person_enables_stays_and_is_remembered_as_spared() -> None:
    enabled = replace(swapped("w1", used=1), host=a_host("w1", used=1))
    made = plan(a_full_cluster(enabled, busy("w2"), remembering(BEGUN)))
    assert (acts(made), swap_of(made)) == ([], SwapNote(ended_at=NOW, spared=("i-w1",)))


def test_a_spared_worker_is_not_swapped_later() -> None:
    note = SwapNote(ended_at=NOW - 9999, spared=("i-w1",))
    assert acts(plan(a_full_cluster(idle("w1"), idle("w2"), remembering(note)))) == [("disable", "w2")]


def test_a_swapped_worker_already_removed_is_terminated_though_the_job_is_gone() -> None:
    retired = a_machine("w1", note=replace(swapped("w1").note or WorkerNote(0.0), retired_at=NOW - 60))
    made = plan(a_snapshot(retired, busy("w2"), remembering(BEGUN), limits=FULL, hybrid=True))
    assert acts(made) == [("terminate", "w1")]


# -- pauses and people ------------------------------------------------------------------------------------------------


def test_a_pause_leaves_a_swap_unchanged() -> None:
    seen = a_full_cluster(swapped("w1", empty=99), busy("w2"), Overrides(paused=True), remembering(BEGUN))
    made = plan(seen)
    assert (acts(made), swap_of(made)) == ([], BEGUN)


def test_a_drain_override_does_not_stop_the_removal_of_a_swapped_worker() -> None:
    seen = a_full_cluster(swapped("w1", empty=99), busy("w2"), Overrides(drain=frozenset({"w1"})), remembering(BEGUN))
    assert acts(plan(seen)) == [("remove", "w1")]


def test_small_jobs_get_workers_outside_the_capacity_freed_by_a_swap() -> None:
    limits = Limits(max_workers=9, max_cores=20)
    made = plan(
        a_snapshot(
            a_job(slots=16),
            jobs(40, 100),
            swapped("w1", used=1, type_=X2LARGE),
            busy("w2", 2),
            remembering(BEGUN),
            limits=limits,
            hybrid=True,
        )
    )
    assert launched(made) == {"m5.large": 1}


def test_request_sets_get_workers_outside_the_capacity_freed_by_a_swap() -> None:
    """Of 20 cores, w2 has 2 and the coming worker 16."""
    cell = (a_job(slots=16), swapped("w1", used=1, type_=X2LARGE), busy("w2", 2), remembering(BEGUN))
    seen = a_snapshot(*cell, limits=Limits(max_workers=9, max_cores=20), hybrid=True)
    requested = RequestSet("standard", "ann", NOW - 1, NOW + 300, (Target("execute", count=3),))
    assert launched(plan(replace(seen, requests=Requests((requested,))))) == {"m5.large": 1}


# -- rule 9 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seen",
    (
        pytest.param(a_full_cluster(idle("w1"), busy("w2")), id="begun"),
        pytest.param(a_full_cluster(busy("w1"), busy("w2")), id="considered"),
        pytest.param(a_full_cluster(busy("w1"), busy("w2"), remembering(CONSIDERED)), id="begun with a busy one"),
        pytest.param(a_full_cluster(swapped("w1", used=1), idle("w2"), remembering(BEGUN)), id="another instead"),
        pytest.param(a_snapshot(swapped("w1"), remembering(BEGUN), limits=FULL), id="cancelled"),
        pytest.param(a_full_cluster(busy("w2"), remembering(BEGUN)), id="launched"),
    ),
)
def test_a_second_pass_over_an_unchanged_snapshot_changes_nothing(seen: Snapshot) -> None:
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory))
    assert (again.actions, replace(again.memory, passes=0)) == ((), replace(made.memory, passes=0))


def a_spread_job_on_weak_workers(*workers: AWorker, swap: bool = False) -> Snapshot:
    """Three workers are allowed; job 1 requests 16 slots over any hosts, which larger ones would have."""
    things: tuple[Thing, ...] = (a_job(slots=16, pe="mpi", waited=9999), *workers)
    made = a_snapshot(*things, hybrid=True, max_cores_per_worker=8, limits=Limits(max_workers=3), scale_down_batch=5)
    return replace(made, policy=replace(made.policy, swap=swap))


def test_idle_workers_leave_if_the_limits_leave_no_room_for_the_rest_of_the_job() -> None:
    made = plan(a_spread_job_on_weak_workers(*(a_worker(f"w{n}", idle=99) for n in (1, 2, 3))))
    assert [verdict_and_code(made, f"w{n}") for n in (1, 2, 3)] == [("disable", Code.IDLE)] * 3


def test_a_spread_jobs_workers_are_launched_when_the_weak_ones_are_gone() -> None:
    assert launched(plan(a_spread_job_on_weak_workers())) == {"m5.2xlarge": 2}


def test_an_idle_worker_stays_if_the_limits_leave_room_for_the_rest_of_the_job() -> None:
    made = plan(a_spread_job_on_weak_workers(a_worker("w1", idle=99)))
    assert verdict_and_code(made, "w1") == ("keep", Code.NEEDED)


def test_an_idle_worker_stays_for_a_job_that_also_waits_for_busy_workers() -> None:
    busy_ones = (busy("w2", used=16, type_=X4LARGE), busy("w3", used=16, type_=X4LARGE))
    made = plan(a_spread_job_on_weak_workers(a_worker("w1", idle=99), *busy_ones))
    assert verdict_and_code(made, "w1") == ("keep", Code.NEEDED)


def candidates(*readiness: Readiness) -> tuple[ReplacedWorker, ...]:
    """The first is empty soonest."""
    machine: Any = SimpleNamespace(worker=SimpleNamespace(id="i-w1"))
    return tuple(ReplacedWorker(machine, None, each, NOW + at, 0.1) for at, each in enumerate(readiness))


@pytest.mark.parametrize("reverse", (False, True))
def test_the_readiness_of_a_swap_is_that_of_its_last_worker(reverse: bool) -> None:
    offer = SimpleNamespace(slots=2)
    option: Any = SimpleNamespace(price=0.2, offer=offer, type=LARGE, price_type="on_demand")
    leaving = candidates(Readiness.IDLE, Readiness.LATER)
    change = Change(leaving[::-1] if reverse else leaving, option, 1, served=1, lost=0)
    assert change.readiness is Readiness.LATER
    assert (change.order[0], change.order[6]) == (Readiness.LATER, NOW + 1)


def test_the_added_price_of_a_swap_is_that_of_all_new_workers_without_those_that_leave() -> None:
    option: Any = SimpleNamespace(price=0.2)
    leaving = candidates(Readiness.IDLE, Readiness.SOON, Readiness.LATER)
    unpriced = replace(leaving[0], price=None)
    assert Change((unpriced, *leaving[1:]), option, 3, served=1, lost=0).added_price == pytest.approx(0.4)
