"""Decisions: each pass that changed something, its reasons, and what was considered. "What did it do at 3?" """

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from autoscaler.page.rendering import zone_of
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.decisions import KINDS

ROWS = 50
_SECONDS = re.compile(r"[T ]\d\d:?\d\d:?\d\d")


def decisions(looking: Looking) -> Shown:
    kind, at = looking.choice("kind", KINDS, ""), looking.text("at", 40)
    until, problem = _moment(at, looking.text("zone", 60))
    before = looking.number("before")
    found: Any = looking.document(
        "decisions", {"kind": kind, "until": until, "before": str(before or ""), "last": str(ROWS)}
    )
    values = {"found": found, "kind": kind, "kinds": KINDS, "at": at, "problem": problem, "paged": before > 0}
    return Shown("decisions.html", "Decisions", "decisions", values, live=not before)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moment(at: str, zone: str) -> tuple[str, str]:
    """The end of the time that is asked for, as answers read it, and what is wrong with the text. A time of day is of
    the zone that the link names, else of the cell's.
    """
    if not at:
        return "", ""
    try:
        local = datetime.fromisoformat(at)
    except ValueError:
        return "", f"{at} is not a time: write 2026-11-26, 2026-11-26T03:00 or 2026-11-26T03:00:30"
    if local.tzinfo is None:
        named = zone_of(zone).at
        local = local.replace(tzinfo=named)
    try:
        if _is_day(at):
            following = local + timedelta(days=1)  # by the clock on the wall: a day may have 23 or 25 hours
            return (following.astimezone(UTC) - timedelta(microseconds=1)).isoformat(), ""
        # What is written without seconds, or without parts of one, means all of it.
        whole = timedelta(seconds=1) if _SECONDS.search(at) else timedelta(minutes=1)
        return (local.astimezone(UTC) + whole - timedelta(microseconds=1)).isoformat(), ""
    except OverflowError:
        return "", f"{at} is out of reach"
