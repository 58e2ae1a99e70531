"""Compares what `cost` estimates with a cloud's bill, and explains the difference for each worker: other time, another
price, and costs that an estimate leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.core.cost.amounts import HOUR_MS, MICROS
from autoscaler.report import SCHEMA
from autoscaler.report.bill import Bill, Billed
from autoscaler.report.blocks import Block
from autoscaler.report.wording import instant

NOT_BILLED = "not in the bill"
NOT_KNOWN = "no worker that is known here"
NO_PRICE = "its price is not known here"


@dataclass(frozen=True, slots=True)
class Compared:
    """One worker, in micros. `time`, `price` and `other` add up to the difference."""

    worker_id: str
    estimate: int
    billed: int
    time: int
    """The difference in time, at our price."""
    price: int
    """The difference in price, for the billed time."""
    other: int
    """Disks, addresses, traffic; of a worker that is on one side only, all of it."""
    why: str = ""

    @property
    def difference(self) -> int:
        return self.billed - self.estimate


def compare(rows: Sequence[Mapping[str, Any]], bill: Bill) -> list[Compared]:
    """By the difference, the largest first. `rows`: those of `cost --by worker --json` for the bill's time."""
    known = {str(row["key"]): row for row in rows}
    found = [_worker(key, row, bill.workers.get(key)) for key, row in known.items()]
    found += [_alone(key, billed, NO_PRICE) for key, billed in bill.workers.items() if key not in known]
    found += [_alone(key, billed, NOT_KNOWN) for key, billed in bill.unknown.items()]
    if bill.others:
        found.append(Compared("(other things of the cell)", 0, bill.others, 0, 0, bill.others))
    return sorted(found, key=lambda one: (-abs(one.difference), one.worker_id))


def _worker(key: str, row: Mapping[str, Any], billed: Billed | None) -> Compared:
    estimate, hours = round(row["cost"] * MICROS), row["rented_h"]
    if billed is None:
        return Compared(key, estimate, 0, 0, 0, -estimate, NOT_BILLED)
    total = billed.machine + billed.other
    if not billed.timed or not hours:
        return Compared(key, estimate, total, 0, billed.machine - estimate, billed.other)
    at_our_price = round(estimate * billed.hours_ms / (hours * HOUR_MS))
    return Compared(key, estimate, total, at_our_price - estimate, billed.machine - at_our_price, billed.other)


def _alone(key: str, billed: Billed, why: str) -> Compared:
    total = billed.machine + billed.other
    return Compared(key, 0, total, 0, 0, total, why)


_HEADS = ("worker", "estimate", "billed", "difference", "by time", "by price", "other", "")


def reconciled_blocks(found: Sequence[Compared], bill: Bill, currency: str) -> list[Block]:
    """For people."""
    rows = [(one.worker_id, *_amounts(one), one.why) for one in (*found, _sum(found))]
    title = f"the {bill.kind} bill from {instant(bill.since)} to {instant(bill.until)}, in {currency}"
    return [Block(title, _HEADS, rows, list(_besides(bill, currency)))]


def _amounts(one: Compared) -> Iterator[str]:
    for micros in (one.estimate, one.billed, one.difference, one.time, one.price, one.other):
        yield f"{micros / MICROS:.4f}"


def _sum(found: Sequence[Compared]) -> Compared:
    names = ("estimate", "billed", "time", "price", "other")
    return Compared("sum", *(sum(getattr(one, name) for one in found) for name in names))


def _besides(bill: Bill, currency: str) -> Iterator[str]:
    yield (
        "by time: the cloud bills other hours than from launch to end; by price: another price an hour (a discount, a "
        "spot price that changed); other: disks, addresses, network"
    )
    if foreign := sorted(bill.currencies - {currency}):
        yield f"the bill is in {', '.join(foreign)}, the estimate in {currency}: they cannot be compared as they stand"


def reconciled_document(found: Sequence[Compared], bill: Bill, currency: str) -> dict[str, Any]:
    """As JSON."""
    return {
        "schema": SCHEMA,
        "bill": bill.kind,
        "since": instant(bill.since),
        "until": instant(bill.until),
        "currency": currency,
        "billed_currencies": sorted(bill.currencies),
        "sum": _part(_sum(found)),
        "workers": [{"worker_id": one.worker_id, **_part(one), "why": one.why} for one in found],
    }


def _part(one: Compared) -> dict[str, float]:
    names = ("estimate", "billed", "difference", "time", "price", "other")
    return {name: getattr(one, name) / MICROS for name in names}
