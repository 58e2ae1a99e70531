"""The overview: is it all right, what does it cost, what should I do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.model.reasons import Code
from autoscaler.page.reader import Unavailable
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.status import attention_pairs
from autoscaler.report.wording import count, duration

SPANS = {"10m": (600, 10), "1h": (3600, 30), "6h": (6 * 3600, 300), "24h": (86_400, 900), "7d": (7 * 86_400, 3 * 3600)}
"""Seconds to look back, and seconds of a point, by the name in links."""
DECISIONS = 8
_MONTH_STEP = 7 * 86_400


def overview(looking: Looking) -> Shown:
    span = looking.choice("span", SPANS, "6h")
    since, step = SPANS[span]
    history = looking.document("history", {"since": str(since), "step": str(step)})
    passes = looking.document("passes", {"last": str(DECISIONS)})["passes"]
    status = looking.document("status")
    of_status = looking.reading
    codes, hidden = _causes(looking, status)
    values = {
        "status": status,
        "attention": ([("passes", of_status.trouble, "")] if of_status and of_status.late else [])
        + [(name, text, "") for name, text in attention_pairs(status)]
        + list(_waiting(codes, looking.limit_after, fitting=status["fitting"])),
        "hidden": hidden,
        "decisions": list(reversed(passes)),
        "points": history["periods"],
        "span": span,
        "spans": list(SPANS),
        "month": _month(looking, status),
    }
    looking.reading = of_status  # the figures are of its pass, also if another one was made meanwhile
    return Shown("overview.html", "Overview", "./", values)


def _causes(looking: Looking, status: Any) -> tuple[list[Mapping[str, Any]], int]:
    """Why jobs wait that the viewer may see, and how many tasks of others wait besides."""
    if not status["waiting"]:
        return [], 0
    try:
        document = looking.document("waiting", {"last": "1"})
    except Unavailable:  # no pass was made yet by this process: the store's part is shown all the same
        return [], 0
    return document["codes"], document["not_shown"]


def _waiting(codes: list[Mapping[str, Any]], limit_after: float, *, fitting: int) -> Iterator[tuple[str, str, str]]:
    """What keeps waiting jobs until a person does something: a name, a text, and the code that Jobs filters by."""
    for one in codes:
        longest = duration(one["longest_wait_s"])
        proven = one.get("unsatisfiable", 0)  # an older service does not say
        if proven:
            are = "is" if proven == 1 else "are"
            yield "unsatisfiable", f"{count(proven, 'task')} {are} unsatisfiable: {one['short']}", one["code"]
        if left := one["never"] - proven:
            fits = f"{count(left, 'task')} fit{'s' if left == 1 else ''} nowhere"
            yield "fits nowhere", f"{fits}, not proven unsatisfiable: {one['short']}", one["code"]
        if not one["never"] and (
            one["code"] == Code.CAPPED.value and not fitting and one["longest_wait_s"] >= limit_after
        ):
            text = f"{count(one['tasks'], 'task')} at a limit, for up to {longest}; no counted task fits anywhere"
            yield "limit reached", text, one["code"]


def _month(looking: Looking, status: Any) -> dict[str, Any]:
    """This month's cost by the monitor's samples, and the budget of the cell."""
    now = datetime.fromisoformat(status["now"]).astimezone(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    seconds = max(int((now - begin).total_seconds()), 60)
    periods = looking.document("history", {"since": str(seconds), "step": str(_MONTH_STEP)})["periods"]
    budget = next((each for each in status["budgets"] if each["owner"] == "the cell"), None)
    return {"cost": sum(period["cost"] for period in periods), "since": begin.isoformat(), "budget": budget}
