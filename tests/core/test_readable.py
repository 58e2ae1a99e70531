"""An unreadable value affects only its own object, and never allows more than was allowed before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.core.model.fleet import InstanceType
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.readable.numbers import all_times
from autoscaler.core.readable.screening import readable
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    GIB,
    LARGE,
    NOW,
    XLARGE,
    a_bucket,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    acts,
    category_of,
    jobs,
    launched,
    note_codes,
    reason_code,
)

NAN = float("nan")


def unread(made: Plan) -> list[object]:
    return [note["what"] for note in made.notes if note.code is Code.CANNOT_BE_READ]


def with_counts(snapshot: Snapshot, **counts: int) -> Snapshot:
    """The first host's queue instance as Grid Engine would never print it."""
    host = snapshot.cluster.hosts[0]
    odd = replace(host, instances=(replace(host.instances[0], **counts),))  # type: ignore[arg-type]
    return replace(snapshot, cluster=replace(snapshot.cluster, hosts=(odd, *snapshot.cluster.hosts[1:])))


@pytest.mark.parametrize("counts", ({"slots": -1}, {"used": -1}, {"reserved": -5}, {"slots": 10**400}))
def test_a_host_with_unreadable_slots_is_neither_supply_nor_removed(counts: dict[str, int]) -> None:
    made = plan(with_counts(a_snapshot(a_job(), a_worker("w1", idle=3600.0), a_worker("w2", used=2)), **counts))
    assert (acts(made), unread(made)) == ([("launch", {"m5.large": 1})], ["host w1"])


@pytest.mark.parametrize("vcpus", (0, -4, 10**400))
def test_a_bucket_of_unreadable_size_is_not_launched_and_others_are(vcpus: int) -> None:
    odd = a_bucket(InstanceType("m5.odd", "m5", vcpus, 8 * GIB), price=0.01)
    made = plan(a_snapshot(jobs(4), odd, a_bucket(LARGE), a_bucket(XLARGE), hybrid=True))
    assert (list(launched(made)), unread(made)) == (["m5.xlarge"], ["bucket m5.odd"])


@pytest.mark.parametrize("price", (NAN, float("inf"), -float("inf")))
def test_an_unreadable_price_is_unknown_so_nothing_is_launched_under_a_price_cap(price: float) -> None:
    odd = replace(a_bucket(LARGE), price_per_hour=price)
    free, capped = (
        plan(a_snapshot(a_job(), odd)),
        plan(a_snapshot(a_job(), odd, limits=Limits(9, max_price_per_hour=1))),
    )
    assert (launched(free), launched(capped), unread(free)) == ({"m5.large": 1}, {}, ["bucket m5.large"])


def test_a_worker_of_unreadable_size_counts_with_the_catalogues_size() -> None:
    odd = a_worker("w1", type_=replace(LARGE, vcpus=-1), used=1, host=a_host("w1", used=2))
    made = plan(a_snapshot(jobs(4), odd, limits=Limits(9, max_cores=4)))
    assert (launched(made), unread(made)) == ({"m5.large": 1}, ["worker w1"])


def test_an_unreadable_consumable_of_a_host_is_reported_and_not_offered() -> None:
    made = plan(a_snapshot(a_job(hard={"scratch": "1G"}), a_host("h1", consumables={"scratch": "1e400"})))
    assert (reason_code(made) is Code.FITS, unread(made)) == (False, ["host h1"])


def test_a_readable_snapshot_is_unchanged() -> None:
    seen = a_snapshot(jobs(3), a_worker("w1", used=1), a_host("h1", more=(QueueInstance("other.q", "h1", 1, 0, 0),)))
    assert readable(seen) == seen
    assert Code.CANNOT_BE_READ not in note_codes(plan(seen))


def test_a_snapshot_made_readable_is_not_changed_again() -> None:
    once = readable(a_snapshot(a_job(), replace(a_bucket(LARGE), price_per_hour=NAN)))
    assert readable(once) == once


def test_a_submission_time_of_0_is_valid() -> None:
    job = replace(a_job(), submitted=(0.0,))
    assert (all_times((0.0, 5.0)), all_times((-1.0,)), all_times(()), unread(plan(a_snapshot(job)))) == (
        True,
        False,
        True,
        [],
    )


def test_a_type_of_unreadable_size_counts_as_one_core_and_is_unavailable() -> None:
    bucket = a_bucket(replace(LARGE, vcpus=0))
    (found,) = readable(a_snapshot(bucket)).fleet.buckets
    assert (found.type.vcpus, found.type.memory, found.available) == (1, 0, 0)


def test_only_invalid_times_of_remembered_load_reports_are_replaced() -> None:
    memory = Memory(passes=7, silent_since={"w1": -5.0, "w2": NOW - 60, "w3": None, "w4": 0.0})
    found = readable(a_snapshot(memory)).memory.silent_since
    assert found == {"w1": NOW, "w2": NOW - 60, "w3": None, "w4": 0.0}


def test_a_request_for_too_many_slots_is_reported_as_out_of_range() -> None:
    shown = text(category_of(plan(a_snapshot(a_job(slots=2_000_000_000)))).reason)
    assert "its request cannot be read: slots (least) 2000000000 (it is outside of what is counted with)" in shown
