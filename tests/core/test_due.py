"""The next pass is due when time alone changes the decision, not up to a poll later; and whether there is anything to
scale.
"""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.fleet import MachineState, OrderState
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import CreatedNode, Requests, RequestSet
from autoscaler.core.outcome.due import nothing_to_scale
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from tests.core.building import LONG_AGO, NOW, a_host, a_job, a_machine, a_snapshot, a_worker, an_order


def test_the_next_pass_is_due_when_a_job_expires() -> None:
    assert plan(a_snapshot(a_job(waited=10), queue={"scale_up_timeout": 30.0})).due == NOW + 20


def test_the_next_pass_is_due_when_the_idle_timeout_of_a_worker_ends() -> None:
    assert plan(a_snapshot(a_worker(idle=5), idle_timeout=30.0)).due == NOW + 25


@pytest.mark.parametrize(
    ("minutes", "idle", "in_s"), ((20, 99, 1_800), (20, 5, 1_800), (55, 5, 25), (59.5, 99, 30 + 3_000))
)
def test_the_next_pass_is_due_when_what_is_paid_for_a_worker_ends_soon(minutes: float, idle: float, in_s: int) -> None:
    worker = a_worker(idle=idle, age=60.0 * minutes)
    assert plan(a_snapshot(worker, idle_timeout=30.0, billing_step=3600.0)).due == pytest.approx(NOW + in_s)


def test_nothing_is_due_without_pending_jobs_and_workers() -> None:
    assert plan(a_snapshot()).due is None


def test_the_next_pass_is_never_due_in_the_past() -> None:
    made = plan(a_snapshot(a_job(waited=100), a_worker(used=2), queue={"scale_up_timeout": 30.0}))
    assert made.due is None or made.due > NOW


def test_an_unfinished_enrolment_is_due_again_before_the_next_poll() -> None:
    enrolled = WorkerNote(LONG_AGO, disabled_at=NOW - 2, disabling=Disabling.ENROL, host="w1")
    snapshot = a_snapshot(a_machine("w1", note=enrolled))
    retry_after = max(snapshot.cluster.schedule_interval, snapshot.policy.batch_delay)
    assert plan(snapshot).due == NOW - 2 + retry_after


@pytest.mark.parametrize(
    "things",
    (
        (),
        (a_host("persistent", used=1),),
        (replace(a_machine("w1", state=MachineState.TERMINATED), note=WorkerNote(LONG_AGO, gone=True)),),
    ),
    ids=("nothing", "jobs run on persistent hosts", "an ended worker"),
)
def test_with_no_pending_job_and_no_worker_there_is_nothing_to_scale(things: tuple[Any, ...]) -> None:
    snapshot = a_snapshot(*things)
    assert nothing_to_scale(snapshot, plan(snapshot))


@pytest.mark.parametrize(
    "things",
    (
        (a_job(),),
        (a_job(state="hqw"),),
        (a_host("persistent"), a_job()),
        (a_worker(),),
        (a_machine("w1"),),
        (a_machine("w1", state=MachineState.STOPPING),),
        (an_order(),),
        (Overrides(stop="drain"),),
    ),
    ids=(
        "a job",
        "a held job",
        "a job that fits",
        "a worker",
        "a machine",
        "a machine that stops",
        "an order",
        "a stop",
    ),
)
def test_jobs_workers_orders_and_stops_are_something_to_scale(things: tuple[Any, ...]) -> None:
    snapshot = a_snapshot(*things)
    assert not nothing_to_scale(snapshot, plan(snapshot))


@pytest.mark.parametrize(
    "requests",
    (
        Requests(sets=(RequestSet("standard", "ann", NOW, None, ()),)),
        Requests(nodes=(CreatedNode("n1", "execute", "ann", NOW),)),
        Requests(auto_stops=frozenset({"i-1"})),
    ),
    ids=("a request set", "a created node", "a worker that asks to stop"),
)
def test_requests_are_something_to_scale(requests: Requests) -> None:
    snapshot = replace(a_snapshot(), requests=requests)
    assert not nothing_to_scale(snapshot, replace(plan(a_snapshot()), actions=()))


def test_an_unlisted_worker_is_something_to_scale() -> None:
    snapshot, made = a_snapshot(), plan(a_snapshot())
    missing = replace(made, memory=replace(made.memory, workers={"i-1": WorkerNote(LONG_AGO, missing_since=NOW)}))
    assert not nothing_to_scale(snapshot, missing)


def test_an_order_whose_workers_have_gone_again_is_nothing_to_scale() -> None:
    """An accepted order is kept for a while longer, in case its listing comes late."""
    gone = replace(a_machine("w1", state=MachineState.TERMINATED), note=WorkerNote(LONG_AGO, gone=True))
    order = an_order(state=OrderState.ACCEPTED, ids=(gone.worker.id,))
    snapshot = a_snapshot(gone, order)
    assert nothing_to_scale(snapshot, plan(snapshot))


def test_min_workers_and_unreadable_objects_are_something_to_scale() -> None:
    floor = a_snapshot(limits=Limits(max_workers=3, min_workers=1))
    odd = a_snapshot()
    odd = replace(odd, cluster=replace(odd.cluster, set_aside=(because(Code.CANNOT_BE_READ),)))
    made = plan(a_snapshot())
    assert [nothing_to_scale(snapshot, made) for snapshot in (floor, odd, a_snapshot())] == [False, False, True]
