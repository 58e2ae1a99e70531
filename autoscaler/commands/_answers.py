"""Answers for commands that show something (`main.ANSWERED`): from the running autoscaler of this cell, else from the
site's. Imports very little. If neither answers, a command reads the state or observes by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from autoscaler.answer_client import OF_ROOT, SOCKET_ENV, ServiceAddress, Unanswered, ask, named_by, remote, target
from autoscaler.commands._output import print_json
from autoscaler.commands._service import socket_name
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError
from autoscaler.plain_text import plain
from autoscaler.report.blocks import Block, print_blocks

_STORED = "shows what it has stored"
_INSTEAD = {"status": _STORED, "history": _STORED, "events": _STORED, "cost": _STORED}
OLD = 60.0
"""Age of an answer in seconds from which a note on standard error names it with `--json`, too; without, always."""


def print_answer(
    invocation: Invocation, question: str, query: Mapping[str, str], *, as_json: bool, as_csv: bool = False
) -> bool:
    """Print the running autoscaler's answer. False: none answers, which was reported, and this machine's own cell can
    be read. Raises NotFound, Unanswered if an address is named, Refused, SettingsError.
    """
    answer = answered(invocation, question, {**query, "form": "document" if as_json else "csv" if as_csv else "text"})
    if answer is None:
        continue_as_service_account(invocation)
        return False
    if as_csv:
        sys.stdout.write(answer["document"])
        return True
    if as_json:
        print_age(invocation, answer, late_only=True)
        print_json(answer["document"])
        return True
    print_blocks(Block(*block) for block in answer["blocks"])
    print_age(invocation, answer)
    return True


def continue_as_service_account(invocation: Invocation) -> None:
    """Root reads the state as the account of the service."""
    if os.geteuid() == 0:
        from autoscaler.commands._account import become_owner_of_state

        become_owner_of_state(invocation)


def answered(invocation: Invocation, question: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """The running autoscaler's answer; None: none answers, which was reported."""
    place = place_of_service(invocation)
    if place is None:
        return None
    try:
        return ask(place, target(question, query))
    except Unanswered as error:
        if place.url:
            raise
        invocation.silent = True
        invocation.note(f"{error}: this command {_INSTEAD.get(question, 'observes by itself')}")
    return None


def print_age(invocation: Invocation, answer: Mapping[str, Any], *, late_only: bool = False) -> None:
    """Print the time of the answer on standard error."""
    if answer["as_of"] is None:
        return
    when = datetime.fromisoformat(answer["as_of"]).strftime("%Y-%m-%d %H:%M:%S %Z")
    age = answer["age_s"]
    if not late_only or answer["trouble"] or age > OLD:
        invocation.note(f"as of the pass at {when}, {_age(age)} ago (pass {answer['pass']})")
    if answer["trouble"]:
        invocation.note(plain(f"nothing was observed since: {answer['trouble']}"))


def warn_not_running(invocation: Invocation) -> None:
    """Report that no autoscaler runs, so that the output is from stored state."""
    if invocation.running is None:
        invocation.note(f"no autoscaler serves cell {invocation.cell.title} on this machine")


def socket_of_service(invocation: Invocation) -> str:
    """The socket of this machine's autoscaler; '': none was found."""
    if chosen := invocation.environ.get(SOCKET_ENV):
        return chosen
    try:
        who = invocation.running
        if who is not None and who.socket:
            return who.socket
        usual = OF_ROOT / socket_name(invocation)
        return str(usual) if who is not None and usual.exists() else ""
    except SettingsError:  # there is no cell here
        return ""


def place_of_service(invocation: Invocation) -> ServiceAddress | None:
    """The autoscaler to ask: the one that the environment names, else this machine's, else the site's; None: none."""
    elsewhere = remote(invocation.environ)
    if elsewhere is not None and named_by(invocation.environ):
        return elsewhere
    here = socket_of_service(invocation)
    return ServiceAddress(here) if here else elsewhere


def _age(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
