"""Objects of a group are found and removed in Grid Engine, whichever command failed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from autoscaler.errors import AutoscalerError, CommandTimedOut
from autoscaler.process import Completed, only_reads
from autoscaler.sge.admin import Administrator
from autoscaler.sge.groups import Groups
from tests.soak.cell import Cell
from tests.soak.jobs import GROUPED
from tests.soak.processes import Processes

GROUP = "execute:4-1"


@dataclass
class FailingGridEngine:
    """A Grid Engine in memory where one change times out, after it took effect or without effect."""

    failing: int = 0
    happened: bool = False
    changes: int = 0
    cell: Cell = field(
        default_factory=lambda: Cell(
            lambda: 0.0, lambda _: True, lambda _: False, Processes(lambda _: None, lambda _: True), grouped=True
        )
    )

    def __post_init__(self) -> None:
        self.groups = Groups(Administrator(self))

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        words = tuple(argv)
        if not only_reads(words):
            self.changes += 1
        if only_reads(words) or self.changes != self.failing:
            return self.cell(words, timeout=timeout)
        if self.happened:
            self.cell(words, timeout=timeout)
        raise CommandTimedOut(f"{words[0]} did not end within {timeout:g} s")

    def prepare(self) -> None:
        self.groups.prepare(GROUP, queue="main.q", host_group="@allhosts", pes=(GROUPED,))

    def member(self, switch: str) -> None:
        """The group gets a host, or loses it."""
        self.cell(("qconf", switch, "hostgroup", "hostlist", "w1", "@sge-autoscaler-execute_4-1"), timeout=1.0)

    def left(self) -> list[str]:
        assert self.cell.groups is not None
        return self.cell.groups.left()


def tried(change: Callable[[], object]) -> bool:
    """Whether it succeeded."""
    try:
        change()
    except AutoscalerError:
        return False
    return True


@pytest.mark.parametrize("happened", (False, True))
@pytest.mark.parametrize("failing", (1, 2, 3, 4))
def test_a_group_whose_creation_failed_is_swept(failing: int, happened: bool) -> None:
    cell = FailingGridEngine(happened=happened)
    cell.groups.sweep()
    cell.failing = failing

    assert not tried(cell.prepare)

    assert not cell.groups.swept
    assert cell.groups.sweep() == ()
    assert (cell.left(), cell.groups.swept) == ([], True)


@pytest.mark.parametrize("happened", (False, True))
@pytest.mark.parametrize("failing", (1, 2, 3))
def test_a_group_whose_removal_failed_is_swept(failing: int, happened: bool) -> None:
    cell = FailingGridEngine(happened=happened)
    cell.prepare()
    cell.member("-aattr")
    cell.groups.sweep()
    cell.member("-dattr")
    cell.failing = cell.changes + failing

    assert not tried(lambda: cell.groups.clear(GROUP))

    assert not cell.groups.swept
    assert cell.groups.sweep() == ()
    assert (cell.left(), cell.groups.swept) == ([], True)


def test_a_group_with_a_host_is_not_swept() -> None:
    cell = FailingGridEngine()
    cell.prepare()
    cell.member("-aattr")

    cell.groups.sweep()

    assert cell.groups.swept
    assert "@sge-autoscaler-execute_4-1" in cell.left()
