"""Decisions: each pass that changed something, its reasons, and what was considered. "What did it do at 3?" """

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from autoscaler.page.rendering import zone_of
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.decisions import KINDS

ROWS = 50


def decisions(looking: Looking) -> Shown:
    kind, at = looking.choice("kind", KINDS, ""), looking.text("at", 40)
    until, problem = _moment(at, looking.text("zone", 60))
    before = looking.number("before")
    found: Any = looking.document(
        "decisions", {"kind": kind, "until": until, "before": str(before or ""), "last": str(ROWS)}
    )
    values = {"found": found, "kind": kind, "kinds": KINDS, "at": at, "problem": problem, "paged": before > 0}
    return Shown("decisions.html", "Decisions", "decisions", values, live=not before)


def _moment(at: str, zone: str) -> tuple[str, str]:
    """The end of the time that is asked for, as answers read it, and what is wrong with the text. A time of day is of
    the zone that the link names, else of the cell's.
    """
    if not at:
        return "", ""
    try:
        local = datetime.fromisoformat(at)
    except ValueError:
        return "", f"{at} is not a time: write 2026-11-26T03:00"
    if local.tzinfo is None:
        named = zone_of(zone).at
        local = local.astimezone() if named is None else local.replace(tzinfo=named)
    try:
        return (local.astimezone(UTC) + timedelta(minutes=1)).isoformat(), ""
    except OverflowError:
        return "", f"{at} is out of reach"
