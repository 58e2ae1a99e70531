"""`sge-autoscaler stop`: give all workers back, through the running autoscaler or, where none runs, in its place."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import NoReturn

import click

from autoscaler.answer_client import Refused, ServiceAddress, standing
from autoscaler.commands._output import echo, json_option, print_progress
from autoscaler.commands.context import Invocation
from autoscaler.commands.overriding import override, place_to_ask, refused_if_closed
from autoscaler.core.workers.phases import Condition
from autoscaler.engine.operator_commands import OperatorCommand, carry_out
from autoscaler.engine.unseen import RELEASED, may_still_come, unseen
from autoscaler.errors import LockHeld
from autoscaler.report.log import configure_log
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.status import disabled_by_hand, set_aside, set_aside_by_reason
from autoscaler.report.wording import few
from autoscaler.store.lock import running
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.stop")
POLL_EVERY = 0.5
INTERRUPTED = 130
STILL_COMING = 6
"""All that is listed has ended, and a machine that was ordered may still come."""


@click.command("stop")
@click.option("--drain", is_flag=True, help="Run the waiting jobs that fit on workers first.")
@click.option("--now", is_flag=True, help="Disable all workers now, so that no further job starts.")
@click.option("--no-wait", is_flag=True, help="Do not wait; the running autoscaler carries the command out.")
@json_option
@click.pass_obj
def command(invocation: Invocation, drain: bool, now: bool, no_wait: bool, as_json: bool) -> int:
    """Give all workers back, then end the autoscaler.

    The autoscaler launches nothing more, and removes each worker when it is empty: it never ends a running job. With
    --drain the existing workers run waiting jobs first. With --now no further job starts on a worker. Either ends all
    `keep`s. It waits for ordered machines that no listing shows yet, as long as listings may lag; then it names them
    and ends with exit code 6. If no autoscaler runs, this command does the work itself. `sge-autoscaler resume` cancels
    the stop. With --json each line is an object.
    """
    if drain == now:
        raise click.UsageError(
            "give --drain (waiting jobs first) or --now; either lets running jobs end and launches nothing more"
        )
    verb = Verb.STOP_NOW.value if now else Verb.STOP_DRAIN.value
    command = OperatorCommand(Verb(verb))
    if no_wait:
        override(invocation, command, as_json=as_json)
        return 0
    place = place_to_ask(invocation)
    if place is not None:
        _refuse_waiting(place)
    with invocation.store() as store:
        kept = carry_out(store, command, who=invocation.who, at=time.time()).facts["no_longer_kept"]
        if kept and not as_json:
            echo(f"no longer kept: {', '.join(kept)}")
        if _served(invocation) and _wait(invocation, store, Verb(verb), as_json=as_json):
            return STILL_COMING if store.overrides.may_come(Verb(verb)) else 0
        if not _in_force(store, Verb(verb)):
            print_progress("somebody cancelled the stop", as_json=as_json, stop=verb, done=False)
            return 1
    return _serve_until_released(invocation, as_json=as_json)


def _refuse_waiting(place: ServiceAddress) -> NoReturn:
    """Only a user who may write the state can wait. Raises Refused for a caller that may not stop the autoscaler at
    all, UsageError for one that may with --no-wait, Unanswered.
    """
    with refused_if_closed():
        answer = standing(place)
    if not answer["may"]:
        raise Refused(
            f"{answer['name']} may read, but not stop the autoscaler: ask root, or the user who runs the autoscaler"
        )
    raise click.UsageError("add --no-wait: you may stop the autoscaler, but not read its state to wait for the end")


def _served(invocation: Invocation) -> bool:
    return running(invocation.cell) is not None


def _in_force(store: Store, verb: Verb) -> bool:
    return any(override.verb is verb for override in store.overrides.in_force())


def _wait(invocation: Invocation, store: Store, verb: Verb, *, as_json: bool) -> bool:
    """Wait until the running autoscaler has carried out the stop; False if it ended before, or if the stop was
    cancelled.
    """
    print_progress("waiting for the running autoscaler; Ctrl-C ends the waiting, not the stop", as_json=as_json)
    shown = store.history.passes(1)[0].number if store.history.passes(1) else 0
    aside: dict[str, Condition] = {}
    awaited: list[str] = []
    grace = invocation.settings.process.order_grace
    while _served(invocation):
        for done in reversed(store.history.passes(5)):
            if done.number > shown:
                shown = done.number
                print_progress(done.sentence, as_json=as_json, **{"pass": shown})
        if not _in_force(store, verb):
            break
        before, aside = aside, set_aside(store)
        if aside and aside != before:
            print_progress(_waits_for(aside), as_json=as_json, disabled_by_hand=disabled_by_hand(store))
        earlier, awaited = awaited, [each.words for each in unseen(store, time.time() - grace)]
        if awaited and awaited != earlier:
            words = f"waiting for {few(awaited)}: ordered, and in no listing yet"
            print_progress(words, as_json=as_json, awaited=awaited)
        time.sleep(POLL_EVERY)
    if not store.overrides.fulfilled(verb):
        return False
    if machines := store.overrides.may_come(verb):
        print_progress(may_still_come(machines), as_json=as_json, stop=str(verb), done=True, may_come=machines)
    else:
        print_progress(f"all workers{RELEASED}", as_json=as_json, stop=str(verb), done=True)
    return True


def _waits_for(aside: Mapping[str, Condition]) -> str:
    """Why the stop does not end: workers on which only a person decides."""
    parts = (
        f"{few(names)} ({REASONS[code].short}): {REASONS[code].remedy}" for code, names in set_aside_by_reason(aside)
    )
    return "waiting for a person to decide on " + "; ".join(parts)


def _serve_until_released(invocation: Invocation, *, as_json: bool) -> int:
    configure_log(invocation.settings.process, invocation.environ, as_json=as_json or None)
    from autoscaler.commands.serving import serving

    try:
        with serving(invocation) as loop, loop.signals():
            loop.run()
    except LockHeld:
        echo("an autoscaler was started meanwhile; it carries the stop out", err=True)
        raise
    if loop.stopped_by == "SIGINT":
        return INTERRUPTED
    return STILL_COMING if loop.may_come else 0
