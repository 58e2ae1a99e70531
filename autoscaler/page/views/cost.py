"""Cost: by user, group, project, account, type or month, with the time that nobody used as rows of their own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi.responses import Response

from autoscaler.core.cost.amounts import MICROS, in_units, round_half_even
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.cost import BY, WORKERS, amounts_of, unit_of

ROWS = 200
MONTHS = 13


def cost(looking: Looking) -> Shown:
    by, month = _query(looking)
    first = looking.number("first")
    document = looking.document("cost", {"by": by, "month": month, "first": str(first), "last": str(ROWS)})
    values = {
        "document": document,
        "tables": [CostTable(table, of_workers=by in WORKERS) for table in document["currencies"]],
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


class CostTable:
    """A table of the answer, its amounts as shown: all with as many decimals, so that the column adds up to its sum."""

    def __init__(self, table: Mapping[str, Any], *, of_workers: bool) -> None:
        self.table = table
        whole = _micros(table["cost"])
        self.unit = unit_of(whole)
        unused = [0, 0] if of_workers else [_micros(table["starting"]), _micros(table["idle"])]
        parts = [*unused, *(_micros(row["cost"]) for row in table["rows"])]
        elsewhere = whole - sum(parts)  # on other pages
        units, total = in_units([*parts, elsewhere], self.unit)
        self.starting, self.idle, *costs, _, self.cost = amounts_of([*units, total], self.unit)
        self.rows = [{**row, "shown": cost} for row, cost in zip(table["rows"], costs, strict=True)]

    def amount(self, value: float) -> str:
        """Another amount, with as many decimals."""
        (shown,) = amounts_of([round_half_even(_micros(value), self.unit)], self.unit)
        return shown

    def share(self, value: float, whole: float | None = None) -> str:
        """A part in whole percent, of all where no other whole is given."""
        whole = self.table["cost"] if whole is None else whole
        percent = 100 * value / whole if whole else 0.0
        return "< 1 %" if 0 < percent < 0.5 else f"{percent:.0f} %"


def _micros(amount: float) -> int:
    return round(amount * MICROS)


def cost_csv(looking: Looking) -> Shown | Response:
    """The same table for a spreadsheet."""
    by, month = _query(looking)
    if looking.problems:  # a file has no place for a remark
        return Shown("trouble.html", "No such table", "cost", {"text": "; ".join(looking.problems)}, 400, live=False)
    text: Any = looking.document("cost", {"by": by, "month": month, "form": "csv"})
    shown = month or datetime.fromtimestamp(looking.operations.clock(), UTC).strftime("%Y-%m")
    name = f"cost-{by}.csv" if by == "month" and not month else f"cost-{by}-{shown}.csv"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(text.encode(errors="backslashreplace"), 200, headers, "text/csv; charset=utf-8")


def _query(looking: Looking) -> tuple[str, str]:
    month = looking.text("month", 20)
    try:
        if month:
            month = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC).strftime("%Y-%m")
    except ValueError:
        looking.problem("month", month, "a month as 2026-11")
        month = ""
    return looking.choice("by", BY, "user"), month


def _months(now: str) -> list[str]:
    """This month and those before it."""
    at = datetime.fromisoformat(now).astimezone(UTC)
    count = at.year * 12 + at.month - 1
    return [f"{each // 12:04d}-{each % 12 + 1:02d}" for each in range(count, count - MONTHS, -1)]
