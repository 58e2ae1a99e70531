"""Estimates of run times from the cell's own history.

What a job is like is said in several ways, from the narrow (owner, name, project, queue, slots, requested time) to the
wide (any job). Each of them keeps its last run times and how far off its own estimates were. The way that is expected
to be the least far off gives the estimate. Jobs to come differ from earlier ones: its range is as much wider as would
have held the owner's last jobs that were estimated in this way. An estimate kills or holds nothing; it says what it is
based on.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, exp, log, sqrt

KEPT = 48
"""Run times that each way of likeness keeps, the last ones."""
MOST_KEYS = 20_000
"""Likenesses that are kept. Those that no job was like for the longest time are forgotten."""
DECAY = 0.95
"""Weight of a run time, relative to that of the next later one."""
LOW, HIGH = 0.1, 0.9
"""Shares of the earlier run times that are below the range before it is made wider, and below its upper end."""
LEARNING = 0.15
"""Weight of the last estimate in the mean error."""
UNPROVEN = 1.2
"""What is added to the error of a likeness with a single run time; it falls with the root of their number."""
JUDGED, LEAST_JUDGED = 200, 20
"""By how many of an owner's last estimates in each way ranges are made wider at most, and at least."""
OUTSIDE = 0.045
"""Which share of these may be below a range, and which above."""
WIDEST = 3.0
"""By what factor a range gets wider at most, on each side."""
MOST_OWNERS = 1_000
"""Owners, each with a way, of whom estimates are judged; who had no ended job for the longest time is forgotten."""
_NUMBERS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a job has in common with others."""

    owner: str = ""
    name: str = ""
    project: str = ""
    queue: str = ""
    slots: int = 1
    requested: float | None = None
    """The run time that it requests (`h_rt`), seconds."""

    @property
    def stem(self) -> str:
        """Its name without what numbers tell apart: `align_17` and `align_18` are alike."""
        return _NUMBERS.sub("#", self.name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a job will run, seconds. Half of the earlier ones took less than `median`; the last ones weigh most.
    Of later ones, eight of ten were between `low` and `high` (`make bench-estimates`).
    """

    low: float
    median: float
    high: float
    mean: float
    """Of the same run times, with the same weights."""
    earlier: int
    """How many earlier run times it is based on."""
    basis: str
    """In what they are like the job."""
    error: float | None
    """By what factor such estimates were off lately, on average; None: there was none yet."""


@dataclass(slots=True)
class _Known:
    """The run times of one likeness, the last one last."""

    times: list[float] = field(default_factory=list)
    seen: int = 0
    error: float | None = None
    """Mean of the logarithm of the factor by which the median was off."""

    def add(self, seconds: float) -> None:
        if self.times:
            off = abs(log(seconds / quantile(self.times, 0.5)))
            self.error = off if self.error is None else self.error + LEARNING * (off - self.error)
        self.times.append(seconds)
        self.seen += 1
        if len(self.times) > KEPT:
            del self.times[0]

    @property
    def expected_error(self) -> float:
        return (UNPROVEN if self.error is None else self.error) + UNPROVEN / sqrt(len(self.times))


class _Ranges:
    """By what factors an owner's last jobs were outside their ranges, in the order of their ends; below 1: inside."""

    def __init__(self) -> None:
        self._below, self._above = array("d"), array("d")
        self._wider: tuple[float, float] | None = None

    def add(self, times: Sequence[float], seconds: float) -> None:
        low, high = quantile(times, LOW), quantile(times, HIGH)
        for factors, factor in ((self._below, low / seconds), (self._above, seconds / high)):
            factors.append(factor)
            if len(factors) > JUDGED:
                del factors[0]
        self._wider = None

    @property
    def wider(self) -> tuple[float, float]:
        """The factors for low and high that would have held all but the allowed share of them."""
        if self._wider is None:
            self._wider = _wider(self._below), _wider(self._above)
        return self._wider


def _wider(factors: Sequence[float]) -> float:
    if len(factors) < LEAST_JUDGED:
        return 1.0
    at = min(ceil((len(factors) + 1) * (1 - OUTSIDE)), len(factors)) - 1
    return min(max(sorted(factors)[at], 1.0), WIDEST)


