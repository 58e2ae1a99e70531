"""The time zone of this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo


class LocalZone(tzinfo):
    """The zone of this machine, past and future summer times included: Grid Engine prints times without any."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(seconds=self._local(moment).tm_gmtoff)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=max(0, self._local(moment).tm_isdst))

    def tzname(self, moment: datetime | None) -> str:
        return self._local(moment).tm_zone

    def fromutc(self, moment: datetime) -> datetime:
        seconds = moment.replace(tzinfo=UTC).timestamp()
        return (moment.replace(tzinfo=None) + timedelta(seconds=time.localtime(seconds).tm_gmtoff)).replace(tzinfo=self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalZone)

    def __hash__(self) -> int:
        return hash(LocalZone)

    @staticmethod
    def _local(moment: datetime | None) -> time.struct_time:
        if moment is None:
            return time.localtime()
        fields = (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, 0, 0)
        # In the hour that a change of the clock repeats, mktime(3) answers by what it was asked before.
        both = {at for summer in (0, 1) if (at := _moment(*fields, summer)) is not None}
        same = sorted(at for at in both if time.localtime(at)[:6] == fields[:6])
        # -1: mktime(3) finds out itself whether summer time holds then.
        return time.localtime(same[-1 if moment.fold else 0] if same else time.mktime((*fields, -1)))


def _moment(*fields: int) -> float | None:
    """None: there is no such time. So glibc answers, up to 2.31 at least, for summer time in a zone that has none."""
    try:
        return time.mktime(time.struct_time(fields))
    except OverflowError:
        return None
