"""A folder of new files is written where others may write, too: no link of theirs is followed, no file overwritten."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from autoscaler.new_folder import new_folder

MALLORY = pwd.getpwnam("daemon").pw_uid


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A directory of ours with a file that must stay as it is."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "qstat.xml").write_text("ours")
    return tmp_path / "ours"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory of another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's directory")
    made = tmp_path / "theirs"
    made.mkdir(mode=0o777)
    os.chown(made, MALLORY, -1)
    return made


def plant(link: Path, target: Path) -> None:
    link.symlink_to(target)
    os.lchown(link, MALLORY, -1)


def write(path: Path) -> None:
    with new_folder(path) as folder:
        folder.write("qconf/sc.txt", b"new")
        folder.write("qstat.xml", b"new")


def test_missing_directories_are_made_and_a_link_of_our_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link" / "a" / ".." / "b" / "c")
    assert (tmp_path / "real" / "b" / "c" / "qconf" / "sc.txt").read_text() == "new"


def test_a_link_of_another_user_on_the_way_is_not_followed(theirs: Path, ours: Path) -> None:
    plant(theirs / "way", ours)
    with pytest.raises(OSError, match="a link of another user"):
        write(theirs / "way" / "record")
    assert sorted(ours.iterdir()) == [ours / "qstat.xml"]


def test_a_link_in_the_place_of_the_folder_is_not_followed(theirs: Path, ours: Path) -> None:
    plant(theirs / "record", ours)
    with pytest.raises(OSError, match="a link of another user"):
        write(theirs / "record")


def test_a_folder_of_another_user_is_refused(theirs: Path) -> None:
    (theirs / "record").mkdir()
    os.chown(theirs / "record", MALLORY, -1)
    with pytest.raises(PermissionError, match="another user"):
        write(theirs / "record")


def test_a_folder_exchanged_for_a_link_while_it_is_written_leads_nowhere(theirs: Path, ours: Path) -> None:
    with new_folder(theirs / "record") as folder:
        (theirs / "record").rename(theirs / "away")
        plant(theirs / "record", ours)
        folder.write("qstat.xml", b"new")
    assert (ours / "qstat.xml").read_text() == "ours"
    assert (theirs / "away" / "qstat.xml").read_text() == "new"


def test_a_link_in_the_place_of_a_file_or_a_directory_in_it_is_not_followed(theirs: Path, ours: Path) -> None:
    with new_folder(theirs / "record") as folder:
        plant(theirs / "record" / "qconf", ours)
        plant(theirs / "record" / "qstat.xml", ours / "qstat.xml")
        with pytest.raises(OSError, match=r"directory|symbolic"):
            folder.write("qconf/qstat.xml", b"new")
        with pytest.raises(FileExistsError):
            folder.write("qstat.xml", b"new")
    assert (ours / "qstat.xml").read_text() == "ours"
