"""`sge-autoscaler keep HOST`: never remove a worker, however idle it is."""

from __future__ import annotations

import time

import click

from autoscaler.commands._done import says_json, tell_done
from autoscaler.commands._running import tell_where_nobody_serves
from autoscaler.commands.context import Invocation
from autoscaler.store.overrides import Verb


@click.command("keep")
@click.argument("host")
@click.option("--undo", is_flag=True, help="Cancel the keep; an idle worker may leave again.")
@says_json
@click.pass_obj
def command(invocation: Invocation, host: str, undo: bool, as_json: bool) -> None:
    """Keep worker HOST however idle it is, until `keep --undo`, `drain` or `stop`."""
    tell_where_nobody_serves(invocation)
    with invocation.store() as store, store.database.transaction():
        name, now = invocation.host(store, host), time.time()
        if undo:
            known = store.overrides.end(Verb.KEEP, who=invocation.who, at=now, host=name)
            said = f"{name} is no longer kept" if known else f"{name} was not kept"
            tell_done(said, as_json=as_json, done=known, host=name)
            return
        ids = [life.worker_id for life in store.history.renting() if life.name == name]
        ended = [store.overrides.end(Verb.DRAIN, who=invocation.who, at=now, host=each) for each in (name, *ids)]
        drained = any(ended)
        new = store.overrides.ask(Verb.KEEP, who=invocation.who, at=now, host=name)
    said = f"{name} will be kept" + ("; it is no longer to be drained" if drained else "") if new else f"{name} is kept"
    tell_done(said, as_json=as_json, done=new, host=name)
