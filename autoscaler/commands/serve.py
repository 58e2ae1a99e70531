"""`sge-autoscaler serve`: the REST API without a loop, and who may call it."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click

from autoscaler.commands.context import Invocation
from autoscaler.report.log import configure_log
from autoscaler.store import lock


@click.group("serve", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Serve CycleCloud's REST API without scaling: what callers ask for is stored, and acted on once `run` serves.

    `run` serves it itself where CP_CAP_AUTOSCALE_HTTP is set; this is for a machine on which the loop is down, or
    for a second address beside it.
    """
    if context.invoked_subcommand is None:
        _serve(context.ensure_object(Invocation))


def password_file(invocation: Invocation) -> Path:
    """Who may call."""
    return invocation.settings.process.http_passwords or invocation.state_directory / "http-passwords"


def _serve(invocation: Invocation) -> None:
    configure_log(invocation.settings.process, invocation.environ)
    from autoscaler.commands._http import cluster, rest

    with rest(invocation) as server:
        click.echo(f"REST API at {server.url}/clusters/{cluster(invocation)}")
        if lock.running(invocation.cell) is None:
            click.echo(
                "no loop serves this cell: this server only stores requests, and `sge-autoscaler run` acts on them",
                err=True,
            )
        server.serve()


@command.command("passwd")
@click.argument("user")
@click.pass_obj
def passwd(invocation: Invocation, user: str) -> None:
    """Let USER call, or give a new password, which is asked for, or read from standard input where that is no terminal.

    Only its salted hash is written.
    """
    from autoscaler.api.passwords import set_password

    password = (
        click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
        if sys.stdin.isatty()
        else sys.stdin.readline().rstrip("\r\n")
    )
    path = password_file(invocation)
    new = set_password(path, user, password)
    click.echo(f"{user} {'may call' if new else 'has a new password'}: {path}")


@command.command("calls")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of calls to show, newest first."
)
@click.pass_obj
def calls(invocation: Invocation, limit: int) -> None:
    """Show the newest calls: when, who, what, how it was answered, and which operation it began."""
    from autoscaler.store.calls import CallLog

    path = invocation.store_file.with_suffix(".calls")
    if not path.exists():
        click.echo("no call has been made yet")
        return
    log = CallLog.open(path)
    try:
        for call in log.newest(limit):
            when = datetime.fromtimestamp(call.at, invocation.zone).strftime("%Y-%m-%d %H:%M:%S")
            click.echo(
                f"{when}  {call.status}  {call.who or '-'}  {call.method} {call.target}  {call.operation}".rstrip()
            )
    finally:
        log.close()
