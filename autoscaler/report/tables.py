"""The tables of `plan`, `jobs`, `workers`, `status` and others: the documents' rows as blocks of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoscaler.report.blocks import Block, print_blocks
from autoscaler.report.wording import count, duration, workers_of

Row = Mapping[str, Any]
_JOBS_SHOWN = 4
GIB = 1024**3
ALIKE = " (the oldest; others alike)"
"""Added to a sentence that is one job's, where those of others have other figures."""


def print_plan(document: Mapping[str, Any]) -> None:
    """The sentence, the actions, and the verdicts; of buckets, those of interest."""
    there, gone = _there(document["workers"])
    launchable = _buckets(document["buckets"]) if document["actions"] or document["counted"] else Block()
    tables = (
        ("actions", _actions(document["actions"], document["currency"])),
        ("what launched workers are meant for", _assignment(document.get("assignment", ()))),
        ("waiting jobs", _waiting_jobs(document["job_categories"])),
        ("workers and hosts", _workers(there)._replace(lines=_gone(gone))),
        ("what can be launched", launchable),
    )
    notes = [f"note: {note['text']} [{note['code']}]" for note in document["notes"]]
    titled = (table._replace(title=title) if table.rows else table for title, table in tables)
    print_blocks((Block(lines=[document["sentence"]]), *titled, Block(lines=notes)))


def _assignment(rows: Sequence[Row]) -> Block:
    cells = [
        (row["node_array"], row["worker"], str(row["slots"]), " ".join(row["jobs"]), row["category"]) for row in rows
    ]
    return Block(columns=("node array", "worker", "slots", "jobs, or some of them", "job category"), rows=cells)


def jobs_blocks(rows: Sequence[Row], not_read: Sequence[str] = ()) -> list[Block]:
    """Waiting jobs. `not_read`: lines about jobs that could not be read or are not shown."""
    none = [] if rows or not_read else ["no job waits"]
    return [_waiting_jobs(rows)._replace(lines=[*none, *not_read])]


def workers_blocks(rows: Sequence[Row]) -> list[Block]:
    """Workers with what their machines are."""
    if not rows:
        return [Block(lines=["no workers"])]
    there, gone = _there(rows)
    columns = ("name", "id", "type", "array or group", "slots", "phase", "verdict", "price/h", "why")
    cells = [
        (
            row["name"],
            row["id"] or "-",
            row["instance_type"] or "-",
            row["group_id"] or row["node_array"] or "-",
            "-" if row["slots"] is None else f"{row['used']}/{row['slots']}",
            _phase(row),
            row["verdict"],
            price(row["price_per_hour"], row["currency"]) if row["id"] and row["state"] != "terminated" else "-",
            row["reason"]["text"],
        )
        for row in there
    ]
    return [Block(columns=columns, rows=cells, lines=_gone(gone))]


def _phase(row: Row) -> str:
    """`ready: idle, in alarm`."""
    held = ", ".join(each["name"] for each in row["conditions"])
    return f"{row['phase'] or '-'}{f': {held}' if held else ''}"


def queue_blocks(document: Row) -> list[Block]:
    """Waiting tasks, by reason."""
    cells = [
        (
            str(row["tasks"]),
            duration(row["longest_wait_s"]),
            "yes" if row["counted"] else "no",
            _why(row["cause"]) + ("" if row["same"] else ALIKE),
        )
        for row in document["reasons"]
    ]
    hidden = document["not_shown"]
    note = [f"{count(hidden, 'task')} of others: only their owners and managers see them"] if hidden else []
    none = [] if cells or note else ["no job waits"]
    return [Block(columns=("tasks", "longest", "counts", "why"), rows=cells, lines=[*none, *note])]


def waiting_blocks(document: Row) -> list[Block]:
    """A page of the waiting job categories."""
    cells = [
        (
            " ".join(row["jobs"]) + (" ..." if row["count"] > len(row["jobs"]) else ""),
            row["owner"] or "-",
            str(row["tasks"]),
            str(row["slots"]),
            duration(row["waited_s"]),
            _why(row["cause"]),
        )
        for row in document["categories"]
    ]
    hidden = document["not_shown"]
    note = [f"{count(hidden, 'task')} of others: only their owners and managers see them"] if hidden else []
    left = document["found"] - document["first"] - len(cells)
    more = [f"{left} more categories"] if left > 0 else []
    none = [] if cells or note else ["no such job waits"]
    columns = ("jobs", "owner", "tasks", "slots", "waits", "why")
    return [Block(columns=columns, rows=cells, lines=[*none, *more, *note])]


def print_orphans(rows: Sequence[Row]) -> None:
    """Machines that no pass manages."""
    cells = [
        (
            row["id"],
            row["name"] or "-",
            row["instance_type"],
            row["node_array"],
            row["state"],
            duration(row["age_s"]),
            price(row["price_per_hour"], row["currency"]),
            "-" if row["host"] is None else "yes" if row["busy"] else "none",
            row["reason"]["text"] + (f"; its provider says: {row['message']}" if row["message"] else ""),
        )
        for row in rows
    ]
    columns = ("id", "name", "type", "node array", "state", "age", "price/h", "jobs", "why")
    print_blocks([Block(columns=columns, rows=cells, lines=[] if rows else ["no orphans"])])


