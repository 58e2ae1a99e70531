"""The next look comes when time alone changes the decision, not up to a poll later."""

from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.plan import plan
from tests.core.building import LONG_AGO, NOW, a_job, a_machine, a_snapshot, a_worker


def test_the_next_look_is_due_when_a_job_expires() -> None:
    assert plan(a_snapshot(a_job(waited=10), queue={"scale_up_timeout": 30.0})).due == NOW + 20


def test_the_next_look_is_due_when_a_worker_has_idled_long_enough() -> None:
    assert plan(a_snapshot(a_worker(idle=5), idle_timeout=30.0)).due == NOW + 25


def test_nothing_is_due_where_nothing_waits_and_no_worker_is_there() -> None:
    assert plan(a_snapshot()).due is None


def test_what_is_past_is_not_due_again() -> None:
    made = plan(a_snapshot(a_job(waited=100), a_worker(used=2), queue={"scale_up_timeout": 30.0}))
    assert made.due is None or made.due > NOW


def test_an_enrolment_that_was_cut_short_is_due_again_before_the_next_poll() -> None:
    enrolled = WorkerNote(LONG_AGO, disabled_at=NOW - 2, disabling=Disabling.ENROL, host="w1")
    snapshot = a_snapshot(a_machine("w1", note=enrolled))
    retry_after = max(snapshot.cluster.schedule_interval, snapshot.policy.batch_delay)
    assert plan(snapshot).due == NOW - 2 + retry_after
