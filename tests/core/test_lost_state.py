"""After the state was lost, the listing alone says what was ordered, and it may lag."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.limits.lost_state import LISTINGS_LAG
from autoscaler.core.model.fleet import OrderState
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from tests.core.building import NOW, a_job, a_snapshot, a_worker, an_order, category_of, codes, launched

TAKEN_OVER = a_worker("w1", used=2, known=False)
FULL = replace(TAKEN_OVER, worker=replace(TAKEN_OVER.worker, order_id="order-1"))
NEW = Memory()


def test_nothing_is_launched_until_listings_have_what_an_earlier_state_ordered() -> None:
    snapshot = a_snapshot(a_job(waited=900), FULL, NEW)
    first = plan(snapshot)
    assert launched(first) == {}
    assert Code.STATE_LOST in codes(category_of(first).reason)
    assert first.due is not None
    assert first.due <= NOW + LISTINGS_LAG
    soon = plan(replace(snapshot, memory=first.memory, now=NOW + LISTINGS_LAG - 1))
    later = plan(replace(snapshot, memory=first.memory, now=NOW + LISTINGS_LAG))
    assert (launched(soon), sum(launched(later).values())) == ({}, 1)


def test_a_new_cell_and_a_machine_of_a_known_order_wait_for_nothing() -> None:
    assert sum(launched(plan(a_snapshot(a_job(waited=900), NEW))).values()) == 1
    ordered = an_order(ids=(FULL.worker.id,), state=OrderState.ACCEPTED)
    assert sum(launched(plan(a_snapshot(a_job(waited=900), FULL, ordered, NEW))).values()) == 1


def test_a_new_state_beside_a_machine_taken_over_from_somebody_else_waits_for_nothing() -> None:
    assert TAKEN_OVER.worker.order_id is None
    assert sum(launched(plan(a_snapshot(a_job(waited=900), TAKEN_OVER, NEW))).values()) == 1
