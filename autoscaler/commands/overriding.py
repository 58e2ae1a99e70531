"""`sge-autoscaler pause`, `resume`, `retry`, `keep`, `drain` and `log-level`, and how they and `stop` reach the
autoscaler: a user who may write its state writes it, and every other user asks the running autoscaler.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import click

from autoscaler.answer_client import Refused, ServiceAddress, Unanswered, named_by, remote, standing
from autoscaler.answer_client import override as ask_for
from autoscaler.commands._answers import socket_of_service
from autoscaler.commands._output import json_option, print_result
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand, Stored, carry_out
from autoscaler.errors import AutoscalerError, SettingsError
from autoscaler.store.overrides import LogLevel, Verb


@click.command("pause")
@json_option
@click.pass_obj
def pause(invocation: Invocation, as_json: bool) -> None:
    """Launch nothing, and remove only workers that `drain` names, until `resume`.

    Running jobs go on. Machines on their way still join; silent and interrupted workers are still disabled.
    """
    override(invocation, OperatorCommand(Verb.PAUSE), as_json=as_json)


@click.command("resume")
@json_option
@click.pass_obj
def resume(invocation: Invocation, as_json: bool) -> None:
    """Go on after `pause` or the circuit breaker, and cancel a `stop` that is not carried out yet.

    It also allows launches again that a provider refused for good (bad image, no permission), and ends protected
    mode. Correct the cause first.
    """
    override(invocation, OperatorCommand(Verb.RESUME), as_json=as_json)


@click.command("retry")
@json_option
@click.pass_obj
def retry(invocation: Invocation, as_json: bool) -> None:
    """End the backoff of all instance types and protected mode, so that the next pass tries launches again. Nodes that
    failed, created by callers of the REST API, get another machine.

    Use it after you raised a quota or corrected an image. It ends neither a pause nor the circuit breaker: use
    `resume` for these.
    """
    override(invocation, OperatorCommand(Verb.RETRY), as_json=as_json)


def _host(context: click.Context, parameter: click.Parameter, given: str) -> str:
    if not given.strip():
        raise click.BadParameter("it is empty; `sge-autoscaler workers` lists the workers", context, parameter)
    return given


@click.command("keep")
@click.argument("host", callback=_host)
@click.option("--undo", is_flag=True, help="Cancel the keep; an idle worker may leave again.")
@json_option
@click.pass_obj
def keep(invocation: Invocation, host: str, undo: bool, as_json: bool) -> None:
    """Keep worker HOST even if it is idle, until `keep --undo`, `drain` or `stop`."""
    override(invocation, OperatorCommand(Verb.KEEP, host, undo), as_json=as_json)


@click.command("drain")
@click.argument("host", callback=_host)
@click.option("--undo", is_flag=True, help="Cancel the drain; a worker that is not removed yet serves again.")
@json_option
@click.pass_obj
def drain(invocation: Invocation, host: str, undo: bool, as_json: bool) -> None:
    """Drain worker HOST: no further job starts on it, and when its jobs have ended, the autoscaler removes it from Grid
    Engine and terminates the machine.

    HOST must be a worker of this autoscaler (`sge-autoscaler workers`).
    """
    override(invocation, OperatorCommand(Verb.DRAIN, host, undo), as_json=as_json)


@click.command("log-level")
@click.argument("level", type=click.Choice([level.value for level in LogLevel]))
@json_option
@click.pass_obj
def log_level(invocation: Invocation, level: str, as_json: bool) -> None:
    """Set how much the running autoscaler prints: LEVEL verbose (info, and each verdict that changes), debug (all),
    info, warning or error; settings: as its settings say. It holds across reloads and restarts.
    """
    override(invocation, OperatorCommand(Verb.LOG_LEVEL, level=LogLevel(level)), as_json=as_json)


def override(invocation: Invocation, command: OperatorCommand, *, as_json: bool) -> None:
    """Store a command for the autoscaler, or send it, and print the result."""
    place = place_to_ask(invocation)
    stored = _stored(invocation, command) if place is None else _sent(place, command)
    print_result(stored.message, as_json=as_json, done=stored.changed, **stored.facts)


def place_to_ask(invocation: Invocation) -> ServiceAddress | None:
    """The autoscaler to send the command to; None: this user can write its state, or none runs."""
    who = None
    with contextlib.suppress(SettingsError):  # there is no cell here
        who = invocation.running
    if who is not None and invocation.writes_state:
        return None
    if named_by(invocation.environ):
        return remote(invocation.environ)
    path = "" if who is None else socket_of_service(invocation)
    return ServiceAddress(path) if path else None


def _stored(invocation: Invocation, command: OperatorCommand) -> Stored:
    warn_unless_running(invocation)
    with invocation.store() as store:
        stored = carry_out(store, command, who=invocation.who, at=time.time())
    who = invocation.running
    return stored if who is None or not who.socket else _with(stored, _why_later(ServiceAddress(who.socket)))


def warn_unless_running(invocation: Invocation) -> None:
    """Report on standard error that no autoscaler runs here to carry the command out."""
    if invocation.running is None:
        invocation.note(
            f"no autoscaler serves cell {invocation.cell.title} on this machine: the command is "
            f"stored in {invocation.state_directory}, for an autoscaler that starts with its state there"
        )


def _why_later(place: ServiceAddress) -> str:
    """Why the autoscaler will carry the command out late; '': it will not be late."""
    try:
        return standing(place)["warning"] or ""
    except Unanswered as error:
        return str(error)
    except AutoscalerError:  # it answers, so it runs
        return ""


def _sent(place: ServiceAddress, command: OperatorCommand) -> Stored:
    query = {"host": command.host} if command.host else {}
    query |= {"undo": "true"} if command.undo else {}
    query |= {"level": command.level.value} if command.level else {}
    try:
        with refused_if_closed():
            answer = ask_for(place, command.verb.value, query)
    except Unanswered as error:
        if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
            raise  # the command was not received
        raise Unanswered(
            f"{error}; it carries out no command whose caller has gone, unless it had begun: `sge-autoscaler status`"
        ) from error
    return _with(Stored(answer["message"], answer["done"], answer["facts"]), answer["warning"] or "")


@contextlib.contextmanager
def refused_if_closed() -> Iterator[None]:
    """Raises Refused if this user may not connect to the socket, as for a command that the autoscaler refuses."""
    try:
        yield
    except Unanswered as error:
        if isinstance(error.__cause__, PermissionError):
            raise Refused(str(error)) from error
        raise


def _with(stored: Stored, why: str) -> Stored:
    """The result, with the cause of a delay."""
    if not why:
        return stored
    message = f"{stored.message}; it takes effect at the next pass of the autoscaler, and that is late: {why}"
    return replace(stored, message=message, facts={**stored.facts, "late": why})
