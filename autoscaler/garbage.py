"""Sets how often this process collects cyclic garbage, and returns unused memory to the system."""

from __future__ import annotations

import contextlib
import gc

YOUNG = 100_000
"""A pass makes and drops hundreds of thousands of values in a moment, and hardly any refer to themselves. With Python's
700 the collector went through all of them dozens of times: a third of the first pass of 50,000 job categories.
"""

OF_CALLS = 1_000, 5, 1
"""Thresholds of a process that makes no passes. With those above, 700 ended streams were kept: 20 MB."""
LEFT = 5_000
"""New objects that a pass leaves to be looked through: a small cell's passes never reach `YOUNG`."""

ARENAS = -8
"""`M_ARENA_MAX` of the C library's `mallopt`."""
MMAP_THRESHOLD, LARGE = -3, 1 << 20
"""`M_MMAP_THRESHOLD`, and the bytes from which a block is mapped by itself."""
EVERY = 600.0
"""Seconds between two times that memory is returned. A pass needs most of it again, which then costs it time."""


def collect_rarely() -> None:
    """For the whole process, from now on."""
    gc.set_threshold(YOUNG, 10, 10)


def collect_after_calls() -> None:
    """For a process that only answers callers, once all that lasts is made: that is never looked through again. Each
    connection and each stream that ended leaves objects that refer to themselves, and what they hold.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*OF_CALLS)


def collect_after_pass() -> None:
    """Drop what callers left meanwhile: 5 objects for each question that `serve` passes on."""
    if gc.get_count()[0] >= LEFT:
        gc.collect(0)


def share_one_arena() -> None:
    """For a process that lives long, before it starts threads. The C library gives each thread an arena of its own,
    from which no memory returns to the others: 6 MB once users have asked, for threads that never run at the same time.
    """
    _c_library("mallopt", ARENAS, 1)


def return_large_blocks() -> None:
    """For a process that checks passwords: scrypt takes 16 MiB for a moment. Once the C library has freed one such
    block it takes the next ones from a thread's arena and keeps them there: 136 MB after 60 logins, instead of 1 MB.
    """
    _c_library("mallopt", MMAP_THRESHOLD, LARGE)


class FreedMemory:
    """Memory that was freed, but that the C library keeps for the life of the process unless asked."""

    def __init__(self) -> None:
        self._due_at = float("-inf")

    def give_back(self, now: float) -> None:
        """Return it to the system, the first time and then seldom. `now`: seconds of any clock."""
        if now < self._due_at:
            return
        self._due_at = now + EVERY
        _c_library("malloc_trim", 0)


def _c_library(function: str, *arguments: int) -> None:
    """Call it, unless this C library does not have it."""
    import ctypes  # 0.2 MB, for the service alone

    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), function)(*arguments)
