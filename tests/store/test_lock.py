"""One autoscaler a cell, and a tag that no two cells share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.errors import LockHeld, SettingsError
from autoscaler.store.identity import FILE, cell_tag
from autoscaler.store.lock import CellKey, held, hold

KEY = CellKey("master", 6444, "default", "/opt/sge")
HOLDER = """
import sys, time
from pathlib import Path
from autoscaler.store.lock import CellKey, hold
with hold(CellKey("master", 6444, "default", "/opt/sge"), Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_autoscaler_is_refused_and_told_who_holds_the_cell(tmp_path: Path) -> None:
    with hold(KEY, tmp_path), pytest.raises(LockHeld, match=f"process {os.getpid()} on "), hold(KEY, tmp_path):
        pass


def test_another_cell_is_not_kept_away(tmp_path: Path) -> None:
    with hold(KEY, tmp_path), hold(replace(KEY, root="/srv/other"), tmp_path):
        assert held(KEY, tmp_path)


def test_a_link_left_in_a_directory_of_everybodys_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"sge-autoscaler-{KEY.slug}.holder").symlink_to(victim)
    with hold(KEY, tmp_path):
        assert victim.read_text() == "precious"


def test_the_lock_is_free_after_its_block(tmp_path: Path) -> None:
    with hold(KEY, tmp_path):
        pass
    assert not held(KEY, tmp_path)


def test_the_holders_death_releases_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before = held(KEY, tmp_path)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert (before, held(KEY, tmp_path)) == (True, False)


def test_a_tag_is_made_once_and_kept_beside_the_cell(tmp_path: Path) -> None:
    assert cell_tag(KEY, tmp_path, make=True) == cell_tag(KEY, tmp_path, make=True)


def test_two_cells_with_the_same_names_have_different_tags(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert cell_tag(KEY, tmp_path / "a", make=True) != cell_tag(KEY, tmp_path / "b", make=True)


def test_looking_makes_no_tag(tmp_path: Path) -> None:
    cell_tag(KEY, tmp_path, make=False)
    assert not (tmp_path / FILE).exists()


def test_a_damaged_tag_is_an_error_not_another_tag(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("\n")
    with pytest.raises(SettingsError, match="contains no tag"):
        cell_tag(KEY, tmp_path, make=True)
