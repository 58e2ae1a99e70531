"""What a campaign on a real cell reads: journal and accounting; and the folder that is kept of a failed one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoscaler.lab.cell import Cell
from autoscaler.store.store import Store
from tests.grid_engine.autoscaling import Autoscaling
from tests.soak.findings import End, JournalAction

_HOST, _JOB, _START, _END, _FAILED, _TASK = 1, 5, 9, 10, 11, 35
"""Fields of a line of accounting(5)."""


def read_actions(scaling: Autoscaling) -> list[JournalAction]:
    """All actions of the journal, oldest first; none where there is no journal yet."""
    with contextlib.ExitStack() as stack:
        files = sorted(scaling.state.glob("*.sqlite"))
        if not files:
            return []
        store = Store.open(files[0])
        stack.callback(store.close)
        rows = store.database.rows(
            "SELECT at, kind, host, worker_id, action, result, message FROM actions JOIN plans ON plans.id = plan "
            "ORDER BY actions.id"
        )
        return [_action(row) for row in rows]


def _action(row: sqlite3.Row) -> JournalAction:
    action = json.loads(row["action"])
    jobs = tuple(str(job) for job in action.get("jobs", ()))
    code = str(action.get("reason", {}).get("code", ""))
    return JournalAction(
        row["at"], row["kind"], row["host"], row["worker_id"], jobs, code, row["result"], row["message"]
    )


def read_ends(file: Path) -> list[End]:
    """Every record of an accounting file; one that is not there yet holds none. A job that is no array has task 0."""
    if not file.exists():
        return []
    lines = (line.split(":") for line in file.read_text(errors="replace").splitlines() if not line.startswith("#"))
    return [_end(fields) for fields in lines if len(fields) > _TASK]


def _end(fields: list[str]) -> End:
    task = "undefined" if fields[_TASK] == "0" else fields[_TASK]
    times = float(fields[_START]), float(fields[_END])
    return End(fields[_JOB], task, fields[_HOST], *times, int(fields[_FAILED]))


@contextlib.contextmanager
def kept_if_it_fails(folder: Path, cell: Cell, scaling: Autoscaling) -> Iterator[dict[str, str]]:
    """Copies what explains a failure into `folder`, which an error names; one that passes leaves no folder.

    Yields texts by file name that are kept besides.
    """
    texts: dict[str, str] = {}
    try:
        yield texts
    except BaseException as error:
        _keep(folder, cell, scaling, texts)
        error.add_note(f"what it left is kept in {folder}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def folder_of(seed: int) -> Path:
    """Where the evidence of a failed campaign is kept: SOAK_EVIDENCE, or the temporary folder."""
    base = Path(os.environ.get("SOAK_EVIDENCE", tempfile.gettempdir()))
    return base / f"sge-autoscaler-soak-{seed}"


def _keep(folder: Path, cell: Cell, scaling: Autoscaling, texts: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    default = cell.root / "default"
    for name, source in (
        ("autoscaler.log", scaling.log),
        ("state", scaling.state),
        ("machines", Path(scaling.environment["CP_CAP_AUTOSCALE_LOCAL_STATE"])),
        ("accounting", default / "common" / "accounting"),
        ("qmaster-messages", default / "spool" / "qmaster" / "messages"),
        ("output", cell.output),
    ):
        with contextlib.suppress(OSError, shutil.Error):  # what was never made cannot be kept
            shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    journal = "\n".join(f"{action} {action.message}" for action in read_actions(scaling))
    for name, text in {"journal": journal, **texts}.items():
        (folder / name).write_text(text + "\n")
