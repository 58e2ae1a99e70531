"""The answer to `history`: the monitor's samples, merged into as many periods as a screen has lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, tzinfo
from io import StringIO
from math import isfinite
from typing import Any

from autoscaler.core.outcome.sample import ArraySample, Sample, merged
from autoscaler.errors import NotFound, SettingsError
from autoscaler.report import SCHEMA
from autoscaler.report.blocks import Block
from autoscaler.report.wording import duration
from autoscaler.store.samples import RESOLUTIONS, SampleTable

STEPS = (10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400)
"""Lengths of a period that people count in, in seconds."""
LINES = 30
"""By default about this many periods are shown."""
_COLUMNS = (
    "from",
    "workers",
    "coming",
    "busy",
    "idle",
    "leaving",
    "target",
    "waiting",
    "running",
    "slots",
    "cost",
    "began",
    "mean wait",
    "longest wait",
)
_BAR = 12
LONGEST = 400 * 86_400.0
"""Seconds to look back."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of the clock on the wall
_ROUNDED = 6
"""Decimals."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """A stretch of the history."""

    since: float
    until: float
    step: float
    periods: tuple[Sample, ...]
    """Without gaps, from the first to the last known period; `seconds` is 0 in periods without samples."""
    zone: tzinfo | None
    arrays: tuple[str, ...] = ()
    """Names of all node arrays with samples in that time."""
    currency: str = "USD"

    @property
    def total(self) -> Sample:
        return merged(self.periods, self.since)


def history_report(
    table: SampleTable, since: float, until: float, *, now: float, zone: tzinfo | None, step: float | None, array: str
) -> HistoryReport:
    """The samples between two times. `step`: length of a period in seconds, None: as fits a screen. `array`: only
    workers of this node array, '': of all.
    """
    finest = next((one.seconds for one in RESOLUTIONS if since >= now - one.kept_for), RESOLUTIONS[-1].seconds)
    length = step or next((one for one in STEPS if (until - since) / one <= LINES), STEPS[-1])
    length = max(length, finest)
    # Of long times only coarse rows are read: a week by the minute has ten thousand.
    coarse = RESOLUTIONS[-1].seconds if length >= RESOLUTIONS[-1].seconds and until - since > 2 * 86_400 else None
    samples = table.between(since, until, now=now, seconds=coarse)
    known = tuple(sorted({name for one in samples for name in one.arrays}))
    if array:
        samples = tuple(replace(one, arrays={k: v for k, v in one.arrays.items() if k == array}) for one in samples)
    return HistoryReport(since, until, length, tuple(_periods(samples, length, zone)), zone, known)


def find_history(table: SampleTable, query: Mapping[str, str], now: float, currency: str = "USD") -> HistoryReport:
    """Read a query: `since` and `step` in seconds, `array`. Raises SettingsError, NotFound."""
    since, step, array = _seconds(query, "since", 3600.0), _seconds(query, "step", None), query.get("array", "")
    if since is None or not 0 < since <= LONGEST:
        raise SettingsError(f"since: more than 0 and at most {LONGEST:.0f} seconds, as long as samples are kept")
    if step is not None and step < 1:
        raise SettingsError("step: a period is at least one second")
    if step is not None and step > LONGEST:
        raise SettingsError(f"step: a period is at most {LONGEST:.0f} seconds, as long as samples are kept")
    found = history_report(table, now - since, now, now=now, zone=None, step=step, array=array)
    if array and array not in found.arrays:
        raise NotFound(
            f"there are no samples of a node array {array} in that time; there are some of "
            f"{', '.join(found.arrays) or 'none'}"
        )
    return replace(found, currency=currency)


def _seconds(query: Mapping[str, str], name: str, default: float | None) -> float | None:
    try:
        value = float(query[name]) if query.get(name) else default
    except ValueError:
        value = float("nan")
    if value is not None and not isfinite(value):
        raise SettingsError(f"{name}: {query[name]!r} is not a number of seconds")
    return value


def document(report: HistoryReport, now: float) -> dict[str, Any]:
    """As JSON."""
    return {
        "schema": SCHEMA,
        "now": _at(now, report.zone),
        "since": _at(report.since, report.zone),
        "until": _at(report.until, report.zone),
        "step_s": report.step,
        "periods": [_part(period, report.zone) for period in report.periods if period.seconds],
    }


def csv_text(report: HistoryReport) -> str:
    """One line a period; the workers of all selected node arrays together."""
    file = StringIO()
    rows = [_flat(period, report.zone) for period in report.periods if period.seconds]
    writer = csv.DictWriter(file, list(_flat(Sample(0.0, 1.0), report.zone)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def history_block(report: HistoryReport) -> Block:
    """For people: busy and idle workers as a bar, then numbers."""
    widest = max((_all(period).most for period in report.periods), default=0.0)
    form = "%H:%M:%S" if report.step < 60 else "%d %H:%M" if report.step < 86_400 else "%Y-%m-%d"
    rows: list[tuple[str, ...]] = []
    for period in report.periods:
        began = datetime.fromtimestamp(period.at, report.zone).strftime(form)
        rows.append((began, *(_cells(period, widest) if period.seconds else ("not observed",))))
    if rows:
        return Block(columns=_COLUMNS, rows=rows, lines=[_sum(report)])
    return Block(lines=["the store has no samples of this time: no autoscaler ran"])


def _cells(period: Sample, widest: float) -> Iterator[str]:
    array = _all(period)
    yield _bar(array, widest)
    yield from map(_number, (array.coming, array.busy, array.idle, array.leaving + array.aside))
    targets = ((array.target_workers, ""), (array.target_cores, " cores"))
    yield " + ".join(f"{_number(count)}{unit}" for count, unit in targets if count) or "-"
    yield _number(period.waiting)
    yield _number(period.running)
    yield f"{_number(period.slots_used)}/{_number(period.slots)}"
    yield f"{period.cost:.3f}" + ("+?" if array.unknown_prices else "")
    yield _number(period.started)
    yield "-" if period.mean_wait is None else duration(period.mean_wait)
    longest = max(period.longest_wait, period.longest_waited)
    yield duration(longest) if longest else "-"


def _sum(report: HistoryReport) -> str:
    total = report.total
    unknown = " and machines of unknown price" if _all(total).unknown_prices else ""
    waited = "" if total.mean_wait is None else f", which waited {duration(total.mean_wait)} on average"
    cost = f"{total.cost:.3f} {report.currency}{unknown}"
    return f"{duration(total.seconds)} observed: {cost}, {_number(total.started)} jobs and tasks began{waited}"


def _bar(array: ArraySample, widest: float) -> str:
    """A bar: busy workers full, idle ones half, others as dots."""
    share = _BAR / widest if widest else 0.0
    busy, idle, rest = array.busy, array.idle, array.coming + array.leaving + array.aside
    ends = [round(share * count) for count in (busy, busy + idle, busy + idle + rest)]
    return "█" * ends[0] + "▒" * (ends[1] - ends[0]) + "·" * (ends[2] - ends[1])


def _periods(samples: Sequence[Sample], step: float, zone: tzinfo | None) -> Iterator[Sample]:
    groups: dict[float, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(_begin(sample.at, step, zone), []).append(sample)
    at, last = min(groups, default=0.0), max(groups, default=-1.0)
    while at <= last:
        yield merged(groups.get(at, ()), at)
        at = _begin(at + 1.5 * step, step, zone)  # into the next one, also where a day has an hour more or less


def _begin(at: float, step: float, zone: tzinfo | None) -> float:
    """The start of the period that contains this time: days and their parts in local time."""
    local = datetime.fromtimestamp(at, zone)
    wall = (local.replace(tzinfo=None) - _EPOCH).total_seconds()
    # When summer time ends, one hour comes twice: fold says which of the two.
    return (_EPOCH + timedelta(seconds=wall // step * step)).replace(tzinfo=zone, fold=local.fold).timestamp()


def _all(sample: Sample) -> ArraySample:
    """All node arrays together. `most` is an upper bound, since the arrays had theirs at different times."""
    names = ArraySample.__dataclass_fields__
    return ArraySample(**{name: sum(getattr(one, name) for one in sample.arrays.values()) for name in names})


def _part(period: Sample, zone: tzinfo | None) -> dict[str, Any]:
    arrays = {name: {key: _round(value) for key, value in asdict(one).items()} for name, one in period.arrays.items()}
    return {**_scalars(period, zone), "arrays": arrays}


def _flat(period: Sample, zone: tzinfo | None) -> dict[str, Any]:
    return {**_scalars(period, zone), **{key: _round(value) for key, value in asdict(_all(period)).items()}}


def _scalars(period: Sample, zone: tzinfo | None) -> dict[str, Any]:
    wait = period.mean_wait
    return {
        "at": _at(period.at, zone),
        "observed_s": _round(period.seconds),
        "waiting": _round(period.waiting),
        "counted": _round(period.counted),
        "fitting": _round(period.fitting),
        "most_waiting": _round(period.most_waiting),
        "longest_wait_s": _round(period.longest_wait),
        "running": _round(period.running),
        "slots": _round(period.slots),
        "slots_used": _round(period.slots_used),
        "persistent": _round(period.persistent),
        "began": _round(period.started),
        "mean_wait_s": None if wait is None else _round(wait),
        "longest_waited_s": _round(period.longest_waited),
        "price_per_hour": _round(period.price_per_hour),
        "cost": _round(period.cost),
    }


def _round(value: float) -> float:
    return round(value, _ROUNDED)


def _number(value: float) -> str:
    """At most one decimal, without a trailing `.0`."""
    return f"{value:.1f}".removesuffix(".0")


def _at(seconds: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(seconds, zone).astimezone(zone).isoformat(timespec="seconds")
