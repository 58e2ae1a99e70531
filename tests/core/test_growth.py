"""What is launched: which type, how many, and what the other candidates are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.cluster import Complex, Consumable, Queue, QueueInstance
from autoscaler.core.model.fleet import Bucket, FailureKind, InstanceType, MachineState, OrderState, PriceType
from autoscaler.core.model.memory import Event
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.report.wording import text
from tests.core.building import (
    GIB,
    LARGE,
    MAIN,
    NOW,
    X2LARGE,
    X4LARGE,
    XLARGE,
    a_bucket,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    an_order,
    category_of,
    codes,
    fate,
    jobs,
    launched,
    looked_at,
    noted,
)

TEN = a_job(tasks="1-10:1", count=10, waited=60)
LOOKED = looked_at(1)


def launches(*args: object, **kwargs: object) -> list[Launch]:
    return [a for a in plan(a_snapshot(*args, **kwargs)).actions if isinstance(a, Launch)]  # type: ignore[arg-type]


# -- which type -----------------------------------------------------------------------------------------------------


def test_homogeneous_takes_the_given_type_as_often_as_needed() -> None:
    assert acts(plan(a_snapshot(TEN, LOOKED))) == [("launch", {"m5.large": 5})]


def test_the_seeds_hybrid_example_takes_the_type_for_the_remaining_eight() -> None:
    master = a_host("master", slots=2)
    assert launched(plan(a_snapshot(TEN, LOOKED, master, hybrid=True))) == {"m5.2xlarge": 1}


@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity", "default"))
def test_jobs_of_4_and_8_cores_get_one_worker_with_at_least_12(strategy: str) -> None:
    made = plan(a_snapshot(a_job(1, slots=4), a_job(2, slots=8), hybrid=True, strategy=strategy))
    assert launched(made) == {"m5.4xlarge": 1}


@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity"))
def test_more_than_the_largest_type_has_gets_the_largest(strategy: str) -> None:
    made = plan(a_snapshot(jobs(100), hybrid=True, strategy=strategy, scale_up_batch=1))
    assert launched(made) == {"m5.8xlarge": 1}


def test_the_next_types_are_tried_in_order_each_sized_for_the_same_demand() -> None:
    (launch,) = launches(jobs(8), hybrid=True)
    assert {c.type.name: c.count for c in launch.candidates} == {
        "m5.2xlarge": 1,
        "m5.4xlarge": 1,
        "m5.8xlarge": 1,
        "m5.xlarge": 2,
        "m5.large": 4,
    }


def test_cpu_capacity_minds_memory_where_the_seeds_rule_does_not() -> None:
    made = plan(a_snapshot(jobs(4, hard={"h_vmem": "16G"}), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_the_seeds_rule_does_not_launch_what_would_run_nothing() -> None:
    made = plan(a_snapshot(a_job(hard={"h_vmem": "30G"}), hybrid=True, strategy="naive-cpu-capacity"))
    assert launched(made) == {"m5.2xlarge": 1}


def test_default_is_the_seeds_rule_unless_workers_come_in_batches() -> None:
    fat = jobs(4, hard={"h_vmem": "16G"})
    one, batch = (a_snapshot(fat, hybrid=True, strategy="default", scale_up_batch=n) for n in (1, 2))
    assert (launched(plan(one)), launched(plan(batch))) == ({"m5.xlarge": 1}, {"m5.4xlarge": 1})


def test_hybrid_keeps_to_its_core_cap() -> None:
    made = plan(a_snapshot(jobs(100), hybrid=True, max_cores_per_worker=4, scale_up_batch=1))
    assert launched(made) == {"m5.xlarge": 1}


def test_hybrid_keeps_to_the_family_that_was_set() -> None:
    c5 = InstanceType("c5.large", "c5", 2, 4 * GIB)
    made = plan(a_snapshot(jobs(2), a_bucket(LARGE), a_bucket(c5), hybrid=True, family="c5"))
    assert acts(made) == [("launch", {"c5.large": 1})]


def test_descending_takes_smaller_types_after_the_given_one() -> None:
    assert acts(plan(a_snapshot(jobs(4), instance_type="m5.xlarge", descending=True))) == [
        ("launch", {"m5.xlarge": 1, "m5.large": 2})
    ]


def test_price_types_are_tried_in_the_order_set() -> None:
    spot, sure = a_bucket(price=0.03, price_type=PriceType.SPOT), a_bucket(price=0.1)
    (launch,) = launches(a_job(), sure, spot, price_types=(PriceType.SPOT, PriceType.ON_DEMAND))
    assert [c.buckets[0].key.price_type for c in launch.candidates] == [PriceType.SPOT, PriceType.ON_DEMAND]


SPOT_FIRST = (PriceType.SPOT, PriceType.ON_DEMAND)


def price_types(waited: float, spot_price: float | None = 0.03, **array: Any) -> list[PriceType]:
    """Those of the candidates, on-demand at 0.1."""
    spot, sure = replace(a_bucket(price_type=PriceType.SPOT), price_per_hour=spot_price), a_bucket(price=0.1)
    found = launches(a_job(waited=waited), sure, spot, price_types=SPOT_FIRST, **array)
    return [candidate.buckets[0].key.price_type for launch in found for candidate in launch.candidates]


def test_before_the_deadline_only_the_first_price_type_is_taken() -> None:
    assert price_types(waited=119, price_type_deadline=120.0) == [PriceType.SPOT]


def test_after_the_deadline_the_other_price_type_is_taken_where_the_first_fails() -> None:
    assert price_types(waited=120, price_type_deadline=120.0) == [PriceType.SPOT, PriceType.ON_DEMAND]


def test_another_price_type_may_cost_as_much_as_the_premium_allows() -> None:
    assert price_types(waited=60, spot_price=0.05, price_type_premium=1.0) == [PriceType.SPOT, PriceType.ON_DEMAND]


def test_another_price_type_beyond_the_premium_is_not_taken() -> None:
    assert price_types(waited=60, spot_price=0.04, price_type_premium=1.0) == [PriceType.SPOT]


def test_a_premium_on_a_price_that_is_not_known_is_not_paid() -> None:
    assert price_types(waited=60, spot_price=None, price_type_premium=9.0) == [PriceType.SPOT]


def test_a_first_price_type_that_is_out_of_stock_still_sets_the_premium() -> None:
    spot = replace(a_bucket(price=0.01, price_type=PriceType.SPOT), available=0)
    made = plan(a_snapshot(a_job(), spot, a_bucket(price=0.1), price_types=SPOT_FIRST, price_type_premium=1.0))
    assert Code.BUCKET_TOO_EXPENSIVE in {verdict.reason.code for verdict in made.buckets}


def test_a_price_type_that_was_not_set_is_not_used() -> None:
    assert launches(a_job(), a_bucket(price_type=PriceType.SPOT)) == []


def test_zones_of_one_type_are_one_candidate_cheapest_first() -> None:
    (launch,) = launches(a_job(), a_bucket(price=0.2, zone="a"), a_bucket(price=0.1, zone="b"))
    assert [[bucket.key.zone for bucket in c.buckets] for c in launch.candidates] == [["b", "a"]]


def test_buckets_of_another_node_array_are_not_used() -> None:
    assert launches(a_job(), a_bucket(node_array="other")) == []


# -- what cannot be had ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bucket", (a_bucket(X2LARGE, available=0), a_bucket(X2LARGE, problem="no quota")))
def test_what_cannot_be_had_is_passed_over_and_told(bucket: object) -> None:
    made = plan(a_snapshot(jobs(8), a_bucket(LARGE), bucket, a_bucket(X4LARGE), hybrid=True))  # type: ignore[arg-type]
    verdicts = {verdict.bucket.instance_type: verdict.reason.code for verdict in made.buckets}
    assert verdicts == {
        "m5.2xlarge": Code.BUCKET_UNAVAILABLE,
        "m5.4xlarge": Code.BUCKET_CHOSEN,
        "m5.large": Code.BUCKET_NOT_PREFERRED,
    }


def test_no_more_are_asked_for_than_can_be_had() -> None:
    (launch,) = launches(jobs(8), a_bucket(available=3))
    assert (launch.candidates[0].count, launch.reason.trail[-1]["cap"]) == (3, "availability")


def test_a_type_that_failed_often_enough_rests() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.4xlarge": 1}


def test_a_type_that_failed_less_often_does_not_rest() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(4)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_failures_of_boot_and_of_capacity_are_counted_apart() -> None:
    failures = [
        a_failure(X2LARGE, age=60 + n, kind=FailureKind.BOOT if n % 2 else FailureKind.CAPACITY) for n in range(8)
    ]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_failures_are_forgotten_after_the_delay() -> None:
    failures = [a_failure(X2LARGE, age=1800 + n) for n in range(5)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_a_throttled_call_makes_nothing_rest() -> None:
    failures = [a_failure(X2LARGE, kind=FailureKind.THROTTLED, age=60 + n) for n in range(9)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_a_rest_of_one_zone_leaves_the_other() -> None:
    failures = [a_failure(age=60 + n, zone="a", node_array="execute") for n in range(5)]
    (launch,) = launches(a_job(), a_bucket(zone="a"), a_bucket(zone="b"), *failures)
    assert [bucket.key.zone for bucket in launch.candidates[0].buckets] == ["b"]


def test_a_permanent_error_stops_the_node_array() -> None:
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT)))
    assert (acts(made), noted(made)) == ([], [Code.NODE_ARRAY_STOPPED])


def test_a_stopped_node_array_launches_again_after_a_person_resumed() -> None:
    stopped = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT))).memory
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT), stopped, Overrides(resumed_at=NOW)))
    assert launched(made) == {"m5.large": 4}


def test_a_type_that_rests_is_launched_after_a_person_wanted_it_tried_again() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    resting = plan(a_snapshot(jobs(8), *failures, hybrid=True))
    memory = replace(resting.memory, launches=())
    again = plan(a_snapshot(jobs(8), *failures, memory, Overrides(retried_at=NOW), hybrid=True))
    assert (launched(resting), bool(resting.memory.rests)) == ({"m5.4xlarge": 1}, True)
    assert (launched(again), again.memory.rests) == ({"m5.2xlarge": 1}, ())


def test_what_failed_after_a_person_wanted_it_tried_again_rests() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    made = plan(a_snapshot(jobs(8), *failures, Overrides(retried_at=NOW - 100), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_an_old_wish_to_try_again_ends_no_newer_rest() -> None:
    rest = plan(a_snapshot(jobs(8), *(a_failure(X2LARGE, age=60 + n) for n in range(5)), hybrid=True)).memory
    made = plan(a_snapshot(jobs(8), replace(rest, launches=()), Overrides(retried_at=NOW - 1), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_a_stopped_node_array_launches_again_after_a_person_wanted_it_tried_again() -> None:
    stopped = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT))).memory
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT), stopped, Overrides(retried_at=NOW)))
    assert (launched(made), dict(made.memory.stopped)) == ({"m5.large": 4}, {})


# -- what nothing can run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job",
    (
        a_job(slots=4),
        a_job(hard={"h_vmem": "9G"}),
        a_job(hard={"gpus": "1"}),
        a_job(hard={"arch": "sol-sparc"}),
        a_job(hard={"num_proc": "4"}),
        a_job(hard={"exclusive": "true"}),
        a_job(slots=(22, 99), pe="mpi"),
        a_job(slots=8, pe="mpi4"),
    ),
)
def test_what_no_allowed_type_can_run_launches_nothing(job: object) -> None:
    made = plan(a_snapshot(job))  # type: ignore[arg-type]
    assert (acts(made), category_of(made).counted, made.counted) == ([], False, 0)


@pytest.mark.parametrize(
    ("bucket", "settings", "reasons"),
    (
        pytest.param(a_bucket(), {"instance_type": ""}, [Code.NO_INSTANCE_TYPE], id="no type is set"),
        pytest.param(a_bucket(), {"instance_type": "x9.huge"}, [Code.NO_INSTANCE_TYPE], id="the type is not known"),
        pytest.param(
            a_bucket(), {"hybrid": True, "family": "x9"}, [Code.NO_INSTANCE_TYPE], id="the family is not known"
        ),
        pytest.param(
            a_bucket(),
            {"limits": Limits(max_workers=0)},
            [Code.NO_WORKER_ALLOWED, Code.CAPPED],
            id="no worker is allowed",
        ),
        pytest.param(
            a_bucket(price=0.2),
            {"limits": Limits(max_price_per_hour=0.1)},
            [Code.NO_WORKER_ALLOWED, Code.CAPPED],
            id="every type is too dear",
        ),
        pytest.param(
            a_bucket(price=-1),
            {"limits": Limits(max_price_per_hour=0.1)},
            [Code.NO_WORKER_ALLOWED, Code.BUCKET_NO_PRICE],
            id="no price is known under a price cap",
        ),
        pytest.param(
            a_bucket(problem="no quota"),
            {},
            [Code.NO_WORKER_ALLOWED, Code.BUCKET_UNAVAILABLE],
            id="the provider says no",
        ),
        pytest.param(
            a_bucket(price_type=PriceType.SPOT),
            {},
            [Code.NO_WORKER_ALLOWED, Code.BUCKET_NOT_ALLOWED],
            id="only of another price type",
        ),
    ),
)
def test_where_no_worker_could_be_launched_a_job_is_told_what_stands_in_the_way(
    bucket: Bucket, settings: dict[str, Any], reasons: list[Code]
) -> None:
    made = plan(a_snapshot(a_job(), bucket, **settings))
    assert (acts(made), codes(category_of(made).reason)[: len(reasons)]) == ([], reasons)


def test_a_job_that_a_cap_keeps_too_small_is_told_the_cap() -> None:
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), limits=Limits(max_workers=10, max_cores=6)))
    assert "set CP_CAP_AUTOSCALE_MAX_CORES" in text(category_of(made).reason)


def test_when_all_types_rest_the_pass_says_which_and_why() -> None:
    failures = [a_failure(age=60.0 + n) for n in range(5)]
    made = plan(a_snapshot(a_job(), *failures))
    assert [codes(note) for note in made.notes] == [[Code.NOTHING_TO_LAUNCH, Code.BUCKET_BACKOFF]]


def test_it_does_not_keep_others_from_being_served() -> None:
    assert launched(plan(a_snapshot(a_job(1, slots=4), jobs(2, 10)))) == {"m5.large": 1}


def test_a_job_over_several_hosts_gets_all_it_needs() -> None:
    assert launched(plan(a_snapshot(a_job(slots=8, pe="mpi")))) == {"m5.large": 4}


@pytest.mark.parametrize(
    ("free", "launch"),
    ((15, {"m5.large": 1}), (11, {"m5.2xlarge": 1}), (0, {"m5.4xlarge": 1})),
)
def test_the_type_for_a_job_over_several_hosts_is_sized_by_the_slots_that_lack(
    free: int, launch: dict[str, int]
) -> None:
    job, host = a_job(slots=16, pe="mpi"), a_host(slots=max(free, 1), used=0 if free else 1)
    assert launched(plan(a_snapshot(job, host, hybrid=True))) == launch


def test_slots_that_lack_are_those_of_all_jobs_that_share_what_is_free() -> None:
    made = plan(a_snapshot(jobs(2, slots=10, pe="mpi"), a_host(slots=8), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_slots_that_stand_on_hosts_of_their_own_take_no_type_for_all_of_them() -> None:
    made = plan(a_snapshot(a_job(slots=16, pe="mpi4"), a_host(slots=8), hybrid=True))
    assert launched(made) == {"m5.xlarge": 3}


def test_the_seeds_rule_takes_the_type_for_all_that_waits_whatever_is_free() -> None:
    job = a_job(slots=16, pe="mpi")
    made = plan(a_snapshot(job, a_host(slots=15), hybrid=True, strategy="naive-cpu-capacity"))
    assert launched(made) == {"m5.4xlarge": 1}


def test_a_job_over_several_hosts_converges_one_worker_at_a_time() -> None:
    booting = [a_machine(f"w{n}", state=MachineState.PENDING) for n in range(3)]
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), *booting, scale_up_batch=1))
    assert launched(made) == {"m5.large": 1}


def test_a_job_over_several_hosts_may_need_persistent_ones_too() -> None:
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), a_host(slots=4), limits=Limits(max_workers=2)))
    assert launched(made) == {"m5.large": 2}


def test_a_job_that_needs_busy_workers_too_waits_for_them_and_launches_nothing_in_vain() -> None:
    busy = [a_worker(f"w{n}", used=2) for n in range(2)]
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), *busy, limits=Limits(max_workers=4)))
    assert (acts(made), fate(made)) == ([], Code.EXPIRED)


def test_a_gpu_job_gets_a_type_with_gpus() -> None:
    gpu = InstanceType("g4dn.xlarge", "g4dn", 4, 16 * GIB, gpus=1)
    made = plan(a_snapshot(jobs(2, hard={"gpu": "1"}), a_bucket(gpu), instance_type=gpu.name, gpu_complex="gpus"))
    assert launched(made) == {"g4dn.xlarge": 2}


def test_a_job_that_wants_a_host_for_itself_gets_one_each() -> None:
    made = plan(a_snapshot(jobs(2, hard={"excl": "1"}), exclusive_complex="exclusive"))
    assert launched(made) == {"m5.large": 2}


def test_the_cells_own_exclusive_complex_is_had_whatever_its_name() -> None:
    made = plan(a_snapshot(jobs(2, hard={"excl": "1"}), exclusive_complex="whole_host"))
    assert launched(made) == {"m5.large": 2}


def test_of_several_exclusive_complexes_only_the_one_that_is_set_is_had() -> None:
    other = Complex("alone", "alone", "BOOL", "EXCL", "YES", Consumable.PER_SLOT, "0")
    snapshot = a_snapshot(jobs(2, hard={"alone": "1"}), exclusive_complex="exclusive")
    cluster = replace(snapshot.cluster, complexes={**snapshot.cluster.complexes, "alone": other})
    assert launched(plan(replace(snapshot, cluster=cluster))) == {}


def test_kept_back_cores_are_not_counted_on() -> None:
    made = plan(a_snapshot(jobs(3), instance_type="m5.xlarge", free_cores=1))
    assert launched(made) == {"m5.xlarge": 1}


# -- supply ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "supply",
    (
        a_machine("w1", state=MachineState.PENDING),
        a_machine("w1"),
        an_order(),
        an_order(state=OrderState.ACCEPTED, ids=("i-1",), age=599),
        a_host("h1", slots=2),
        a_worker("w1"),
    ),
)
def test_what_is_there_or_coming_is_not_launched_again(supply: object) -> None:
    assert launched(plan(a_snapshot(jobs(2), supply))) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "no_supply",
    (
        an_order(state=OrderState.FAILED),
        an_order(state=OrderState.ACCEPTED, ids=("i-1",), age=600),
        a_machine("w1", state=MachineState.STOPPING),
        a_machine("w1", state=MachineState.TERMINATED),
        a_host(states="E"),
        a_host(states="u", heard=False),
        a_host(queue="other.q"),
        a_host(used=2),
        a_worker(states="d"),
    ),
)
def test_what_gives_no_slot_is_not_counted_on(no_supply: object) -> None:
    assert launched(plan(a_snapshot(jobs(2), no_supply))) == {"m5.large": 1}  # type: ignore[arg-type]


def test_a_disabled_host_beside_one_that_is_open_is_not_counted_on() -> None:
    made = plan(a_snapshot(jobs(2), a_host("h1", states="d"), a_host("h2", used=2)))
    assert launched(made) == {"m5.large": 1}


def test_reserved_slots_are_not_counted_on() -> None:
    details = looked_at(1, 2, group="users")
    assert launched(plan(a_snapshot(jobs(2), a_host(reserved=2), details))) == {"m5.large": 1}


def test_an_order_and_the_worker_it_became_count_once() -> None:
    order = an_order(2, state=OrderState.ACCEPTED, ids=("i-w1", "i-w2"))
    made = plan(a_snapshot(jobs(6), order, a_machine("w1", state=MachineState.PENDING, order_id="order-1")))
    assert launched(made) == {"m5.large": 1}


def test_an_order_without_an_answer_counts_for_the_workers_not_yet_listed() -> None:
    machine = a_machine("w1", state=MachineState.PENDING, order_id="order-1")
    assert launched(plan(a_snapshot(jobs(6), an_order(2), machine))) == {"m5.large": 1}


def test_a_worker_gone_from_an_order_is_not_awaited() -> None:
    order = an_order(1, state=OrderState.ACCEPTED, ids=("i-w1",))
    gone = a_machine("w1", state=MachineState.TERMINATED)
    assert launched(plan(a_snapshot(jobs(2), order, gone))) == {"m5.large": 1}


def test_memory_that_is_used_up_is_not_supply() -> None:
    host = a_host(slots=4, consumables={"h_vmem": "1G"})
    assert launched(plan(a_snapshot(jobs(2, hard={"h_vmem": "2G"}), host))) == {"m5.large": 1}


def test_a_host_taken_whole_by_a_job_is_not_supply() -> None:
    host = a_host(slots=4, used=1, hard={"exclusive": "1"})
    assert launched(plan(a_snapshot(jobs(2), host))) == {"m5.large": 1}


# -- pace and limits --------------------------------------------------------------------------------------------------


def test_no_more_at_a_time_than_the_batch() -> None:
    (launch,) = launches(jobs(8), scale_up_batch=3)
    assert (launch.candidates[0].count, codes(launch.reason)[-1]) == (3, Code.SCALE_UP_BATCH)


def test_not_two_launches_within_the_delay() -> None:
    made = plan(a_snapshot(jobs(8), launches=(Event(NOW - 9.9, 1, "execute"),)))
    assert (acts(made), noted(made)) == ([], [Code.BATCH_DELAY])


def test_after_the_delay_the_next_batch() -> None:
    assert launches(jobs(8), launches=(Event(NOW - 10, 1, "execute"),))


@pytest.mark.parametrize(
    ("limits", "count", "cap"),
    (
        (Limits(max_workers=3), 3, "max_workers"),
        (Limits(max_workers=9, max_cores=7), 3, "max_cores"),
        (Limits(max_workers=9, max_price_per_hour=0.25), 2, "max_price_per_hour"),
        (Limits(max_workers=9, max_launches_per_hour=2), 2, "max_launches_per_hour"),
    ),
)
def test_a_cap_holds_and_the_reason_names_it(limits: Limits, count: int, cap: str) -> None:
    (launch,) = launches(jobs(20), limits=limits)
    assert (launch.candidates[0].count, launch.reason.trail[-1]["cap"]) == (count, cap)


@pytest.mark.parametrize(
    ("limits", "cap"),
    (
        (Limits(max_workers=2), "max_workers"),
        (Limits(max_workers=9, max_cores=5), "max_cores"),
        (Limits(max_workers=9, max_price_per_hour=0.25), "max_price_per_hour"),
    ),
)
def test_what_exists_and_what_was_ordered_count_for_caps(limits: Limits, cap: str) -> None:
    made = plan(a_snapshot(jobs(20), a_worker(used=2, price_per_hour=0.1), an_order(), limits=limits))
    assert (acts(made), [note.trail[-1]["cap"] for note in made.notes]) == ([], [cap])


def test_launches_of_the_last_hour_count_for_the_hourly_cap() -> None:
    limits = Limits(max_workers=9, max_launches_per_hour=2)
    made = plan(a_snapshot(jobs(20), limits=limits, launches=(Event(NOW - 3599, 2, "execute"),)))
    assert (acts(made), [note["cap"] for note in made.notes]) == ([], ["max_launches_per_hour"])


def test_launches_of_before_do_not() -> None:
    limits = Limits(max_workers=9, max_launches_per_hour=2)
    assert launches(jobs(20), limits=limits, launches=(Event(NOW - 3600, 2, "execute"),))


def test_an_unknown_price_under_a_price_cap_is_no_launch() -> None:
    assert launches(a_job(), a_bucket(price=-1), limits=Limits(max_price_per_hour=99.0)) == []


def test_a_worker_of_unknown_price_under_a_price_cap_stops_launches() -> None:
    worker = a_worker(used=2, type_=InstanceType("odd", "odd", 2, GIB))
    assert launches(a_job(), worker, limits=Limits(max_price_per_hour=99.0)) == []


def test_a_worker_that_is_ending_still_counts_for_caps() -> None:
    ending = a_machine("w1", state=MachineState.STOPPING)
    assert launches(a_job(), ending, limits=Limits(max_workers=1)) == []


def test_an_order_that_shrinks_by_a_cap_falls_to_smaller_types_within_it() -> None:
    made = plan(a_snapshot(jobs(8), hybrid=True, limits=Limits(max_workers=9, max_cores=4)))
    assert acts(made) == [("launch", {"m5.xlarge": 1, "m5.large": 2})]


def test_the_floor_of_workers_is_launched_without_any_job() -> None:
    (launch,) = launches(limits=Limits(min_workers=2, max_workers=5))
    assert (launch.candidates[0].count, launch.reason.code) == (2, Code.MIN_WORKERS_FLOOR)


def test_ordered_workers_count_for_the_floor() -> None:
    assert launches(an_order(2), limits=Limits(min_workers=2, max_workers=5)) == []


def test_limits_win_over_the_floor() -> None:
    (launch,) = launches(limits=Limits(min_workers=4, max_workers=3))
    assert launch.candidates[0].count == 3


def test_a_hybrid_floor_is_made_of_the_smallest_type() -> None:
    (launch,) = launches(limits=Limits(min_workers=1), hybrid=True)
    assert launch.candidates[0].type == LARGE


@pytest.mark.parametrize("overrides", (Overrides(paused=True), Overrides(stop="drain"), Overrides(stop="now")))
def test_paused_or_stopping_launches_nothing(overrides: Overrides) -> None:
    assert launches(jobs(8), overrides, limits=Limits(min_workers=2)) == []


# -- several queues ---------------------------------------------------------------------------------------------------

TWO = Policy(
    queues=(
        QueuePolicy("main.q", "execute"),
        QueuePolicy("big.q", "big", scale_up_timeout=300.0, default=False, static=False),
    ),
    node_arrays=(
        NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.large", scale_up_batch=9, limits=Limits(max_workers=9)),
        NodeArrayPolicy("big", "big.q", "@big", "m5.xlarge", scale_up_batch=9, limits=Limits(max_workers=9)),
    ),
    master="master",
)
QUEUES = {"main.q": MAIN, "big.q": replace(MAIN, name="big.q", hostlist=("@big",))}


def per_array(*things: object) -> dict[str, dict[str, int]]:
    made = launches(*things, policy=TWO, queues=QUEUES)
    return {launch.node_array: {c.type.name: c.count for c in launch.candidates} for launch in made}


def test_each_queue_grows_its_own_array_after_its_own_timeout() -> None:
    jobs_of_both = (a_job(1, waited=60), a_job(2, waited=300, queues=("big.q",)))
    assert per_array(*jobs_of_both) == {"execute": {"m5.large": 1}, "big": {"m5.xlarge": 1}}


def test_a_young_queue_launches_nothing_beside_an_expired_one() -> None:
    assert per_array(a_job(1, waited=60), a_job(2, waited=299, queues=("big.q",))) == {"execute": {"m5.large": 1}}


def test_a_job_that_may_use_either_launches_once() -> None:
    assert per_array(jobs(2, waited=999, queues=("main.q", "big.q"))) == {"execute": {"m5.large": 1}}


def test_what_the_first_array_cannot_run_the_second_may() -> None:
    assert per_array(a_job(slots=4, waited=999, queues=("*",))) == {"big": {"m5.xlarge": 1}}


def test_a_job_that_only_a_queue_which_it_does_not_name_could_run_is_told_so() -> None:
    made = plan(a_snapshot(a_job(slots=4, waited=999), policy=TWO, queues=QUEUES))
    (verdict,) = made.job_categories
    causes = [link for each in verdict.reason.trail for link in each.trail]
    assert [(cause.code, cause["queues"]) for cause in causes] == [(Code.QUEUE_NOT_NAMED, ("big.q",))]


def test_free_slots_of_the_other_queue_serve_a_job_that_names_none() -> None:
    assert per_array(a_job(), a_host(queue="big.q", slots=4)) == {}


def test_workers_for_a_named_queue_are_not_sized_for_jobs_that_name_none() -> None:
    made = per_array(jobs(2, waited=999), a_job(50, slots=2, waited=999, queues=("big.q",)))
    assert made == {"execute": {"m5.large": 1}, "big": {"m5.xlarge": 1}}


def test_the_reason_tells_the_demand() -> None:
    (launch,) = launches(a_job(1, slots=2), jobs(3, 10), instance_type=XLARGE.name)
    assert dict(launch.reason.facts) == {"queue": "main.q", "tasks": 4, "slots": 5}


def test_an_open_queue_of_a_host_that_a_person_disabled_in_part_is_supply() -> None:
    by_hand = a_host("w1", states="d", more=(QueueInstance("other.q", "w1", 1, 0, 0, ""),))
    queues = {"main.q": MAIN, "other.q": replace(MAIN, name="other.q")}
    assert launched(plan(a_snapshot(a_worker(host=by_hand), a_job(waited=9999), queues=queues))) == {}


@pytest.mark.parametrize("free_on", ("h1", "h2"))
def test_room_in_a_queue_on_a_host_that_the_job_did_not_name_keeps_it_from_no_worker(free_on: str) -> None:
    elsewhere = a_host(free_on, queue="other.q")
    queues = {"main.q": MAIN, "other.q": Queue("other.q", (), 1)}
    job = a_job(1, queues=("main.q", "other.q@h1"))
    assert acts(plan(a_snapshot(job, elsewhere, queues=queues))) == [("launch", {"m5.large": 1})]
    either = a_job(1, queues=("main.q", "other.q"))
    assert acts(plan(a_snapshot(either, elsewhere, queues=queues))) == []
