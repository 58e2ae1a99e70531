"""`support` collects what a bug report needs from a running cell, and nothing that names anybody."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until

ALWAYS = {"versions.txt", "settings.json", "doctor.txt", "status.json", "passes.txt", "log.txt", "record/qstat.xml"}


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        members = {member.name.partition("/")[2]: opened.extractfile(member) for member in opened.getmembers()}
        return {name: file.read().decode() for name, file in members.items() if file is not None}


def test_the_archive_has_all_parts_and_no_names_or_secrets(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    cell = empty_cell
    logs = cell.home / "logs"
    logs.mkdir()
    scaling = Autoscaling(
        cell, {"CP_CAP_AUTOSCALE_LOGDIR": str(logs), "CP_CAP_AUTOSCALE_LOGIN": f"{cell.home}/hunter22"}
    )
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = cell.submit("-N", "merger", "-b", "y", "sleep", "600")
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 60)
        unasked = scaling.command("support", str(cell.home / "unasked"))
        done = scaling.command("support", "--yes", str(cell.home / "given"))
    assert (unasked.returncode != 0, (cell.home / "unasked").exists()) == (True, False), "it asks first"
    assert b"record/qstat.xml" in unasked.stdout, "and says what it would write"
    assert done.returncode == 0, done.stderr.decode()
    (archive,) = (cell.home / "given").iterdir()
    found = contents(archive)
    assert found.keys() >= ALWAYS, found.get("missing.txt")
    assert archive.stat().st_mode & 0o077 == 0
    assert json.loads(found["settings.json"])["settings"]
    assert "pydantic" in found["versions.txt"]
    assert "enabling" in found["log.txt"]
    for name in ("merger", "hunter22", worker, str(cell.home)):
        assert [file for file, text in found.items() if name in text] == [], name
