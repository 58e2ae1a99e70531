"""Root squashed by the file server of `common/`: it may write there no more than any other user.

Stands in for NFS with `root_squash`: root without the capabilities that let it pass over owner and mode, and a
`common/` of Grid Engine's admin user. Both refuse by the same error (EACCES), whatever would write.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Completed
from autoscaler.store.identity import FILE
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until

SQUASHED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner,-chown", "--")
ADMIN = pwd.getpwnam("sgeadmin").pw_uid
"""Grid Engine's admin user."""


@pytest.fixture
def common(empty_cell: Cell) -> Iterator[Path]:
    """`common/`, which is the admin user's alone."""
    place = empty_cell.root / "default" / "common"
    (place / FILE).unlink(missing_ok=True)
    owner = place.stat()
    os.chown(place, ADMIN, -1)
    place.chmod(0o755)
    yield place
    os.chown(place, owner.st_uid, owner.st_gid)
    shutil.rmtree(place / "sge-autoscaler", ignore_errors=True)
    (place / FILE).unlink(missing_ok=True)


def command(scaling: Autoscaling, *words: str) -> Completed:
    """`sge-autoscaler WORDS` as such a root."""
    return scaling.cell.runner((*SQUASHED, "sge-autoscaler", *words), timeout=300.0, env=scaling.environment)


def test_squashed_root_may_not_write_in_common(empty_cell: Cell, common: Path) -> None:
    tried = empty_cell.runner((*SQUASHED, "touch", str(common / "probe")), timeout=60.0)
    assert (b"Permission denied" in tried.stderr, (common / "probe").exists()) == (True, False)


@pytest.mark.thorough
def test_a_job_runs_on_a_worker_though_root_may_not_write_in_common(
    empty_cell: Cell, common: Path, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "-j", "y", "hostname")
    scaling.log.touch()
    running = empty_cell.start((*SQUASHED, "sge-autoscaler", "run"), env=scaling.environment, output=scaling.log)
    try:
        until(lambda: "exit_status  0" in empty_cell.runner(("qacct", "-j", job), timeout=60.0).stdout.decode(), 60)
        until(lambda: "terminating" in scaling.log.read_text(), 60)
        ends = {words: command(scaling, *words) for words in (("status",), ("plan",), ("workers",), ("pause",))}
    finally:
        running.terminate(30.0)
    assert {words: (done.returncode, done.stderr) for words, done in ends.items() if done.returncode} == {}
    assert not (common / FILE).exists()
    assert "Traceback" not in scaling.log.read_text()


@pytest.mark.thorough
def test_init_creates_the_queue_and_refuses_the_verifier_until_its_folder_exists(
    empty_cell: Cell, common: Path
) -> None:
    scaling = Autoscaling(empty_cell)
    before = {path.name for path in common.iterdir()}
    assert command(scaling, "init", "--yes").returncode == 0
    refused = command(scaling, "init", "--yes", "--jsv")
    text = refused.stderr.decode()
    assert (refused.returncode, "Traceback" in text, str(common) in text) == (1, False, True), text
    shown = command(scaling, "doctor").stdout.decode()
    assert "Traceback" not in shown
    (common / "sge-autoscaler").mkdir()
    os.chown(common / "sge-autoscaler", 0, -1)
    taken = command(scaling, "init", "--yes", "--jsv")
    assert taken.returncode == 0, taken.stderr.decode()
    assert {path.name for path in common.iterdir() if path.stat().st_uid == 0} <= {"sge-autoscaler", *before}
