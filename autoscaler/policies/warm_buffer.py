"""Workers ahead of jobs, at the hours when people begin to work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.core.snapshot import Snapshot
from autoscaler.policies.interface import Arrays, Past
from autoscaler.providers.settings import ExtensionSettings

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def days_of(text: str) -> frozenset[int]:
    """`mon-fri`, `sat,sun`, `fri-mon`, `mon wed fri` → the days; Monday is 0. Raises ValueError."""
    chosen: set[int] = set()
    for part in text.lower().replace(",", " ").split():
        first, _, last = part.partition("-")
        if first not in DAYS or (last and last not in DAYS):
            raise ValueError(f"{part!r} is not a day: write {', '.join(DAYS)}, or a range such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        chosen |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return frozenset(chosen)


def _known_days(text: str) -> str:
    days_of(text)
    return text


def _dates(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"this machine does not know the time zone {name!r}: write one such as Europe/Vienna"
        ) from error
    return name


class WarmBufferSettings(ExtensionSettings):
    """Times, node array and size of the buffer."""

    env_prefix = "CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_"

    node_array: str = Field("execute", description="Node array in which workers wait for jobs.")
    count: int = Field(1, ge=0, description="Number of workers beyond those that the queue's own jobs need.")
    days: Annotated[str, AfterValidator(_known_days)] = Field(
        "mon-fri", description="Days of the week with the buffer: a range, or several, such as `mon,wed-fri`."
    )
    begin: time = Field(time(7, 30), description="Time of the day at which the buffer begins.")
    end: time = Field(time(10, 0), description="Time at which it ends; earlier than `BEGIN`: on the next day.")
    zone: Annotated[str, AfterValidator(_known_zone)] = Field("UTC", description="Time zone, such as `Europe/Vienna`.")
    holidays: Annotated[tuple[date, ...], BeforeValidator(_dates)] = Field(
        (), description="Dates without the buffer, such as `2026-12-25 2027-01-01`."
    )


class WarmBuffer:
    """`COUNT` surplus workers on working days, from `BEGIN` to `END` in local time."""

    name: ClassVar[str] = "warm_buffer"
    Settings: ClassVar[type[ExtensionSettings]] = WarmBufferSettings

    def __init__(self, settings: WarmBufferSettings) -> None:
        self.settings = settings
        self._zone, self._days = ZoneInfo(settings.zone), days_of(settings.days)

    def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
        chosen = self.settings
        if not self._open(datetime.fromtimestamp(snapshot.now, self._zone)) or not chosen.count:
            return []
        arrays: Sequence[dict[str, Any]] = [{"Name": chosen.node_array, "TargetCount": chosen.count}]
        return arrays

    def _open(self, at: datetime) -> bool:
        """Whether this time is in a working day's window; one past midnight belongs to the day of its begin."""
        clock, begin, end = at.time(), self.settings.begin, self.settings.end
        today, yesterday = at.date(), at.date() - timedelta(days=1)
        if begin <= end:
            return begin <= clock < end and self._works(today)
        return (clock >= begin and self._works(today)) or (clock < end and self._works(yesterday))

    def _works(self, day: date) -> bool:
        return day.weekday() in self._days and day not in self.settings.holidays
