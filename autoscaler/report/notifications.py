"""The text of notifications: the subject, the reason's sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from autoscaler.core.model.reasons import Reason
from autoscaler.core.notifications.due import Notification, title_of
from autoscaler.plain_text import plain
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.wording import count, text

MOST_IN_FULL = 20
"""Notifications that one message contains in full; others are counted."""
_CALLS = re.compile(
    r"(?<=@)(?=(?:everyone|here|channel|all|room)\b|[&!]?\w+[>|])|(?<=!)(?=(?:everyone|here|channel)\b)|(?<=<[@!])|"
    r"(?<=<users)(?=/)",
    re.IGNORECASE,
)
"""Where a chat would mention somebody, or everybody. A job's owner could cause that: `qsub -l arch=@everyone`,
`-l arch='<!channel>'` (Slack), `<@&123>` (a role of Discord), `<users/all>` (Google Chat)."""


def subject_line(cell: str, notifications: Sequence[Notification]) -> str:
    """One line: the cell, and what it is about."""
    first = notifications[0]
    about = headline(first) if len(notifications) == 1 else count(len(notifications), "notification")
    return _without_mentions(f"sge-autoscaler, cell {cell}: {about}")


def body(notifications: Sequence[Notification], zone: tzinfo | None = None) -> str:
    """A paragraph each."""
    paragraphs = ["\n".join(map(_without_mentions, _lines(each, zone))) for each in notifications[:MOST_IN_FULL]]
    if (more := len(notifications) - MOST_IN_FULL) > 0:
        paragraphs.append(f"and {count(more, 'more notification')}: `sge-autoscaler notify` lists them")
    return "\n\n".join(paragraphs) + "\n"


def _without_mentions(line: str) -> str:
    return _CALLS.sub(" ", plain(line))


def headline(notification: Notification) -> str:
    """`lost worker: ip-10-0-0-7`; `resolved: …` if the cause has passed."""
    about = f": {notification.subject}" if notification.subject else ""
    return f"{'resolved: ' if notification.passed else ''}{title_of(notification.kind)}{about}"


def _lines(notification: Notification, zone: tzinfo | None) -> Iterator[str]:
    when = datetime.fromtimestamp(notification.at, zone).astimezone(zone)
    yield f"{headline(notification)} ({when:%Y-%m-%d %H:%M:%S %Z})"
    if notification.passed:
        yield f"It was: {text(notification.reason)}"
        return
    yield text(notification.reason)
    if remedy := remedy_of(notification.reason):
        yield f"What to do: {remedy}"


def remedy_of(reason: Reason) -> str:
    """The remedy of the reason, else of the first link of its trail that has one."""
    own = REASONS[reason.code].remedy
    return own or next((found for link in reason.trail if (found := remedy_of(link))), "")
