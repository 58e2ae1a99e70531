"""A state that cannot be kept ends with a code that the unit restarts, with the remedy of its cause; a file that was
removed under a running service is written anew.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoscaler.core.model.memory import Memory
from autoscaler.errors import MAKE_ROOM, WRITABLE, LockHeld, SettingsError, StateNotKept, StateReplaced
from autoscaler.store.database import Role
from autoscaler.store.identity import cell_secret
from autoscaler.store.overrides import Verb
from autoscaler.store.state_place import DAMAGED, SCARCE, remedy_of, state_problems
from autoscaler.store.store import Store

CONF = Path(__file__).parents[2] / "conf"
ROOMY = {"f_flag": 0, "f_bavail": SCARCE, "f_frsize": 4096, "f_files": 10, "f_favail": 5}


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "cell.sqlite"


def file_system(monkeypatch: pytest.MonkeyPatch, **changed: int) -> None:
    """The file system that the state is on."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{**ROOMY, **changed}))


def kept(path: Path, passes: int = 7) -> Store:
    store = Store.open(path)
    store.memory.save(Memory(passes=passes), 1.0)
    return store


@pytest.mark.parametrize("unit", ("sge-autoscaler.service", "sge-autoscaler-serve.service"))
def test_the_units_start_again_after_a_state_that_could_not_be_kept(unit: str) -> None:
    config = configparser.ConfigParser(strict=False, interpolation=None)
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(CONF / unit)
    service = config["Service"]
    assert service["Restart"] == "on-failure"
    never = set(map(int, service["RestartPreventExitStatus"].split()))
    assert (SettingsError.exit_code in never, {StateNotKept.exit_code, LockHeld.exit_code} & never) == (True, set())
    assert StateNotKept.exit_code not in {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("damage", ("no database", "overwritten"))
def test_a_damaged_file_is_told_with_its_own_remedy(store_file: Path, damage: str) -> None:
    kept(store_file).close()
    data = store_file.read_bytes()
    store_file.write_bytes(b"x" * len(data) if damage == "no database" else data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(StateNotKept, match="damaged: move it away"):
        kept(store_file)
    (problem,) = state_problems(store_file)
    assert (problem.remedy, problem.fatal) == (DAMAGED, True)


def test_a_sound_place_has_no_problem(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file_system(monkeypatch)
    assert state_problems(store_file) == []
    store = kept(store_file)
    assert state_problems(store_file) == []
    store.close()


@pytest.mark.parametrize(
    ("changed", "remedy", "fatal"),
    (
        ({"f_flag": os.ST_RDONLY}, WRITABLE, True),
        ({"f_bavail": 0}, MAKE_ROOM, True),
        ({"f_favail": 0}, MAKE_ROOM, True),
        ({"f_bavail": SCARCE // 8192}, MAKE_ROOM, False),
    ),
    ids=("read-only", "full", "without inodes", "nearly full"),
)
def test_a_place_that_cannot_keep_state_is_told(
    store_file: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], remedy: str, fatal: bool
) -> None:
    file_system(monkeypatch, **changed)
    (problem,) = state_problems(store_file)
    assert (problem.remedy, problem.fatal) == (remedy, fatal)


@pytest.mark.parametrize(
    ("number", "remedy"), ((errno.ENOSPC, MAKE_ROOM), (errno.EDQUOT, MAKE_ROOM), (errno.EROFS, WRITABLE))
)
def test_the_remedy_is_that_of_the_error(store_file: Path, number: int, remedy: str) -> None:
    assert remedy_of(store_file, OSError(number, os.strerror(number))) == remedy


@pytest.mark.parametrize("number", (errno.ENOSPC, errno.EROFS, errno.EDQUOT))
def test_a_secret_that_cannot_be_made_is_no_wrong_setting(
    store_file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    store_file.parent.mkdir()
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StateNotKept, match="secret"):
        cell_secret(store_file)


# -- removed or replaced while it is open ----------------------------------------------------------------------------


@pytest.mark.parametrize("whole", (True, False), ids=("the directory too", "its files"))
@pytest.mark.parametrize("role", (Role.OWNER, Role.SHARED))
def test_a_file_that_was_removed_is_written_anew(store_file: Path, role: Role, whole: bool) -> None:
    store = kept(store_file, passes=7)
    store.database.role = role
    if whole:
        shutil.rmtree(store_file.parent)
    else:
        for file in store_file.parent.iterdir():
            file.unlink()
    store.overrides.ask(Verb.PAUSE, who="anna", at=2.0)
    assert (store.memory.load().passes, store_file.stat().st_mode & 0o777) == (7, 0o600)
    again = Store.open(store_file)
    assert (again.memory.load().passes, again.overrides.load().paused) == (7, True)
    store.memory.save(Memory(passes=8), 3.0)
    store.close()
    assert again.memory.load().passes == 8
    again.close()
    assert sorted(file.name for file in store_file.parent.iterdir()) == [store_file.name]


def test_a_guest_leaves_that_to_the_owner_and_follows_it(store_file: Path) -> None:
    owner, guest = kept(store_file), Store.open(store_file)
    owner.database.role, guest.database.role = Role.OWNER, Role.GUEST
    store_file.unlink()
    guest.overrides.ask(Verb.PAUSE, who="anna", at=2.0)
    assert not store_file.exists()
    owner.memory.save(Memory(passes=8), 3.0)
    guest.overrides.ask(Verb.STOP_DRAIN, who="ben", at=4.0)
    assert (owner.overrides.load().paused_by, owner.overrides.load().stop) == ("anna", "drain")
    assert guest.memory.load().passes == 8


def test_the_owner_does_not_go_on_with_another_file(store_file: Path) -> None:
    owner = kept(store_file, passes=7)
    owner.database.role = Role.OWNER
    replace_by(store_file, passes=100)
    with pytest.raises(StateReplaced, match="start anew"):
        owner.memory.save(Memory(passes=8), 3.0)
    owner.close()
    assert kept_passes(store_file) == 100


def replace_by(path: Path, passes: int) -> None:
    """Put another state in the place of one that is open, as a person does who restores a copy."""
    for file in list(path.parent.iterdir()):
        file.unlink()
    kept(path, passes).close()


def kept_passes(path: Path) -> int:
    store = Store.open(path)
    try:
        return store.memory.load().passes
    finally:
        store.close()


def test_another_file_is_used_by_those_that_share_it(store_file: Path) -> None:
    store = kept(store_file, passes=7)
    replace_by(store_file, passes=100)
    store.overrides.ask(Verb.PAUSE, who="anna", at=2.0)
    assert store.memory.load().passes == 100


def test_a_file_that_cannot_be_written_anew_is_told(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kept(store_file)
    store_file.unlink()

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as changing:
        changing.setattr(os, "open", full)
        with pytest.raises(StateNotKept, match=r"was removed while it was in use.*make room there"):
            store.memory.save(Memory(passes=8), 3.0)
    store.memory.save(Memory(passes=8), 3.0)
    store.close()
    assert kept_passes(store_file) == 8


@pytest.mark.parametrize("change", ("ALTER TABLE passes RENAME COLUMN at TO moment", "DROP TABLE passes"))
def test_a_file_with_other_tables_is_no_fault_of_the_disk(store_file: Path, change: str) -> None:
    kept(store_file).close()
    with contextlib.closing(sqlite3.connect(store_file)) as connection:
        connection.execute(change)
        connection.commit()
    store = Store.open(store_file)
    with pytest.raises(StateNotKept, match=r"cannot be used: .*its tables are not those of this version") as raised:
        store.history.add_pass(1, 1.0, "pass 1", {})
    assert "dmesg" not in str(raised.value)
    store.close()
