"""What Grid Engine has of a group is found and taken away, wherever a command before went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from autoscaler.errors import AutoscalerError, CommandTimedOut
from autoscaler.process import Completed, only_reads
from sge.admin import Administrator
from sge.groups import Groups
from tests.soak.cell import Cell
from tests.soak.jobs import GROUPED
from tests.soak.processes import Processes

GROUP = "execute:4-1"


@dataclass
class Bench:
    """A Grid Engine in memory of which one change does not end: it did not happen, or did."""

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
        """The group gets a host, or has it no more."""
        self.cell(("qconf", switch, "hostgroup", "hostlist", "w1", "@sge-autoscaler-execute_4-1"), timeout=1.0)

    def left(self) -> list[str]:
        assert self.cell.groups is not None
        return self.cell.groups.left()


def tried(change: Callable[[], object]) -> bool:
    """Whether it went well."""
    try:
        change()
    except AutoscalerError:
        return False
    return True


@pytest.mark.parametrize("happened", (False, True))
@pytest.mark.parametrize("failing", (1, 2, 3, 4))
def test_a_group_whose_making_went_wrong_is_known_to_be_left_and_swept_away(failing: int, happened: bool) -> None:
    bench = Bench(happened=happened)
    bench.groups.sweep()
    bench.failing = failing

    assert not tried(bench.prepare)

    assert not bench.groups.swept
    assert bench.groups.sweep() == ()
    assert (bench.left(), bench.groups.swept) == ([], True)


@pytest.mark.parametrize("happened", (False, True))
@pytest.mark.parametrize("failing", (1, 2, 3))
def test_a_group_whose_clearing_went_wrong_is_known_to_be_left_and_swept_away(failing: int, happened: bool) -> None:
    bench = Bench(happened=happened)
    bench.prepare()
    bench.member("-aattr")
    bench.groups.sweep()
    bench.member("-dattr")
    bench.failing = bench.changes + failing

    assert not tried(lambda: bench.groups.clear(GROUP))

    assert not bench.groups.swept
    assert bench.groups.sweep() == ()
    assert (bench.left(), bench.groups.swept) == ([], True)


def test_a_group_with_a_host_is_not_swept_away() -> None:
    bench = Bench()
    bench.prepare()
    bench.member("-aattr")

    bench.groups.sweep()

    assert bench.groups.swept
    assert "@sge-autoscaler-execute_4-1" in bench.left()
