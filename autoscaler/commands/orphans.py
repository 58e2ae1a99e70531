"""`sge-autoscaler orphans`: machines with our tag that no pass manages; a person ends them one at a time."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autoscaler.commands._observation import from_record, observe
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.core.actions import Terminate
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.recovery.orphans import Orphan, find_orphans
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.end_orphan import EndOrphanContext, end_orphan
from autoscaler.engine.record import read_record
from autoscaler.errors import AutoscalerError, NotFound, WriteRefused
from autoscaler.report import SCHEMA
from autoscaler.report.document import reason_part
from autoscaler.report.tables import print_orphans
from autoscaler.sge.admin import Administrator
from autoscaler.store.journal import Result
from autoscaler.store.store import Store


@click.command("orphans")
@from_record
@json_option
@click.option("--end", "which", metavar="ID", help="Terminate this machine: its id or host name.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool, which: str | None, yes: bool) -> None:
    """List machines that carry our tag but that no pass manages; end one of them.

    The command never ends a machine that runs jobs: it disables the host, observes it again, and removes it from
    Grid Engine, which refuses while anything is on the host. Only then it terminates the machine.
    """
    if which is not None and record is not None:
        raise click.UsageError("--from only shows machines: leave it out to end one")
    snapshot = observe(invocation).snapshot if record is None else read_record(record)
    orphans = find_orphans(snapshot)
    if which is not None:
        orphans = (_named(orphans, which),)
    rows = [_row(orphan, snapshot, invocation) for orphan in orphans]
    if as_json:
        print_json({"schema": SCHEMA, "now": _time(snapshot.now, invocation), "orphans": rows})
    else:
        print_orphans(rows)
    if which is not None:
        if not yes:
            click.confirm(f"end {orphans[0].worker.id}?", abort=True, err=True)
        with exit_at_signals():
            _end(orphans[0], snapshot, invocation)
        echo(f"terminated {orphans[0].worker.id}", err=as_json)


@contextlib.contextmanager
def exit_at_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command like Ctrl-C: it enables again what it has disabled. Main thread only."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _named(orphans: tuple[Orphan, ...], which: str) -> Orphan:
    found = [orphan for orphan in orphans if which in (orphan.worker.id, orphan.worker.name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(orphan.worker.id for orphan in orphans) or "none"
    raise NotFound(f"{which} is {'more than one orphan' if found else 'no orphan'}; by id they are: {known}")


def _end(orphan: Orphan, snapshot: Snapshot, invocation: Invocation) -> None:
    process = invocation.settings.process
    if process.dry_run:
        raise WriteRefused("a dry run terminates nothing: unset CP_CAP_AUTOSCALE_DRY_RUN")

    def observe_again() -> Orphan | None:
        time.sleep(snapshot.cluster.schedule_interval)
        later = find_orphans(observe(invocation).snapshot)
        return next((one for one in later if one.worker.id == orphan.worker.id), None)

    grid_engine = Administrator(invocation.runner, timeout=process.grid_engine_timeout)
    action = Terminate(orphan.worker.id, orphan.host, because(Code.ORPHAN_ENDED, by=invocation.who).then(orphan.reason))
    with invocation.store() as store:
        (journalled,) = store.journal.begin(
            (action,), pass_number=snapshot.memory.passes, at=time.time(), new_id=lambda: ""
        )
        try:
            end_orphan(orphan, EndOrphanContext(grid_engine, invocation.as_running.provider(), observe_again))
        except AutoscalerError as error:
            _journal(store, journalled.id, Result.FAILED, str(error))
            raise
        _journal(store, journalled.id, Result.DONE, "")


def _journal(store: Store, number: int, result: Result, message: str) -> None:
    store.journal.end(number, result, message, time.time())


def _row(orphan: Orphan, snapshot: Snapshot, invocation: Invocation) -> dict[str, Any]:
    worker = orphan.worker
    return {
        "id": worker.id,
        "name": worker.name,
        "host": orphan.host,
        "busy": orphan.busy,
        "instance_type": worker.type.name,
        "node_array": worker.node_array,
        "state": worker.state.value,
        "price_per_hour": worker.price_per_hour,
        "currency": snapshot.policy.currency,
        "created_at": _time(worker.created_at, invocation),
        "age_s": round(snapshot.now - worker.created_at, 3),
        "message": worker.message,
        "reason": reason_part(orphan.reason),
    }


def _time(moment: float, invocation: Invocation) -> str:
    return datetime.fromtimestamp(moment, UTC).astimezone(invocation.zone).isoformat()
