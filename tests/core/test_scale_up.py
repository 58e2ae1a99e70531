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
    details_of,
    jobs,
    launched,
    note_codes,
    reason_code,
)

TEN = a_job(tasks="1-10:1", count=10, waited=60)
DETAILS = details_of(1)


def launches(*args: object, **kwargs: object) -> list[Launch]:
    return [a for a in plan(a_snapshot(*args, **kwargs)).actions if isinstance(a, Launch)]  # type: ignore[arg-type]


# -- which type -----------------------------------------------------------------------------------------------------


def test_a_homogeneous_array_launches_as_many_of_its_type_as_needed() -> None:
    assert acts(plan(a_snapshot(TEN, DETAILS))) == [("launch", {"m5.large": 5})]


def test_hybrid_launches_one_type_for_the_eight_cores_that_do_not_fit() -> None:
    master = a_host("master", slots=2)
    assert launched(plan(a_snapshot(TEN, DETAILS, master, hybrid=True))) == {"m5.2xlarge": 1}


@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity", "default"))
def test_jobs_of_4_and_8_cores_get_one_worker_with_at_least_12(strategy: str) -> None:
    made = plan(a_snapshot(a_job(1, slots=4), a_job(2, slots=8), hybrid=True, strategy=strategy))
    assert launched(made) == {"m5.4xlarge": 1}


@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity"))
def test_demand_larger_than_any_type_gets_the_largest_type(strategy: str) -> None:
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