def print_buckets(rows: Sequence[Row]) -> None:
    """Buckets by node array, with prices, and why some cannot be launched."""
    if not rows:
        print_blocks([Block(lines=["the provider offers nothing that the settings allow"])])
        return
    heads = ("node array", "type", "vCPUs", "memory", "zone", "price type", "price/h", "can be launched", "why")
    constrained = "constraint" in rows[0]
    cells = [
        (
            row["node_array"],
            row["instance_type"],
            str(row["vcpus"]),
            f"{row['memory'] / GIB:g}G",
            row["zone"] or "any",
            row["price_type"],
            price(row["price_per_hour"], row["currency"]),
            str(row["can_be_launched"]) if row["reason"] is None else "none",
            "" if row["reason"] is None else _why(row["reason"]),
            *((("met" if row["constraint"] is None else _why(row["constraint"])),) if constrained else ()),
        )
        for row in rows
    ]
    print_blocks([Block(columns=(*heads, *(("constraint",) if constrained else ())), rows=cells)])


def print_catalog(rows: Sequence[Row]) -> None:
    """Instance types with their known prices."""
    cells = [
        (
            row["instance_type"],
            row["family"],
            str(row["vcpus"]),
            f"{row['memory'] / GIB:g}G",
            str(row["gpus"]),
            price(row["on_demand"], row["currency"]),
            price(row["spot"], row["currency"]),
            f"{row['cloud']} {row['region']}".strip() or "-",
            row["as_of"] or "-",
        )
        for row in rows
    ]
    columns = ("type", "family", "vCPUs", "memory", "GPUs", "on demand/h", "spot/h", "region", "as of")
    print_blocks([Block(columns=columns, rows=cells, lines=[] if rows else ["the catalogue has no such type"])])


def pairs_block(pairs: Iterable[tuple[str, str]]) -> Block:
    """`name   value` lines."""
    return Block(columns=("", ""), rows=list(pairs))


def price(value: float | None, currency: str) -> str:
    """A price an hour, or `unknown`."""
    return "unknown" if value is None else f"{value:.3f} {currency}"


def _actions(rows: Sequence[Row], currency: str) -> Block:
    cells = []
    for row in rows:
        if row["kind"] == "launch":
            what = f"{workers_of(row)} ({row['node_array']}, {_price_of(row['candidates'][0], currency)})"
        elif "jobs" in row:
            more = f" … {len(row['jobs'])} in all" if len(row["jobs"]) > _JOBS_SHOWN else ""
            what = f"jobs {', '.join(row['jobs'][:_JOBS_SHOWN])}{more}"
        elif "workers" in row:
            what = f"{count(len(row['workers']), 'worker')} of {row['queue']}"
        else:
            what = row["host"] or row["worker_id"]
        cells.append((row["kind"], what, _why(row["reason"])))
    return Block(columns=("action", "what", "why"), rows=cells)


def _price_of(first: Row, currency: str) -> str:
    """An hour: of one worker, or of a set of several offers all together."""
    if not first["besides"]:
        return f"{price(first['price_per_hour'], currency)} an hour each"
    each = [(offer["count"], offer["price_per_hour"]) for offer in (first, *first["besides"])]
    known = None if any(one is None for _, one in each) else sum(number * one for number, one in each)
    return f"{price(known, currency)} an hour in all"


def _there(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """The rows without machines that are gone and leave nothing to do, and the number of those."""
    there = [row for row in rows if (row["reason"]["code"], row["verdict"]) != ("GONE", "wait")]
    return there, len(rows) - len(there)


def _gone(gone: int) -> list[str]:
    return [f"{count(gone, 'machine')} {'is' if gone == 1 else 'are'} gone: --json lists them"] if gone else []


def _waiting_jobs(rows: Sequence[Row]) -> Block:
    cells = []
    for row in rows:
        jobs = row["jobs"]
        more = f" … {len(jobs)} in all" if len(jobs) > _JOBS_SHOWN else ""
        cells.append(
            (
                ", ".join(jobs[:_JOBS_SHOWN]) + more,
                str(row["tasks"]),
                str(row["slots"]),
                duration(row["waited_s"]),
                "yes" if row["counted"] else "no",
                _why(row["cause"]),
            )
        )
    return Block(columns=("jobs", "tasks", "slots", "waits", "counts", "why"), rows=cells)


def _workers(rows: Sequence[Row]) -> Block:
    cells = [(row["name"], row["id"] or "-", row["verdict"], _why(row["reason"])) for row in rows]
    return Block(columns=("name", "id", "verdict", "why"), rows=cells)


def _buckets(rows: Sequence[Row]) -> Block:
    """Chosen buckets, and those left out for a cause that may pass."""
    settled = {"BUCKET_NOT_ALLOWED", "BUCKET_NOT_PREFERRED", "BUCKET_TOO_SMALL", "BUCKET_AGAINST_RULES"}
    shown = [row for row in rows if row["chosen"] or row["reason"]["code"] not in settled]
    cells = [
        (row["instance_type"], row["price_type"], "yes" if row["chosen"] else "no", _why(row["reason"]))
        for row in shown
    ]
    return Block(columns=("type", "price type", "chosen", "why"), rows=cells)


def _why(reason: Row) -> str:
    return f"{reason['text']} [{reason['code']}]"
