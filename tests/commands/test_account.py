"""Root's commands act as the account of the service: it must be able to read the program."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import autoscaler
from autoscaler.commands import doctor
from autoscaler.commands._account import program_files, unreadable_to
from autoscaler.process import SystemRunner
from autoscaler.sge.checks import Level
from tests.commands.test_commands import environ

__all__ = ["environ"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")
ACCOUNT = pwd.getpwnam("daemon")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """This program where only root may read it, as in root's home."""
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    for package in ("autoscaler", "providers", "sge"):
        shutil.copytree(Path(autoscaler.__file__).parents[1] / package, home / "lib" / package)
    home.chmod(0o700)
    return home / "lib"


@pytest.mark.parametrize("command", ("pause", "status", "run"))
def test_an_account_that_cannot_read_the_program_is_reported_without_a_traceback(
    program: Path, tmp_path: Path, environ: dict[str, str], command: str
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, ACCOUNT.pw_uid, ACCOUNT.pw_gid)
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o711)
    environ |= {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(program)}
    start = "import sys; from autoscaler.commands.main import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", start, command]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    assert "Traceback" not in done.stderr
    assert "the account daemon cannot read " in done.stderr
    assert done.returncode == 2


def test_the_first_file_that_an_account_cannot_read_is_found(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("")
    assert unreadable_to(ACCOUNT, ("/etc/passwd", str(closed / "file")), SystemRunner()) == str(closed / "file")
    assert unreadable_to(ACCOUNT, ("/etc/passwd", "/usr/bin/env"), SystemRunner()) is None


def test_doctor_reports_whether_the_account_of_the_unit_can_read_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "ACCOUNT", "daemon")
    (tmp_path / "closed").mkdir(mode=0o700)
    file = tmp_path / "closed" / "python"
    file.write_text("")
    monkeypatch.setattr(doctor, "program_files", lambda: (str(file),))
    (found,) = doctor.program_findings(SystemRunner())
    assert (found.level, str(file) in found.found, "/opt" in found.remedy) == (Level.FAIL, True, True)
    monkeypatch.setattr(doctor, "program_files", lambda: ("/usr/bin/env",))
    assert [each.level for each in doctor.program_findings(SystemRunner())] == [Level.OK]
    monkeypatch.setattr(doctor, "ACCOUNT", "nobody-of-that-name")
    assert doctor.program_findings(SystemRunner()) == ()


def test_every_program_file_that_is_checked_exists() -> None:
    found = program_files()
    assert {autoscaler.__file__, sys.executable} <= set(found)
    assert [path for path in found if not Path(path).exists()] == []


def test_another_distribution_with_our_import_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.name_findings() == ()
    other = tmp_path / "autoscaler-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: autoscaler\nVersion: 1.0\n")
    (other / "RECORD").write_text("autoscaler/__init__.py,,\nautoscaler-1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = doctor.name_findings()
    assert (found.level, found.found[:10]) == (Level.FAIL, "autoscaler")
    assert "pip uninstall autoscaler" in found.remedy
