"""Waiting jobs: one's own first, each category with its reason, since when, and what would let it start."""

from __future__ import annotations

from autoscaler.page.views.looking import Looking, Shown

ROWS = 100


def jobs(looking: Looking) -> Shown:
    first = looking.number("first")
    search, owner, code = looking.text("search", 100), looking.text("owner", 100), looking.text("code", 60)
    found = looking.document(
        "waiting", {"search": search, "owner": owner, "code": code, "first": str(first), "last": str(ROWS)}
    )
    values = {"found": found, "search": search, "owner": owner, "code": code, "first": first, "rows": ROWS}
    return Shown("jobs.html", "Waiting jobs", "jobs", values)
