"""`sge-autoscaler serve`: the network listeners, without loop and cloud credentials; and their logins."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from autoscaler import audit
from autoscaler.commands._duration import Duration
from autoscaler.commands._output import echo, json_option, print_json, print_progress, print_result
from autoscaler.commands._service import password_file, token_file
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound
from autoscaler.garbage import collect_after_calls, return_large_blocks, share_one_arena
from autoscaler.plain_text import plain
from autoscaler.process import begin_anew
from autoscaler.report import SCHEMA
from autoscaler.report.log import configure_log
from autoscaler.store import lock

if TYPE_CHECKING:
    from autoscaler.store.calls import Call

_ROLES = click.Choice(("reader", "caller", "admin"))


@click.group("serve", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Log JSON, an object a line.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Serve CycleCloud's REST API at CP_CAP_AUTOSCALE_HTTP, and workers that ask to stop at CP_CAP_AUTOSCALE_AUTOSTOP.

    It stores requests of callers, and `run` acts on them. This process needs no cloud credentials: it drops all
    variables of the environment that are not its own, and makes no provider.
    """
    if context.invoked_subcommand is None:
        _serve(context.ensure_object(Invocation), as_json=as_json)


_KEPT = re.compile(
    r"(SGE_|LC_|PYTHON|XDG_)\w*"
    r"|PATH|HOME|USER|LOGNAME|SUDO_USER|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|LD_LIBRARY_PATH|VIRTUAL_ENV"
    r"|OPENSSL_CONF|SSL_CERT_FILE|SSL_CERT_DIR|NO_COLOR|FORCE_COLOR|COLUMNS|INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET"
    r"|LISTEN_FDS|LISTEN_PID"
    r"|instance_size"  # of Cloud Pipeline: queues without a name are called by it
)


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that this process needs: none of a provider, and no unknown one. What tells that this is the
    container of a Cloud Pipeline run goes as well, so the provider is said instead: suffixed names depend on it.
    """
    from autoscaler.settings.loading import PROVIDER_ENV, default_provider, is_setting

    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name) or is_setting(name)}
    default = default_provider(environ)
    return kept if default is None or kept.get(PROVIDER_ENV) else kept | {PROVIDER_ENV: default}


def begin_without_credentials(environ: Mapping[str, str]) -> None:
    """Execute this program anew without the other variables, so that /proc does not show them either."""
    kept = without_credentials(environ)
    if kept != dict(environ):
        begin_anew(kept)


def _serve(invocation: Invocation, *, as_json: bool) -> None:
    begin_without_credentials(invocation.environ)
    invocation = Invocation(invocation.environ, imports_provider=False)
    configure_log(invocation.settings.process, invocation.environ, as_json=as_json or None)
    share_one_arena()
    return_large_blocks()
    from autoscaler.commands._http import network

    with network(invocation) as (server, places):
        for description, url in sorted(places.items()):
            print_progress(description.format(url), as_json=as_json, url=url)
        if lock.running(invocation.cell) is None:
            message = (
                "no loop serves this cell: this server only stores requests, and `sge-autoscaler run` acts on them"
            )
            echo(message, err=True)
        collect_after_calls()
        server.serve()


@command.command("passwd")
@click.argument("user")
@click.option(
    "--role",
    type=_ROLES,
    help="What USER may do. Default: a known user keeps the role, a new one is an admin.",
)
@json_option
@click.pass_obj
def passwd(invocation: Invocation, user: str, role: str | None, as_json: bool) -> None:
    """Add USER, or set a new password. The command prompts for it, or reads it from standard input if that is no
    terminal.

    It writes only a salted hash.
    """
    from autoscaler.api.passwords import set_password
    from autoscaler.api.principal import Role

    password = (
        click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
        if sys.stdin.isatty()
        else sys.stdin.readline().rstrip("\r\n")
    )
    path = password_file(invocation)
    new = set_password(path, user, password, None if role is None else Role[role.upper()])
    message = f"{user} {'may call' if new else 'has a new password'}: {path}"
    audit.changed(invocation.who, message)
    print_result(message, as_json=as_json, user=user, new=new, path=str(path))


@command.command("calls")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of calls to show, newest first."
)
@json_option
@click.pass_obj
def calls(invocation: Invocation, limit: int, as_json: bool) -> None:
    """Show the newest calls: time, caller, call, status, and the operation that it began."""
    from autoscaler.store.calls import CallLog

    path = invocation.store_file.with_suffix(".calls")
    if not path.exists():
        if as_json:
            print_json({"schema": SCHEMA, "calls": []})
        else:
            echo("no call has been made yet")
        return
    log = CallLog.open(path)
    try:
        if as_json:
            print_json({"schema": SCHEMA, "calls": [_call_part(call, invocation) for call in log.newest(limit)]})
            return
        for call in log.newest(limit):
            when = datetime.fromtimestamp(call.at, invocation.zone).strftime("%Y-%m-%d %H:%M:%S")
            echo(
                plain(
                    f"{when}  {call.status}  {call.who or '-'}  {call.method} {call.target}  {call.operation}".rstrip()
                )
            )
    finally:
        log.close()


def _call_part(call: Call, invocation: Invocation) -> dict[str, Any]:
    return asdict(call) | {"at": datetime.fromtimestamp(call.at, invocation.zone).isoformat()}


MOST_DAYS = 3650
"""Tokens must expire: a forgotten one would only be useful to a thief."""


@command.group("token")
def token() -> None:
    """Manage tokens, which replace user and password: `Authorization: Bearer TOKEN`."""


@token.command("create")
@click.argument("name")
@click.option("--role", type=_ROLES, required=True, help="What its holder may do.")
@click.option(
    "--expires",
    type=Duration(),
    default="90d",
    show_default=True,
    help="How long it is valid: 12h, 90d.",
)
@json_option
@click.pass_obj
def create_token(invocation: Invocation, name: str, role: str, expires: float, as_json: bool) -> None:
    """Make a token and print it. It cannot be shown again: only its hash is kept. The journal of calls shows NAME."""
    from autoscaler.api import tokens
    from autoscaler.api.principal import Role

    if expires > MOST_DAYS * 86_400:
        raise click.BadParameter(f"a token is good for {MOST_DAYS} days at most", param_hint="--expires")
    made = tokens.create(token_file(invocation), name, Role[role.upper()], time.time() + expires)
    audit.changed(invocation.who, f"token {name} is made, role {role}")
    print_result(made, as_json=as_json, name=name, role=role, token=made)


@token.command("list")
@json_option
@click.pass_obj
def list_tokens(invocation: Invocation, as_json: bool) -> None:
    """List the tokens: name, role, expiry."""
    from autoscaler.api import tokens

    found = sorted(tokens.read(token_file(invocation)).values(), key=lambda each: each.name)
    if as_json:
        rows = [
            {
                "name": each.name,
                "role": str(each.role),
                "expires_at": datetime.fromtimestamp(each.expires_at, invocation.zone).isoformat(),
                "expired": each.expires_at <= time.time(),
            }
            for each in found
        ]
        print_json({"schema": SCHEMA, "tokens": rows})
        return
    for each in found:
        until = datetime.fromtimestamp(each.expires_at, invocation.zone).strftime("%Y-%m-%d %H:%M:%S")
        ended = " (has expired)" if each.expires_at <= time.time() else ""
        echo(plain(f"{each.name}  {each.role}  until {until}{ended}"))
    if not found:
        echo("there is no token")


@token.command("revoke")
@click.argument("name")
@json_option
@click.pass_obj
def revoke_token(invocation: Invocation, name: str, as_json: bool) -> None:
    """Revoke a token: it is refused from now on."""
    from autoscaler.api import tokens

    if not tokens.revoke(token_file(invocation), name):
        raise NotFound(f"there is no token {name}: `sge-autoscaler serve token list` shows all")
    audit.changed(invocation.who, f"token {name} is revoked")
    print_result(f"token {name} is revoked", as_json=as_json, name=name)
