"""Waiting jobs: one's own first, each category with its reason, since when, and what would let it start."""

from __future__ import annotations

from autoscaler.page.reader import Unavailable
from autoscaler.page.views.looking import Looking, Shown

ROWS = 100


def _story(looking: Looking, search: str) -> dict[str, str] | None:
    """The job that a search names if it does not wait, with its state; None: it names none that is known."""
    number = search.partition(".")[0]
    if not (number.isascii() and number.isdecimal() and len(number) <= 18):
        return None
    of_list = looking.reading
    try:
        document = looking.document("explain", {"subject": search})
    except Unavailable:  # there is no such job, or only its owner may see it
        return None
    finally:
        looking.reading = of_list
    return {"subject": search, "job": str(document.get("job") or search), "state": str(document.get("state") or "")}


def jobs(looking: Looking) -> Shown:
    first = looking.number("first")
    search, owner, code = looking.text("search", 100), looking.text("owner", 100), looking.text("code", 60)
    found = looking.document(
        "waiting",
        {"search": search, "owner": owner, "code": code, "first": str(first), "last": str(ROWS), "names": "1"},
    )
    values = {
        "story": _story(looking, search) if search and not found["categories"] else None,
        "found": found,
        "search": search,
        "owner": owner,
        "code": code,
        "first": first,
        "rows": ROWS,
    }
    return Shown("jobs.html", "Waiting jobs", "jobs", values)
