"""Files are written where others may write, too: no link of theirs is followed, no file of ours overwritten."""

from __future__ import annotations

import ast
import os
import pwd
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

import autoscaler
from autoscaler.commands._settings_file import write_settings
from autoscaler.commands._shim import SCRIPT, Repo, prepare_image
from autoscaler.commands.main import main
from autoscaler.commands.support import write_archive
from autoscaler.errors import SettingsError
from autoscaler.new_folder import new_folder, write_file

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


# -- one file ------------------------------------------------------------------------------------------------------


def test_a_file_is_for_its_owner_alone_or_as_asked_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_file(tmp_path / "own", b"1")
        write_file(tmp_path / "shown", b"2", mode=0o644)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("own", "shown")] == [0o600, 0o644]


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(theirs: Path, ours: Path) -> None:
    plant(theirs / "page.html", ours / "qstat.xml")
    write_file(theirs / "page.html", b"new", mode=0o644)
    assert (ours / "qstat.xml").read_text() == "ours"
    assert not (theirs / "page.html").is_symlink()


def test_a_file_that_must_be_new_is_never_written_through_a_link(theirs: Path, ours: Path) -> None:
    plant(theirs / "a.toml", ours / "made")
    with pytest.raises(FileExistsError):
        write_file(theirs / "a.toml", b"new", replace=False)
    assert sorted(ours.iterdir()) == [ours / "qstat.xml"]


def test_a_link_of_another_user_on_the_way_to_a_file_is_not_followed(theirs: Path, ours: Path) -> None:
    plant(theirs / "way", ours)
    with pytest.raises(OSError, match="a link of another user"):
        write_file(theirs / "way" / "qstat.xml", b"new")
    assert (ours / "qstat.xml").read_text() == "ours"


def test_directories_are_made_only_if_asked_and_an_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        write_file(tmp_path / "missing" / "a", b"1")
    write_file(tmp_path / "missing" / "a", b"1", make=True)
    assert (tmp_path / "missing" / "a").read_bytes() == b"1"


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "a", b"1")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


# -- the commands that write where others may -------------------------------------------------------------------------


def test_init_writes_its_settings_through_no_planted_link(theirs: Path, ours: Path) -> None:
    plant(theirs / ".a.toml.draft", ours / "qstat.xml")
    answers = {"provider": "local", "types": "m5.large", "workers": "2", "idle": "60"}
    write_settings(theirs / "a.toml", answers, lambda question, _: question.found, {})
    assert (ours / "qstat.xml").read_text() == "ours"
    assert "m5.large" in (theirs / "a.toml").read_text()


def test_the_shim_is_written_through_no_planted_link(theirs: Path, ours: Path) -> None:
    (theirs / "scripts").mkdir()
    (theirs / "scripts" / SCRIPT).write_text("platform")
    for name in (SCRIPT, "autoscale_grid_engine_platform.py", "sge_setup_master"):
        for folder in (theirs, theirs / "scripts"):
            plant(folder / f".{name}.{os.getpid()}", ours / "qstat.xml")
    Repo(theirs).install()
    prepare_image(theirs)
    assert (ours / "qstat.xml").read_text() == "ours"
    assert stat.S_IMODE((ours / "qstat.xml").stat().st_mode) == stat.S_IMODE(0o666 & ~umask())
    assert Repo(theirs).up_to_date


def umask() -> int:
    os.umask(now := os.umask(0o022))
    return now


def test_an_archive_for_a_bug_report_goes_through_no_link_of_others(theirs: Path, ours: Path) -> None:
    plant(theirs / "way", ours)
    with pytest.raises(SettingsError, match="a link of another user"):
        write_archive(theirs / "way", {"a": b"1"}, datetime(2026, 1, 2, tzinfo=UTC))
    assert sorted(ours.iterdir()) == [ours / "qstat.xml"]
    made = write_archive(theirs / "new", {"a": b"1"}, datetime(2026, 1, 2, tzinfo=UTC))
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_what_others_could_exchange_meanwhile_is_not_converted(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = theirs / "old.toml"
    settings.write_text("")
    record = theirs / "record"
    record.mkdir()
    (record / "qstat.xml").write_text("")
    for path in (settings, record):
        assert main(["convert", str(path)]) == SettingsError.exit_code
        assert "as its owner, or a copy" in capsys.readouterr().err


_WRITES = {"write_text", "write_bytes", "touch", "mkstemp", "chmod", "chown", "copy", "copy2", "copyfile"}
_ALLOWED = {
    ("_conversion.py", "chmod"),  # `convert` refuses what others could exchange
    ("_conversion.py", "chown"),
    ("_conversion.py", "touch"),
    ("_conversion.py", "write_text"),
    ("_settings_file.py", "write_text"),  # in a folder of its own
    ("_shim.py", "copy2"),  # to a name that nobody knows before
    ("config.py", "write_text"),  # pages of a checkout
    ("jetpack.py", "chmod"),  # in the environment of our own Python
    ("jetpack.py", "write_text"),
}


def test_commands_write_files_in_one_place() -> None:
    """By a name alone, whoever may write in the directory leads us elsewhere between two calls."""
    found = set()
    for path in (Path(autoscaler.__file__).parent / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
                opens = node.func.attr == "open" and any(mode in ("w", "a", "wb", "ab", "w:gz") for mode in modes)
                if node.func.attr in _WRITES or (opens and not node.keywords):
                    found.add((path.name, node.func.attr))
    assert found == _ALLOWED
