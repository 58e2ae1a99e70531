"""What every test run shares: whether a real cell can run here, checked once, and Hypothesis without deadlines."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from autoscaler import garbage, namespaces
from autoscaler.store import lock
from autoscaler.store.store import Store
from tests import growing_report, samples
from tests.order import spread

# Before any test module imports it: its assertions are rewritten like those of a test module.
pytest.register_assert_rewrite("autoscaler.providers.contract")

PROGRAMS = ("sge_qmaster", "sge_execd", "qconf", "qsub")
"""Grid Engine's, of which Debian's packages put some where only root's PATH looks."""

# A parent that runs us in the background may ignore Ctrl-C, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no defect: no deadline. Root leaves no example database in the checkout of another user.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    **({"database": None} if "SUDO_UID" in os.environ else {}),
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
# Continuous integration tries the same examples each time, and with FRESH_EXAMPLES others.
settings.load_profile("ci" if os.environ.get("CI") and not os.environ.get("FRESH_EXAMPLES") else "default")


@functools.cache
def cell_obstacle() -> str | None:
    """Why tests marked `cell` cannot run here; None where they can."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    missing = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    if missing:
        return f"Grid Engine's {', '.join(missing)} not installed: run `make setup`"
    return namespaces.probe()


@pytest.fixture(autouse=True)
def _locks_of_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test uses the lock directory of this machine's own autoscaler, nor leaves files there."""
    directory = tmp_path_factory.getbasetemp() / "locks"
    directory.mkdir(exist_ok=True)
    monkeypatch.setattr(lock, "LOCKS", directory)


@pytest.fixture
def empty_store(tmp_path: Path) -> Iterator[Store]:
    """`store.sqlite` in the test's own folder."""
    made = Store.open(tmp_path / "store.sqlite")
    yield made
    made.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    growing_report.add_options(parser)
    parser.addoption(
        "--thorough", action="store_true", help="also what a sample of is tested otherwise (marker thorough)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--thorough"):
        os.environ[samples.THOROUGH] = "yes"
    garbage.collect_rarely()  # a third of the time of collecting tests was garbage collection
    growing_report.register(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Once a run, not once a test."""
    obstacle = cell_obstacle()
    cell = "real cell: yes" if obstacle is None else f"real cell: no, its tests do not run: {obstacle}"
    thorough = config.getoption("--thorough")
    return [cell, "thorough: yes" if thorough else "thorough: no, samples stand for what is marked so (--thorough)"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--thorough` a test with that marker does not run: another test proves the same with a sample."""
    if not config.getoption("--thorough"):
        left = [item for item in items if item.get_closest_marker("thorough") is not None]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item.get_closest_marker("thorough") is None]
    # After those that give the marker: tests/grid_engine/conftest.py.
    waiting = [item for item in items if item.get_closest_marker("cell") is not None]
    items[:] = spread(waiting, [item for item in items if item.get_closest_marker("cell") is None])


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the garbage collector need not visit them again."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a cell is skipped where none can be had, and fails there when CI is set."""
    if item.get_closest_marker("cell") is None or cell_obstacle() is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, and a real cell cannot be had: {cell_obstacle()}", pytrace=False)
    pytest.skip(f"no real cell: {cell_obstacle()}")
