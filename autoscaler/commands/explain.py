"""`sge-autoscaler explain JOB|HOST`: why a job waits or does not count, why a worker stays or leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoscaler.commands._answers import print_answer
from autoscaler.commands._observation import from_record, observe_and_plan, reading_store
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.plain_text import plain

if TYPE_CHECKING:
    from autoscaler.report.subjects import Ends, Job

MOST_TAKEN_IN = 64 << 20
"""Bytes of the accounting that one call reads if no autoscaler keeps its index."""


@click.command("explain")
@click.argument("subject", metavar="JOB|HOST")
@from_record
@json_option
@click.pass_obj
def command(invocation: Invocation, subject: str, record: Path | None, as_json: bool) -> None:
    """Explain a job (by number), a host (by name or worker id) or a launch (by the order that `events` shows).

    For a waiting job it shows whether the job counts as demand, why it waits, and which launch may serve it. For a
    worker it shows why the worker stays, or what the autoscaler does with it. Below the reason stand its causes and
    what you can do. Jobs and workers that are gone are found in the history of the last 30 days.

    The running autoscaler answers, as of its last pass. If none runs, the command observes by itself.
    """
    if record is None and print_answer(invocation, "explain", {"subject": subject}, as_json=as_json):
        return
    from autoscaler.report.subjects import KnownSubjects, explain, lines_of
    from autoscaler.store.run_time_history import RunTimeHistory

    seen = observe_and_plan(invocation, record)
    store = None if record is not None else lambda: reading_store(invocation, lenient=True)
    document = explain(
        subject,
        KnownSubjects(
            seen,
            lambda job: _ends(invocation, job),
            store,
            str(record or ""),
            estimate=None if record is not None else RunTimeHistory(invocation.common / "accounting").estimate,
        ),
    )
    if as_json:
        print_json(document)
        return
    for line in lines_of(document):
        echo(plain(line))


def _ends(invocation: Invocation, job: Job) -> Ends:
    from autoscaler.report.subjects import Ends
    from autoscaler.sge.accounting import read_ends

    try:
        found = read_ends(invocation.common / "accounting", job.number, MOST_TAKEN_IN)
    except OSError as error:
        echo(f"{error.filename} cannot be read: {error.strerror}", err=True)
        return Ends()
    unread = (
        f"only the last {MOST_TAKEN_IN >> 20} MB of the accounting were read: the running autoscaler knows all of it"
    )
    return Ends(found, "" if _short(invocation) else unread)


def _short(invocation: Invocation) -> bool:
    from autoscaler.sge.accounting import files_of

    sizes = (each.stat().st_size for each in files_of(invocation.common / "accounting") if each.exists())
    return max(sizes, default=0) <= MOST_TAKEN_IN
