"""A machine's age counts by our own clock: no decision depends on what the clock of its cloud says besides.

Either clock may be wrong, or be set: each test moves the cloud's by an hour, which is the same as ours being set.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.actions import Action, Enable, Enrol, Reschedule
from autoscaler.core.constraints.node import properties_of_worker
from autoscaler.core.events.event import EventKind
from autoscaler.core.events.events import events_of
from autoscaler.core.events.known import KnownEvents
from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobDetail, QueueInstance
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, Memory, SwapNote, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.worker_observation import observe_workers
from tests.core.building import (
    LONG_AGO,
    NOW,
    X2LARGE,
    AWorker,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    category_of,
    jobs,
    note_codes,
)

HOUR = 3600.0
BOTH = pytest.mark.parametrize("by", (HOUR, -HOUR), ids=("ahead", "behind"))


def set_by(made: Snapshot, by: float) -> Snapshot:
    """After the cloud's clock was set: its times of creation are others."""
    workers = tuple(replace(worker, created_at=worker.created_at + by) for worker in made.fleet.workers)
    return replace(made, fleet=replace(made.fleet, workers=workers))


def first_seen(made: AWorker, ago: float, **note: Any) -> AWorker:
    """The machine as an observation so many seconds ago first showed it, just made."""
    return replace(made, note=WorkerNote(NOW - ago, made_at=NOW - ago, **note))


@BOTH
def test_a_young_machine_waits_for_the_silent_host_of_an_older_one(by: float) -> None:
    machine = first_seen(a_machine("w1", age=60), 60)
    silent = replace(machine, host=a_host("w1", heard=False))
    seen = set_by(a_snapshot(silent), by)
    (found,) = observe_workers(seen.cluster, seen.fleet, seen.memory, seen.policy, NOW).workers
    assert found.phase is Phase.BOOTING


@BOTH
def test_capacity_is_back_only_by_a_machine_made_after_it_was_missing(by: float) -> None:
    """Of two machines that have reported since, one was made before the failures and one after them."""
    failures = [a_failure(X2LARGE, age=600 + number) for number in range(5)]
    backed_off = {
        age: bool(plan(set_by(a_snapshot(jobs(8), *failures, up, hybrid=True), by)).memory.backoffs)
        for age in (700, 500)
        for up in [first_seen(a_worker(type_=X2LARGE, used=8, age=age), age, joined_at=NOW - 400, host="w1")]
    }
    assert backed_off == {700: True, 500: False}


@BOTH
def test_the_boot_time_between_two_swaps_is_measured_by_our_clock(by: float) -> None:
    ninety_seconds = first_seen(a_worker(idle=20, age=690), 690, joined_at=NOW - 600, idle_since=NOW - 20, host="w1")
    swapped = Memory(passes=7, swaps={"execute": SwapNote(ended_at=NOW - 60)})
    array: dict[str, Any] = {"limits": Limits(max_workers=2), "hybrid": True, "idle_timeout": 9999.0}
    made = plan(set_by(a_snapshot(a_job(slots=16), ninety_seconds, a_worker("w2", used=1), swapped, **array), by))
    assert (note_codes(made)[-1:], made.due) == ([Code.SWAP_COOLDOWN], NOW + 30)


@BOTH
def test_a_coming_worker_is_expected_a_boot_time_after_it_was_made(by: float) -> None:
    there = first_seen(a_worker("w1", used=2, age=690), 690, joined_at=NOW - 600, host="w1")
    coming = first_seen(a_machine("w2", age=30), 30)
    made = plan(set_by(a_snapshot(jobs(2), there, coming), by))
    assert dict(category_of(made).reason.facts)["expected_at"] == NOW + 60


@BOTH
def test_how_long_a_boot_took_is_told_by_our_clock(by: float) -> None:
    up = first_seen(a_machine("w1", age=90), 90)
    joined = first_seen(a_worker("w2", mark=Disabling.ENROL, age=120), 120)
    assert joined.note is not None
    mark: dict[str, Any] = {"disabled_at": NOW - 60, "disabling": Disabling.ENROL, "seen_disabled": True, "host": "w2"}
    joined = replace(joined, note=replace(joined.note, **mark))
    made = plan(set_by(a_snapshot(jobs(9), up, joined), by))
    told = {type(action): dict(action.reason.facts).get("after_s") for action in made.actions}
    assert (told[Enable], told[Enrol]) == (120.0, 90.0)


@BOTH
def test_the_boot_timeout_that_a_rule_sees_is_what_is_left_by_our_clock(by: float) -> None:
    booting = a_machine("w1", age=60, state=MachineState.PENDING).worker
    properties = properties_of_worker(
        replace(booting, created_at=booting.created_at + by), now=NOW, boot_timeout=900.0, made_at=NOW - 60
    )
    assert (properties.create_time_remaining, properties.create_time_unix) == (840.0, NOW - 60 + by)


@BOTH
def test_a_job_that_starts_on_a_worker_names_it(by: float) -> None:
    worker = first_seen(a_worker("w1", age=100, order_id="o1"), 100, joined_at=NOW - 50, host="w1")
    before = set_by(a_snapshot(a_job(7), worker), by)
    began = a_host("w1")
    run = HostJob(7, "", "r", 1, "ann", NOW - 3)
    running = replace(worker, host=replace(began, instances=(replace(began.instances[0], used=1, jobs=(run,)),)))
    after = set_by(a_snapshot(running, now=NOW + 10), by)
    known = events_of(KnownEvents(), before, plan(before), ()).known
    found = events_of(known, after, plan(after), ()).events
    assert [each.worker_id for each in found if each.kind is EventKind.STARTED] == ["i-w1"]


