"""`sge-autoscaler retry`: end backoff and protected mode now, and launch again for created nodes that failed."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store.overrides import Verb


@click.command("retry")
@says_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """End the backoff of all instance types and protected mode, so that the next pass tries launches again. Nodes that
    failed, created by callers of the REST API, get another machine.

    Use it after you raised a quota or corrected an image. It ends neither a pause nor the circuit breaker: use
    `resume` for these.
    """
    override(invocation, OperatorCommand(Verb.RETRY), as_json=as_json)
