"""What `plan`, `jobs`, `workers` and `status` show people: the documents' rows as tables, wide enough for a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autoscaler.plain_text import plain
from autoscaler.report.wording import count, duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Mapping[str, Any]
_JOBS_SHOWN = 4
GIB = 1024**3


def print_plan(document: Mapping[str, Any]) -> None:
    """The sentence, what would be done, and every verdict that is not about a bucket nobody chose."""
    console = _console()
    console.print(document["sentence"], soft_wrap=True)
    _print(console, "actions", _actions(document["actions"]))
    _print(console, "waiting jobs", _shapes(document["shapes"]))
    there, gone = _there(document["workers"])
    _print(console, "workers and hosts", _workers(there))
    _say_gone(console, gone)
    _print(
        console,
        "what can be launched",
        _buckets(document["buckets"]) if document["actions"] or document["counted"] else None,
    )
    for note in document["notes"]:
        console.print(f"note: {note['text']} [{note['code']}]", markup=False, soft_wrap=True)


def print_jobs(rows: Sequence[Row], not_read: Sequence[str] = ()) -> None:
    """Waiting jobs alone. `not_read`: what is said of those that could not be read."""
    if rows:
        _print(_console(), "", _shapes(rows))
    elif not not_read:
        _console().print("no job waits")
    for told in not_read:
        _console().print(told, markup=False, soft_wrap=True)


def print_workers(rows: Sequence[Row]) -> None:
    """Workers with what their machines are."""
    if not rows:
        _console().print("no workers")
        return
    table = _table("name", "id", "type", "array or group", "slots", "state", "verdict", "price/h", "why")
    there, gone = _there(rows)
    for row in there:
        table.add_row(
            row["name"],
            row["id"] or "-",
            row["instance_type"] or "-",
            row["group_id"] or row["node_array"] or "-",
            "-" if row["slots"] is None else f"{row['used']}/{row['slots']}",
            row["state"] or "-",
            row["verdict"],
            price(row["price_per_hour"]) if row["id"] and row["state"] != "terminated" else "-",
            row["reason"]["text"],
        )
    _print(_console(), "", table)
    _say_gone(_console(), gone)


def print_orphans(rows: Sequence[Row]) -> None:
    """Machines that nobody manages."""
    if not rows:
        _console().print("no orphans")
        return
    table = _table("id", "name", "type", "node array", "state", "age", "price/h", "jobs", "why")
    for row in rows:
        said = f"; its provider says: {row['message']}" if row["message"] else ""
        table.add_row(
            row["id"],
            row["name"] or "-",
            row["instance_type"],
            row["node_array"],
            row["state"],
            duration(row["age_s"]),
            price(row["price_per_hour"]),
            "-" if row["host"] is None else "yes" if row["busy"] else "none",
            row["reason"]["text"] + said,
        )
    _print(_console(), "", table)


def print_buckets(rows: Sequence[Row]) -> None:
    """What each node array could launch, what that costs, and why not the rest."""
    if not rows:
        _console().print("the provider offers nothing that the settings allow")
        return
    heads = ("node array", "type", "vCPUs", "memory", "zone", "price type", "price/h", "can be launched", "why")
    asked = "constraint" in rows[0]
    table = _table(*heads, *(("constraint",) if asked else ()))
    for row in rows:
        table.add_row(
            row["node_array"],
            row["instance_type"],
            str(row["vcpus"]),
            f"{row['memory'] / GIB:g}G",
            row["zone"] or "any",
            row["price_type"],
            price(row["price_per_hour"]),
            str(row["can_be_launched"]) if row["reason"] is None else "none",
            "" if row["reason"] is None else _why(row["reason"]),
            *((("met" if row["constraint"] is None else _why(row["constraint"])),) if asked else ()),
        )
    _print(_console(), "", table)


def print_catalog(rows: Sequence[Row]) -> None:
    """Instance types with what is known of their prices."""
    if not rows:
        _console().print("the catalogue has no such type")
        return
    table = _table("type", "family", "vCPUs", "memory", "GPUs", "on demand/h", "spot/h", "region", "as of")
    for row in rows:
        table.add_row(
            row["instance_type"],
            row["family"],
            str(row["vcpus"]),
            f"{row['memory'] / GIB:g}G",
            str(row["gpus"]),
            price(row["on_demand"]),
            price(row["spot"]),
            f"{row['cloud']} {row['region']}".strip() or "-",
            row["as_of"] or "-",
        )
    _print(_console(), "", table)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]], after: str = "") -> None:
    """A plain table of cells that are text already, with a line after it."""
    table = _table(*columns)
    for row in rows:
        table.add_row(*row)
    _console().print(table)
    if after:
        _console().print(after, soft_wrap=True)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """`name   value` lines."""
    table = _table("", "")
    table.show_header = False
    for name, value in pairs:
        table.add_row(name, value)
    _console().print(table)


def price(value: float | None) -> str:
    """An hour's price; unknown is said, never shown as nothing."""
    return "unknown" if value is None else f"{value:.3f}"


