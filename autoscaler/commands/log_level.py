"""`sge-autoscaler log-level LEVEL`: how much the running service logs, without a restart."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store.overrides import LogLevel, Verb


@click.command("log-level")
@click.argument("level", type=click.Choice([level.value for level in LogLevel]))
@says_json
@click.pass_obj
def command(invocation: Invocation, level: str, as_json: bool) -> None:
    """Set how much the running autoscaler prints: LEVEL verbose (info, and each verdict that changes), debug (all),
    info, warning or error; settings: as its settings say. It holds across reloads and restarts.
    """
    override(invocation, OperatorCommand(Verb.LOG_LEVEL, level=LogLevel(level)), as_json=as_json)
