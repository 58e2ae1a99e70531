"""`sge-autoscaler top`: the running autoscaler on a terminal, until `q`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from autoscaler import CONFIG_ENV
from autoscaler.answer_client import CLIENT_FILE, URL_ENV, ServiceAddress, ask, standing, target
from autoscaler.commands._answers import place_of_service
from autoscaler.commands._output import json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.errors import AutoscalerError, NotFound

PATIENCE = 60.0
"""Time limit of a command, in seconds."""
PARTS = ("status", "queue", "workers", "events", "passes")


class NotDone(AutoscalerError):
    """A command failed; the message is its own."""


@click.command("top")
@json_option
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """Watch what waits by reason, workers with load and price, decisions and events, and demand against supply.

    Enter shows more of a reason, job, worker or launch, as `explain` does. `/` filters, `s` sorts. Users
    who may pause, drain and keep can do so here, after a question. With --json all of it is printed once.
    """
    place = place_of_service(invocation)
    if place is None:
        raise NotFound(
            "no autoscaler was found to watch: none runs on this machine for the cell of SGE_ROOT and SGE_CELL, and "
            f"neither {URL_ENV} nor {CLIENT_FILE} names one elsewhere; `sge-autoscaler run` or its systemd unit starts "
            "one"
        )

    def answer(question: str, query: Mapping[str, str]) -> dict[str, Any]:
        return ask(place, target(question, query))

    if as_json:
        documents = {part: answer(part, {})["document"] for part in PARTS}
        print_json({name: documents["queue"][name] for name in ("schema", "now")} | documents)
        return 0
    answer("status", {})  # an error at the start is printed on the normal screen
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "top needs a terminal; for programs: --json, or `status --json`, `events --follow --json`"
        )
    from autoscaler.terminal.top import Top

    top = Top(answer, acting(invocation, place))
    top.run()
    if top.defect is not None:
        raise top.defect
    return top.return_code or 0


def acting(invocation: Invocation, place: ServiceAddress) -> Callable[[Sequence[str]], str] | None:
    """A function that runs `sge-autoscaler` commands, with all their checks; None: the user may not act, or the
    commands would act on another cell than the one shown.
    """
    who = invocation.running if place.path else None
    if who is None or who.socket != place.path or not who.state:
        return None
    if not invocation.writes_state and not _may_ask(place):
        return None

    def act(words: Sequence[str]) -> str:
        from autoscaler.errors import CommandError
        from autoscaler.process import PythonProgram, SystemRunner

        program = PythonProgram.module("autoscaler.commands.main", *words)
        try:
            done = program.run(SystemRunner(), timeout=PATIENCE, env=_with_absolute_paths(invocation.environ))
        except CommandError as error:
            raise NotDone(str(error)) from error
        output = (done.stdout if done.returncode == 0 else done.stderr).decode("utf-8", "replace").strip()
        if done.returncode != 0:
            raise NotDone(output.rpartition("\n")[2].removeprefix("sge-autoscaler: "))
        return output

    return act


def _with_absolute_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command that starts in another directory."""
    return {
        name: str(Path(value).absolute()) if name in (CONFIG_ENV, "CP_CAP_AUTOSCALE_WORKDIR") and value else value
        for name, value in environ.items()
    }


def _may_ask(place: ServiceAddress) -> bool:
    """Whether the autoscaler accepts commands of this user."""
    try:
        return bool(standing(place)["may"])
    except AutoscalerError:
        return False