def test_cpu_capacity_considers_memory() -> None:
    made = plan(a_snapshot(jobs(4, hard={"h_vmem": "16G"}), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_naive_cpu_capacity_does_not_launch_a_type_that_could_run_nothing() -> None:
    made = plan(a_snapshot(a_job(hard={"h_vmem": "30G"}), hybrid=True, strategy="naive-cpu-capacity"))
    assert launched(made) == {"m5.2xlarge": 1}


def test_the_default_strategy_is_naive_unless_the_batch_is_larger_than_1() -> None:
    fat = jobs(4, hard={"h_vmem": "16G"})
    one, batch = (a_snapshot(fat, hybrid=True, strategy="default", scale_up_batch=n) for n in (1, 2))
    assert (launched(plan(one)), launched(plan(batch))) == ({"m5.xlarge": 1}, {"m5.4xlarge": 1})


def test_hybrid_keeps_to_its_core_cap() -> None:
    made = plan(a_snapshot(jobs(100), hybrid=True, max_cores_per_worker=4, scale_up_batch=1))
    assert launched(made) == {"m5.xlarge": 1}


def test_hybrid_keeps_to_the_configured_family() -> None:
    c5 = InstanceType("c5.large", "c5", 2, 4 * GIB)
    made = plan(a_snapshot(jobs(2), a_bucket(LARGE), a_bucket(c5), hybrid=True, family="c5"))
    assert acts(made) == [("launch", {"c5.large": 1})]


def test_descending_tries_smaller_types_after_the_configured_one() -> None:
    assert acts(plan(a_snapshot(jobs(4), instance_type="m5.xlarge", descending=True))) == [
        ("launch", {"m5.xlarge": 1, "m5.large": 2})
    ]


def test_price_types_are_tried_in_the_configured_order() -> None:
    spot, sure = a_bucket(price=0.03, price_type=PriceType.SPOT), a_bucket(price=0.1)
    (launch,) = launches(a_job(), sure, spot, price_types=(PriceType.SPOT, PriceType.ON_DEMAND))
    assert [c.buckets[0].key.price_type for c in launch.candidates] == [PriceType.SPOT, PriceType.ON_DEMAND]


SPOT_FIRST = (PriceType.SPOT, PriceType.ON_DEMAND)


def price_types(waited: float, spot_price: float | None = 0.03, **array: Any) -> list[PriceType]:
    """Those of the candidates, on-demand at 0.1."""
    spot, sure = replace(a_bucket(price_type=PriceType.SPOT), price_per_hour=spot_price), a_bucket(price=0.1)
    found = launches(a_job(waited=waited), sure, spot, price_types=SPOT_FIRST, **array)
    return [candidate.buckets[0].key.price_type for launch in found for candidate in launch.candidates]


def test_before_the_deadline_only_the_first_price_type_is_a_candidate() -> None:
    assert price_types(waited=119, price_type_deadline=120.0) == [PriceType.SPOT]


def test_after_the_deadline_the_other_price_type_is_the_second_candidate() -> None:
    assert price_types(waited=120, price_type_deadline=120.0) == [PriceType.SPOT, PriceType.ON_DEMAND]


def test_another_price_type_may_cost_as_much_as_the_premium_allows() -> None:
    assert price_types(waited=60, spot_price=0.05, price_type_premium=1.0) == [PriceType.SPOT, PriceType.ON_DEMAND]


def test_another_price_type_beyond_the_premium_is_not_a_candidate() -> None:
    assert price_types(waited=60, spot_price=0.04, price_type_premium=1.0) == [PriceType.SPOT]


def test_with_an_unknown_first_price_no_other_price_type_is_a_candidate() -> None:
    assert price_types(waited=60, spot_price=None, price_type_premium=9.0) == [PriceType.SPOT]


def test_a_first_price_type_that_is_out_of_stock_still_sets_the_premium() -> None:
    spot = replace(a_bucket(price=0.01, price_type=PriceType.SPOT), available=0)
    made = plan(a_snapshot(a_job(), spot, a_bucket(price=0.1), price_types=SPOT_FIRST, price_type_premium=1.0))
    assert Code.BUCKET_TOO_EXPENSIVE in {verdict.reason.code for verdict in made.buckets}


def test_a_price_type_that_is_not_configured_is_not_used() -> None:
    assert launches(a_job(), a_bucket(price_type=PriceType.SPOT)) == []


def test_zones_of_one_type_are_one_candidate_cheapest_first() -> None:
    (launch,) = launches(a_job(), a_bucket(price=0.2, zone="a"), a_bucket(price=0.1, zone="b"))
    assert [[bucket.key.zone for bucket in c.buckets] for c in launch.candidates] == [["b", "a"]]


def test_buckets_of_another_node_array_are_not_used() -> None:
    assert launches(a_job(), a_bucket(node_array="other")) == []


# -- unavailable types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bucket", (a_bucket(X2LARGE, available=0), a_bucket(X2LARGE, problem="no quota")))
def test_an_unavailable_type_is_skipped_and_reported(bucket: object) -> None:
    made = plan(a_snapshot(jobs(8), a_bucket(LARGE), bucket, a_bucket(X4LARGE), hybrid=True))  # type: ignore[arg-type]
    verdicts = {verdict.bucket.instance_type: verdict.reason.code for verdict in made.buckets}
    assert verdicts == {
        "m5.2xlarge": Code.BUCKET_UNAVAILABLE,
        "m5.4xlarge": Code.BUCKET_CHOSEN,
        "m5.large": Code.BUCKET_NOT_PREFERRED,
    }


def test_no_more_workers_are_ordered_than_are_available() -> None:
    (launch,) = launches(jobs(8), a_bucket(available=3))
    assert (launch.candidates[0].count, launch.reason.trail[-1]["cap"]) == (3, "availability")


def test_a_type_backs_off_after_repeated_failures() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.4xlarge": 1}


def test_a_type_with_too_few_failures_does_not_back_off() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(4)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_boot_and_capacity_failures_are_counted_separately() -> None:
    failures = [
        a_failure(X2LARGE, age=60 + n, kind=FailureKind.BOOT if n % 2 else FailureKind.CAPACITY) for n in range(8)
    ]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_failures_older_than_the_delay_do_not_count() -> None:
    failures = [a_failure(X2LARGE, age=1800 + n) for n in range(5)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_throttled_calls_cause_no_backoff() -> None:
    failures = [a_failure(X2LARGE, kind=FailureKind.THROTTLED, age=60 + n) for n in range(9)]
    assert launched(plan(a_snapshot(jobs(8), *failures, hybrid=True))) == {"m5.2xlarge": 1}


def test_a_backoff_of_one_zone_does_not_affect_another() -> None:
    failures = [a_failure(age=60 + n, zone="a", node_array="execute") for n in range(5)]
    (launch,) = launches(a_job(), a_bucket(zone="a"), a_bucket(zone="b"), *failures)
    assert [bucket.key.zone for bucket in launch.candidates[0].buckets] == ["b"]


def test_a_permanent_error_stops_the_node_array() -> None:
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT)))
    assert (acts(made), note_codes(made)) == ([], [Code.NODE_ARRAY_STOPPED])


