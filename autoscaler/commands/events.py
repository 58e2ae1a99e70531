"""`sge-autoscaler events`: what happened to jobs and workers, from the store alone."""

from __future__ import annotations

import json
import re
import time

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._observation import as_json, print_json, reading_store
from autoscaler.commands.context import Invocation

LOOK = 1.0
"""Seconds between two looks for news."""
_JOB = re.compile(r"(\d+)(?:\.(\d+))?")


class _Job(click.ParamType[tuple[int, int | None]]):
    """`12`, or `12.3` for a task."""

    name = "job"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        found = _JOB.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a job: write 12, or 12.3 for a task", param, ctx)
        return int(found[1]), int(found[2]) if found[2] else None


@click.command("events")
@click.option("--job", type=_Job(), help="Only events of this job or task, with its launches and their workers.")
@click.option("--host", default="", help="Only events on this host, by name, or of this worker, by id.")
@click.option("--last", type=click.IntRange(1), default=100, show_default=True, help="Show so many at most.")
@click.option("--follow", is_flag=True, help="Go on with new events until Ctrl-C; with --json one object a line.")
@as_json
@click.pass_obj
def command(
    invocation: Invocation, job: tuple[int, int | None] | None, host: str, last: int, follow: bool, as_json: bool
) -> None:
    """Show what happened to jobs and workers in the last 30 days, oldest first.

    A job is submitted, counts as demand, a launch is ordered for it and for others like it, a worker joins, the job
    starts there, and it ends. Jobs of one owner to which the same happened in one pass are one event.
    """
    from autoscaler.plain_text import plain, plain_json
    from autoscaler.report import SCHEMA
    from autoscaler.report.events import at_zone, event_line, event_part

    number, task = job or (None, None)
    with reading_store(invocation) as store:
        found = store.events.read(job=number, task=task, host=host, last=last)
        if as_json and not follow:
            print_json({"schema": SCHEMA, "now": at_zone(time.time()), "events": [event_part(one) for one in found]})
            return
        told: set[int] = set()
        while True:
            for one in found:
                if one.id not in told:
                    told.add(one.id)
                    echo(
                        plain_json(json.dumps(event_part(one), ensure_ascii=False))
                        if as_json
                        else plain(event_line(one))
                    )
            if not follow:
                return
            time.sleep(LOOK)
            # Of a job, a worker may be of interest only later: it starts there.
            after = 0 if number is not None else max(told, default=0)
            found = store.events.read(job=number, task=task, host=host, after=after)
