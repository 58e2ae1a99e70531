"""Tests on a real cell are spread evenly among the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.order import spread


@dataclass(frozen=True)
class One:
    path: Path
    number: int


def of(file: str, count: int) -> list[One]:
    return [One(Path(file), number) for number in range(count)]


def test_cell_tests_are_spread_evenly_without_dividing_files() -> None:
    computing, waiting = [*of("a", 4), *of("b", 2), *of("c", 6)], of("cell", 6)
    found = "".join("-" if one in waiting else one.path.name for one in spread(waiting, computing))
    assert found == "aaaa--bb-cccccc---"


def test_each_kind_keeps_its_order_and_no_test_is_lost() -> None:
    computing, waiting = [*of("a", 3), *of("b", 7)], of("cell", 40)
    found = spread(waiting, computing)
    assert [one for one in found if one in waiting] == waiting
    assert [one for one in found if one in computing] == computing


def test_tests_of_one_kind_are_not_reordered() -> None:
    assert (spread(of("cell", 3), []), spread([], of("a", 3))) == (of("cell", 3), of("a", 3))
