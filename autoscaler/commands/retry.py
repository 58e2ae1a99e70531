"""`sge-autoscaler retry`: end backoff and protected mode now, and launch again for created nodes that failed."""

from __future__ import annotations

import time

import click

from autoscaler.commands._done import says_json, tell_done
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation


@click.command("retry")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """End the backoff of all instance types and protected mode, so that the next pass tries launches again. Nodes that
    failed, created by callers of the REST API, get another machine.

    Use it after you raised a quota or corrected an image. It ends neither a pause nor the circuit breaker: use
    `resume` for these.
    """
    now = time.time()
    tell_where_nobody_serves(invocation)
    with invocation.store() as store:
        memory = store.memory.load()
        nodes = store.retry(who=invocation.who, at=now)
    again = [f"{rest.bucket.instance_type} ({rest.message})" for rest in memory.rests if rest.until > now]
    again += [f"{array} ({message})" for array, message in memory.stopped.items()]
    again += [f"node {name}" for name in nodes]
    again += [f"launches for {name}" for name, array in memory.protected.items() if array.categories]
    again = list(dict.fromkeys(again))
    said = f"tried again: {', '.join(again)}" if again else "no bucket is in backoff, and no node has failed"
    tell_done(said, as_json=as_json, done=bool(again), again=again)
