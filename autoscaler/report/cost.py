"""The answer to `cost`: what workers cost in a period, and for whom. An estimate, from prices an hour and the time that
each worker was rented.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

from autoscaler.core.cost.amounts import HOUR_MS, MICROS, in_units, nanos_of
from autoscaler.core.cost.shares import UNKNOWN, Payer, Rental, Use, Window, split_of
from autoscaler.core.cost.sums import UNSEEN, CostRow, Table, unseen_micros
from autoscaler.durations import seconds_of
from autoscaler.errors import SettingsError
from autoscaler.plain_text import plain
from autoscaler.report import SCHEMA
from autoscaler.report.blocks import Block
from autoscaler.report.events import query_number
from autoscaler.report.wording import count, duration, instant
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store

PAYERS = ("user", "group", "department", "project", "account", "queue")
JOBS = ("job", "array")
WORKERS = ("type", "worker", "month")
"""Groupings whose rows are workers' time, with and without jobs."""
MONTHS = 13
"""Of `by=month` where no time is asked for: this one and those before it."""
BY = (*PAYERS, *JOBS, *WORKERS)
LEFT_OUT = (
    "disks, addresses and network",
    "the master and persistent hosts",
    "discounts, reservations, credits and taxes",
    "changes of a spot price after the launch",
    "what a cloud charges beyond the time from launch to end (a minimum, whole minutes)",
)
OTHERS = "(others)"
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""Queries may name times from 1970 to this one: other times have no date on some systems."""
_FORMULA = frozenset("=+-@\N{MINUS SIGN}")
"""A spreadsheet evaluates a cell that begins with one of these."""


@dataclass(frozen=True, slots=True)
class CostQuery:
    """A query of `cost`. Times as Unix seconds."""

    by: str
    since: float
    until: float
    visible: str | None = None
    """The only user whose jobs are shown, those of others being one row; None: all are shown."""
    first: int = 0
    last: int | None = None
    """Of the rows of each currency, so many from `first` on; None: all."""


@dataclass(slots=True)
class CostReport:
    """The answer."""

    query: CostQuery
    now: float
    tables: list[Table]
    unpriced: CostRow
    """Workers of unknown price: number and time."""
    unseen: int
    """Micros between the last observation of ended workers and the one that showed their end, if that is long."""
    known_since: float | None
    """The begin of the record, if the query begins earlier."""


def read_cost_query(query: Mapping[str, str], now: float, visible: str | None = None) -> CostQuery:
    """Read a query: `by`, and `month`, or `since` and `until`; `first`, `last`. Raises SettingsError."""
    by = query.get("by") or "user"
    if by not in BY:
        raise SettingsError(f"by: {by!r} is none of {', '.join(BY)}")
    month, begin, end = query.get("month", ""), query.get("since", ""), query.get("until", "")
    if month and (begin or end):
        raise SettingsError("give a month, or since and until, not both")
    this = datetime.fromtimestamp(now, UTC)
    since, until = month_of(month or this.strftime("%Y-%m"))
    if by == "month" and not month:
        since = _first_of(this, MONTHS - 1)
    since = moment(begin, "since", now) if begin else since
    until = moment(end, "until", now) if end else (until if month else now)
    if not (since >= 0 and until <= LATEST):
        raise SettingsError("since, until, month: only times from 1970 to 9998 can be asked for")
    if until <= since:
        raise SettingsError("until: the time ends before it begins")
    last = query_number(query, "last", 0) if query.get("last") else None
    return CostQuery(by, since, until, visible, query_number(query, "first", 0), last)


def month_of(text: str) -> tuple[float, float]:
    """Begin and end of `2026-11`, in UTC as clouds bill it. Raises SettingsError."""
    try:
        begin = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
        end = (begin + timedelta(days=31)).replace(day=1)
        return begin.timestamp(), end.timestamp()
    except (ValueError, OverflowError) as error:
        raise SettingsError(f"month: {text!r} is not a month: write 2026-11") from error


def _first_of(at: datetime, months: int) -> float:
    """When the month began that is so many before that of a time."""
    count = at.year * 12 + at.month - 1 - months
    return datetime(count // 12, count % 12 + 1, 1, tzinfo=UTC).timestamp()


def _stretches(query: CostQuery, window: Window) -> list[tuple[str, Window]]:
    """Of `by=month` the period month by month, with each one's name; else all of it, without one."""
    if query.by != "month":
        return [("", window)]
    found = []
    low, high = window.since, min(window.until, window.now)
    while low < high:
        at = datetime.fromtimestamp(low / 1000, UTC)
        after = min(_ms(_first_of(at, -1)), high)
        found.append((at.strftime("%Y-%m"), Window(low, after, window.now)))
        low = after
    return found


