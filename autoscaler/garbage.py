"""How often this process looks for garbage that refers to itself."""

from __future__ import annotations

import gc

YOUNG = 100_000
"""A pass makes and drops hundreds of thousands of values in a moment, next to none of which refer to themselves. With
Python's 700 the collector went through all of them dozens of times: a third of the first pass of 50,000 job categories.
"""


def collect_rarely() -> None:
    """For the whole process, from now on."""
    gc.set_threshold(YOUNG, 10, 10)
