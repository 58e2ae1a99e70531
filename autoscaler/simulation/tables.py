"""A comparison as tables for a terminal and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from autoscaler.report.blocks import Block
from autoscaler.report.wording import duration as words
from autoscaler.simulation.comparison import pareto_front, remarks, sentences
from autoscaler.simulation.results import Document

_HEADS = (
    "policy", "price", "ratio", "mean wait", "median", "95 %", "slowdown", "busy", "stranded", "idle", "boot",
    "launches", "again", "passes",
)  # fmt: skip


MANY_HOURS = 100.0
"""Core-hours of the largest row from which none has decimals."""
_FIGURES = {
    "price": "price",
    "worker_hours": "worker-hours",
    "launches": "launches",
    "mean_wait_s": "mean wait",
    "median_wait_s": "median wait",
}


def backtest_block(backtest: Document, currency: str) -> Block:
    """What happened beside what the settings in force give in the simulation."""
    rows = [
        [
            f"{head} ({currency})" if name == "price" else head,
            _figure(name, backtest["happened"][name]),
            _figure(name, backtest["simulated"][name]),
            "?" if backtest["error"][name] is None else f"{backtest['error'][name]:.1%}",
        ]
        for name, head in _FIGURES.items()
    ]
    return Block("Backtest of the settings in force", ("", "happened", "simulated", "error"), rows)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "?"
    return words(value) if name.endswith("_s") else f"{value:,.0f}" if name == "launches" else f"{value:,.2f}"


def comparison_blocks(
    documents: Sequence[Document],
    assumptions: Sequence[str],
    backtest: Document | None = None,
    said: Sequence[str] | None = None,
) -> Iterator[Block]:
    """The table that people read, what it says in words, and what it rests on. `said`: in place of its own words."""
    front = set(pareto_front(documents))
    digits = _digits(documents)
    rows = [_row(one, digits, starred=one["policy"] in front and len(documents) > 1) for one in documents]
    currency = documents[0]["currency"]
    notes = [
        f"price in {currency}; ratio to the busy core-hours at the least price of a core; busy … boot in core-hours."
    ]
    if len(documents) > 1 and front:
        notes.append("* no other policy here is both cheaper and faster.")
    notes += remarks(documents)
    yield Block("", _HEADS, rows, notes)
    said = sentences(documents, assumptions, backtest) if said is None else said
    if said:
        yield Block("In short", lines=said)
    yield Block("This rests on", lines=[f"- {each}" for each in assumptions])


def _digits(documents: Sequence[Document]) -> int:
    """Decimals of core-hours: of few hours the parts would all be 0 without."""
    most = max(document["rented_core_hours"]["all"] for document in documents)
    return 0 if most >= MANY_HOURS else 2


def _row(document: Document, digits: int, *, starred: bool) -> list[str]:
    wait, hours = document["wait_s"], document["rented_core_hours"]
    ratio = document["price_ratio"]
    return [
        f"{document['policy']}{' *' if starred else ''}",
        f"{document['price']:,.2f}{'?' if document['unpriced_workers'] else ''}",
        "" if ratio is None else f"{ratio:.3f}",
        *(
            (
                words(wait["mean"]),
                words(wait["median"]),
                words(wait["p95"]),
                f"{document['bounded_slowdown']['mean']:.2f}",
            )
            if wait["tasks"]
            else ("", "", "", "")
        ),
        *(f"{hours[name]:,.{digits}f}" for name in ("busy", "stranded", "idle", "boot")),
        f"{document['launches']:,}",
        f"{document['launched_again']:,}",
        f"{document['passes']['made']:,}",
    ]


_COLUMNS = (
    "policy", "complete", "price", "currency", "price_ratio", "mean_wait_s", "median_wait_s", "p95_wait_s",
    "bounded_slowdown", "makespan_s", "busy_core_hours", "stranded_core_hours", "idle_core_hours", "boot_core_hours",
    "launches", "removals", "launched_again", "unpriced_workers", "not_to_be_had", "interrupted_workers",
    "tasks_started_again", "core_hours_lost", "passes", "skipped", "cpu_s",
)  # fmt: skip


def csv_text(documents: Iterable[Document]) -> str:
    """A line for each policy."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for document in documents:
        wait, hours = document["wait_s"], document["rented_core_hours"]
        row = [
            document["policy"], document["complete"], document["price"], document["currency"],
            document["price_ratio"], wait["mean"], wait["median"], wait["p95"],
            document["bounded_slowdown"]["mean"], document["makespan_s"],
            *(hours[name] for name in ("busy", "stranded", "idle", "boot")),
            document["launches"], document["removals"], document["launched_again"],
            document["unpriced_workers"], document["not_to_be_had"], *document["interrupted"].values(),
            document["passes"]["made"], document["passes"]["skipped"], document["cpu_s"]["passes"],
        ]  # fmt: skip
        writer.writerow(round(value, 4) if isinstance(value, float) else value for value in row)
    return out.getvalue()