def test_a_stopped_node_array_launches_again_after_a_resume() -> None:
    stopped = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT))).memory
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT), stopped, Overrides(resumed_at=NOW)))
    assert launched(made) == {"m5.large": 4}


def test_a_type_in_backoff_is_launched_after_a_retry_command() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    backed_off = plan(a_snapshot(jobs(8), *failures, hybrid=True))
    memory = replace(backed_off.memory, launches=())
    again = plan(a_snapshot(jobs(8), *failures, memory, Overrides(retried_at=NOW), hybrid=True))
    assert (launched(backed_off), bool(backed_off.memory.backoffs)) == ({"m5.4xlarge": 1}, True)
    assert (launched(again), again.memory.backoffs) == ({"m5.2xlarge": 1}, ())


def test_a_type_that_fails_after_a_retry_command_backs_off_again() -> None:
    failures = [a_failure(X2LARGE, age=60 + n) for n in range(5)]
    made = plan(a_snapshot(jobs(8), *failures, Overrides(retried_at=NOW - 100), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_an_old_retry_command_does_not_end_a_newer_backoff() -> None:
    rest = plan(a_snapshot(jobs(8), *(a_failure(X2LARGE, age=60 + n) for n in range(5)), hybrid=True)).memory
    made = plan(a_snapshot(jobs(8), replace(rest, launches=()), Overrides(retried_at=NOW - 1), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_a_stopped_node_array_launches_again_after_a_retry_command() -> None:
    stopped = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT))).memory
    made = plan(a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT), stopped, Overrides(retried_at=NOW)))
    assert (launched(made), dict(made.memory.stopped)) == ({"m5.large": 4}, {})


# -- unsatisfiable jobs --------------------------------------------------------------------------------------------


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
def test_an_unsatisfiable_job_launches_nothing_and_does_not_count(job: object) -> None:
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
            id="the provider reports a problem",
        ),
        pytest.param(
            a_bucket(price_type=PriceType.SPOT),
            {},
            [Code.NO_WORKER_ALLOWED, Code.BUCKET_NOT_ALLOWED],
            id="only of another price type",
        ),
    ),
)
def test_a_jobs_reason_says_why_no_worker_can_be_launched(
    bucket: Bucket, settings: dict[str, Any], reasons: list[Code]
) -> None:
    made = plan(a_snapshot(a_job(), bucket, **settings))
    assert (acts(made), codes(category_of(made).reason)[: len(reasons)]) == ([], reasons)


def test_the_reason_of_a_job_too_large_for_a_cap_names_the_setting() -> None:
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), limits=Limits(max_workers=10, max_cores=6)))
    assert "set CP_CAP_AUTOSCALE_MAX_CORES" in text(category_of(made).reason)


def test_a_pass_with_all_types_in_backoff_reports_it() -> None:
    failures = [a_failure(age=60.0 + n) for n in range(5)]
    made = plan(a_snapshot(a_job(), *failures))
    assert [codes(note) for note in made.notes] == [[Code.NOTHING_TO_LAUNCH, Code.BUCKET_BACKOFF]]


def test_an_unsatisfiable_job_does_not_block_other_jobs() -> None:
    assert launched(plan(a_snapshot(a_job(1, slots=4), jobs(2, 10)))) == {"m5.large": 1}


def test_all_workers_of_a_job_over_several_hosts_are_launched() -> None:
    assert launched(plan(a_snapshot(a_job(slots=8, pe="mpi")))) == {"m5.large": 4}


@pytest.mark.parametrize(
    ("free", "launch"),
    ((15, {"m5.large": 1}), (11, {"m5.2xlarge": 1}), (0, {"m5.4xlarge": 1})),
)
def test_the_type_for_a_job_over_several_hosts_is_sized_by_the_missing_slots(free: int, launch: dict[str, int]) -> None:
    job, host = a_job(slots=16, pe="mpi"), a_host(slots=max(free, 1), used=0 if free else 1)
    assert launched(plan(a_snapshot(job, host, hybrid=True))) == launch


