"""Restarting and reimaging machines as callers ask: only where no job can be, once, and told truly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.act.operate import Operator
from autoscaler.core.fleet import InstanceType, MachineState, Worker
from autoscaler.core.life import Life
from autoscaler.store.looks import LastLook, SeenWorker
from autoscaler.store.store import Store
from providers.fake import FakeCloud, FakeProvider, FakeSettings
from providers.interface import Refused
from tests.simulated.executor import at_once

INTERVAL = 15.0
MACHINE = Worker("i-1", InstanceType("m5.large", "m5", 2, 8 << 30), "execute", MachineState.RUNNING, 1.0, "w1")
CLOSED = SeenWorker(MACHINE, Life.DISABLED_BY_HAND, "w1", closed=True)
OPEN = SeenWorker(MACHINE, Life.IN_SERVICE, "w1")


class Operating(FakeProvider):
    """A provider that knows further verbs."""

    refuses = ""

    def __init__(self) -> None:
        super().__init__(FakeSettings(), cell="cell", cloud=FakeCloud())
        self.operated: list[tuple[str, str]] = []

    def operate(self, worker_id: str, verb: str) -> None:
        if self.refuses:
            raise Refused(self.refuses)
        self.operated.append((worker_id, verb))


@dataclass
class Scene:
    """A restart that was asked for, and the loop's part of it."""

    store: Store = field(default_factory=lambda: Store.open(None))
    provider: Operating = field(default_factory=Operating)

    def __post_init__(self) -> None:
        self.store.verbs.ask("restart", "i-1", at=0.0, who="anna")
        self.again()

    def again(self) -> None:
        """Another process in the place of the one that was."""
        self.operator = Operator(self.store, self.provider, lambda: 0.0, at_once)

    def looks(self, *seen: SeenWorker, apart: float = INTERVAL) -> str:
        """So many looks; what the verb came to by then."""
        for number, each in enumerate(seen):
            self.operator.carry_on(LastLook("fake", workers=(each,)), number * apart, INTERVAL)
        return self.store.verbs.last("i-1")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_machine_is_restarted_once_two_looks_showed_it_closed(scene: Scene) -> None:
    assert (scene.looks(CLOSED, CLOSED, CLOSED), scene.provider.operated) == ("done", [("i-1", "restart")])


@pytest.mark.parametrize("looks", ((CLOSED,), (CLOSED, OPEN), (OPEN,), (CLOSED, replace(CLOSED, closed=False))))
def test_nothing_is_done_where_a_job_may_be(scene: Scene, looks: Sequence[SeenWorker]) -> None:
    scene.looks(*looks)
    assert scene.provider.operated == []


def test_two_looks_too_close_together_are_one(scene: Scene) -> None:
    scene.looks(CLOSED, CLOSED, apart=1.0)
    assert scene.provider.operated == []


def test_what_is_open_again_is_told_and_not_tried_later(scene: Scene) -> None:
    told = scene.looks(CLOSED, OPEN, CLOSED, CLOSED)
    assert (told, scene.provider.operated) == ("not done: it is not disabled and empty any more", [])


def test_a_refusal_is_told_in_the_providers_words(scene: Scene) -> None:
    scene.provider.refuses = "no such node"
    assert scene.looks(CLOSED, CLOSED) == "not done: no such node"


def test_what_was_begun_when_the_process_died_is_not_begun_again(scene: Scene) -> None:
    (asked,) = scene.store.verbs.open()
    scene.store.verbs.begin(asked, 1.0)
    scene.again()
    assert (scene.looks(CLOSED, CLOSED), scene.provider.operated) == ("interrupted: it may have been done, or not", [])


def test_one_verb_at_a_time_is_taken_for_a_machine(scene: Scene) -> None:
    before = scene.store.verbs.ask("reimage", "i-1", at=1.0, who="anna")
    scene.looks(CLOSED, CLOSED)
    assert (before, scene.store.verbs.ask("reimage", "i-1", at=1.0, who="anna")) == (False, True)
