"""The text of notifications: the subject, the reason's sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from autoscaler.core.model.reasons import Reason
from autoscaler.core.notifications.due import Notification, gravity_of, title_of
from autoscaler.plain_text import plain
from autoscaler.report.reasons.remedies import remedy_for
from autoscaler.report.waiting_cause import waiting_cause
from autoscaler.report.wording import count, text

OF_JOBS = "unsatisfiable_job"
"""The kind of notification that is about jobs."""
MOST_IN_FULL = 20
"""Paragraphs of one message; other notifications are counted."""
MOST_SUBJECTS, MOST_REASONS = 5, 3
"""The subjects and reasons that a paragraph names; others are counted."""
_CALLS = re.compile(
    r"(?<=@)(?=(?:everyone|here|channel|all|room|online)\b|[&!]?\w+[>|])|(?<![\w.-]@)(?<=@)(?=[\w*_&!])|"
    r"(?<=!)(?=(?:everyone|here|channel)\b)|(?<=<[@!])|(?<=<users)(?=/)|"
    r"(?<=\])(?=\s?[(\[:])|(?<=<)(?=[A-Za-z][\w+.-]*:)",
    re.IGNORECASE,
)
"""Where a chat would mention somebody, a group or everybody, or show a link under other words. A job's owner could
cause that: `qsub -l arch=@everyone`, `@online` (Rocket.Chat), `@group`, `-l arch='<!channel>'` (Slack), `<@&123>` (a
role of Discord), `<users/all>` (Google Chat), `@**all**` (Zulip), `[resume](https://…)` (Markdown), `<https://…|resume>`.
A queue instance, as `main.q@host`, stays as it is."""


def subject_line(cell: str, notifications: Sequence[Notification]) -> str:
    """One line: the cell, and the gravest cause."""
    first, more = _groups(notifications)[0], len(notifications) - 1
    about = headline(first[0]) + (f" and {count(more, 'more notification')}" if more else "")
    return _without_mentions(f"sge-autoscaler, cell {cell}: {about}")


def body(notifications: Sequence[Notification], zone: tzinfo | None = None) -> str:
    """A paragraph for all causes of a kind of one owner, the gravest first."""
    groups = _groups(notifications)
    paragraphs = ["\n".join(map(_without_mentions, _lines(each, zone))) for each in groups[:MOST_IN_FULL]]
    if more := sum(map(len, groups[MOST_IN_FULL:])):
        paragraphs.append(f"and {count(more, 'more notification')}: `sge-autoscaler notify` lists them")
    return "\n\n".join(paragraphs) + "\n"


def _groups(notifications: Sequence[Notification]) -> list[list[Notification]]:
    """Those of one kind and owner together, the gravest first; what has passed comes last."""
    found: dict[tuple[bool, int, str, str], list[Notification]] = {}
    for each in notifications:
        found.setdefault((each.passed, gravity_of(each.kind), each.kind, each.owner), []).append(each)
    return [found[key] for key in sorted(found, key=lambda key: key[:2])]


def _without_mentions(line: str) -> str:
    return _CALLS.sub(" ", plain(line))


def headline(notification: Notification) -> str:
    """`lost worker: ip-10-0-0-7`; `resolved: …` if the cause has passed."""
    about = f": {notification.subject}" if notification.subject else ""
    return f"{'resolved: ' if notification.passed else ''}{title_of(notification.kind)}{about}"


def _lines(group: Sequence[Notification], zone: tzinfo | None) -> Iterator[str]:
    first = group[0]
    when = datetime.fromtimestamp(first.at, zone).astimezone(zone)
    yield f"{_heading(group)} ({when:%Y-%m-%d %H:%M:%S %Z})"
    reasons = list(dict.fromkeys(text(each.reason) for each in group))
    for said in reasons[:MOST_REASONS]:
        yield f"It was: {said}" if first.passed else said
    if (more := len(reasons) - MOST_REASONS) > 0:
        yield f"and {count(more, 'more reason')}: `sge-autoscaler notify` lists them"
    if not first.passed and (remedy := remedy_of(first.reason, first.kind)):
        yield f"What to do: {remedy}"


def _heading(group: Sequence[Notification]) -> str:
    first, more = group[0], len(group) - MOST_SUBJECTS
    subjects = ", ".join(each.subject for each in group[:MOST_SUBJECTS] if each.subject)
    subjects += f" and {more} more" if more > 0 else ""
    of = f" of {first.owner}" if first.owner and len(group) > 1 else ""
    return headline(replace(first, subject=f"{subjects}{of}"))


def remedy_of(reason: Reason, kind: str = "") -> str:
    """The remedy of the reason, else of the first link of its trail that has one. Of a job: those of its cause, the
    owner's first.
    """
    if kind == OF_JOBS:
        cause = waiting_cause(reason)
        return " ".join(filter(None, (f"Its owner: {cause.owner_remedy}", cause.remedy)))
    own = remedy_for(reason.code, dict(reason.facts))
    return own or next((found for link in reason.trail if (found := remedy_of(link))), "")
