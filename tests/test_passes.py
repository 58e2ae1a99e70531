"""Whole passes in a simulated world: what people wish, what is lost, and that an unchanged world is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.policy import Brake, Policy
from autoscaler.store.wishes import Verb
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, settle, start, step
from tests.simulated.cluster import ended_once


def world_of(directory: Path, *, policy: Policy = POLICY) -> World:
    return World(directory / "store.sqlite", policy=policy)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path)


def test_ten_jobs_come_and_go_with_their_workers(world: World) -> None:
    world.cluster.submit(10, seconds=30)
    loop = start(world)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop)) == (True, [])


def test_an_unchanged_world_is_left_alone(world: World) -> None:
    world.cluster.submit(2, seconds=1000)
    loop = start(world)
    for _ in range(8):
        step(world, loop)
    assert [step(world, loop).plan.actions for _ in range(3)] == [(), (), ()]  # type: ignore[union-attr]


def test_a_paused_autoscaler_launches_nothing(world: World) -> None:
    world.cluster.submit(2)
    loop = start(world)
    loop.store.wishes.ask(Verb.PAUSE, who="ann", at=world.clock.now)
    for _ in range(3):
        step(world, loop)
    assert world.cloud.machines == {}


def test_a_drained_worker_leaves_after_its_job_and_not_before(world: World) -> None:
    world.cluster.submit(1, seconds=100)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    loop.store.wishes.ask(Verb.DRAIN, who="ann", at=world.clock.now, host="fake-1")
    step(world, loop)
    running = world.cluster.jobs[0].host
    settle(world, loop)
    step(world, loop)
    assert (running, left_over(world, loop), loop.store.wishes.in_force()) == ("fake-1", [], ())


def test_a_kept_worker_stays_however_idle_it_is(world: World) -> None:
    world.cluster.submit(1, seconds=5)
    loop = start(world)
    for _ in range(4):
        step(world, loop)
    loop.store.wishes.ask(Verb.KEEP, who="ann", at=world.clock.now, host="fake-1")
    for _ in range(20):
        step(world, loop)
    assert [machine.name for machine in world.cloud.living(TAG)] == ["fake-1"]


def test_stopping_releases_all_when_their_jobs_have_ended(world: World) -> None:
    world.cluster.submit(2, seconds=60)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    loop.store.wishes.ask(Verb.STOP_NOW, who="ann", at=world.clock.now)
    world.cluster.submit(5, seconds=60)
    for _ in range(20):
        step(world, loop)
    assert ([job.ended for job in world.cluster.jobs[:2]], left_over(world, loop), loop._released()) == (
        [True, True],
        [],
        True,
    )


def test_the_brake_holds_until_a_person_resumes(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy=replace(POLICY, brake=Brake(window=600.0, max_launches=1)))
    world.cluster.submit(4, seconds=60)
    loop = start(world)
    for _ in range(3):
        step(world, loop)
    braked = len(world.cloud.machines)
    loop.store.wishes.resume(who="ann", at=world.clock.now)
    loop.observer.policy = POLICY
    settle(world, loop)
    assert (braked, ended_once(world.cluster.jobs), left_over(world, loop)) == (0, True, [])


def test_what_pressed_the_brake_presses_it_no_more_after_a_person_resumed(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy=replace(POLICY, brake=Brake(window=600.0, max_launches=2)))
    world.cluster.submit(4, seconds=20)
    loop = start(world)
    for _ in range(8):
        step(world, loop)
    loop.observer.policy = replace(POLICY, brake=Brake(window=600.0, max_launches=1))
    pressed = step(world, loop)
    loop.store.wishes.resume(who="ann", at=world.clock.now)
    released = step(world, loop)
    assert pressed is not None
    assert released is not None
    assert (pressed.plan.memory.brake is None, released.plan.memory.brake) == (False, None)


def test_with_the_store_lost_workers_are_found_by_their_tag_and_nothing_is_hurt(world: World) -> None:
    world.cluster.submit(4, seconds=60)
    loop = start(world)
    for _ in range(6):
        step(world, loop)
    loop.store.close()
    world.store_file.unlink()
    loop = start(world)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop), len(world.cloud.machines)) == (True, [], 2)


def test_an_outage_of_the_queue_master_changes_nothing(world: World) -> None:
    world.cluster.submit(2, seconds=300)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    before = (loop.store.memory.load(), dict(world.cluster.slots), list(world.cloud.machines))
    world.cluster.unobservable = 10
    for _ in range(10):
        step(world, loop)
    assert (loop.store.memory.load(), dict(world.cluster.slots), list(world.cloud.machines)) == before