def test_missing_slots_are_counted_over_all_jobs_that_share_the_free_ones() -> None:
    made = plan(a_snapshot(jobs(2, slots=10, pe="mpi"), a_host(slots=8), hybrid=True))
    assert launched(made) == {"m5.4xlarge": 1}


def test_slots_on_separate_hosts_are_not_sized_as_one_type() -> None:
    made = plan(a_snapshot(a_job(slots=16, pe="mpi4"), a_host(slots=8), hybrid=True))
    assert launched(made) == {"m5.xlarge": 3}


def test_naive_cpu_capacity_sizes_the_type_for_all_pending_slots() -> None:
    job = a_job(slots=16, pe="mpi")
    made = plan(a_snapshot(job, a_host(slots=15), hybrid=True, strategy="naive-cpu-capacity"))
    assert launched(made) == {"m5.4xlarge": 1}


def test_a_batch_of_1_launches_the_next_worker_of_a_job_over_several_hosts() -> None:
    booting = [a_machine(f"w{n}", state=MachineState.PENDING) for n in range(3)]
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), *booting, scale_up_batch=1))
    assert launched(made) == {"m5.large": 1}


def test_a_job_over_several_hosts_may_also_use_persistent_ones() -> None:
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), a_host(slots=4), limits=Limits(max_workers=2)))
    assert launched(made) == {"m5.large": 2}


def test_nothing_is_launched_for_a_job_that_must_wait_for_busy_workers() -> None:
    busy = [a_worker(f"w{n}", used=2) for n in range(2)]
    made = plan(a_snapshot(a_job(slots=8, pe="mpi"), *busy, limits=Limits(max_workers=4)))
    assert (acts(made), reason_code(made)) == ([], Code.EXPIRED)


def test_a_worker_with_gpus_is_launched_for_a_gpu_job() -> None:
    gpu = InstanceType("g4dn.xlarge", "g4dn", 4, 16 * GIB, gpus=1)
    made = plan(a_snapshot(jobs(2, hard={"gpu": "1"}), a_bucket(gpu), instance_type=gpu.name, gpu_complex="gpus"))
    assert launched(made) == {"g4dn.xlarge": 2}


def test_every_exclusive_job_gets_its_own_worker() -> None:
    made = plan(a_snapshot(jobs(2, hard={"excl": "1"}), exclusive_complex="exclusive"))
    assert launched(made) == {"m5.large": 2}


def test_the_cells_only_exclusive_complex_is_supported_whatever_the_setting() -> None:
    made = plan(a_snapshot(jobs(2, hard={"excl": "1"}), exclusive_complex="whole_host"))
    assert launched(made) == {"m5.large": 2}


def test_of_several_exclusive_complexes_only_the_configured_one_is_supported() -> None:
    other = Complex("alone", "alone", "BOOL", "EXCL", "YES", Consumable.PER_SLOT, "0")
    snapshot = a_snapshot(jobs(2, hard={"alone": "1"}), exclusive_complex="exclusive")
    cluster = replace(snapshot.cluster, complexes={**snapshot.cluster.complexes, "alone": other})
    assert launched(plan(replace(snapshot, cluster=cluster))) == {}


def test_free_cores_that_are_kept_back_are_not_counted() -> None:
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
def test_existing_or_coming_workers_are_not_launched_again(supply: object) -> None:
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
def test_hosts_and_orders_without_a_usable_slot_are_not_supply(no_supply: object) -> None:
    assert launched(plan(a_snapshot(jobs(2), no_supply))) == {"m5.large": 1}  # type: ignore[arg-type]


def test_a_disabled_host_is_not_supply() -> None:
    made = plan(a_snapshot(jobs(2), a_host("h1", states="d"), a_host("h2", used=2)))
    assert launched(made) == {"m5.large": 1}


def test_reserved_slots_are_not_supply() -> None:
    details = details_of(1, 2, group="users")
    assert launched(plan(a_snapshot(jobs(2), a_host(reserved=2), details))) == {"m5.large": 1}


def test_an_order_and_the_worker_it_became_count_once() -> None:
    order = an_order(2, state=OrderState.ACCEPTED, ids=("i-w1", "i-w2"))
    made = plan(a_snapshot(jobs(6), order, a_machine("w1", state=MachineState.PENDING, order_id="order-1")))
    assert launched(made) == {"m5.large": 1}


