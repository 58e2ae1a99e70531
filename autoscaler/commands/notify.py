"""`sge-autoscaler notify`: the causes that operators are notified of, and a test of their services."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import echo, json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError
from autoscaler.plain_text import plain
from autoscaler.report import SCHEMA

FAILED = 1


@click.command("notify")
@click.option("--test", is_flag=True, help="Send a test message to each service now.")
@json_option
@click.pass_obj
def command(invocation: Invocation, test: bool, as_json: bool) -> int:
    """Show the present causes of notifications, and the messages that are not sent yet.

    With --test it sends one message to each service of CP_CAP_AUTOSCALE_NOTIFICATIONS, as the user of the autoscaler,
    and shows each result. The exit code is 1 if a service did not accept it.
    """
    document = _tried(invocation) if test else _shown(invocation)
    if as_json:
        print_json({"schema": SCHEMA, **document})
    else:
        for line in _test_lines(document) if test else _lines(document):
            echo(plain(line))
    return FAILED if any(each["why"] for each in document.get("services", ())) else 0


def _tried(invocation: Invocation) -> dict[str, Any]:
    """Send a test message; the result of each service. Raises CommandError, SettingsError."""
    from dataclasses import asdict

    from autoscaler.commands.serving import notification_settings
    from autoscaler.engine.deliver import Message
    from autoscaler.engine.notifications import call
    from autoscaler.process import SystemRunner

    settings = notification_settings(invocation.as_running.settings)
    if settings.file is None:
        raise SettingsError("no service is set: CP_CAP_AUTOSCALE_NOTIFICATIONS names a file with one URL a line")
    title = f"sge-autoscaler, cell {invocation.cell.title}: test"
    body = f"{invocation.who} tries whether notifications arrive.\n"
    message = Message(str(settings.file.absolute()), plain(title), plain(body), settings.group)
    sent = call(SystemRunner(), message, invocation.environ)
    return {"file": str(settings.file), "services": [asdict(each) for each in sent]}


def _test_lines(document: Mapping[str, Any]) -> Iterator[str]:
    for each in document["services"]:
        yield f"line {each['line']}, {each['service']}: {each['why'] or 'sent'}"


def _shown(invocation: Invocation) -> dict[str, Any]:
    from autoscaler.core.notifications.due import Watched
    from autoscaler.report.document import reason_part
    from autoscaler.report.notifications import remedy_of
    from autoscaler.report.status import notifications_part

    def part(each: Watched) -> dict[str, Any]:
        return {
            "kind": each.kind,
            "subject": each.subject,
            "since": _at(each.since),
            "notified_at": None if each.notified_at is None else _at(each.notified_at),
            "reason": reason_part(each.reason),
            "remedy": remedy_of(each.reason, each.kind),
        }

    with reading_store(invocation) as store:
        watched = store.notifications.known().watched.values()
        document = notifications_part(store)
    return {**document, "causes": [part(each) for each in watched if each.gone_since is None]}


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from autoscaler.core.notifications.due import title_of

    for each in document["causes"]:
        about = f" ({each['subject']})" if each["subject"] else ""
        notified = f"sent at {each['notified_at']}" if each["notified_at"] else "not sent yet"
        yield f"{title_of(each['kind'])}{about} since {each['since']}, {notified}: {each['reason']['text']}"
        if each["remedy"]:
            yield f"  → {each['remedy']}"
    if not document["causes"]:
        yield "nothing that operators are notified of holds now"
    if document["waiting"]:
        why = f": {document['message']}" if document["message"] else ""
        yield f"{document['waiting']} wait to be sent{why}"
    if document["dropped"]:
        yield f"{document['dropped']} could never be sent"


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds))
