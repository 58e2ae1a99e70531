"""Threads that live as long as the service: whatever ends the work of one is logged, and its work begins again.

One failed system call (no process, no descriptor, no memory at that moment) must not end for good what keeps the cell's
lease, hears Grid Engine's events or serves callers. `troubles` says which of them failed lately, for `status`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.core.model.waits import doubled_wait
from autoscaler.errors import AutoscalerError

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds until the work begins again, doubled each time that it fails at once."""
WELL_AFTER = 120.0
"""Seconds of work after which an earlier failure is no trouble any more."""

log = logging.getLogger("autoscaler.threads")


@dataclass(frozen=True, slots=True)
class _Failure:
    words: str
    at: float


_failures: dict[str, _Failure] = {}
"""The last failure of each thread, by its name. Each thread writes its own."""


def troubles() -> tuple[str, ...]:
    """What failed lately."""
    now = time.monotonic()
    lately = [(name, failure) for name, failure in list(_failures.items()) if now - failure.at < WELL_AFTER]
    return tuple(f"the thread {name} failed and began again: {failure.words}" for name, failure in lately)


def supervised(work: Callable[[], None], name: str, ended: threading.Event | None = None) -> threading.Thread:
    """Start `work` on a thread, and again whenever it fails; once it returns, or `ended` is set, the thread ends."""
    closed = ended or threading.Event()

    def run() -> None:
        tries, said = 0, ""
        while not closed.is_set():
            began = time.monotonic()
            try:
                work()
            except (Exception, SystemExit) as error:  # the thread's edge: its work begins again
                tries = 1 if time.monotonic() - began >= WELL_AFTER else tries + 1
                pause = doubled_wait(tries, FIRST_WAIT, LONGEST_WAIT)
                words = f"{type(error).__name__}: {error}"
                expected = isinstance(error, OSError | AutoscalerError)
                _failures[name] = _Failure(words, time.monotonic())
                log.log(
                    logging.DEBUG if words == said else logging.ERROR,
                    "the thread %s failed and begins again in %g s: %s",
                    name,
                    pause,
                    words,
                    exc_info=None if expected else error,
                )
                said = words
                closed.wait(pause)
            else:
                return

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
