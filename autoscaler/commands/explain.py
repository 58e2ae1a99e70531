"""`sge-autoscaler explain JOB|HOST`: why a job waits or does not count, why a worker stays or leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._observation import (
    ObservedPlan,
    as_json,
    from_record,
    observe_and_plan,
    print_json,
    reading_store,
)
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound
from autoscaler.plain_text import plain

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

    For a waiting job it shows whether the job counts as demand, why it waits, and which launch may serve it. For a
    worker it shows why the worker stays, or what the autoscaler does with it. Below the reason stand its causes and
    what you can do. Jobs and workers that are gone are found in the history of the last 30 days.
    """
    from autoscaler.report.explain import gone_lines, host_lines, job_lines

    found = _JOB.fullmatch(subject)
    if found:
        document = _job(invocation, int(found[1]), found[2], record)
        lines = job_lines(document)
    else:
        document = _host(invocation, subject, record)
        lines = gone_lines(document) if document.get("verdict") is None else host_lines(document)
    if as_json:
        print_json(document)
        return
    for line in lines:
        echo(plain(line))


def _job(invocation: Invocation, job: int, task: str | None, record: Path | None) -> dict[str, Any]:
    from autoscaler.report.explain import Past, explain_job, explain_past

    seen = observe_and_plan(invocation, record)
    if record is not None:
        document = explain_job(seen.snapshot, seen.plan, job, seen.zone)
        if document is None:
            raise NotFound(f"job {job} neither waits nor runs in {record}{_unless(seen)}")
        return _of_task(document, job, task)
    ended = _ends(invocation, job)
    with reading_store(invocation, lenient=True) as store:
        done, last = store.journal.outcomes_of_job(job), store.history.explanation(job)
        past = Past(last, _launched(store, seen.snapshot, last, ended), ended)
    document = explain_job(seen.snapshot, seen.plan, job, seen.zone, done, past) or explain_past(
        job, past, done, seen.zone
    )
    if document is None:
        raise NotFound(
            f"job {job} neither waits nor runs, did not wait in the last 30 days, and is not in the accounting file"
            f"{_unless(seen)}"
        )
    return _of_task(document, job, task)


def _unless(seen: ObservedPlan) -> str:
    """Where jobs could not be read, it may be one of them."""
    from autoscaler.report.sentence import jobs_not_read

    unread = jobs_not_read(seen.plan.notes)
    return f"; {unread}" if unread else ""


def _ends(invocation: Invocation, job: int) -> tuple[Ended, ...]:
    from autoscaler.report.explain import Ended
    from sge.accounting import read_ends

    try:
        found = read_ends(invocation.common / "accounting", job)
    except OSError as error:
        echo(f"{error.filename} cannot be read: {error.strerror}", err=True)
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
    """Orders that were made for the job's category while it waited."""
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


def _of_task(document: dict[str, Any], job: int, task: str | None) -> dict[str, Any]:
    """Only the parts of one task of an array. Raises NotFound if the job has no such task."""
    from autoscaler.core.model.complexes import has_task

    if task is None:
        return document
    waiting = [row for row in document["waiting"] if has_task(str(row["jobs"][0]).partition(".")[2], int(task))]
    running = [run for run in document["running"] if run["task"] == task]
    ended = [end for end in document["ended"] if end["task"] == task]
    if not (waiting or running or ended):
        raise NotFound(f"job {job} has no task {task} that waits, runs or is in the accounting")
    state = "waiting" if waiting else "running" if running else "ended"
    return document | {"job": f"{job}.{task}", "state": state, "waiting": waiting, "running": running, "ended": ended}


def _host(invocation: Invocation, name: str, record: Path | None) -> dict[str, Any]:
    from autoscaler.report.explain import explain_gone, explain_host

    seen = observe_and_plan(invocation, record)
    document = explain_host(seen.snapshot, seen.plan, name, seen.zone)
    if document is not None:
        return document
    if record is not None:
        raise NotFound(f"{record} has no worker or host {name}")
    with reading_store(invocation) as store:
        lives = [life for life in store.history.lifetimes() if name in (life.worker_id, life.name)]
    if not lives:
        raise NotFound(f"Grid Engine has no host {name}, and the autoscaler had no such worker in the last 30 days")
    return explain_gone(lives[-1], seen.snapshot.now)