def moment(text: str, name: str, now: float) -> float:
    """`2026-11-03`, `2026-11-03T12:00` (UTC where no zone is given), or a length of time to look back: `7d`."""
    ago = seconds_of(text)
    if ago is not None:
        return now - ago
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise SettingsError(f"{name}: {text!r} is neither a date (2026-11-03) nor a length of time (7d)") from error


def cost_report(store: Store, query: CostQuery, now: float) -> CostReport:
    """The report from the store's records."""
    window = Window(_ms(query.since), _ms(query.until), _ms(now))
    tables: dict[str, Table] = {}
    unpriced, unseen = CostRow("unknown"), 0
    lives = [life for life in store.history.lifetimes(query.since) if life.created_at < min(query.until, now)]
    uses = store.usages.of_workers([life.worker_id for life in lives], query.since, query.until)
    key_of, stretches = _key_of(query), _stretches(query, window)
    for life, used in zip(lives, uses, strict=True):
        rental = rental_of(life)
        low, high = window.of(rental.began, rental.ended)
        if rental.nanos is None:
            unpriced.workers, unpriced.rented_ms = unpriced.workers + 1, unpriced.rented_ms + high - low
            continue
        table = tables.setdefault(rental.currency, Table(rental.currency))
        table.total.count(high - low)
        for month, stretch in stretches:
            whole = {"type": rental.instance_type, "worker": rental.worker_id, "month": month}.get(query.by)
            low, high = stretch.of(rental.began, rental.ended)
            if whole is None:
                table.add(used, split_of(rental, used, stretch), key_of)
            elif high > low or not month:
                table.add_whole(whole, split_of(rental, used, stretch), high - low)
        unseen += unseen_micros(rental, window)
    known = store.usages.since
    since = known if known is not None and known > query.since else None
    return CostReport(query, now, [tables[name] for name in sorted(tables)], unpriced, unseen, since)


def rental_of(life: Lifetime) -> Rental:
    """A lifetime in whole numbers."""
    price = life.price_per_hour
    return Rental(
        life.worker_id,
        life.name or "",
        life.instance_type,
        life.node_array,
        life.price_type,
        None if price is None else nanos_of(price),
        life.currency or "USD",
        life.slots or 1,
        _ms(life.created_at),
        None if life.joined_at is None else _ms(life.joined_at),
        None if life.ended_at is None else _ms(life.ended_at),
        None if life.seen_at is None else _ms(life.seen_at),
    )


def _key_of(query: CostQuery) -> Callable[[Use], str]:
    """The key of the row that a job's cost counts for. A payer's is made once: a month has few of them. They are told
    apart by identity, which is quicker; one that is kept here is no other one's.
    """
    of_payers: dict[int, tuple[Payer, str]] = {}

    def key(use: Use) -> str:
        if query.visible is not None and use.payer.user != query.visible:
            return OTHERS
        if query.by in JOBS:
            return f"{use.job}.{use.task}" if use.task and query.by == "job" else str(use.job)
        payer = use.payer
        found = of_payers.get(id(payer))
        if found is None:
            found = of_payers[id(payer)] = payer, _shown_payer(str(getattr(payer, query.by)))
        return found[1]

    return key


def _shown_payer(value: str) -> str:
    if value.startswith("("):  # a user's text must not look like a row of ours: `qsub -A '(idle)'`
        return f'"{value}"'
    return "(known when its jobs end)" if value == UNKNOWN else value or "(none)"


# -- as JSON and CSV -----------------------------------------------------------------------------------------------


def document(report: CostReport) -> dict[str, Any]:
    """As JSON: amounts to the millionth, so that rows add up to the sum."""
    query = report.query
    rows = slice(query.first, None if query.last is None else query.first + query.last)
    return {
        "schema": SCHEMA,
        "now": _at(report.now),
        "by": query.by,
        "since": _at(query.since),
        "until": _at(query.until),
        "estimate": True,
        "leaves_out": list(LEFT_OUT),
        "known_since": None if report.known_since is None else _at(report.known_since),
        "unknown_prices": {"workers": report.unpriced.workers, "rented_h": _hours(report.unpriced.rented_ms)},
        "unseen": report.unseen / MICROS,
        "currencies": [
            {
                "currency": table.currency,
                **_figures(table.total),
                "found": len(ordered),
                "rows": [{"key": row.key, **_figures(row)} for row in ordered[rows]],
            }
            for table in report.tables
            for ordered in [_ordered(table, query.by)]
        ],
    }


def _figures(row: CostRow) -> dict[str, Any]:
    return {
        "cost": row.cost / MICROS,
        "used": row.used / MICROS,
        "starting": row.starting / MICROS,
        "idle": row.idle / MICROS,
        "slot_h": _hours(row.slot_ms),
        "rented_h": _hours(row.rented_ms),
        "workers": row.workers,
    }


