"""`sge-autoscaler pause`: keep looking, but launch and remove nothing."""

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
    """Launch and remove nothing until `resume`. Workers and jobs go on as they are; passes still tell what they see."""
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        if store.wishes.ask(Verb.PAUSE, who=invocation.who, at=time.time()):
            echo("paused; `sge-autoscaler resume` goes on")
        else:
            echo(f"paused already, by {store.wishes.load().paused_by}")
