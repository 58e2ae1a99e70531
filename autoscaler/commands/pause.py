"""`sge-autoscaler pause`: go on observing, but launch and remove nothing."""

from __future__ import annotations

import time

import click

from autoscaler.commands._done import says_json, tell_done
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb


@click.command("pause")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Launch and remove nothing until `resume`. Workers and jobs are not affected; each pass still logs what it
    observes.
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        new = store.overrides.ask(Verb.PAUSE, who=invocation.who, at=time.time())
        by = store.overrides.load().paused_by
    said = "paused; `sge-autoscaler resume` ends the pause" if new else f"already paused, by {by}"
    tell_done(f"the autoscaler is {said}", as_json=as_json, done=new, paused_by=by)
