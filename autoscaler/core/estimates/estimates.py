"""Estimated run times of the jobs of one snapshot, as values that a plan depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long a task will run, seconds: half of earlier ones took less than `median`, one of ten more than `high`."""

    median: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is estimated; jobs of which nothing is known are missing. Nothing is ever killed or held by it."""

    seconds: Mapping[int, RunTime] = field(default_factory=lambda: MappingProxyType({}))
    """By number of a waiting job, how long it, or each of its tasks, will run."""
    ends: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By name of a running job or task (`12`, `12.3`), when it will end, Unix seconds."""


NO_ESTIMATES = Estimates()


def likely_last(times: Sequence[RunTime]) -> float:
    """How long the last one of these tasks is likely to run: of one its mean, of nine what one of ten exceeds."""
    share = len(times) / (len(times) + 1)
    weight = min(1.0, (share - 0.5) / 0.4)
    return max((time.mean * max(time.high / time.mean, 1.0) ** weight for time in times), default=0.0)
