"""Rule 4: whatever a person disabled is never touched, whenever they did it."""

from __future__ import annotations

from pathlib import Path

from autoscaler.core.actions import Disable, Enable
from autoscaler.engine.loop import Loop
from tests.simulated.autoscaler import World, start, step


def until_planned(kind: type[Enable] | type[Disable], world: World, loop: Loop) -> str:
    """Pass after pass until an action of this kind; returns its host."""
    for _ in range(40):
        done = step(world, loop)
        for action in done.plan.actions if done else ():
            if isinstance(action, Enable | Disable) and isinstance(action, kind):
                return action.host
    raise AssertionError(f"no {kind.__name__} was planned")


def test_a_host_disabled_by_a_person_right_after_we_enabled_it_stays_disabled(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite")
    world.cluster.submit(1, seconds=30)
    loop = start(world)
    host = until_planned(Enable, world, loop)
    world.cluster.disabled.add(host)
    for _ in range(20):
        step(world, loop)
    loop.store.close()
    assert host in world.cluster.disabled


def test_a_host_enabled_by_a_person_right_after_we_disabled_it_is_not_disabled_again(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite")
    world.cluster.submit(1, seconds=30)
    loop = start(world)
    host = until_planned(Disable, world, loop)
    world.cluster.disabled.discard(host)
    step(world, loop)
    step(world, loop)
    loop.store.close()
    assert host not in world.cluster.disabled
