"""`sge-autoscaler drain HOST`: empty a worker and give it back."""

from __future__ import annotations

import time

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb


@click.command("drain")
@click.argument("host")
@click.option("--undo", is_flag=True, help="Take the wish back; a worker that is not removed yet serves again.")
@click.pass_obj
def command(invocation: Invocation, host: str, undo: bool) -> None:
    """Let no further job onto worker HOST; when its jobs have ended, remove it and give the machine back.

    Only for workers of this autoscaler (`sge-autoscaler workers`); others are never touched.
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store, store.database.transaction():
        name, now = invocation.host(store, host), time.time()
        if undo:
            ids = [life.worker_id for life in store.history.lifetimes() if life.name == name and life.ended_at is None]
            ended = [store.wishes.end(Verb.DRAIN, who=invocation.who, at=now, host=each) for each in (name, *ids)]
            known = any(ended)
            echo(f"{name} is no longer to be drained" if known else f"{name} was not to be drained")
            return
        kept = store.wishes.end(Verb.KEEP, who=invocation.who, at=now, host=name)
        new = store.wishes.ask(Verb.DRAIN, who=invocation.who, at=now, host=name)
    echo(
        f"{name} will be drained" + ("; it is no longer kept" if kept else "") if new else f"{name} is draining already"
    )
