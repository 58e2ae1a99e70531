"""How `pause`, `resume`, `retry`, `keep`, `drain`, `stop` and `log-level` reach the autoscaler: who may write its state
writes it, and everybody else asks the running autoscaler, which says who may.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from autoscaler.answer_client import Place, Unanswered, named_by, remote, standing
from autoscaler.answer_client import override as ask_for
from autoscaler.commands._answers import socket_of_service
from autoscaler.commands._done import print_result
from autoscaler.commands._running import warn_unless_running
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand, Stored, carry_out
from autoscaler.errors import AutoscalerError, SettingsError


def override(invocation: Invocation, command: OperatorCommand, *, as_json: bool) -> None:
    """Store a command where the autoscaler finds it, and say what came of it and what it waits for."""
    place = place_to_ask(invocation)
    stored = _stored(invocation, command) if place is None else _asked(place, command)
    print_result(stored.message, as_json=as_json, done=stored.changed, **stored.facts)


def place_to_ask(invocation: Invocation) -> Place | None:
    """The autoscaler that this user can only ask; None: its state can be written, or nobody is there to ask."""
    who = None
    with contextlib.suppress(SettingsError):  # there is no cell here
        who = invocation.running
    if who is not None and invocation.writes_state:
        return None
    if named_by(invocation.environ):
        return remote(invocation.environ)
    path = "" if who is None else socket_of_service(invocation)
    return Place(path) if path else None


def _stored(invocation: Invocation, command: OperatorCommand) -> Stored:
    warn_unless_running(invocation)
    with invocation.store() as store:
        stored = carry_out(store, command, who=invocation.who, at=time.time())
    who = invocation.running
    return stored if who is None or not who.socket else _with(stored, _why_later(Place(who.socket)))


def _why_later(place: Place) -> str:
    """Why the autoscaler does not carry out now what is stored; '': it will."""
    try:
        return standing(place)["warning"] or ""
    except Unanswered as error:
        return str(error)
    except AutoscalerError:  # it answered
        return ""


def _asked(place: Place, command: OperatorCommand) -> Stored:
    query = {"host": command.host} if command.host else {}
    query |= {"undo": "true"} if command.undo else {}
    query |= {"level": command.level.value} if command.level else {}
    try:
        said = ask_for(place, command.verb.value, query)
    except Unanswered as error:
        if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
            raise  # nobody is there who could have received it
        raise Unanswered(
            f"{error}; it carries out no command whose caller has gone, unless it had begun: `sge-autoscaler status`"
        ) from error
    return _with(Stored(said["message"], said["done"], said["facts"]), said["warning"] or "")


def _with(stored: Stored, why: str) -> Stored:
    """With why it is not carried out at once."""
    if not why:
        return stored
    message = f"{stored.message}; it takes effect at the next pass of the autoscaler, and that is late: {why}"
    return replace(stored, message=message, facts={**stored.facts, "late": why})