def csv_text(report: CostReport) -> str:
    """One line a row, idle and starting time included, so that the column `cost` adds up to the total."""
    file = StringIO()
    names = ("currency", report.query.by, *_figures(CostRow("")))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for table in report.tables:
        for row in [*_ordered(table, report.query.by), *_of_nobody(table, report.query.by)]:
            figures = {
                name: f"{value:.6f}" if isinstance(value, float) else value for name, value in _figures(row).items()
            }
            writer.writerow({"currency": table.currency, report.query.by: _cell(row.key), **figures})
    return file.getvalue()


def _cell(key: str) -> str:
    """A cell that no spreadsheet evaluates: users choose accounts and the like. Some programs skip invisible characters
    and read small and full-width signs as usual ones.
    """
    found = plain(key)
    visible = (
        letter for letter in unicodedata.normalize("NFKC", found) if unicodedata.category(letter)[0] not in "CMZ"
    )
    return f"'{found}" if next(visible, "") in _FORMULA else found


def _ordered(table: Table, by: str) -> list[CostRow]:
    """The rows, costliest first; months by time, the last one first."""
    rows = table.sorted()
    return sorted(rows, key=lambda row: row.key, reverse=True) if by == "month" else rows


def _of_nobody(table: Table, by: str) -> list[CostRow]:
    """If rows are of jobs: the time that no job held."""
    if by in WORKERS:
        return []
    found = [CostRow("(starting)", starting=table.total.starting), CostRow("(idle)", idle=table.total.idle)]
    return [row for row in found if row.cost]


# -- for people ------------------------------------------------------------------------------------------------------


def cost_blocks(report: CostReport) -> list[Block]:
    """A table for each currency, and notes."""
    query = report.query
    title = f"cost by {query.by}, from {instant(query.since)} to {instant(min(query.until, report.now))}"
    blocks = [Block(title, *_shown(table, query.by)) for table in report.tables]
    if not blocks:
        blocks = [Block(title, lines=["no worker of known price was rented"])]
    return [*blocks, Block(lines=list(_besides(report)))]


def _shown(table: Table, by: str) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Heads and rows. Amounts are rounded so that each column adds up to its sum."""
    rows = [*_ordered(table, by), *_of_nobody(table, by)]
    unit = unit_of(table.total.cost)
    costs, total = in_units([row.cost for row in rows], unit)
    if by not in WORKERS:
        hours = [f"{_hours(row.slot_ms):.2f}" if row.used or row.slot_ms else "" for row in (*rows, table.total)]
        cells = zip([row.key for row in rows] + ["sum"], hours, amounts_of([*costs, total], unit), strict=True)
        return (by, "slot hours", table.currency), list(cells)
    columns = [amounts_of([*column, whole], unit) for column, whole in _columns(rows, costs, unit)]
    heads = (by, "workers", "hours", "used", "starting", "idle", table.currency)
    named = [(row.key, str(row.workers), f"{_hours(row.rented_ms):.2f}") for row in rows]
    named.append(("sum", str(table.total.workers), f"{_hours(table.total.rented_ms):.2f}"))
    shown = zip(named, zip(*columns, strict=True), amounts_of([*costs, total], unit), strict=True)
    return heads, [(*left, *middle, right) for left, middle, right in shown]


def _columns(rows: Sequence[CostRow], costs: Sequence[int], unit: int) -> Iterator[tuple[list[int], int]]:
    """The columns used, starting and idle with their sums; each row adds up to its cost as shown."""
    split: list[list[int]] = []
    for row, cost in zip(rows, costs, strict=True):
        whole = [row.used, row.starting, row.idle]
        found = in_units(whole, unit)[0]
        found[whole.index(max(whole))] += cost - sum(found)
        split.append(found)
    for column in zip(*split, strict=True):
        yield list(column), sum(column)


def unit_of(total: int) -> int:
    """Cents; of sums below one, finer."""
    return 10_000 if total >= MICROS else 100 if total >= MICROS // 100 else 1


def amounts_of(units: Iterable[int], unit: int) -> list[str]:
    places = {10_000: 2, 100: 4, 1: 6}[unit]
    return [f"{each * unit / MICROS:.{places}f}" for each in units]


def _besides(report: CostReport) -> Iterator[str]:
    yield f"an estimate from prices an hour; it leaves out {'; '.join(LEFT_OUT)}"
    if report.unpriced.workers:
        hours = _hours(report.unpriced.rented_ms)
        yield f"not in it: {count(report.unpriced.workers, 'worker')} of unknown price, {hours:.2f} hours"
    if report.unseen:
        yield (
            f"{report.unseen / MICROS:.2f} of it is uncertain: nothing was observed for {duration(UNSEEN)} or longer "
            "when workers ended"
        )
    if report.known_since is not None:
        yield (
            f"the record begins at {instant(report.known_since)}: workers that had ended by then are not in it, and of "
            "others only what accounting reports"
        )


def _hours(milliseconds: float) -> float:
    return round(milliseconds / HOUR_MS, 6)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
