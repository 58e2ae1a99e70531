"""Whatever prevents jobs from starting on new workers, launches become rare; if launches help, none is delayed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.actions import Launch
from autoscaler.core.limits.protected_mode import LONGEST_WAIT, REMEMBERED
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.snapshot import Plan
from autoscaler.store import encoding
from tests.core.building import NOW
from tests.properties.unhelpful_launches import BOOT, Cause, UnhelpfulLaunches
from tests.samples import examples

HOUR = 3600.0
CAUSES = (Cause.ALARM, Cause.CALENDAR, Cause.ERROR, Cause.NO_SLOTS, Cause.DIES)
HELD_BACK = {Code.LAUNCHES_DID_NOT_HELP, Code.LAUNCH_AWAITED, Code.PROTECTED_MODE}


@dataclass
class Restarted(UnhelpfulLaunches):
    """Every pass is a new process: only what the store keeps of its memory is left."""

    def decide(self) -> Plan:
        made = super().decide()
        self.memory = encoding.read(encoding.write(self.memory), Memory)
        assert self.memory == made.memory
        return made


def most(hours: float, deletions: int) -> int:
    """The first launch, one for each doubling of the wait, and one an hour; and one for each job deleted meanwhile:
    that is no failure.
    """
    return 2 + ceil(log2(LONGEST_WAIT / BOOT)) + ceil(hours) + deletions


@settings(max_examples=examples(12), deadline=None)
@given(
    slots=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    owners=st.lists(st.sampled_from(("ann", "bob")), min_size=4, max_size=4),
    causes=st.lists(st.sampled_from(CAUSES), min_size=1, max_size=4),
    poll=st.sampled_from((60.0, 90.0, 110.0)),
    deleted=st.sets(st.integers(0, 4), max_size=2),
)
def test_launches_for_a_category_are_few_if_none_helps(
    slots: list[int], owners: list[str], causes: list[Cause], poll: float, deleted: set[int]
) -> None:
    world = Restarted()
    for count, owner in zip(slots, owners, strict=False):
        world.ask(count, owner)
    for number, cause in enumerate(causes):
        world.cause = cause
        end = world.now + HOUR
        while world.now < end:
            world.step(poll)
        if number in deleted and world.waiting:
            gone = min(world.waiting)
            world.waiting.pop(gone)
            world.ask(slots[0], owners[0])
    keys = {key for launch in world.launched for key, _ in launch.assignment}
    bound = most(len(causes), len(deleted))
    assert all(world.launched_for(key) <= bound for key in keys), {key: world.launched_for(key) for key in keys}
    assert len(world.memory.trials) <= 4 + bound


@settings(max_examples=examples(12), deadline=None)
@given(
    arrivals=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 4), st.sampled_from(("ann", "bob"))), max_size=30),
    poll=st.sampled_from((10.0, 30.0)),
)
def test_no_launch_is_delayed_if_launches_help(arrivals: list[tuple[int, int, str]], poll: float) -> None:
    world = Restarted(cause=Cause.NONE)
    for number in range(60):
        for at, slots, owner in arrivals:
            if at == number:
                world.ask(slots, owner)
        world.step(poll)
    reported = {code for made in world.plans for code in codes(made)}
    assert not reported & HELD_BACK
    assert not any(array.categories for array in world.memory.protected.values())


def codes(made: Plan) -> set[Code]:
    launches = [action.reason for action in made.actions if isinstance(action, Launch)]
    reasons = [*made.notes, *launches, *(category.reason for category in made.job_categories)]
    return {code for reason in reasons for code in _codes(reason)}


def _codes(reason: Reason) -> set[Code]:
    return {reason.code}.union(*map(_codes, reason.trail))


@pytest.mark.thorough
def test_many_categories_neither_fill_memory_nor_cause_launch_after_launch() -> None:
    world = Restarted(cause=Cause.ALARM)
    for _ in range(REMEMBERED + 10):
        world.ask(1)
    distinct(world)
    while world.now < NOW + 3 * HOUR:
        world.step(110.0)
    assert len(world.launched) <= 4 + most(3, 0)
    assert sum(len(array.categories) for array in world.memory.protected.values()) <= REMEMBERED
    grown = replace(world.memory, able_since={}, details={}, launches=(), removals=(), unsatisfiable_jobs={})
    assert len(encoding.write(grown)) - len(encoding.write(Memory())) < 60_000


def distinct(world: UnhelpfulLaunches) -> None:
    """Every job requests an amount of memory of its own."""
    job_categories = world._job_categories

    def asking() -> list[object]:
        return [
            replace(category, ask=replace(category.ask, hard=(("mem_free", f"{category.jobs[0]}M"),)))
            for category in job_categories()
        ]

    world._job_categories = asking  # type: ignore[method-assign,assignment]
