"""What continuous integration runs: histories of other seeds each time, which it prints."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"


def run(folder: Path, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The run with this shell script in place of `make`."""
    program = folder / "make"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    path = f"{folder}:{os.environ.get('PATH', os.defpath)}"
    own = {name: value for name, value in os.environ.items() if name != "SOAK_SEED"}
    return subprocess.run([RUN], env={**own, "PATH": path, **environ}, capture_output=True, text=True, check=False)


def seeds(folder: Path, **environ: str) -> tuple[str, str]:
    """The seed that a run prints, and the one that the campaign gets; `make` only tells how it is called."""
    done = run(folder, 'echo "make $1 with $SOAK_SEED"', **environ)
    assert done.returncode == 0, done.stderr
    printed, given = re.search(r"from seed (\d+)", done.stdout), re.search(r"make soak with (\d+)", done.stdout)
    assert printed is not None, done.stdout
    assert given is not None, done.stdout
    return printed[1], given[1]


def test_each_run_plays_histories_of_other_seeds_and_prints_them(tmp_path: Path) -> None:
    found = [seeds(tmp_path) for _ in range(3)]
    assert all(printed == given for printed, given in found)
    assert len({printed for printed, _ in found}) > 1


def test_a_printed_seed_plays_the_same_histories_again(tmp_path: Path) -> None:
    assert seeds(tmp_path, SOAK_SEED="4711") == ("4711", "4711")


@pytest.mark.parametrize(("fails", "code"), (("soak", 0), ("test", 1), ("docs", 1)))
def test_a_history_that_breaks_a_rule_is_reported_and_only_tests_and_pages_make_a_run_fail(
    tmp_path: Path, fails: str, code: int
) -> None:
    done = run(tmp_path, f'test "$1" != {fails}')
    assert (done.returncode, "REPORTED, NOT COUNTED: histories" in done.stdout) == (code, fails == "soak")
