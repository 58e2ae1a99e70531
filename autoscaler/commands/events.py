"""`sge-autoscaler events`: what happened to jobs and workers, by the running autoscaler, else by the store."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from autoscaler.answer_client import ServiceAddress, Unanswered, ask, target
from autoscaler.commands._answers import continue_as_service_account, place_of_service, print_answer, warn_not_running
from autoscaler.commands._duration import Duration
from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands.context import Invocation

POLL = 1.0
"""Seconds between two queries for new events."""
MOST = 1000
_JOB = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
ReadEvents = Callable[[int, int], Mapping[str, Any]]
"""The document of events with a greater number than this, at most this many."""


class _Job(click.ParamType[str]):
    """`12`, or `12.3` for a task."""

    name = "job"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _JOB.fullmatch(str(value)) is None:
            self.fail(f"{value!r} is not a job: write 12, or 12.3 for a task", param, ctx)
        return str(value)


@click.command("events")
@click.option("--job", type=_Job(), help="Only events of this job or task, with its launches and workers.")
@click.option("--host", default="", help="Only events on this host, by name, or of this worker, by id.")
@click.option("--since", type=Duration(), help="Only events of this length of time: 30m, 7d.")
@click.option("--last", type=click.IntRange(1, MOST), default=100, show_default=True, help="Show at most this many.")
@click.option("--follow", is_flag=True, help="Go on with new events until Ctrl-C; with --json one object a line.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation, job: str | None, host: str, since: float | None, last: int, follow: bool, as_json: bool
) -> None:
    """Show what happened to jobs and workers in the last 30 days, in the order in which passes
    noticed it.

    A job is submitted, counts as demand, a launch is ordered for it and for others like it, a worker joins, the job
    starts there, and it ends. Jobs of one owner to which the same happened in one pass are one event.

    The running autoscaler answers. If none runs, its state is read.
    """
    query = {"job": job or "", "host": host} | ({} if since is None else {"since": f"{since:.0f}"})
    if follow and (place := place_of_service(invocation)) is not None:
        _follow(_from_service(place, query), job, last, as_json=as_json)
        return
    if follow:
        continue_as_service_account(invocation)
    elif print_answer(invocation, "events", {**query, "last": str(last)}, as_json=as_json):
        return
    warn_not_running(invocation)
    from autoscaler.report.events import events_document, events_lines, find_events

    with reading_store(invocation) as store:

        def read(after: int, most: int) -> dict[str, Any]:
            page, now = {**query, "after": str(after), "last": str(most)}, time.time()
            return events_document(find_events(store.events, page, now), now)

        if follow:
            _follow(read, job, last, as_json=as_json)
        elif as_json:
            print_json(read(0, last))
        else:
            from autoscaler.plain_text import plain

            for line in events_lines(read(0, last)):
                echo(plain(line))


def _from_service(place: ServiceAddress, query: Mapping[str, str]) -> ReadEvents:
    """A reader that asks the service. While it does not answer, the reader returns no events and reports that once."""
    silent = False

    def read(after: int, most: int) -> Mapping[str, Any]:
        nonlocal silent
        try:
            answer = ask(place, target("events", {**query, "after": str(after), "last": str(most)}))
        except Unanswered as error:
            if not silent:
                echo(f"{error}: waiting for it", err=True)
            silent = True
            return {"events": ()}
        if silent:
            echo(f"{place.name} answers again", err=True)
        silent = False
        document: Mapping[str, Any] = answer["document"]
        return document

    return read


def _follow(read: ReadEvents, job: str | None, most: int, *, as_json: bool) -> None:
    from autoscaler.plain_text import plain, plain_json
    from autoscaler.report.events import event_line

    shown: set[int] = set()
    while True:
        # For a job, read all events each time: an earlier event of a worker belongs to it once it starts there.
        for part in read(0 if job else max(shown, default=0), most)["events"]:
            if part["id"] not in shown:
                shown.add(part["id"])
                echo(plain_json(json.dumps(part, ensure_ascii=False)) if as_json else plain(event_line(part)))
        most = MOST
        time.sleep(POLL)