def reused_name(began: float, by: float) -> list[Action]:
    """What is done about a host that has a job since `began` and was an older machine's, which is gone. A newer one of
    its name was made a minute ago.
    """
    job = HostJob(9000, "", "r", 1, started=began)
    host = ExecutionHost("w1", (QueueInstance("main.q", "w1", 2, 1, 0, "d", (job,)),))
    gone = WorkerNote(LONG_AGO, joined_at=LONG_AGO, host="w1", gone=True, missing_since=NOW - 700)
    old = AWorker(a_machine("w1", id="i-old").worker, host, gone)
    made = a_snapshot(old, first_seen(a_machine("w1", id="i-new", age=60), 60))
    details = {9000: JobDetail(9000, read_at=NOW - 5, rerun=True)}
    made = replace(
        made, cluster=replace(made.cluster, details=details), memory=replace(made.memory, observed_at=NOW - 10)
    )
    listed = tuple(replace(each, created_at=each.created_at + by) for each in made.fleet.workers if each.id == "i-new")
    return list(plan(replace(made, fleet=replace(made.fleet, workers=listed))).actions)


@pytest.mark.parametrize("by", (HOUR, 0.0, -HOUR), ids=("ahead", "right", "behind"))
def test_a_job_on_the_newer_machine_of_a_name_is_not_taken_for_a_lost_one(by: float) -> None:
    assert [action for action in reused_name(NOW - 10, by) if isinstance(action, Reschedule)] == []


@pytest.mark.parametrize("by", (HOUR, 0.0), ids=("ahead", "right"))
def test_a_job_of_the_older_machine_of_a_name_is_rescheduled(by: float) -> None:
    assert [action.worker_id for action in reused_name(NOW - 600, by) if isinstance(action, Reschedule)] == ["i-old"]


@BOTH
def test_an_unlisted_machine_has_a_newer_one_of_its_name_if_that_was_seen_later(by: float) -> None:
    silent = a_host("w1", heard=False)
    lost = WorkerNote(NOW - 900, joined_at=NOW - 800, host="w1", silent_s=900.0, missing_since=NOW - 700)
    old = AWorker(a_machine("w1", id="i-old").worker, silent, lost)
    made = a_snapshot(a_host("h1"), old, first_seen(a_machine("w1", id="i-new", age=60), 60))
    newer = set_by(replace(made, fleet=replace(made.fleet, workers=made.fleet.workers[1:])), by)
    found = observe_workers(newer.cluster, newer.fleet, newer.memory, newer.policy, NOW)
    assert [(each.worker.id, each.successor and each.successor.id) for each in found.unlisted] == [("i-old", "i-new")]


# -- what an observation notes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "made_ago"),
    ((30.0, 30.0), (HOUR, 10 + 600.0), (-HOUR, 0.0)),
    ids=("both clocks are right", "the cloud's is behind", "the cloud's is ahead"),
)
def test_a_machine_was_made_before_it_was_seen_and_not_long_before_it_was_not(age: float, made_ago: float) -> None:
    made = a_snapshot(a_machine("w1", age=age), Memory(passes=7, observed_at=NOW - 10))
    assert made.policy.order_grace == 600.0
    assert plan(made).memory.workers["i-w1"].made_at == NOW - made_ago


def test_without_an_earlier_observation_the_cloud_says_when_a_machine_was_made() -> None:
    assert plan(a_snapshot(a_machine("w1", age=HOUR))).memory.workers["i-w1"].made_at == NOW - HOUR


def test_of_a_machine_taken_over_from_another_autoscaler_its_cloud_says_when_it_was_made() -> None:
    taken = a_machine("w1", age=HOUR, taken_over=True)
    noted = plan(a_snapshot(taken, Memory(passes=7, observed_at=NOW - 10))).memory.workers["i-w1"]
    assert noted.made_at == NOW - HOUR


def test_when_a_machine_was_made_is_noted_once() -> None:
    first = first_seen(a_machine("w1", age=60), 60)
    assert plan(set_by(a_snapshot(first), HOUR)).memory.workers["i-w1"].made_at == NOW - 60


CLOUDS_OWN = {
    "autoscaler/core/capacity/placement_groups.py": "machines of one cloud in order",
    "autoscaler/core/constraints/node.py": "rules see the cloud's time",
    "autoscaler/core/hosts/host_owners.py": "`made_at` itself; machines in order; of both clocks the earlier, for jobs",
    "autoscaler/core/joining/seq_nos.py": "machines of one cloud in order",
    "autoscaler/core/outcome/sample.py": "bounded by the time since the last observation",
    "autoscaler/core/workers/worker_observation.py": "`creation_time` itself; machines of one cloud in order",
}
"""Where the core may read when a cloud says that it made a machine."""


def test_the_core_reads_the_clouds_time_of_creation_only_where_its_clock_cannot_matter() -> None:
    reading = {
        path.as_posix()
        for path in Path("autoscaler/core").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "created_at"
    }
    assert reading == set(CLOUDS_OWN)
