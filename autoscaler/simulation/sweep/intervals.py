"""Confidence intervals of means and of ratios of totals, by Student's distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % of Student's distribution of 1, 2 … 30 degrees of freedom."""
_NORMAL = 1.96


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where it lies with a confidence of 95 %; without ends where there is one value only."""

    mean: float
    low: float | None = None
    high: float | None = None


def interval_of(groups: Sequence[Sequence[float]], least: float = -math.inf) -> Interval:
    """The mean over groups (windows), of which each has its values (seeds). `least`: what no value is below.

    Values of one window are alike, so they do not count as independent: the windows' means do. Only where there is one
    window is the interval that of its seeds, and says nothing about other jobs.
    """
    values = _independent(groups)
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean)
    return _around(mean, statistics.stdev(values) / math.sqrt(len(values)), len(values), least)


def ratio_of(groups: Sequence[Sequence[tuple[float, float]]]) -> Interval:
    """The ratio of two totals over groups, by pairs: of a bill, not of a typical window. The interval is that of the
    ratio estimator (Cochran, Sampling Techniques, 6.4), from 0 on: no total is negative.
    """
    mine = _independent([[one for one, _ in group] for group in groups])
    others = _independent([[other for _, other in group] for group in groups])
    if not sum(others):
        return Interval(1.0)
    ratio, count = sum(mine) / sum(others), len(mine)
    if count == 1:
        return Interval(ratio)
    residuals = math.fsum((one - ratio * other) ** 2 for one, other in zip(mine, others, strict=True))
    return _around(ratio, math.sqrt(residuals / (count - 1) / count) / statistics.fmean(others), count, 0.0)


def _independent(groups: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.fmean(group) for group in groups] if len(groups) > 1 else list(groups[0])


def _around(mean: float, error: float, count: int, least: float) -> Interval:
    half = quantile(count - 1) * error
    return Interval(mean, max(least, mean - half), mean + half)


def quantile(freedom: int) -> float:
    """97.5 % of Student's distribution; beyond the table by the first terms of its expansion (Abramowitz and Stegun
    26.7.5).
    """
    if freedom <= len(_QUANTILES):
        return _QUANTILES[freedom - 1]
    return _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * freedom)
