"""Cost: by user, group, project, account, type or month, with the time that nobody used as rows of their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi.responses import Response

from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.cost import BY, WORKERS

ROWS = 200
MONTHS = 13


def cost(looking: Looking) -> Shown:
    by, month = _query(looking)
    first = looking.number("first")
    document = looking.document("cost", {"by": by, "month": month, "first": str(first), "last": str(ROWS)})
    values = {
        "document": document,
        "by": by,
        "month": month,
        "choices": BY,
        "months": _months(document["now"]),
        "first": first,
        "rows": ROWS,
        "of_workers": by in WORKERS,
        "shown": month or document["now"][:7],
        "titled": "of the last months" if by == "month" and not month else f"of {month or document['now'][:7]}",
    }
    return Shown("cost.html", "Cost", "cost", values, live=False)


def cost_csv(looking: Looking) -> Response:
    """The same table for a spreadsheet."""
    by, month = _query(looking)
    text: Any = looking.document("cost", {"by": by, "month": month, "form": "csv"})
    name = f"cost-{by}{f'-{month}' if month else ''}.csv"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(text.encode(errors="backslashreplace"), 200, headers, "text/csv; charset=utf-8")


def _query(looking: Looking) -> tuple[str, str]:
    month = looking.text("month", 7)
    try:
        datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        month = ""
    return looking.choice("by", BY, "user"), month


def _months(now: str) -> list[str]:
    """This month and those before it."""
    at = datetime.fromisoformat(now).astimezone(UTC)
    count = at.year * 12 + at.month - 1
    return [f"{each // 12:04d}-{each % 12 + 1:02d}" for each in range(count, count - MONTHS, -1)]
