"""One real cell for each test worker, put back to its beginning before every test that uses it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import AutoscalerError
from autoscaler.lab.cell import Cell
from tests.grid_engine.waiting import Shown, Until, wait_until

HERE = Path(__file__).parent
SHOWN_ON_FAILURE = (("qstat", "-f", "-u", "*"), ("qhost", "-q"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cell)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After a failure the state of the cell is added to the report, before the next test resets the cell."""
    report = yield
    arguments: dict[str, Any] = getattr(item, "funcargs", {})
    cell = arguments.get("cell", arguments.get("empty_cell"))
    if report.when == "call" and report.failed and isinstance(cell, Cell):
        for argv in SHOWN_ON_FAILURE:
            report.sections.append((" ".join(argv), _shown(cell, argv)))
        for title, show in arguments.get("show_on_failure", {}).items():
            report.sections.append((title, show()))
    return report


@pytest.fixture(scope="session")
def cell_session() -> Iterator[Cell]:
    """The cell of this test worker: master and two persistent hosts of 2 slots each, as the test before left it."""
    with Cell.up(hosts=2, scheduler={"schedule_interval": "0:0:1"}) as cell:
        yield cell


@pytest.fixture
def cell(cell_session: Cell) -> Cell:
    """The worker's cell as just started: no jobs, workers or settings; job numbers start at 1."""
    cell_session.reset()
    return cell_session


@pytest.fixture
def empty_cell(cell_session: Cell) -> Cell:
    """The worker's cell with no persistent host at all, where every slot must be rented."""
    hostless = replace(cell_session, declared=())
    hostless.reset()
    return hostless


@pytest.fixture
def until() -> Until:
    """`until(condition, deadline, message)`: its first truthy result, or a failure that shows the last."""
    return wait_until


@pytest.fixture
def show_on_failure() -> Shown:
    """A hook: titles and functions whose text is added to a failure's report, such as an autoscaler's journal."""
    return {}


def _shown(cell: Cell, argv: tuple[str, ...]) -> str:
    try:
        return cell.out(*argv)
    except AutoscalerError as error:
        return str(error)
