"""Workers as lanes: each from its order to its end, with boot, jobs, idle time and leaving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from autoscaler.page.views.looking import Looking, Shown

ROWS = 50
SPANS = ("10m", "1h", "6h", "24h", "7d", "30d")
WIDTH = 1000.0
"""Of a lane, in units of its drawing."""


def lanes(looking: Looking) -> Shown:
    span, first = looking.choice("span", SPANS, "6h"), looking.number("first")
    search = looking.text("search", 100)
    found = looking.document("lanes", {"since": span, "search": search, "first": str(first), "last": str(ROWS)})
    begin, end = (datetime.fromisoformat(found[name]).timestamp() for name in ("since", "until"))
    scale = WIDTH / max(end - begin, 1.0)
    values = {
        "found": found,
        "drawn": [{"lane": lane, "parts": list(_parts(lane, begin, scale))} for lane in found["lanes"]],
        "span": span,
        "spans": SPANS,
        "search": search,
        "first": first,
        "rows": ROWS,
    }
    return Shown("lanes.html", "Workers over time", "workers", values)


def _parts(lane: Mapping[str, Any], begin: float, scale: float) -> Iterator[dict[str, Any]]:
    """The parts of a lane with place and width of each in its drawing."""
    for part in lane["parts"]:
        at, end = (datetime.fromisoformat(part[name]).timestamp() for name in ("from", "to"))
        yield {
            **part,
            "seconds": end - at,
            "x": round((at - begin) * scale, 1),
            "width": max(round((end - at) * scale, 1), 1.5),
        }
