"""A clock that is set changes no duration: what is remembered moves with it, and nothing ends or waits for it."""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints

import pytest

from autoscaler.core.model import memory as remembered
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.time_steps import MAPPED, NO_TIMES, is_time, moved
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from tests.core.building import NOW, a_job, a_snapshot, launched
from tests.core.test_phases import REACHED
from tests.core.worker_observations import MARKS, Observation, snapshot_of

HOUR = 3600.0
TABLES = [one for one in vars(remembered).values() if is_dataclass(one) and one.__module__ == remembered.__name__]
SEEN = [
    *(seen for _, _, seen in REACHED),
    *(
        Observation(host=host, mark=mark, heard=heard, disabled=age, age=age, idle=age, joined=joined)
        for host, mark, heard, age, joined in itertools.product(
            ("none", "open", "closed", "busy"), MARKS, (True, False), (20.0, 4000.0), (True, False)
        )
    ),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_number_that_is_remembered_is_a_time_or_no_time(table: type[Any]) -> None:
    hints = get_type_hints(table)
    numbers = {field.name for field in fields(table) if "float" in str(hints[field.name])}
    assert {name for name in numbers if not is_time(name)} <= NO_TIMES | MAPPED


def after_a_step(snapshot: Snapshot, step: float) -> Snapshot:
    """The same world, whose machines and jobs keep the times of their own clocks, after ours was set."""
    return replace(snapshot, now=snapshot.now + step, memory=moved(snapshot.memory, step))


def decided(snapshot: Snapshot) -> list[tuple[str, Code]]:
    return [(action.kind, action.reason.code) for action in plan(snapshot).actions]


@pytest.mark.parametrize("ago", (20.0, 60.0))
@pytest.mark.parametrize("step", (HOUR, -HOUR))
def test_no_step_of_a_worker_depends_on_a_clock_that_was_set(step: float, ago: float) -> None:
    """`ago`: when the pass before was; a second later nothing would be due yet."""
    found = set[str]()
    for seen in SEEN:
        if seen.notice:  # its time is its cloud's
            continue
        snapshot = snapshot_of(seen)
        noted = replace(snapshot, memory=plan(replace(snapshot, now=snapshot.now - ago)).memory)
        steps = decided(noted)
        assert decided(after_a_step(noted, step)) == steps, seen
        found |= {kind for kind, _ in steps}
    assert found >= {"disable", "enable", "enrol", "remove", "terminate"}


@pytest.mark.parametrize("step", (HOUR, -HOUR))
def test_a_clock_that_was_set_delays_no_launch_by_more_than_its_own_wait(step: float) -> None:
    first = a_snapshot(a_job(waited=0.0), now=NOW, queue={"scale_up_timeout": 30.0})
    before = plan(first)
    changed = after_a_step(replace(first, memory=before.memory, now=NOW + 20), step)
    after = plan(changed)
    late = plan(replace(changed, memory=after.memory, now=changed.now + 31))
    assert (launched(before), {**launched(after), **launched(late)}) == ({}, {"m5.large": 1})


def test_a_job_submitted_by_a_clock_ahead_of_ours_waits_as_long_as_any_other() -> None:
    first = a_snapshot(a_job(waited=-HOUR), now=NOW, queue={"scale_up_timeout": 30.0})
    before = plan(first)
    after = plan(replace(first, memory=before.memory, now=NOW + 31))
    assert (launched(before), launched(after)) == ({}, {"m5.large": 1})


def test_times_move_and_durations_stay() -> None:
    note = WorkerNote(NOW, disabled_at=NOW, disabling=Disabling.IDLE, silent_s=5.0, price_per_hour=0.1)
    memory = Memory(passes=3, workers={"i-1": note}, observed_at=NOW, silent_since={"h1": None, "h2": NOW})
    later = moved(memory, HOUR)
    assert later.workers["i-1"] == replace(note, first_seen=NOW + HOUR, disabled_at=NOW + HOUR)
    assert (later.observed_at, later.silent_since, later.failures_seen) == (
        NOW + HOUR,
        {"h1": None, "h2": NOW + HOUR},
        0.0,
    )