WAYS = (
    "owner, name, project, queue, slots and requested time",
    "owner, name, slots and requested time",
    "owner and name",
    "owner, slots and requested time",
    "owner",
    "slots and requested time",
    "nothing: any job",
)


class RunTimes:
    """The history. `add` what ran, in the order of the ends; `estimate` what will."""

    def __init__(self, most_keys: int = MOST_KEYS) -> None:
        self._known: dict[tuple[object, ...], _Known] = {}
        self._ranges: dict[tuple[str, str], _Ranges] = {}
        """By way and owner."""
        self._most_keys = most_keys
        self.added = 0
        """How many run times were added in all."""

    def add(self, like: Likeness, seconds: float) -> None:
        """A job that ran so long. One that took no time counts as one second."""
        self.added += 1
        if (chosen := self._chosen(like)) is not None:
            way, _, times = chosen
            ranges = self._ranges.pop((way, like.owner), None) or _Ranges()
            self._ranges[way, like.owner] = ranges  # as the latest
            ranges.add(times, max(seconds, 1.0))
            while len(self._ranges) > MOST_OWNERS:
                del self._ranges[next(iter(self._ranges))]
        for key in _keys(like):
            known = self._known.pop(key, None) or _Known()
            self._known[key] = known  # as the latest
            known.add(max(seconds, 1.0))
        while len(self._known) > self._most_keys:
            del self._known[next(iter(self._known))]

    def estimate(self, like: Likeness, running: float = 0.0) -> Estimate | None:
        """How long such a job will run in all; None: no job has run yet. `running`: seconds that it runs already, so
        that only earlier jobs that ran longer count.
        """
        chosen = self._chosen(like, running)
        if chosen is None:
            return None
        way, known, times = chosen
        low, median, high = (quantile(times, share) for share in (LOW, 0.5, HIGH))
        ranges = self._ranges.get((way, like.owner))
        lower, higher = (1.0, 1.0) if ranges is None else ranges.wider
        low, high = max(low / lower, min(low, running)), high * higher
        earlier = known.seen if len(times) == len(known.times) else len(times)
        return Estimate(low, median, high, mean(times), earlier, way, None if known.error is None else exp(known.error))

    def _chosen(self, like: Likeness, running: float = 0.0) -> tuple[str, _Known, list[float]] | None:
        """The way that is expected to be the least far off, what it knows, and its run times that are longer."""
        found = [
            (known.expected_error, way, known, times)
            for way, key in zip(WAYS, _keys(like), strict=True)
            if (known := self._known.get(key)) is not None and (times := _longer(known.times, running))
        ]
        return min(found, key=lambda each: each[0])[1:] if found else None

    def __len__(self) -> int:
        return len(self._known)


def _keys(like: Likeness) -> tuple[tuple[object, ...], ...]:
    """Parallel to `WAYS`."""
    return (
        (0, like.owner, like.stem, like.project, like.queue, like.slots, like.requested),
        (1, like.owner, like.stem, like.slots, like.requested),
        (2, like.owner, like.stem),
        (3, like.owner, like.slots, like.requested),
        (4, like.owner),
        (5, like.slots, like.requested),
        (6,),
    )


def _longer(times: Sequence[float], running: float) -> list[float]:
    return [seconds for seconds in times if seconds > running]


def mean(times: Sequence[float]) -> float:
    """The last ones weigh most."""
    weights = [DECAY ** (len(times) - 1 - at) for at in range(len(times))]
    return sum(weight * seconds for weight, seconds in zip(weights, times, strict=True)) / sum(weights)


def quantile(times: Sequence[float], share: float) -> float:
    """The run time below which this share of the weight lies. The last ones weigh most."""
    weighed = sorted((seconds, DECAY ** (len(times) - 1 - at)) for at, seconds in enumerate(times))
    left = share * sum(weight for _, weight in weighed)
    for seconds, weight in weighed:
        left -= weight
        if left <= 0:
            return seconds
    return weighed[-1][0]
