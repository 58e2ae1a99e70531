"""`sge-autoscaler demo`: ten jobs on a private Grid Engine, from nothing to nothing, shown by `top`."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import click
from rich.console import Console

from autoscaler import namespaces
from autoscaler.commands._output import json_option, print_json
from autoscaler.errors import AutoscalerError
from autoscaler.lab import private_root
from autoscaler.lab.demo import PROVIDERS, SCENARIOS, Summary, Watch, played
from autoscaler.report import SCHEMA
from autoscaler.terminal.lines import Lines
from autoscaler.terminal.readings import Poller

PAGE_STAYS = 600.0
"""Seconds for which the page stays after the jobs."""
EVERY = 0.7
"""Seconds between two updates of `top`: the demo takes a minute."""


@click.command("demo")
@click.option(
    "--mode", type=click.Choice(list(SCENARIOS)), default="homogeneous", show_default=True, help="Which example."
)
@click.option(
    "--provider",
    type=click.Choice(list(PROVIDERS)),
    default="local",
    show_default=True,
    help="Provider of the workers.",
)
@click.option("--page", is_flag=True, help="Serve the page, too, and keep everything up for ten minutes afterwards.")
@json_option
def command(mode: str, provider: str, page: bool, as_json: bool) -> None:
    """Play one of the two examples on a private Grid Engine of its own.

    Needs root and Debian's Grid Engine packages (`make setup` installs them). It does not touch a Grid Engine that is
    already here, and leaves nothing behind, also if it is killed. On a terminal it shows `top` until the end or `q`;
    elsewhere it prints each decision and event as a line.
    """
    problem = namespaces.probe() or private_root.missing()
    if problem:
        raise AutoscalerError(problem)
    signal.signal(signal.SIGTERM, _leave)
    console = Console(stderr=as_json)
    lines = Lines(console)
    with played(mode, provider, lines.say, page=page) as watch:
        watch.submit(lines.say)
        on_top = console.is_terminal and sys.stdin.isatty() and not as_json and not page
        summary = _watched(watch, lines, on_top=on_top)
        if page:
            lines.say("the jobs have ended; the page stays for ten minutes, or until Ctrl-C")
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(PAGE_STAYS)
    if as_json:
        print_json({"schema": SCHEMA, **summary.document()})
        return
    for line in summary.lines():
        console.print(line, highlight=False, soft_wrap=True)


def _watched(watch: Watch, lines: Lines, *, on_top: bool) -> Summary:
    poller = Poller(watch.ask)

    def show() -> None:
        lines.show(poller.read())

    if not on_top:
        return watch.until_over(show)
    from autoscaler.terminal.top import Top

    lines.paused = True
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(watch.until_over, show)
        top = Top(watch.ask, every=EVERY, until=result.done)
        try:
            top.run()
        finally:
            signal.signal(signal.SIGTERM, _leave)  # Textual took it
            lines.paused = False
            if top.return_code != 0:
                watch.abandoned.set()
        if top.defect is not None:
            raise top.defect
        if top.return_code:
            sys.exit(top.return_code)
        return result.result()


def _leave(number: int, frame: FrameType | None) -> None:
    """End at SIGTERM as at Ctrl-C, through every `with` and `finally`."""
    sys.exit(128 + number)
