"""Rows of the tables of `top`: the text of each cell, sorting and filtering. Control characters in texts of others are
escaped (`plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from autoscaler.plain_text import plain
from autoscaler.report.tables import ALIKE
from autoscaler.report.wording import count, duration
from autoscaler.terminal.readings import Document, Point, Readings

BARS = "▁▂▃▄▅▆▇█"


class TableRow(NamedTuple):
    """One line of a table."""

    key: str
    cells: tuple[str, ...]
    values: tuple[Any, ...]
    """Sort key of each cell."""
    subject: str = ""
    """The subject for `explain`; '': none."""


class Column(NamedTuple):
    """`of` gives the sort key; `text` the cell."""

    head: str
    of: Callable[[Document], Any]
    text: Callable[[Any], str] = str
    wide: bool = False
    """Shown on wide terminals only."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a table is shown. `sort`: number of the column; None: the autoscaler's order."""

    wide: bool = False
    filter: str = ""
    sort: int | None = None
    reverse: bool = False


def _text(value: Any) -> str:
    return "-" if value is None or value == "" else str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _price(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _reason(row: Document) -> str:
    return str(row["reason"]["text"])


def _conditions(row: Document) -> str:
    return ", ".join(one["name"] for one in row["conditions"])


QUEUE = (
    Column("tasks", lambda row: row["tasks"]),
    Column("longest", lambda row: row["longest_wait_s"], duration),
    Column("counts", lambda row: row["counted"], _yes),
    Column("jobs", lambda row: row["jobs"], wide=True),
    Column("code", lambda row: row["cause"]["code"], wide=True),
    Column("waits because", lambda row: row["cause"]["text"] + ("" if row["same"] else ALIKE)),
)
WORKERS = (
    Column("worker", lambda row: row["name"] or row["id"]),
    Column("phase", lambda row: row["phase"] or "persistent"),
    Column("slots", lambda row: (row["used"] or 0, row["slots"] or 0), lambda pair: f"{pair[0]}/{pair[1]}"),
    Column("load", lambda row: row["load"], _text),
    Column("price/h", lambda row: row["price_per_hour"] if row["phase"] != "gone" else None, _price),
    Column("type", lambda row: row["instance_type"], _text, wide=True),
    Column("array", lambda row: row["group_id"] or row["node_array"], _text, wide=True),
    Column("verdict", lambda row: row["verdict"]),
    Column("conditions", _conditions, _text),
    Column("why", _reason, wide=True),
    Column("id", lambda row: row["id"], _text, wide=True),
)
JOBS = (
    Column("job", lambda row: int(row["job"])),
    Column("owner", lambda row: row["owner"], _text),
    Column("tasks", lambda row: row["tasks"]),
    Column("slots", lambda row: row["slots"]),
    Column("waits", lambda row: row["waited_s"], duration),
)
LOG = (
    Column("at", lambda row: row["at"], lambda at: clock(at)),
    Column("what happened", lambda row: row["text"]),
)


def heads(columns: Sequence[Column], *, wide: bool) -> list[str]:
    return [column.head for column in _shown(columns, wide=wide)]


def queue_rows(readings: Readings, chosen: Chosen) -> list[TableRow]:
    """Waiting tasks, by reason."""
    rows = ((row["key"], row, "") for row in readings.queue.get("reasons", ()))
    return _rows(QUEUE, rows, chosen)


def worker_rows(readings: Readings, chosen: Chosen) -> list[TableRow]:
    rows = ((row["id"] or row["name"], row, row["id"] or row["name"]) for row in readings.workers)
    return _rows(WORKERS, rows, chosen)


def job_rows(first: Sequence[Document], chosen: Chosen) -> list[TableRow]:
    """Jobs of one reason."""
    return _rows(JOBS, ((row["job"], row, row["job"]) for row in first), chosen)


def log_rows(readings: Readings, chosen: Chosen) -> list[TableRow]:
    """Decisions and events, newest first."""
    rows = [
        (f"pass {one['pass']} {one['at']}", {"at": one["at"], "text": one["sentence"]}, "") for one in readings.passes
    ]
    rows += [(f"event {one['id']}", {"at": one["at"], "text": one["text"]}, subject_of(one)) for one in readings.events]
    newest = sorted(rows, key=lambda row: datetime.fromisoformat(row[1]["at"]), reverse=True)
    return _rows(LOG, newest, chosen)


def subject_of(event: Document) -> str:
    """The subject of an event for `explain`: its launch, its first job, or its worker."""
    if event["jobs"] and event["kind"] != "ordered":
        return str(event["jobs"]).partition(",")[0].partition("-")[0]
    return str(event["worker_id"] or event["order_id"] or "")


def _rows(columns: Sequence[Column], rows: Iterable[tuple[str, Document, str]], chosen: Chosen) -> list[TableRow]:
    shown = _shown(columns, wide=chosen.wide)
    found = []
    for key, row, subject in rows:
        every = [(column, column.of(row)) for column in columns]
        texts = {column.head: plain(column.text(value)) for column, value in every}
        if chosen.filter.lower() in " ".join((key, *texts.values())).lower():
            cells = tuple(texts[column.head] for column in shown)
            found.append(TableRow(key, cells, tuple(value for column, value in every if column in shown), subject))
    if chosen.sort is not None and chosen.sort < len(shown):
        at = chosen.sort
        found.sort(key=lambda row: (row.values[at] is not None, row.values[at]), reverse=chosen.reverse)
    return found


def _shown(columns: Sequence[Column], *, wide: bool) -> list[Column]:
    return [column for column in columns if wide or not column.wide]


def clock(at: str) -> str:
    """A time in an answer as local time."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")


def summary_lines(readings: Readings) -> Iterator[str]:
    """The lines above the tables."""
    status = readings.status
    if not status:
        return
    pass_at = f"pass {readings.number} at {clock(readings.as_of)}" if readings.as_of else "no pass has been made yet"
    yield plain(f"{status['cell']} · {status['provider'] or 'no provider'} · {pass_at}")
    prices = f"{status['price_per_hour']:.3f} {status['currency']} an hour"
    if status["unknown_prices"]:
        prices += f" and {status['unknown_prices']} of unknown price"
    ordered = f", {status['ordered']} ordered" if status["ordered"] else ""
    waiting = f"{status['waiting'] or 0} wait, {status['counted'] or 0} counted, {status['fitting'] or 0} can start"
    yield f"{count(status['workers'], 'worker')}{ordered} · {prices} · {waiting}"
    yield plain(" · ".join(_stops(status)))


def _stops(status: Document) -> Iterator[str]:
    """Causes that keep the autoscaler from launching or make it end, and what a person has to decide."""
    if status["paused"]:
        yield f"PAUSED by {status['paused']['by']}"
    if status["stop"]:
        yield f"STOPPING ({status['stop']})"
    if status["circuit_breaker"]:
        yield f"CIRCUIT BREAKER: {status['circuit_breaker']['text']}"
    for array, why in status["stopped"].items():
        yield f"no launches for {array}: {why}"
    for reason in status["protected"]:
        yield reason["text"]
    for host, lost in status.get("lost_jobs", {}).items():
        yield f"{host} is gone: {lost['text']}"
    for name in ("keep", "drain"):
        if status[name]:
            yield f"{name}: {', '.join(status[name])}"
    yield from status["troubles"]


def spark_lines(points: Sequence[Point], step: float, width: int) -> tuple[str, str]:
    """Demand and supply as two lines of bars of one scale, newest at the right; a blank: not known."""
    room = max(width - len("demand  100000"), 1)
    if not points:
        return "demand", "supply"
    last = points[-1].at
    places = {round((last - point.at) / step): point for point in points}
    most = max((max(point.demand, point.supply) for point in places.values()), default=0.0) or 1.0

    def line(name: str) -> str:
        values = (None if (point := places.get(back)) is None else getattr(point, name) for back in range(room))
        bars = "".join(" " if value is None else BARS[min(int(value / most * 8), 7)] for value in values)[::-1]
        return f"{name} {bars.lstrip() or ' '} {round(getattr(points[-1], name), 1):g}"

    return line("demand"), line("supply")