def test_an_order_without_an_answer_counts_for_the_workers_not_yet_listed() -> None:
    machine = a_machine("w1", state=MachineState.PENDING, order_id="order-1")
    assert launched(plan(a_snapshot(jobs(6), an_order(2), machine))) == {"m5.large": 1}


def test_a_terminated_worker_of_an_order_is_not_awaited() -> None:
    order = an_order(1, state=OrderState.ACCEPTED, ids=("i-w1",))
    gone = a_machine("w1", state=MachineState.TERMINATED)
    assert launched(plan(a_snapshot(jobs(2), order, gone))) == {"m5.large": 1}


def test_memory_that_is_used_up_is_not_supply() -> None:
    host = a_host(slots=4, consumables={"h_vmem": "1G"})
    assert launched(plan(a_snapshot(jobs(2, hard={"h_vmem": "2G"}), host))) == {"m5.large": 1}


def test_a_host_used_exclusively_by_a_job_is_not_supply() -> None:
    host = a_host(slots=4, used=1, hard={"exclusive": "1"})
    assert launched(plan(a_snapshot(jobs(2), host))) == {"m5.large": 1}


# -- batches and limits -----------------------------------------------------------------------------------------------


def test_no_more_workers_are_launched_at_once_than_the_batch() -> None:
    (launch,) = launches(jobs(8), scale_up_batch=3)
    assert (launch.candidates[0].count, codes(launch.reason)[-1]) == (3, Code.SCALE_UP_BATCH)


def test_no_second_launch_within_the_batch_delay() -> None:
    made = plan(a_snapshot(jobs(8), launches=(Event(NOW - 9.9, 1, "execute"),)))
    assert (acts(made), note_codes(made)) == ([], [Code.BATCH_DELAY])


def test_the_next_batch_is_launched_after_the_delay() -> None:
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
def test_a_limit_caps_the_launch_and_the_reason_names_it(limits: Limits, count: int, cap: str) -> None:
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
def test_existing_and_ordered_workers_count_towards_limits(limits: Limits, cap: str) -> None:
    made = plan(a_snapshot(jobs(20), a_worker(used=2, price_per_hour=0.1), an_order(), limits=limits))
    assert (acts(made), [note.trail[-1]["cap"] for note in made.notes]) == ([], [cap])


def test_launches_of_the_last_hour_count_towards_the_hourly_limit() -> None:
    limits = Limits(max_workers=9, max_launches_per_hour=2)
    made = plan(a_snapshot(jobs(20), limits=limits, launches=(Event(NOW - 3599, 2, "execute"),)))
    assert (acts(made), [note["cap"] for note in made.notes]) == ([], ["max_launches_per_hour"])


def test_launches_older_than_an_hour_do_not_count_towards_the_hourly_limit() -> None:
    limits = Limits(max_workers=9, max_launches_per_hour=2)
    assert launches(jobs(20), limits=limits, launches=(Event(NOW - 3600, 2, "execute"),))


def test_a_type_of_unknown_price_is_not_launched_under_a_price_cap() -> None:
    assert launches(a_job(), a_bucket(price=-1), limits=Limits(max_price_per_hour=99.0)) == []


def test_a_worker_of_unknown_price_stops_launches_under_a_price_cap() -> None:
    worker = a_worker(used=2, type_=InstanceType("odd", "odd", 2, GIB))
    assert launches(a_job(), worker, limits=Limits(max_price_per_hour=99.0)) == []


def test_a_stopping_worker_still_counts_towards_limits() -> None:
    ending = a_machine("w1", state=MachineState.STOPPING)
    assert launches(a_job(), ending, limits=Limits(max_workers=1)) == []


def test_a_capped_launch_uses_smaller_types_within_the_limit() -> None:
    made = plan(a_snapshot(jobs(8), hybrid=True, limits=Limits(max_workers=9, max_cores=4)))
    assert acts(made) == [("launch", {"m5.xlarge": 1, "m5.large": 2})]


