"""`sge-autoscaler pause`: go on observing, but launch and remove nothing."""

from __future__ import annotations

import time

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb


@click.command("pause")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Launch and remove nothing until `resume`. Workers and jobs are not affected; each pass still logs what it
    observes.
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        if store.wishes.ask(Verb.PAUSE, who=invocation.who, at=time.time()):
            echo("the autoscaler is paused; `sge-autoscaler resume` ends the pause")
        else:
            echo(f"the autoscaler is already paused, by {store.wishes.load().paused_by}")
