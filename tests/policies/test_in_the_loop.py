"""Autoscale policies in a whole autoscaler: workers come for their requests, and leave when these end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.policy import Limits
from autoscaler.engine.loop import Loop
from autoscaler.engine.monitor import Monitor
from autoscaler.policies.interface import AutoscalePolicy
from autoscaler.policies.policy_requests import Policies
from autoscaler.policies.registry import load
from autoscaler.policies.warm_buffer import WarmBuffer
from tests.samples import thorough
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, TAG, World, start, step
from tests.simulated.executor import at_once
from tests.simulated.killing import Instants, MortalNames, MortalProvider, MortalRunner, mortal_store

ARRAY = replace(POLICY.node_arrays[0], limits=Limits(max_workers=4), scale_up_batch=4)
KILLS = 8
MORNING = {"COUNT": "2", "BEGIN": "07:30", "END": "07:50"}


def monday(directory: Path) -> World:
    """One at 07:28."""
    world = World(directory / "store.sqlite", policy=replace(POLICY, node_arrays=(ARRAY,)))
    world.clock.now = datetime(2026, 11, 23, 7, 28, tzinfo=UTC).timestamp()
    return world


@pytest.fixture
def monday_cell(tmp_path: Path) -> World:
    return monday(tmp_path)


def serve(world: World, policies: Mapping[str, AutoscalePolicy], **parts: Any) -> Loop:
    loop = start(world, **parts)
    loop.observer.policies = Policies(policies, loop.store, executor=at_once, patience=0.0, stopwatch=world.clock).ask
    return loop


def warm_buffer(**options: str) -> Mapping[str, AutoscalePolicy]:
    values = {f"CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_{name}": text for name, text in {**MORNING, **options}.items()}
    return load(("warm_buffer",), values)


def clock(world: World) -> str:
    return datetime.fromtimestamp(world.clock.now, UTC).strftime("%H:%M")


def living(world: World) -> int:
    return len(world.cloud.living(TAG))


def day(world: World, loop: Loop, until: str) -> dict[str, int]:
    """Make passes until this time; returns how many machines there were at the end of each minute."""
    seen: dict[str, int] = {}
    while clock(world) < until:
        step(world, loop)
        seen[clock(world)] = living(world)
    return seen


def test_buffer_workers_are_there_on_a_working_morning_and_leave_afterwards(monday_cell: World) -> None:
    seen = day(monday_cell, serve(monday_cell, warm_buffer()), "07:55")
    assert (seen["07:29"], seen["07:32"], seen["07:49"], seen["07:54"]) == (0, 2, 2, 0)


def test_jobs_get_workers_beside_the_buffer_within_the_limits(monday_cell: World) -> None:
    loop = serve(monday_cell, warm_buffer())
    day(monday_cell, loop, "07:32")
    monday_cell.cluster.submit(6, slots=1, seconds=240)
    seen = day(monday_cell, loop, "07:35")
    assert seen["07:34"] == 4


def test_on_a_holiday_there_is_no_buffer(monday_cell: World) -> None:
    seen = day(monday_cell, serve(monday_cell, warm_buffer(HOLIDAYS="2026-11-23")), "07:33")
    assert set(seen.values()) == {0}


def test_the_request_of_a_policy_survives_a_restart(monday_cell: World) -> None:
    day(monday_cell, serve(monday_cell, warm_buffer()), "07:33")
    machines = monday_cell.cloud.living(TAG)
    seen = day(monday_cell, serve(monday_cell, warm_buffer()), "07:36")
    assert (set(seen.values()), monday_cell.cloud.living(TAG)) == ({2}, machines)


def test_workers_of_a_failing_policy_leave_a_few_minutes_later(
    monday_cell: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = serve(monday_cell, warm_buffer())
    day(monday_cell, loop, "07:33")
    monkeypatch.delattr(WarmBuffer, "_open")
    seen = day(monday_cell, loop, "07:42")
    assert (seen["07:36"], seen["07:41"]) == (2, 0)


def test_workers_of_a_removed_policy_leave_at_once(monday_cell: World) -> None:
    before = day(monday_cell, serve(monday_cell, warm_buffer()), "07:33")
    seen = day(monday_cell, serve(monday_cell, {}), "07:36")
    assert (before["07:32"], seen["07:35"]) == (2, 0)


# -- killed at any instant ---------------------------------------------------------------------------------------------


def morning(directory: Path, killing: frozenset[int]) -> tuple[list[int], int, int, float]:
    """A morning with monitor and warm buffer, continued by a new process after each kill: machines at some minutes, how
    many were launched, instants at which it may be killed, and the seconds that the history covers.
    """
    world, instants = monday(directory), Instants(killing)

    def begin() -> Loop:
        store = mortal_store(world.store_file, instants)
        runner, provider = MortalRunner(world.cluster, instants), MortalProvider(world.provider(), instants)
        names = MortalNames(world.names, instants)
        loop = serve(world, warm_buffer(END="07:33"), store=store, runner=runner, provider=provider, names=names)
        loop.attach(Monitor(store.samples))
        return loop

    loop, seen = begin(), {}
    while clock(world) < "07:37":
        try:
            step(world, loop)
        except Killed:
            loop.store.close()
            loop = begin()
        seen[clock(world)] = living(world)
    known = sum(one.seconds for one in loop.store.samples.between(0, world.clock.now, now=world.clock.now))
    loop.store.close()
    return (
        [seen.get(minute, -1) for minute in ("07:29", "07:31", "07:32", "07:36")],
        len(world.cloud.machines),
        len(instants.names),
        known,
    )


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """New directories on a file system without slow commits."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else tmp_path, prefix="sge-autoscaler-test-") as made:
        yield lambda: Path(tempfile.mkdtemp(dir=made))


@pytest.mark.thorough
def test_after_a_kill_at_any_instant_the_same_workers_come_and_leave(fresh: Callable[[], Path]) -> None:
    machines, launched, instants, known = morning(fresh(), frozenset())
    assert (machines, launched) == ([0, 2, 2, 0], 2)
    kills = KILLS if thorough() else 3
    for kill in range(1, kills + 1):
        again = morning(fresh(), frozenset({kill * instants // (kills + 1)}))
        assert again[:2] == ([0, 2, 2, 0], 2), kill
        assert 0 <= known - again[3] <= 60, kill
