"""`sge-autoscaler explain JOB|HOST`: why a job waits or does not count, why a worker stays or leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoscaler.commands._look import as_json, from_record, look, print_json, reading_store
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound

if TYPE_CHECKING:
    from autoscaler.core.snapshot import Snapshot
    from autoscaler.report.explain import Ended
    from autoscaler.store.history import Explanation
    from autoscaler.store.journal import OrderRecord
    from autoscaler.store.store import Store

_JOB = re.compile(r"(\d+)(?:\.(\d+))?")


@click.command("explain")
@click.argument("subject", metavar="JOB|HOST")
@from_record
@as_json
@click.pass_obj
def command(invocation: Invocation, subject: str, record: Path | None, as_json: bool) -> None:
    """Explain a job (by number) or a host (by name or worker id).

    A waiting job: whether it counts, why it waits, which launch may serve it. A worker: why it stays or what is done
    with it. The reason is followed by what led to it and by what you can do. Jobs and workers that are gone are looked
    up in the history, which is kept for 30 days.
    """
    from autoscaler.report.explain import gone_lines, host_lines, job_lines

    found = _JOB.fullmatch(subject)
    if found:
        told = _job(invocation, int(found[1]), found[2], record)
        lines = job_lines(told)
    else:
        told = _host(invocation, subject, record)
        lines = gone_lines(told) if told.get("verdict") is None else host_lines(told)
    if as_json:
        print_json(told)
        return
    for line in lines:
        click.echo(line)


def _job(invocation: Invocation, job: int, task: str | None, record: Path | None) -> dict[str, Any]:
    from autoscaler.report.explain import Past, explain_job, explain_past

    seen = look(invocation, record)
    if record is not None:
        told = explain_job(seen.snapshot, seen.plan, job, seen.zone)
        if told is None:
            raise NotFound(f"job {job} neither waits nor runs in {record}")
        return _of_task(told, job, task)
    ended = _ends(invocation, job)
    with reading_store(invocation, lenient=True) as store:
        done, last = store.journal.outcomes_of_job(job), store.history.explanation(job)
        past = Past(last, _launched(store, seen.snapshot, last, ended), ended)
    told = explain_job(seen.snapshot, seen.plan, job, seen.zone, done, past) or explain_past(job, past, done, seen.zone)
    if told is None:
        raise NotFound(
            f"job {job} neither waits nor runs, was never seen waiting in the last 30 days, and no accounting "
            "tells of it"
        )
    return _of_task(told, job, task)


def _ends(invocation: Invocation, job: int) -> tuple[Ended, ...]:
    from autoscaler.report.explain import Ended
    from sge.accounting import read_ends

    try:
        found = read_ends(invocation.common / "accounting", job)
    except OSError as error:
        click.echo(f"{error.filename} cannot be read: {error.strerror}", err=True)
        return ()
    return tuple(
        Ended(
            task=str(end.task) if end.task else "",
            queue=end.queue,
            host=end.host,
            slots=end.slots,
            submitted_at=end.submitted_at,
            started_at=end.started_at,
            ended_at=end.ended_at,
            how=end.how,
        )
        for end in found
    )


def _launched(
    store: Store, snapshot: Snapshot, last: Explanation | None, ended: Sequence[Ended]
) -> tuple[OrderRecord, ...]:
    """Orders that were made for its category while it waited."""
    from autoscaler.core.demand.categories import category_key
    from autoscaler.core.demand.job_requests import RequestReader
    from autoscaler.core.model.reasons import Reason

    if last is None:
        return ()
    read = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(last.verdict.ask)
    if isinstance(read, Reason):
        return ()
    key, since = category_key(read.demand), last.at - last.verdict.waited - 1.0
    until = max((end.started_at for end in ended if end.started_at is not None), default=float("inf"))
    return tuple(
        order
        for order in store.journal.orders(since)
        if key in dict(order.assignment) and since <= order.ordered_at <= until
    )


def _of_task(told: dict[str, Any], job: int, task: str | None) -> dict[str, Any]:
    """Of one task of an array only what is its own. Raises NotFound where the job has no such task."""
    from autoscaler.core.model.complexes import has_task

    if task is None:
        return told
    waiting = [row for row in told["waiting"] if has_task(str(row["jobs"][0]).partition(".")[2], int(task))]
    running = [run for run in told["running"] if run["task"] == task]
    ended = [end for end in told["ended"] if end["task"] == task]
    if not (waiting or running or ended):
        raise NotFound(f"job {job} has no task {task} that waits, runs or is in the accounting")
    state = "waiting" if waiting else "running" if running else "ended"
    return told | {"job": f"{job}.{task}", "state": state, "waiting": waiting, "running": running, "ended": ended}


def _host(invocation: Invocation, name: str, record: Path | None) -> dict[str, Any]:
    from autoscaler.report.explain import explain_gone, explain_host

    seen = look(invocation, record)
    told = explain_host(seen.snapshot, seen.plan, name, seen.zone)
    if told is not None:
        return told
    if record is not None:
        raise NotFound(f"{name} is no worker or host in {record}")
    with reading_store(invocation) as store:
        lives = [life for life in store.history.lifetimes() if name in (life.worker_id, life.name)]
    if not lives:
        raise NotFound(f"{name} is no host of Grid Engine and was no worker of ours in the last 30 days")
    return explain_gone(lives[-1], seen.snapshot.now)
