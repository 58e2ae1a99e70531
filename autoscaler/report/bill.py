"""Reads a cloud's bill: AWS cost and usage reports (legacy CSV, and Data Exports 2.0) and Azure's cost exports, as CSV,
compressed or not. A line belongs to a worker by its resource's id, and to the cell by its tag's value.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from autoscaler.core.cost.amounts import HOUR_MS, MICROS
from autoscaler.errors import SettingsError
from autoscaler.outside_files import only_regular

LONGEST = 1 << 24
"""Letters of one field, and of one line."""
LARGEST = Decimal(10) ** 12
"""Of one line's cost or amount."""
# By default csv refuses a field of more than 131,072 characters.
csv.field_size_limit(LONGEST)


@dataclass(frozen=True, slots=True)
class Columns:
    """Column names of a kind of bill, in lower case; of several names the first that exists counts."""

    resource: tuple[str, ...]
    cost: tuple[str, ...]
    currency: tuple[str, ...]
    begin: tuple[str, ...]
    end: tuple[str, ...]
    what: tuple[str, ...]
    """Separates a machine's hours from its disks and traffic."""
    amount: tuple[str, ...]
    unit: tuple[str, ...]
    tags: tuple[str, ...]
    """A column of all tags, or the prefix of one column for each tag (`…/`)."""
    machine: re.Pattern[str]


AWS = Columns(
    resource=("lineitem/resourceid",),
    cost=("lineitem/unblendedcost",),
    currency=("lineitem/currencycode",),
    begin=("lineitem/usagestartdate",),
    end=("lineitem/usageenddate",),
    what=("lineitem/usagetype",),
    amount=("lineitem/usageamount",),
    unit=("pricing/unit",),
    tags=("resourcetags/",),
    machine=re.compile(r"\b(BoxUsage|SpotUsage|DedicatedUsage|UnusedBox|UnusedDed)\b"),
)
AWS_2 = Columns(
    resource=("line_item_resource_id",),
    cost=("line_item_unblended_cost",),
    currency=("line_item_currency_code",),
    begin=("line_item_usage_start_date",),
    end=("line_item_usage_end_date",),
    what=("line_item_usage_type",),
    amount=("line_item_usage_amount",),
    unit=("pricing_unit",),
    tags=("resource_tags", "resource_tags_"),
    machine=AWS.machine,
)
AZURE = Columns(
    resource=("resourceid", "instanceid", "instancename"),
    cost=("costinbillingcurrency", "pretaxcost", "cost"),
    currency=("billingcurrency", "billingcurrencycode", "currency"),
    begin=("date", "usagedatetime", "usagedate"),
    end=(),
    what=("metercategory",),
    amount=("quantity", "usagequantity"),
    unit=("unitofmeasure",),
    tags=("tags",),
    machine=re.compile(r"^Virtual Machines$", re.IGNORECASE),
)
KINDS: Mapping[str, Columns] = {"AWS": AWS, "AWS Data Exports": AWS_2, "Azure": AZURE}
DAY = timedelta(days=1)


@dataclass(slots=True)
class Billed:
    """The amounts of one worker in a bill, in micros and milliseconds."""

    machine: int = 0
    other: int = 0
    """Disks, addresses, traffic, credits and the like."""
    hours_ms: int = 0
    timed: bool = True
    """Whether all of its lines contain their time."""


@dataclass(slots=True)
class Bill:
    """The part of a bill that is about this cell."""

    kind: str
    workers: dict[str, Billed] = field(default_factory=dict)
    unknown: dict[str, Billed] = field(default_factory=dict)
    """Machines with the cell's tag that are no known worker, by resource."""
    others: int = 0
    """Micros of other things with the cell's tag."""
    currencies: set[str] = field(default_factory=set)
    since: float = float("inf")
    until: float = float("-inf")


def read_bill(file: Path, workers: Collection[str], tag: str) -> Bill:
    """Add up the lines of a file for these workers, and for everything with the tag. Raises SettingsError."""
    try:
        with _opened(file) as text:
            return _read(csv.reader(_lines(text)), file, workers, tag)
    except (OSError, UnicodeDecodeError, EOFError, csv.Error, zlib.error) as error:
        raise SettingsError(f"the bill {file} cannot be read: {error}") from error


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    with open(file, "rb", opener=only_regular) as raw:
        packed = raw.peek(2).startswith(b"\x1f\x8b")
        with TextIOWrapper(gzip.GzipFile(fileobj=raw) if packed else raw, encoding="utf-8-sig", newline="") as text:
            yield text


def _lines(text: TextIO) -> Iterator[str]:
    """The lines, of limited length: a small compressed file may hold one very long line."""
    while line := text.readline(LONGEST):
        if len(line) >= LONGEST:
            raise csv.Error(f"a line is longer than {LONGEST} letters")
        yield line


