"""`sge-autoscaler resume`: go on after `pause`, `stop`, the circuit breaker, or a provider's refusal."""

from __future__ import annotations

import time

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb

_SAID = {
    Verb.PAUSE: "the pause",
    Verb.STOP_DRAIN: "the stop",
    Verb.STOP_NOW: "the stop at once",
}


@click.command("resume")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Go on after `pause` or the circuit breaker, and cancel a `stop` that is not carried out yet.

    It also allows launches again that a provider refused for good (bad image, no permission), and ends protected
    mode. Correct the cause first.
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        memory = store.memory.load()
        ended = [_SAID[verb] for verb in store.wishes.resume(who=invocation.who, at=time.time())]
    ended += ["the brake"] if memory.brake is not None else []
    ended += [f"the refusal of launches for {array}" for array in memory.stopped]
    ended += [f"protected mode of {name}" for name, array in memory.protected.items() if array.stopped is not None]
    echo(f"ended: {', '.join(ended)}" if ended else "nothing was paused")