def _actions(rows: Sequence[Row]) -> Table | None:
    table = _table("action", "what", "why")
    for row in rows:
        if row["kind"] == "launch":
            each = price(row["price_per_hour"])
            what = f"{row['count']} {row['instance_type']} ({row['node_array']}, {each} an hour each)"
        elif "jobs" in row:
            more = f" … {len(row['jobs'])} in all" if len(row["jobs"]) > _JOBS_SHOWN else ""
            what = f"jobs {', '.join(row['jobs'][:_JOBS_SHOWN])}{more}"
        else:
            what = row["host"] or row["worker_id"]
        table.add_row(row["kind"], what, _why(row["reason"]))
    return table if rows else None


def _there(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """Without machines that are gone and leave nothing to do, and how many of these their provider still lists."""
    there = [row for row in rows if (row["reason"]["code"], row["verdict"]) != ("GONE", "wait")]
    return there, len(rows) - len(there)


def _say_gone(console: Console, gone: int) -> None:
    if gone:
        console.print(f"{count(gone, 'machine')} {'is' if gone == 1 else 'are'} gone: --json lists them")


def _shapes(rows: Sequence[Row]) -> Table | None:
    table = _table("jobs", "tasks", "slots", "waits", "counts", "why")
    for row in rows:
        jobs = row["jobs"]
        more = f" … {len(jobs)} in all" if len(jobs) > _JOBS_SHOWN else ""
        table.add_row(
            ", ".join(jobs[:_JOBS_SHOWN]) + more,
            str(row["tasks"]),
            str(row["slots"]),
            duration(row["waited_s"]),
            "yes" if row["counted"] else "no",
            _why(row["reason"]),
        )
    return table if rows else None


def _workers(rows: Sequence[Row]) -> Table | None:
    table = _table("name", "id", "verdict", "why")
    for row in rows:
        table.add_row(row["name"], row["id"] or "-", row["verdict"], _why(row["reason"]))
    return table if rows else None


def _buckets(rows: Sequence[Row]) -> Table | None:
    """Only what is of interest: chosen, or left out for a cause that may pass."""
    settled = {"BUCKET_NOT_ALLOWED", "BUCKET_NOT_PREFERRED", "BUCKET_TOO_SMALL", "BUCKET_AGAINST_RULES"}
    shown = [row for row in rows if row["chosen"] or row["reason"]["code"] not in settled]
    table = _table("type", "price type", "chosen", "why")
    for row in shown:
        table.add_row(row["instance_type"], row["price_type"], "yes" if row["chosen"] else "no", _why(row["reason"]))
    return table if shown else None


def _why(reason: Row) -> str:
    return f"{reason['text']} [{reason['code']}]"


def _table(*columns: str) -> Table:
    from autoscaler.report.plain_rich import PlainTable

    table = PlainTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(plain(column), overflow="fold")
    return table


def _console() -> Console:
    from autoscaler.report.plain_rich import PlainConsole

    return PlainConsole(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)


def _print(console: Console, title: str, table: Table | None) -> None:
    if table is None:
        return
    if title:
        console.print(f"\n{title}")
    console.print(table)
