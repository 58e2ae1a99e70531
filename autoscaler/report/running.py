"""Running jobs as the last pass observed them: where, with how many slots, since when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.model.cluster import ExecutionHost, HostJob
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.blocks import Block
from autoscaler.report.wording import duration, few


def running_rows(snapshot: Snapshot, owner: str | None = None) -> list[dict[str, Any]]:
    """A row for each job or task that occupies hosts, in whatever state. `owner`: the only owner whose jobs are shown;
    None: all.
    """
    found: dict[tuple[int, str], list[tuple[ExecutionHost, HostJob]]] = {}
    for host in snapshot.cluster.hosts:
        for job in host.jobs:
            if owner is None or job.owner == owner:
                found.setdefault((job.number, job.task), []).append((host, job))
    return [_row(found[key], snapshot.now) for key in sorted(found, key=lambda key: (key[0], len(key[1]), key[1]))]


def _row(places: Sequence[tuple[ExecutionHost, HostJob]], now: float) -> dict[str, Any]:
    started = min((job.started for _, job in places if job.started is not None), default=None)
    first = places[0][1]
    return {
        "job": first.name,
        "owner": first.owner,
        "state": first.state,
        "slots": sum(job.slots for _, job in places),
        "hosts": sorted({host.name for host, _ in places}),
        "started_at": None if started is None else datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        "runs_s": None if started is None else round(max(now - started, 0.0), 3),
    }


def running_block(rows: Sequence[Mapping[str, Any]]) -> Block:
    cells = [
        (
            row["job"],
            row["owner"] or "-",
            row["state"],
            str(row["slots"]),
            "-" if row["runs_s"] is None else duration(row["runs_s"]),
            few(row["hosts"]),
        )
        for row in rows
    ]
    columns = ("running", "owner", "state", "slots", "runs", "hosts")
    return Block(columns=columns, rows=cells) if cells else Block(lines=["no job runs"])
