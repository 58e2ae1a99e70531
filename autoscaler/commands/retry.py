"""`sge-autoscaler retry`: try again at once what a provider lacked or refused, and created nodes that failed."""

from __future__ import annotations

import time

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation


@click.command("retry")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Try again at the next pass what a provider lacked or refused, instead of waiting until its rest is over, and
    launches for jobs that the last ones did not help. Nodes
    that callers of the REST API created, and that failed, get another machine.

    For after a quota was raised or an image was mended. A pause and the brake stay: those `resume` ends.
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
    echo(f"tried again: {', '.join(dict.fromkeys(again))}" if again else "nothing rests, and no node has failed")