def _read(lines: Iterator[list[str]], file: Path, workers: Collection[str], tag: str) -> Bill:
    heads = [head.strip().lower() for head in next(lines, [])]
    found = next(
        (name for name, kind in KINDS.items() if _at(heads, kind.resource) >= 0 and _at(heads, kind.cost) >= 0), None
    )
    if found is None:
        raise SettingsError(
            f"the bill {file} has no columns of a known kind: an AWS cost and usage report with resource ids "
            "(lineItem/ResourceId or line_item_resource_id), or an Azure cost export (ResourceId)"
        )
    reader, bill = _Reader(KINDS[found], heads, frozenset(workers), tag), Bill(found)
    for number, line in enumerate(lines, 2):
        if line:
            try:
                reader.add(bill, line)
            except (ValueError, ArithmeticError, IndexError) as error:
                raise SettingsError(f"the bill {file}, line {number}: {error}") from error
    return bill


def _at(heads: list[str], names: tuple[str, ...]) -> int:
    return next((heads.index(name) for name in names if name in heads), -1)


class _Reader:
    def __init__(self, kind: Columns, heads: list[str], workers: frozenset[str], tag: str) -> None:
        self._kind, self._workers, self._tag = kind, workers, tag
        self._longest = max(map(len, workers), default=0)
        self._resource, self._cost, self._currency, self._begin, self._end, self._what, self._amount, self._unit = (
            _at(heads, names)
            for names in (
                *(kind.resource, kind.cost, kind.currency, kind.begin),
                *(kind.end, kind.what, kind.amount, kind.unit),
            )
        )
        prefixes = tuple(name for name in kind.tags if name.endswith(("/", "_")))
        self._tags = [
            at for at, head in enumerate(heads) if head in kind.tags or (prefixes and head.startswith(prefixes))
        ]

    def add(self, bill: Bill, line: list[str]) -> None:
        if (begin := self._text(line, self._begin)) and self._begin >= 0:
            since, until = self._times(begin, self._text(line, self._end))
            bill.since, bill.until = min(bill.since, since), max(bill.until, until)
        resource = self._text(line, self._resource)
        worker, tagged = self._worker(resource), self._is_tagged(line)
        if worker is None and not tagged:
            return
        micros = int((_number(self._text(line, self._cost) or "0") * MICROS).to_integral_value())
        if currency := self._text(line, self._currency):
            bill.currencies.add(currency.upper())
        is_machine = self._kind.machine.search(self._text(line, self._what)) is not None
        if worker is None and not is_machine:
            bill.others += micros
            return
        kept = bill.workers if worker is not None else bill.unknown
        billed = kept.setdefault(worker or resource.rpartition("/")[2], Billed())
        if not is_machine:
            billed.other += micros
            return
        billed.machine += micros
        amount, unit = self._text(line, self._amount), self._text(line, self._unit).lower()
        if amount and unit in ("", "hrs", "hours", "1 hour", "1 hours"):
            billed.hours_ms += int(_number(amount) * HOUR_MS)
        else:
            billed.timed = False

    def _text(self, line: list[str], at: int) -> str:
        return line[at].strip() if 0 <= at < len(line) else ""

    def _worker(self, resource: str) -> str | None:
        """The worker of `i-1`, `…:instance/i-1`; on Azure, of a machine, disk or address that begins with its name."""
        last = resource.rpartition("/")[2]
        for name in (last, last.lower()):
            if name in self._workers:
                return name
        if "/" not in resource:
            return None
        parts = re.split(r"[-_.]", last.lower()[: self._longest + 1])  # limits the work for a very long resource id
        begins = ("-".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        return next((name for name in begins if name in self._workers), None)

    def _is_tagged(self, line: list[str]) -> bool:
        """Whether a line has our tag, in a column of its own or in one of all tags."""
        if not self._tag:
            return False
        texts = (self._text(line, at) for at in self._tags)
        return any(text == self._tag or f'"{self._tag}"' in text for text in texts)

    @staticmethod
    def _times(begin: str, end: str) -> tuple[float, float]:
        since = _moment(begin)
        until = _moment(end) if end else since + DAY
        if not 1970 < since.year <= until.year < 9999:
            raise ValueError(f"{begin[:60]!r} to {end[:60]!r} is no time of a bill")
        return since.timestamp(), until.timestamp()


def _number(text: str) -> Decimal:
    with suppress(ArithmeticError):  # Decimal's own words name a class of Python's
        found = Decimal(text)
        if abs(found) <= LARGEST:
            return found
    raise ValueError(f"{text[:60]!r} is no cost or amount")


def _moment(text: str) -> datetime:
    """ISO 8601, or `11/23/2026` as Azure has it."""
    found = re.fullmatch(r"(\d\d?)/(\d\d?)/(\d{4})", text)
    at = datetime(int(found[3]), int(found[1]), int(found[2])) if found else datetime.fromisoformat(text)  # noqa: DTZ001
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
