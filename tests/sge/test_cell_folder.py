"""A cell's folder is removed when its owner is gone, and never if another cell has taken it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.lab import cell_folder, cell_remover


@contextmanager
def owned(place: Path) -> Iterator[None]:
    """A cell folder that its remover watches until the end of the block."""
    place.mkdir(parents=True)
    argv = (sys.executable, "-I", "-S", cell_remover.__file__, str(place))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as remover:
        assert remover.stdout is not None
        remover.stdout.readline()
        yield


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all cells, used by this test only."""
    monkeypatch.setattr(cell_folder, "folder", lambda: tmp_path)
    return tmp_path


def test_a_cell_folder_and_its_empty_parents_are_removed_with_the_owner(tmp_path: Path) -> None:
    with owned(tmp_path / "base/cells/cell-1"):
        assert [each.name for each in (tmp_path / "base/cells").iterdir()] == ["cell-1"]
    assert list(tmp_path.iterdir()) == []


def test_the_mount_point_of_machines_is_removed_with_the_last_cell(tmp_path: Path) -> None:
    with owned(tmp_path / "base/cells/cell-1"):
        (tmp_path / "base/worker").mkdir()
        with owned(tmp_path / "base/cells/cell-2"):
            pass
        while_one_lives = (tmp_path / "base/worker").exists()
    assert (while_one_lives, list(tmp_path.iterdir())) == (True, [])


def test_a_new_cell_folder_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "base/cells/cell-1"
    with owned(place):
        shutil.rmtree(place)
        place.mkdir()
        (place / "owner").touch()
    assert (place / "owner").exists()


def test_a_cell_folder_without_an_owner_is_swept(cells: Path) -> None:
    (cells / "cell-1").mkdir()
    (cells / "cell-1/owner").touch()
    assert cell_folder.sweep() == ["cell-1"]


def test_a_cell_folder_that_is_being_created_is_not_swept(cells: Path) -> None:
    (cells / "cell-1").mkdir()
    (cells / "cell-1/owner.new").touch()
    assert cell_folder.sweep() == []


def test_a_claimed_cell_folder_is_not_swept(cells: Path) -> None:
    with cell_folder.claim():
        assert cell_folder.sweep() == []
