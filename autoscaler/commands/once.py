"""`sge-autoscaler once`: a single pass, for cron, tests and careful people."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from autoscaler.commands._output import echo
from autoscaler.commands.context import Invocation
from autoscaler.engine.loop import LAST_CALLS
from autoscaler.engine.pass_listener import Pass
from autoscaler.report.document import document
from autoscaler.report.log import configure_log
from autoscaler.store.journal import Result

FAILED = 1


@click.command("once")
@click.option("--json", "as_json", is_flag=True, help="Print the pass as JSON, with the outcome of each action.")
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """Observe, decide and act once, and end when the provider has answered.

    Exit codes: 0 if all went well, also if there was nothing to do; 1 if an action failed or was refused; 4 if Grid
    Engine or the provider could not be observed; 5 if another autoscaler serves this cell.
    """
    configure_log(invocation.settings.process, invocation.environ)
    from autoscaler.commands.serving import serving

    with serving(invocation) as loop:
        loop.store.sweep(loop.observer.clock())
        done = loop.pass_once()
        loop.actor.finish(LAST_CALLS)
        outcomes = [*done.outcomes, *loop.actor.ended()]
    if as_json:
        echo(json.dumps(_document(invocation, replace(done, outcomes=outcomes)), indent=2))
    failed = any(outcome.result in (Result.FAILED, Result.REFUSED) for outcome in outcomes)
    return FAILED if failed else 0


def _document(invocation: Invocation, done: Pass) -> dict[str, object]:
    observation, number = done.observation, done.plan.memory.passes
    outcome_document = document(
        observation.snapshot, done.plan, observation.timings, pass_number=number, zone=invocation.zone
    )
    ended = {id(outcome.action): outcome for outcome in done.outcomes if outcome.result is not Result.UNDER_WAY}
    results = [ended.get(id(action)) for action in done.plan.actions]
    for part, outcome in zip(outcome_document["actions"], results, strict=True):
        part["outcome"] = {"result": outcome.result, "message": outcome.message} if outcome else None
    return outcome_document
