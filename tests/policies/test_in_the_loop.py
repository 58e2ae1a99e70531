"""Autoscale policies in a whole autoscaler: workers come for what they want, and leave when they want it no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autoscaler.core.policy import Limits
from autoscaler.loop import Loop
from autoscaler.policies.asking import Policies
from autoscaler.policies.interface import AutoscalePolicy
from autoscaler.policies.registry import load
from autoscaler.policies.warm_buffer import WarmBuffer
from tests.simulated.autoscaler import POLICY, TAG, World, start, step
from tests.simulated.executor import at_once

ARRAY = replace(POLICY.node_arrays[0], limits=Limits(max_workers=4), scale_up_batch=4)
MORNING = {"COUNT": "2", "BEGIN": "07:30", "END": "08:00"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A Monday, 07:00."""
    world = World(tmp_path / "store.sqlite", policy=replace(POLICY, node_arrays=(ARRAY,)))
    world.clock.now = datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp()
    return world


def serve(world: World, policies: Mapping[str, AutoscalePolicy]) -> Loop:
    loop = start(world)
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
    """Pass after pass until this time; how many machines there were at the end of each minute."""
    seen: dict[str, int] = {}
    while clock(world) < until:
        step(world, loop)
        seen[clock(world)] = living(world)
    return seen


def test_spare_workers_wait_on_a_working_days_morning_and_leave_when_it_ends(world: World) -> None:
    seen = day(world, serve(world, warm_buffer()), "08:30")
    assert (seen["07:29"], seen["07:32"], seen["07:59"], seen["08:29"]) == (0, 2, 2, 0)


def test_jobs_get_workers_of_their_own_beside_the_buffer_within_the_limits(world: World) -> None:
    loop = serve(world, warm_buffer())
    day(world, loop, "07:35")
    world.cluster.submit(6, slots=1, seconds=240)
    seen = day(world, loop, "07:38")
    assert seen["07:37"] == 4


def test_on_a_holiday_nobody_waits(world: World) -> None:
    seen = day(world, serve(world, warm_buffer(HOLIDAYS="2026-11-23")), "07:40")
    assert set(seen.values()) == {0}


def test_what_a_policy_wanted_is_kept_over_a_restart(world: World) -> None:
    day(world, serve(world, warm_buffer()), "07:40")
    machines = world.cloud.living(TAG)
    seen = day(world, serve(world, warm_buffer()), "07:50")
    assert (set(seen.values()), world.cloud.living(TAG)) == ({2}, machines)


def test_workers_of_a_policy_that_fails_leave_a_few_minutes_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = serve(world, warm_buffer())
    day(world, loop, "07:40")
    monkeypatch.delattr(WarmBuffer, "_open")
    seen = day(world, loop, "07:50")
    assert (seen["07:43"], seen["07:49"]) == (2, 0)


def test_workers_of_a_policy_that_is_chosen_no_more_leave_at_once(world: World) -> None:
    day(world, serve(world, warm_buffer()), "07:40")
    seen = day(world, serve(world, {}), "07:45")
    assert seen["07:43"] == 0
