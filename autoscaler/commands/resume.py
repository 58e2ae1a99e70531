"""`sge-autoscaler resume`: go on after `pause`, `stop`, the circuit breaker, or a provider's refusal."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store.overrides import Verb


@click.command("resume")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Go on after `pause` or the circuit breaker, and cancel a `stop` that is not carried out yet.

    It also allows launches again that a provider refused for good (bad image, no permission), and ends protected
    mode. Correct the cause first.
    """
    override(invocation, OperatorCommand(Verb.RESUME), as_json=as_json)
