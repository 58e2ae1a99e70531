"""The demo leaves nothing behind, however it ends; `make demo` itself shows that it plays both examples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.lab import cell_folder
from autoscaler.lab.cell import Cell
from tests.grid_engine.waiting import Until
from tests.samples import sample

ARGV = (sys.executable, "-m", "autoscaler.commands.main", "demo")


@contextmanager
def a_demo() -> Iterator[tuple[subprocess.Popen[str], set[Path]]]:
    """A demo that has submitted its jobs, and the places of cells that came with it."""
    before = set(cell_folder.folder().iterdir())
    demo = subprocess.Popen(ARGV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            if "launching 1 m5.large" in line:
                break
        yield demo, set(cell_folder.folder().iterdir()) - before
    finally:
        demo.kill()
        demo.stdout.close()
        demo.wait()


def processes_in(places: set[Path]) -> list[str]:
    """Command lines of processes that name one of these places."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = file.read_bytes() + (file.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if any(str(place).encode() in words for place in places):
            found.append(words.decode(errors="replace")[:80])
    return found


@pytest.mark.parametrize("number", sample((signal.SIGINT, signal.SIGTERM, signal.SIGKILL), signal.SIGKILL))
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, until: Until) -> None:
    with a_demo() as (demo, places):
        mine = {place for place in places if _holds(place, demo.pid)} or places
        os.kill(demo.pid, number)
        until(lambda: demo.poll() is not None, 15, "the demo ended")
        until(lambda: not any(place.exists() for place in mine), 15, "its place was removed")
        until(lambda: processes_in(mine) == [], 15, "its last process ended")


@pytest.mark.thorough
def test_temporary_folders_of_a_demo_are_inside_its_cell_folder() -> None:
    """Jobs' folders and programs' temporary ones, so that they go with the place even after SIGKILL."""
    with a_demo() as (demo, places):
        cell = Cell.at(next(place for place in places if _holds(place, demo.pid)))
        queue = dict(line.split(None, 1) for line in cell.out("qconf", "-sq", "main.q").splitlines())
        written = (queue["tmpdir"], cell.out("sh", "-c", "echo $TMPDIR"))
        assert [Path(path.strip()).is_relative_to(cell.directory) for path in written] == [True, True]


def _holds(place: Path, pid: int) -> bool:
    return any(str(place) in str(link.resolve()) for link in Path(f"/proc/{pid}/fd").iterdir())
