"""`sge-autoscaler requests`: the live request sets of callers."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import click

from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import echo, json_option, print_json, print_result
from autoscaler.commands._service import call, own_store
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound
from autoscaler.report.requests import requests_document, requests_text


@click.command("requests")
@click.option("--end", "ended", metavar="SET", help="End this request set: its targets no longer count.")
@json_option
@click.pass_obj
def command(invocation: Invocation, ended: str | None, as_json: bool) -> None:
    """Show each live request set, who made it and until when it holds, and the sum of targets of each node array."""
    if ended is not None:
        if not _end(invocation, ended):
            raise NotFound(f"request set {ended} does not exist{_near(invocation, ended)}")
        print_result(f"request set {ended} has ended", as_json=as_json, request_set=ended)
        return
    document = _live(invocation)
    if as_json:
        print_json(document)
    else:
        echo(requests_text(document, invocation.zone))


def _near(invocation: Invocation, name: str) -> str:
    """A suggestion, or all names."""
    import difflib

    names = sorted(each["name"] for each in _live(invocation)["request_sets"])
    close = difflib.get_close_matches(name, names, 1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(names) or 'none'}"


def _live(invocation: Invocation) -> dict[str, Any]:
    answer = call(invocation, "GET", "/requests")
    if answer is not None:
        return answer
    with reading_store(invocation) as store:
        now = time.time()
        return requests_document(store.requests.load(now), now, store.history.living())


def _end(invocation: Invocation, set_name: str) -> bool:
    answer = call(invocation, "DELETE", f"/requests/{quote(set_name, safe='')}")
    if answer is not None:
        return bool(answer["ended"])
    with own_store(invocation) as store:
        return store.requests.end(set_name)
