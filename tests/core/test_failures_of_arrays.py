"""What one node array's orders met concerns it alone: also at clouds that sell to all arrays alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.fleet import BucketKey, FailureKind, LaunchFailure, OrderState, PriceType
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.notifications.causes import NotificationContext, Observed
from autoscaler.core.notifications.due import KnownCauses, notifications_due
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    LARGE,
    NOW,
    X2LARGE,
    XLARGE,
    a_bucket,
    a_failure,
    a_job,
    a_snapshot,
    a_worker,
    an_order,
    codes,
    jobs,
    launched,
    note_codes,
)
from tests.core.test_total_limits import two_queues

DENIED = "you are not authorised to launch c5.xlarge"
LIMITS = Limits(max_workers=2)


def of_both_queues() -> tuple[Any, ...]:
    return a_job(1, queues=("main.q",), waited=900), a_job(2, queues=("big.q",), waited=900)


def failing(array: str, kind: FailureKind, count: int = 1, message: str = DENIED) -> tuple[Any, ...]:
    """Orders of an array that failed at a bucket of all arrays."""
    orders, failures = [], []
    for number in range(count):
        order = replace(an_order(state=OrderState.FAILED, age=60 + number), id=f"o-{number}", node_array=array)
        orders.append(order)
        failures.append(LaunchFailure(BucketKey("m5.large"), NOW - 60 - number, kind, message, order.id))
    return (*orders, *failures)


def arrays(made: Plan) -> set[str]:
    return {action.node_array for action in made.actions if isinstance(action, Launch)}


def told(made: Plan, queue: str) -> list[Code]:
    job = {"main.q": 1, "big.q": 2}[queue]
    (verdict,) = (each for each in made.job_categories if job in each.jobs)
    return codes(verdict.reason)


@pytest.mark.parametrize("failed", ("execute", "execute_1"))
def test_a_type_that_is_refused_for_one_queue_is_launched_for_another(failed: str) -> None:
    other, queue = {"execute": ("execute_1", "big.q"), "execute_1": ("execute", "main.q")}[failed]
    made = plan(two_queues(*of_both_queues(), *failing(failed, FailureKind.PERMANENT), limits=LIMITS))
    assert (arrays(made), dict(made.memory.stopped)) == ({other}, {failed: DENIED})
    assert Code.NODE_ARRAY_STOPPED not in told(made, queue)
    again = replace(made.memory, launches=())
    kept = plan(two_queues(*of_both_queues(), again, limits=LIMITS))
    assert (arrays(kept), dict(kept.memory.stopped)) == ({other}, {failed: DENIED}), "after the journal forgot it"


def test_lack_of_capacity_of_one_queue_is_not_told_to_jobs_of_another() -> None:
    """Also where the other one has reached its own cap."""
    failures = failing("execute_1", FailureKind.CAPACITY, count=6, message="Insufficient instance capacity.")
    made = plan(two_queues(*of_both_queues(), *failures, limits=LIMITS))
    assert arrays(made) == {"execute"}
    busy = a_worker("w1", used=2), a_job(1, queues=("main.q",), waited=900)
    capped = plan(two_queues(*busy, *failures, limits=Limits(max_workers=1)))
    own = failing("execute", FailureKind.CAPACITY, count=6, message="Insufficient instance capacity.")
    own_capped = plan(two_queues(*busy, *own, limits=Limits(max_workers=1)))
    shown = [Code.LAUNCHES_FAILED in told(each, "main.q") for each in (capped, own_capped)]
    assert (shown, Code.CAPPED in told(capped, "main.q")) == ([False, True], True)


def snapshot(*things: Any, **array: Any) -> Snapshot:
    return a_snapshot(jobs(8), a_bucket(LARGE), a_bucket(XLARGE), a_bucket(X2LARGE), *things, hybrid=True, **array)


def test_a_refused_type_stops_no_other_type_of_its_array() -> None:
    made = plan(snapshot(a_failure(X2LARGE, kind=FailureKind.PERMANENT)))
    assert (launched(made), dict(made.memory.stopped)) == ({"m5.xlarge": 2}, {})
    assert Code.BUCKET_REFUSED in [verdict.reason.code for verdict in made.buckets]


def test_a_refused_zone_or_price_type_stops_no_other() -> None:
    denied = a_failure(LARGE, kind=FailureKind.PERMANENT, zone="a")
    made = plan(a_snapshot(a_job(), a_bucket(zone="a"), a_bucket(zone="b"), denied))
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    assert [bucket.key.zone for bucket in launch.candidates[0].buckets] == ["b"]
    spot = a_failure(LARGE, kind=FailureKind.PERMANENT, price_type=PriceType.SPOT)
    both: dict[str, Any] = {"price_types": (PriceType.SPOT, PriceType.ON_DEMAND)}
    made = plan(a_snapshot(a_job(), a_bucket(), a_bucket(price_type=PriceType.SPOT), spot, **both))
    assert [action.candidates[0].price_type for action in made.actions if isinstance(action, Launch)] == [
        PriceType.ON_DEMAND
    ]


def test_an_array_is_stopped_once_all_its_types_are_refused() -> None:
    types = (LARGE, XLARGE, X2LARGE)
    refused = [a_failure(each, kind=FailureKind.PERMANENT, age=60 + n) for n, each in enumerate(types)]
    made = plan(snapshot(*refused))
    assert (launched(made), list(made.memory.stopped)) == ({}, ["execute"])
    assert note_codes(made) == [Code.NODE_ARRAY_STOPPED]


def test_a_refused_type_is_launched_again_after_a_resume_and_not_before() -> None:
    refused = a_failure(X2LARGE, kind=FailureKind.PERMANENT)
    memory = replace(plan(snapshot(refused)).memory, launches=())
    assert launched(plan(snapshot(memory, now=NOW + 90_000))) == {"m5.xlarge": 2}, "no time ends it"
    assert launched(plan(snapshot(memory, Overrides(resumed_at=NOW)))) == {"m5.2xlarge": 1}
    assert launched(plan(snapshot(memory, refused, Overrides(resumed_at=NOW)))) == {"m5.2xlarge": 1}
    assert launched(plan(snapshot(memory, refused, Overrides(resumed_at=NOW - 3600)))) == {"m5.xlarge": 2}


def notified(seen: Snapshot) -> set[Code]:
    due = notifications_due(KnownCauses(), NotificationContext(NOW, Observed(seen, plan(seen))))
    return {each.reason.code for each in due.notifications} & {Code.BUCKET_REFUSED, Code.NODE_ARRAY_STOPPED}


def test_a_refused_type_is_told_to_operators_until_resumed() -> None:
    seen = snapshot(a_failure(X2LARGE, kind=FailureKind.PERMANENT))
    assert notified(seen) == {Code.BUCKET_REFUSED}
    stopped = a_snapshot(jobs(8), a_failure(kind=FailureKind.PERMANENT))
    assert notified(stopped) == {Code.NODE_ARRAY_STOPPED}, "once, as a whole"


def test_a_failure_of_an_array_without_its_order_stays_everybodys() -> None:
    """An order that the journal has lost: nobody knows whose it was."""
    lost = LaunchFailure(BucketKey("m5.large"), NOW - 60, FailureKind.PERMANENT, DENIED, "gone")
    made = plan(two_queues(*of_both_queues(), lost, limits=LIMITS))
    assert (arrays(made), set(made.memory.stopped)) == (set(), {"execute", "execute_1"})


def test_what_is_said_of_an_offer_names_the_array_that_it_was_said_for() -> None:
    made = plan(two_queues(*of_both_queues(), limits=LIMITS))
    assert arrays(made) == {"execute", "execute_1"}
    assert {verdict.judged_for for verdict in made.buckets} == {"execute", "execute_1"}
