"""`sge-autoscaler explain JOB|HOST`: why a job waits or does not count, why a worker stays or leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from autoscaler.commands._look import as_json, from_record, look, print_json, reading_store
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound
from autoscaler.report.explain import (
    explain_gone,
    explain_host,
    explain_job,
    explain_past,
    gone_lines,
    host_lines,
    job_lines,
)

_JOB = re.compile(r"(\d+)(?:\.\d+)?")


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
    found = _JOB.fullmatch(subject)
    if found:
        told = _job(invocation, int(found[1]), record)
        lines = job_lines(told)
    else:
        told = _host(invocation, subject, record)
        lines = gone_lines(told) if told.get("verdict") is None else host_lines(told)
    if as_json:
        print_json(told)
        return
    for line in lines:
        click.echo(line)


def _job(invocation: Invocation, job: int, record: Path | None) -> dict[str, Any]:
    seen = look(invocation, record)
    if record is not None:
        told = explain_job(seen.snapshot, seen.plan, job, seen.zone)
        if told is None:
            raise NotFound(f"job {job} neither waits nor runs in {record}")
        return told
    with reading_store(invocation) as store:
        done, past = store.journal.outcomes_of_job(job), store.history.explanation(job)
    told = explain_job(seen.snapshot, seen.plan, job, seen.zone, done) or explain_past(job, past, done)
    if told is None:
        raise NotFound(f"job {job} neither waits nor runs, and was never seen waiting in the last 30 days")
    return told


def _host(invocation: Invocation, name: str, record: Path | None) -> dict[str, Any]:
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
