"""One autoscaler a cell, and a tag that no two cells share."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.errors import LockHeld, SettingsError
from autoscaler.store.identity import FILE, cell_tag
from autoscaler.store.lock import CellKey, Holder, _lives, held, hold, running
from autoscaler.strict_modes import exposure

KEY = CellKey("master", 6444, "default", "/opt/sge")
HOLDER = """
import sys, time
from pathlib import Path
from autoscaler.store.lock import CellKey, hold
with hold(CellKey("master", 6444, "default", "/opt/sge"), Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_autoscaler_is_refused_with_the_holder_of_the_lock(tmp_path: Path) -> None:
    with hold(KEY, tmp_path), pytest.raises(LockHeld, match=f"process {os.getpid()} on "), hold(KEY, tmp_path):
        pass


def test_a_lock_does_not_affect_another_cell(tmp_path: Path) -> None:
    with hold(KEY, tmp_path), hold(replace(KEY, root="/srv/other"), tmp_path):
        assert held(KEY, tmp_path)


def test_a_refusal_says_so_where_nothing_names_the_holder(tmp_path: Path) -> None:
    with hold(KEY, tmp_path):
        (tmp_path / f"sge-autoscaler-{KEY.slug}.holder").unlink()
        words = r"another autoscaler serves cell default of master:6444; its lock file does not name it"
        with pytest.raises(LockHeld, match=words), hold(KEY, tmp_path):
            pass


def test_a_link_at_the_place_of_the_holder_note_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"sge-autoscaler-{KEY.slug}.holder").symlink_to(victim)
    with hold(KEY, tmp_path):
        assert victim.read_text() == "precious"


def test_the_lock_is_released_after_its_block(tmp_path: Path) -> None:
    with hold(KEY, tmp_path):
        assert held(KEY, tmp_path)
    assert not held(KEY, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
def test_after_a_clean_end_other_users_see_no_running_autoscaler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(tempfile.mkdtemp(dir="/run"))  # every user can reach it
    directory.chmod(0o755)
    monkeypatch.setattr("autoscaler.store.lock.LOCKS", directory)
    monkeypatch.setattr("autoscaler.store.lock.lock_directory", lambda: directory)
    try:
        with hold(KEY, directory, state="/state"):
            during = as_nobody(lambda: running(KEY))
        after = as_nobody(lambda: running(KEY))
    finally:
        shutil.rmtree(directory)
    assert (during is not None, after) == (True, None)


def as_nobody(ask: Callable[[], Holder | None]) -> Holder | None:
    os.setresuid(65534, 65534, 0)
    try:
        return ask()
    finally:
        os.setresuid(0, 0, 0)


def test_the_death_of_the_holder_releases_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before = held(KEY, tmp_path)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert (before, held(KEY, tmp_path)) == (True, False)


NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@as_root
def test_a_lock_file_of_another_user_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / f"sge-autoscaler-{KEY.slug}.lock"
    path.touch()
    os.chown(path, NOBODY, -1)
    with pytest.raises(SettingsError, match=rf"chown root {path}"), hold(KEY, tmp_path):
        pass


def test_a_lock_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks").chmod(0o777)
    with pytest.raises(SettingsError, match=rf"chmod o-w {tmp_path}/locks"), hold(KEY, tmp_path / "locks"):
        pass


def test_a_link_at_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / f"sge-autoscaler-{KEY.slug}.lock").symlink_to(victim)
    with pytest.raises(SettingsError, match="cannot lock"), hold(KEY, tmp_path):
        pass
    assert not victim.exists()


def test_a_lock_file_deleted_while_being_locked_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"sge-autoscaler-{KEY.slug}.lock"
    taken: list[int] = []

    def delete_the_first(descriptor: int, operation: int, real: Callable[[int, int], None] = fcntl.flock) -> None:
        if not taken:
            path.unlink()
        taken.append(descriptor)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", delete_the_first)
    with hold(KEY, tmp_path):
        monkeypatch.undo()
        assert (len(taken), held(KEY, tmp_path)) == (2, True)


def test_the_lock_directory_is_created_writable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with hold(KEY, tmp_path / "run" / "lock"):
            mode = (tmp_path / "run" / "lock").stat().st_mode & 0o777
    finally:
        os.umask(before)
    assert mode == 0o755


@as_root
def test_the_lock_directory_of_root_is_not_writable_by_others() -> None:
    """On a machine as it is installed, without the fixtures of these tests."""
    code = "from autoscaler.store.lock import lock_directory; print(lock_directory())"
    output = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True, timeout=30).stdout
    assert exposure(Path(output.strip())) is None
    assert not any(each.stat().st_mode & 0o022 for each in Path(output.strip()).parents if each.exists())


def test_a_tag_is_created_once_and_stored_beside_the_cell(tmp_path: Path) -> None:
    assert cell_tag(KEY, tmp_path, make=True) == cell_tag(KEY, tmp_path, make=True)


def test_two_cells_with_the_same_names_have_different_tags(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert cell_tag(KEY, tmp_path / "a", make=True) != cell_tag(KEY, tmp_path / "b", make=True)


def test_reading_creates_no_tag(tmp_path: Path) -> None:
    cell_tag(KEY, tmp_path, make=False)
    assert not (tmp_path / FILE).exists()


def test_a_damaged_tag_is_an_error_not_another_tag(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("\n")
    with pytest.raises(SettingsError, match="contains no tag"):
        cell_tag(KEY, tmp_path, make=True)


def test_a_holder_lives_as_long_as_its_process() -> None:
    with subprocess.Popen(("sleep", "600")) as process:
        there = _lives(Holder(process.pid, "", 0.0))
        process.kill()
    assert (there, _lives(Holder(process.pid, "", 0.0)), _lives(Holder(os.getpid(), "", 0.0))) == (True, False, True)
