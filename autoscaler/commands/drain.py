"""`sge-autoscaler drain HOST`: drain a worker, then remove and terminate it."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
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
    override(invocation, OperatorCommand(Verb.DRAIN, host, undo), as_json=as_json)
