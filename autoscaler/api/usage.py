"""Core-hours and their estimated cost, from the lifetimes of all workers.

A worker counts from its order to its end. Prices an hour are those of the catalogue when it was rented. If a price
is unknown, the answer contains no cost. If a type is no longer known, its cores count as 0 and are left out.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from autoscaler.api.models import ClusterUsage, UsageDetail, UsageInterval, UsageItem
from autoscaler.store.history import Lifetime

Timeframe = Literal["monthToDate", "lastMonth", "weekToDate", "custom"]
Granularity = Literal["total", "daily", "hourly"]
MOST_INTERVALS = 10_000
_STEPS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1)}


class InvalidTimes(ValueError):
    """A time range is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to `end`, which is not included."""

    start: datetime
    end: datetime

    def hours_of(self, lifetime: Lifetime, now: float) -> float:
        begun = max(self.start.timestamp(), lifetime.created_at)
        ended = min(self.end.timestamp(), lifetime.ended_at if lifetime.ended_at is not None else now)
        return max(0.0, ended - begun) / 3600


def spans(
    timeframe: Timeframe, granularity: Granularity, now: float, *, start: str | None, end: str | None
) -> list[Span]:
    """The requested intervals, oldest first. Raises InvalidTimes."""
    whole = _range(timeframe, datetime.fromtimestamp(now, UTC), start, end)
    if granularity == "total":
        return [whole]
    step = _STEPS[granularity]
    whole = Span(_down(whole.start, granularity), _up(whole.end, granularity))
    if (whole.end - whole.start) / step > MOST_INTERVALS:
        raise InvalidTimes(f"the request has more than {MOST_INTERVALS} intervals")
    return list(_cut(whole, step))


def usage_of(
    lifetimes: Sequence[Lifetime], vcpus: Mapping[str, int], intervals: Sequence[Span], now: float, region: str
) -> ClusterUsage:
    """The usage in each interval. `vcpus`: by instance type."""
    return ClusterUsage(usage=[_interval(lifetimes, vcpus, span, now, region) for span in intervals])


def _interval(
    lifetimes: Sequence[Lifetime], vcpus: Mapping[str, int], span: Span, now: float, region: str
) -> UsageInterval:
    used = [(lifetime, hours) for lifetime in lifetimes if (hours := span.hours_of(lifetime, now)) > 0]
    arrays = sorted({lifetime.node_array for lifetime, _ in used})
    breakdown = []
    for array in arrays:
        mine = [(lifetime, hours) for lifetime, hours in used if lifetime.node_array == array]
        details = _details(mine, vcpus, region)
        breakdown.append(
            UsageItem(
                category="nodearray",
                node=array,
                hours=round(sum(detail.hours for detail in details), 6),
                cost=_sum(detail.cost for detail in details),
                details=details,
            )
        )
    return UsageInterval(
        start=_iso(span.start),
        end=_iso(span.end),
        total=UsageItem(
            category="cluster",
            hours=round(sum(item.hours for item in breakdown), 6),
            cost=_sum(item.cost for item in breakdown),
        ),
        breakdown=breakdown,
    )


def _details(used: Sequence[tuple[Lifetime, float]], vcpus: Mapping[str, int], region: str) -> list[UsageDetail]:
    kinds = sorted({(lifetime.instance_type, lifetime.price_type) for lifetime, _ in used})
    details = []
    for kind, price_type in kinds:
        mine = [(each, hours) for each, hours in used if (each.instance_type, each.price_type) == (kind, price_type)]
        cores = vcpus.get(kind)
        details.append(
            UsageDetail(
                vm_size=kind,
                core_count=cores,
                hours=round(sum(hours for _, hours in mine) * (cores or 0), 6),
                cost=_sum(None if each.price_per_hour is None else each.price_per_hour * hours for each, hours in mine),
                priority="Spot" if price_type == "spot" else "Regular",
                region=region,
            )
        )
    return details


def _sum(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if any(cost is None for cost in known) else round(sum(cost or 0.0 for cost in known), 6)


def _range(timeframe: Timeframe, now: datetime, start: str | None, end: str | None) -> Span:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    month = today.replace(day=1)
    if timeframe != "custom":
        if start is not None or end is not None:
            raise InvalidTimes("from and to belong to timeframe=custom")
        if timeframe == "lastMonth":
            before = month - timedelta(days=1)
            days = calendar.monthrange(before.year, before.month)[1]
            return Span(month - timedelta(days=days), month)
        # weeks begin on Sunday
        return Span(month if timeframe == "monthToDate" else today - timedelta(days=(now.weekday() + 1) % 7), now)
    if start is None or end is None:
        raise InvalidTimes("timeframe=custom needs from and to")
    span = Span(_time("from", start), _time("to", end))
    if span.end <= span.start:
        raise InvalidTimes("to is not after from")
    return span


def _time(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidTimes(f"{name}={text!r} is not an ISO-8601 time") from error
    if not 1971 <= moment.year <= 9000:
        raise InvalidTimes(f"{name}={text!r} is out of range")
    return moment


def _down(moment: datetime, granularity: Granularity) -> datetime:
    hour = moment.replace(minute=0, second=0, microsecond=0)
    return hour if granularity == "hourly" else hour.replace(hour=0)


def _up(moment: datetime, granularity: Granularity) -> datetime:
    down = _down(moment, granularity)
    return down if down == moment else down + _STEPS[granularity]


def _cut(whole: Span, step: timedelta) -> Iterator[Span]:
    start = whole.start
    while start < whole.end:
        yield Span(start, start + step)
        start += step


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
