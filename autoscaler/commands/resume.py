"""`sge-autoscaler resume`: go on after `pause`, `stop`, the circuit breaker, or a provider's refusal."""

from __future__ import annotations

import time

import click

from autoscaler.commands._done import says_json, tell_done
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb

_SAID = {
    Verb.PAUSE: "the pause",
    Verb.STOP_DRAIN: "the stop",
    Verb.STOP_NOW: "the stop at once",
}


@click.command("resume")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Go on after `pause` or the circuit breaker, and cancel a `stop` that is not carried out yet.

    It also allows launches again that a provider refused for good (bad image, no permission), and ends protected
    mode. Correct the cause first.
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        memory = store.memory.load()
        ended = [_SAID[verb] for verb in store.overrides.resume(who=invocation.who, at=time.time())]
    ended += ["the brake"] if memory.brake is not None else []
    ended += [f"the refusal of launches for {array}" for array in memory.stopped]
    ended += [f"protected mode of {name}" for name, array in memory.protected.items() if array.stopped is not None]
    said = f"ended: {', '.join(ended)}" if ended else "nothing was paused"
    tell_done(said, as_json=as_json, done=bool(ended), ended=ended)
