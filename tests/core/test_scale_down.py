"""Which idle workers may leave, and the reasons to stay, first one first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from tests.core.building import (
    NOW,
    X4LARGE,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    acts,
    jobs,
    verdict_and_code,
)
from tests.core.test_auto_stop import asked_by

STAYS = Limits(max_workers=10, min_workers=1)


def test_an_idle_worker_is_disabled() -> None:
    made = plan(a_snapshot(a_worker(idle=30)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.IDLE))


def test_the_disabling_of_an_idle_worker_is_remembered_as_ours() -> None:
    note = plan(a_snapshot(a_worker(idle=30))).memory.workers["i-w1"]
    assert (note.disabling, note.disabled_at, note.seen_disabled) == (Disabling.IDLE, NOW, False)


def test_a_worker_not_idle_long_enough_stays() -> None:
    assert verdict_and_code(plan(a_snapshot(a_worker(idle=29.9))), "w1") == ("keep", Code.IDLE_NOT_LONG_ENOUGH)


@pytest.mark.parametrize(
    ("minutes", "step", "verdict"),
    (
        pytest.param(20, 3600.0, ("keep", Code.PAID_FOR), id="its hour is paid"),
        pytest.param(49.9, 3600.0, ("keep", Code.PAID_FOR), id="its end is not near"),
        pytest.param(50, 3600.0, ("disable", Code.IDLE), id="ten minutes before"),
        pytest.param(58.9, 3600.0, ("disable", Code.IDLE), id="its end just comes in time"),
        pytest.param(59.5, 3600.0, ("keep", Code.PAID_FOR), id="the next hour will be paid in any case"),
        pytest.param(60 + 55, 3600.0, ("disable", Code.IDLE), id="the second hour ends"),
        pytest.param(20, 60.0, ("disable", Code.IDLE), id="minutes are not worth waiting for"),
    ),
)
def test_an_idle_worker_stays_as_long_as_it_is_paid_for(minutes: float, step: float, verdict: tuple[str, Code]) -> None:
    made = plan(a_snapshot(a_worker(idle=99, age=60.0 * minutes), billing_step=step))
    assert verdict_and_code(made, "w1") == verdict


def test_a_worker_that_asks_to_stop_or_is_drained_does_not_stay_for_what_is_paid() -> None:
    snapshot = a_snapshot(a_worker(idle=99, age=1_200.0), Overrides(drain=frozenset({"w1"})), billing_step=3600.0)
    assert verdict_and_code(plan(snapshot), "w1") == ("disable", Code.DRAINED_BY_COMMAND)
    asked = asked_by("w1", things=(a_worker(idle=99, age=1_200.0),), billing_step=3600.0)
    assert verdict_and_code(plan(asked), "w1") == ("disable", Code.ASKED_TO_STOP)


def test_idle_time_begins_with_the_first_empty_observation() -> None:
    assert plan(a_snapshot(a_worker())).memory.workers["i-w1"].idle_since == NOW


def test_a_job_ends_idle_time() -> None:
    assert plan(a_snapshot(a_worker(idle=99, used=1))).memory.workers["i-w1"].idle_since is None


@pytest.mark.parametrize("state", ("r", "s", "S", "T", "t", "Rr", "dr", "dt", "hr"))
def test_a_worker_with_a_job_in_any_state_stays(state: str) -> None:
    made = plan(a_snapshot(a_worker(idle=99, host=a_host("w1", used=1, job_state=state))))
    assert verdict_and_code(made, "w1") == ("keep", Code.RUNS_JOBS)


def test_a_worker_with_a_reserved_slot_stays() -> None:
    made = plan(a_snapshot(a_worker(idle=99, host=a_host("w1", reserved=1))))
    assert verdict_and_code(made, "w1") == ("keep", Code.RESERVED)


def test_a_worker_that_a_pending_job_can_use_stays_though_the_job_is_not_expired() -> None:
    assert verdict_and_code(plan(a_snapshot(a_worker(idle=99), a_job(waited=1))), "w1") == ("keep", Code.NEEDED)


def test_a_worker_that_no_waiting_job_can_use_leaves() -> None:
    made = plan(a_snapshot(a_worker(idle=99), a_job(slots=16)))
    assert ("disable", "w1") in acts(made)


def test_a_worker_is_not_needed_if_a_persistent_host_has_room() -> None:
    assert acts(plan(a_snapshot(a_worker(idle=99), a_host(), a_job()))) == [("disable", "w1")]


def test_a_job_that_does_not_count_keeps_no_worker() -> None:
    assert acts(plan(a_snapshot(a_worker(idle=99), a_job(state="hqw")))) == [("disable", "w1")]


def test_a_job_over_several_hosts_keeps_an_idle_worker_while_it_waits_for_more() -> None:
    busy = a_worker("w2", used=2)
    made = plan(a_snapshot(a_worker("w1", idle=99), busy, a_job(slots=4, pe="mpi"), limits=Limits(max_workers=2)))
    assert verdict_and_code(made, "w1") == ("keep", Code.NEEDED)


def test_an_unsatisfiable_job_over_several_hosts_keeps_no_worker() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), a_job(slots=400, pe="mpi"), limits=Limits(max_workers=2)))
    assert ("disable", "w1") in acts(made)


def test_only_as_many_workers_stay_as_jobs_need() -> None:
    workers = [a_worker(f"w{n}", idle=99) for n in range(4)]
    made = plan(a_snapshot(*workers, jobs(3), scale_down_batch=9))
    assert len(acts(made)) == 2


def test_the_most_expensive_worker_leaves_first() -> None:
    cheap, dear = a_worker("w1", idle=999, price_per_hour=0.1), a_worker("w2", idle=99, price_per_hour=0.8)
    assert acts(plan(a_snapshot(cheap, dear))) == [("disable", "w2")]


def test_of_equally_priced_workers_the_longest_idle_leaves_first() -> None:
    assert acts(plan(a_snapshot(a_worker("w1", idle=99), a_worker("w2", idle=999)))) == [("disable", "w2")]


def test_no_more_workers_leave_at_once_than_the_batch() -> None:
    made = plan(a_snapshot(*(a_worker(f"w{n}", idle=99) for n in range(5)), scale_down_batch=2))
    assert [name for _, name in acts(made)] == ["w0", "w1"]


def test_further_idle_workers_wait_for_the_next_batch() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), a_worker("w2", idle=99)))
    assert verdict_and_code(made, "w2") == ("wait", Code.SCALE_DOWN_BATCH)


def test_min_workers_stay() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), limits=STAYS))
    assert verdict_and_code(made, "w1") == ("keep", Code.MIN_WORKERS)


def test_idle_workers_beyond_min_workers_leave() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), a_worker("w2", used=1), limits=STAYS))
    assert acts(made) == [("disable", "w1")]


def test_a_draining_worker_does_not_count_for_min_workers() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), a_worker("w2", mark=Disabling.BROKEN), limits=STAYS))
    assert verdict_and_code(made, "w1") == ("keep", Code.MIN_WORKERS)


def test_with_a_scale_down_timeout_an_idle_worker_stays_while_its_queue_runs_jobs() -> None:
    busy = a_worker("w2", used=1)
    made = plan(a_snapshot(a_worker("w1", idle=99), busy, queue={"scale_down_timeout": 60.0}))
    assert verdict_and_code(made, "w1") == ("keep", Code.QUEUE_NOT_EMPTY)


def test_with_a_scale_down_timeout_a_worker_stays_until_its_queue_is_empty_long_enough() -> None:
    made = plan(
        a_snapshot(a_worker(idle=99), Memory(queues_empty_since=NOW - 59.9), queue={"scale_down_timeout": 60.0})
    )
    assert verdict_and_code(made, "w1") == ("keep", Code.QUEUE_NOT_EMPTY)


def test_a_worker_leaves_once_its_queue_is_empty_for_the_scale_down_timeout() -> None:
    made = plan(a_snapshot(a_worker(idle=99), Memory(queues_empty_since=NOW - 60), queue={"scale_down_timeout": 60.0}))
    assert acts(made) == [("disable", "w1")]


def test_a_job_that_nothing_allowed_can_run_does_not_keep_a_queue_from_being_empty() -> None:
    """It may wait for ever, and workers with it. Held jobs do not count at all."""
    empty: dict[str, Any] = {"queue": {"scale_down_timeout": 60.0}, "limits": Limits(max_workers=2)}
    for waiting in (a_job(slots=400, pe="mpi"), a_job(state="hqw")):
        made = plan(a_snapshot(a_worker("w1", idle=99), waiting, Memory(queues_empty_since=NOW - 60), **empty))
        assert made.memory.queues_empty_since == NOW - 60
        assert acts(made) == [("disable", "w1")]
    made = plan(a_snapshot(a_worker("w1", idle=99), a_job(slots=4, pe="mpi"), Memory(queues_empty_since=1.0), **empty))
    assert made.memory.queues_empty_since is None, "one that could run does"


def test_a_worker_with_a_queue_instance_in_error_is_disabled_even_with_jobs() -> None:
    made = plan(a_snapshot(a_worker(host=a_host("w1", used=1, states="E"))))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.INSTANCE_IN_ERROR))


def test_a_worker_with_a_queue_instance_in_error_is_replaced() -> None:
    made = plan(a_snapshot(a_worker(host=a_host("w1", states="E")), a_job()))
    assert acts(made) == [("launch", {"m5.large": 1}), ("disable", "w1")]


def test_an_idle_worker_whose_queue_instance_takes_no_jobs_is_not_needed() -> None:
    made = plan(a_snapshot(a_worker(idle=99, states="c"), a_job(waited=1)))
    assert acts(made) == [("disable", "w1")]


def test_after_a_store_loss_no_worker_leaves_at_the_first_observation() -> None:
    assert acts(plan(a_snapshot(a_worker(known=False)))) == []
    assert acts(plan(a_snapshot(a_worker(idle=9999)))) == [("disable", "w1")]


def test_a_large_idle_worker_stays_for_the_job_that_needs_it() -> None:
    large, small = a_worker("w1", idle=99, type_=X4LARGE), a_worker("w2", idle=99)
    made = plan(a_snapshot(large, small, a_job(slots=16), scale_down_batch=9))
    assert acts(made) == [("disable", "w2")]


def test_a_joining_worker_is_kept_without_demand() -> None:
    worker = a_worker(mark=Disabling.ENROL, heard=False, age=60)
    assert acts(plan(a_snapshot(worker))) == []


def test_a_removal_counts_for_the_circuit_breaker_once() -> None:
    worker = a_worker(mark=Disabling.IDLE, empty=99)
    assert worker.note is not None
    again = replace(worker, note=replace(worker.note, retired_at=NOW - 99))
    counts = [len(plan(a_snapshot(one)).memory.removals) for one in (worker, again)]
    assert counts == [1, 0]


def test_a_disabling_not_yet_observed_counts_for_the_batch() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=99), a_worker("w2", mark=Disabling.IDLE, states="", disabled=1)))
    assert verdict_and_code(made, "w1") == ("wait", Code.SCALE_DOWN_BATCH)
