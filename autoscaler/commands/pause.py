"""`sge-autoscaler pause`: go on observing, but launch and remove nothing."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store.overrides import Verb


@click.command("pause")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Launch and remove nothing until `resume`. Workers and jobs are not affected; each pass still logs what it
    observes.
    """
    override(invocation, OperatorCommand(Verb.PAUSE), as_json=as_json)
