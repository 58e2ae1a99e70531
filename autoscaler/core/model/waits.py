"""Waits that double after each failure."""

from __future__ import annotations


def doubled_wait(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after a number of failures in a row: `first` after one, and never more than `longest`."""
    return min(longest, first * 2.0 ** min(failures - 1, 16))
