"""`sge-autoscaler drain HOST`: drain a worker, then remove and terminate it."""

from __future__ import annotations

import time

import click

from autoscaler.commands._done import says_json, tell_done
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb


@click.command("drain")
@click.argument("host")
@click.option("--undo", is_flag=True, help="Cancel the drain; a worker that is not removed yet serves again.")
@says_json
@click.pass_obj
def command(invocation: Invocation, host: str, undo: bool, as_json: bool) -> None:
    """Drain worker HOST: no further job starts on it, and when its jobs have ended, the autoscaler removes it from Grid
    Engine and terminates the machine.

    HOST must be a worker of this autoscaler (`sge-autoscaler workers`).
    """
    tell_where_nobody_serves(invocation)
    with invocation.store() as store, store.database.transaction():
        name, now = invocation.host(store, host), time.time()
        if undo:
            ids = [life.worker_id for life in store.history.renting() if life.name == name]
            ended = [store.overrides.end(Verb.DRAIN, who=invocation.who, at=now, host=each) for each in (name, *ids)]
            known = any(ended)
            said = f"the drain of {name} is cancelled" if known else f"no drain of {name} was requested"
            tell_done(said, as_json=as_json, done=known, host=name)
            return
        kept = store.overrides.end(Verb.KEEP, who=invocation.who, at=now, host=name)
        new = store.overrides.ask(Verb.DRAIN, who=invocation.who, at=now, host=name)
    said = f"{name} will be drained" + ("; it is no longer kept" if kept else "")
    tell_done(said if new else f"{name} is draining already", as_json=as_json, done=new, host=name)
