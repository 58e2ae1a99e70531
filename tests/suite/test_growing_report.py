"""A killed run has named its failures so far, on its output and in a readable JUnit file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.deadlines import wait_for

ROOT = Path(__file__).parents[2]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests import growing_report

def pytest_addoption(parser):
    growing_report.add_options(parser)

def pytest_configure(config):
    growing_report.register(config)
"""
TESTS = r"""
import os, time, pytest

def test_good():
    pass

def test_bad():
    assert "<&\x01" == "]]>", "\x02 no text"

@pytest.fixture
def broken():
    raise ValueError("no such host")

def test_in_need(broken):
    pass

@pytest.mark.skip(reason="not today")
def test_left_out():
    pass

@pytest.fixture
def leaves_late():
    yield
    raise OSError("left behind")

def test_that_leaves_something(leaves_late):
    pass

def test_that_hangs():
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    time.sleep(600 if os.environ.get("HANG") else 0)
"""
FAILED = ("test_bad", "test_in_need", "test_that_leaves_something")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def started(folder: Path, *more: str, **environ: str) -> subprocess.Popen[str]:
    """Without plugins but xdist: importing them would take longer than all else."""
    alone = ("-p", "no:cacheprovider", "-p", "xdist")
    argv = (sys.executable, "-m", "pytest", "-q", *alone, "--growing-junit=told/junit.xml", *more)
    quick = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ = {**os.environ, **quick, **environ}
    with (folder / "output").open("w") as output:
        return subprocess.Popen(argv, cwd=folder, env=environ, stdout=output, stderr=output, text=True)


def outcomes(folder: Path) -> dict[str, list[str]]:
    """By test of the file, the elements reported for it."""
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(folder / "told" / "junit.xml").getroot().iter("testcase"):
        found.setdefault(case.attrib["name"], []).extend(each.tag for each in case)
    return found


def hangs(folder: Path) -> bool:
    """Whether all tests before the one that hangs are reported."""
    try:
        known = outcomes(folder)
    except (FileNotFoundError, ElementTree.ParseError):
        return False  # not created yet, or without a complete head; read strictly after the kill
    return "error" in known.get("test_that_leaves_something", ()) and FAILED[-1] in (folder / "output").read_text()


@pytest.mark.parametrize("workers", ("0", "1"))
def test_a_killed_run_has_named_its_failures_so_far(folder: Path, workers: str) -> None:
    run = started(folder, "-n", workers, HANG="yes")
    try:
        assert wait_for(lambda: hangs(folder), 30), (folder / "output").read_text()
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(120)
    assert "test_that_leaves_something" in outcomes(folder)
    lines = (folder / "output").read_text().splitlines()
    named = [line for line in lines if line.startswith("FAILED")]
    assert [line.split()[1].partition("::")[2] for line in named] == list(FAILED)
    assert named[1].endswith("ValueError: no such host")


@pytest.mark.thorough
def test_a_crash_of_a_worker_is_named_and_another_worker_continues(folder: Path) -> None:
    run = started(folder, "-n", "2", DIE="yes")
    assert run.wait(300) == 1
    lines = (folder / "output").read_text().splitlines()
    (named,) = (line for line in lines if line.startswith("FAILED") and "test_that_hangs after" in line)
    assert "crashed while running" in named
    known = outcomes(folder)
    assert known["test_that_hangs"] == ["failure"]
    assert {"test_good", "test_left_out", *FAILED} <= known.keys()


def test_the_junit_file_has_failures_errors_and_skips(folder: Path) -> None:
    assert started(folder).wait(300) == 1
    assert outcomes(folder) == {
        "test_good": [],
        "test_bad": ["failure"],
        "test_in_need": ["error"],
        "test_left_out": ["skipped"],
        "test_that_leaves_something": ["error"],
        "test_that_hangs": [],
    }


def test_the_file_of_an_earlier_run_is_replaced_and_keeps_its_inode(folder: Path) -> None:
    file = folder / "told" / "junit.xml"
    file.parent.mkdir()
    file.write_text("x" * 100_000)
    before = file.stat().st_ino
    started(folder, "-k", "good").wait(300)
    assert (outcomes(folder), file.stat().st_ino) == ({"test_good": []}, before)