def test_min_workers_are_launched_without_any_job() -> None:
    (launch,) = launches(limits=Limits(min_workers=2, max_workers=5))
    assert (launch.candidates[0].count, launch.reason.code) == (2, Code.MIN_WORKERS_FLOOR)


def test_ordered_workers_count_for_min_workers() -> None:
    assert launches(an_order(2), limits=Limits(min_workers=2, max_workers=5)) == []


def test_limits_win_over_min_workers() -> None:
    (launch,) = launches(limits=Limits(min_workers=4, max_workers=3))
    assert launch.candidates[0].count == 3


def test_hybrid_min_workers_are_of_the_smallest_type() -> None:
    (launch,) = launches(limits=Limits(min_workers=1), hybrid=True)
    assert launch.candidates[0].type == LARGE


@pytest.mark.parametrize("overrides", (Overrides(paused=True), Overrides(stop="drain"), Overrides(stop="now")))
def test_nothing_is_launched_while_paused_or_stopping(overrides: Overrides) -> None:
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


def test_each_queue_launches_in_its_own_array_after_its_own_timeout() -> None:
    jobs_of_both = (a_job(1, waited=60), a_job(2, waited=300, queues=("big.q",)))
    assert per_array(*jobs_of_both) == {"execute": {"m5.large": 1}, "big": {"m5.xlarge": 1}}


def test_nothing_is_launched_for_a_queue_not_expired_beside_an_expired_one() -> None:
    assert per_array(a_job(1, waited=60), a_job(2, waited=299, queues=("big.q",))) == {"execute": {"m5.large": 1}}


def test_a_job_that_may_use_two_queues_launches_once() -> None:
    assert per_array(jobs(2, waited=999, queues=("main.q", "big.q"))) == {"execute": {"m5.large": 1}}


def test_a_job_too_large_for_the_first_array_is_launched_for_in_the_second() -> None:
    assert per_array(a_job(slots=4, waited=999, queues=("*",))) == {"big": {"m5.xlarge": 1}}


def test_a_jobs_reason_names_a_queue_that_it_does_not_request_but_could_run_it() -> None:
    made = plan(a_snapshot(a_job(slots=4, waited=999), policy=TWO, queues=QUEUES))
    (verdict,) = made.job_categories
    causes = [link for each in verdict.reason.trail for link in each.trail]
    assert [(cause.code, cause["queues"]) for cause in causes] == [(Code.QUEUE_NOT_NAMED, ("big.q",))]


def test_free_slots_of_another_queue_are_supply_for_a_job_without_a_queue() -> None:
    assert per_array(a_job(), a_host(queue="big.q", slots=4)) == {}


def test_workers_for_a_named_queue_are_not_sized_for_jobs_without_a_queue() -> None:
    made = per_array(jobs(2, waited=999), a_job(50, slots=2, waited=999, queues=("big.q",)))
    assert made == {"execute": {"m5.large": 1}, "big": {"m5.xlarge": 1}}


def test_the_reason_of_a_launch_has_the_demand() -> None:
    (launch,) = launches(a_job(1, slots=2), jobs(3, 10), instance_type=XLARGE.name)
    assert dict(launch.reason.facts) == {"queue": "main.q", "tasks": 4, "slots": 5}


def test_an_enabled_queue_instance_of_a_partly_hand_disabled_host_is_supply() -> None:
    by_hand = a_host("w1", states="d", more=(QueueInstance("other.q", "w1", 1, 0, 0, ""),))
    queues = {"main.q": MAIN, "other.q": replace(MAIN, name="other.q")}
    assert launched(plan(a_snapshot(a_worker(host=by_hand), a_job(waited=9999), queues=queues))) == {}


@pytest.mark.parametrize("free_on", ("h1", "h2"))
def test_only_free_slots_in_the_queues_that_the_job_requested_prevent_a_launch(free_on: str) -> None:
    elsewhere = a_host(free_on, queue="other.q")
    queues = {"main.q": MAIN, "other.q": Queue("other.q", (), 1)}
    job = a_job(1, queues=("main.q", "other.q@h1"))
    assert acts(plan(a_snapshot(job, elsewhere, queues=queues))) == [("launch", {"m5.large": 1})]
    either = a_job(1, queues=("main.q", "other.q"))
    assert acts(plan(a_snapshot(either, elsewhere, queues=queues))) == []
