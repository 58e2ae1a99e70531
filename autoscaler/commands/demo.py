"""`sge-autoscaler demo`: ten jobs on a private Grid Engine, from nothing to nothing, with a live view."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click
from rich.console import Console

from autoscaler import namespaces
from autoscaler.commands._done import says_json
from autoscaler.commands._observation import print_json
from autoscaler.errors import AutoscalerError
from autoscaler.lab import private_root
from autoscaler.lab.demo import PROVIDERS, SCENARIOS, run_demo
from autoscaler.report import SCHEMA
from autoscaler.terminal.view import open_view


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
@says_json
def command(mode: str, provider: str, as_json: bool) -> None:
    """Play one of the two examples on a private Grid Engine of its own.

    Needs root and Debian's Grid Engine packages (`make setup` installs them). Touches no Grid Engine that is already
    here, and leaves nothing behind, however it ends.
    """
    problem = namespaces.probe() or private_root.missing()
    if problem:
        raise AutoscalerError(problem)
    signal.signal(signal.SIGTERM, _leave)
    console = Console(stderr=as_json)
    with open_view(console, f"sge-autoscaler demo · {SCENARIOS[mode].title}", SCENARIOS[mode].tasks) as view:
        summary = run_demo(mode, provider, view)
    if as_json:
        print_json({"schema": SCHEMA, **summary.document()})
        return
    for line in summary.lines():
        console.print(line, highlight=False, soft_wrap=True)


def _leave(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demo as Ctrl-C does: through every `with` and `finally`."""
    sys.exit(128 + number)
