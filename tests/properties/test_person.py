"""Rule 4: whatever a person disabled is never touched, whenever they did it."""

from __future__ import annotations

from pathlib import Path

from autoscaler.core.actions import Enable
from tests.simulated.autoscaler import World, start, step


def test_a_host_disabled_by_a_person_right_after_we_enabled_it_stays_disabled(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite")
    world.cluster.submit(1, seconds=30)
    loop = start(world)
    for _ in range(20):
        done = step(world, loop)
        if done is not None and any(isinstance(action, Enable) for action in done.plan.actions):
            break
    (host,) = world.cluster.workers
    world.cluster.disabled.add(host)
    for _ in range(20):
        step(world, loop)
    loop.store.close()
    assert host in world.cluster.disabled
