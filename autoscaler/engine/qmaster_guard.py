"""Keeps the autoscaler from loading the qmaster: measures its own commands, and says how long the next ones must wait.

There are two bounds. Over some minutes the commands take at most a share of the time: passes may follow one another
quickly for a while, and then have to wait. And if a listing takes much longer than usual, qmaster is busy with
something else: the autoscaler then polls less often until qmaster is quick again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Unpack

from autoscaler.process import Completed, Options, Runner

SHARE = 0.05
"""The greatest share of the time in which our commands run."""
WINDOW = 300.0
"""Seconds over which that holds: unused time may be used at once."""
LONGEST_PAUSE = 60.0
"""Longest delay of a pass in seconds: a worker with an interruption notice has two minutes."""
PAUSE_OF_POLL = 10.0
"""Longest delay of a pass in polling delays: an operator who polls often has a qmaster that can serve it."""
LISTINGS = 50
"""The usual time is taken from this many listings."""
ENOUGH = 8
"""At least this many listings are needed for it."""
SLOW = 3.0
"""A listing that takes this many times the usual time is slow."""
NEVER_SLOW = 0.5
"""A listing that takes fewer seconds is never slow."""
MOST_SLOWED = 8.0
"""Longest polling delay while qmaster is slow, in times the set one."""


@dataclass(slots=True)
class QmasterGuard:
    """A Runner for Grid Engine's commands, one for the life of a process. Any thread may use it."""

    inner: Runner
    stopwatch: Callable[[], float] = time.monotonic
    on_command: Callable[[str, float, bool], None] | None = None
    """Who else measures: gets each command's program, its seconds, and whether it was answered."""
    _credit: float = field(default=SHARE * WINDOW, init=False)
    """Seconds of commands that may run at once."""
    _at: float = field(init=False)
    _listings: deque[float] = field(default_factory=lambda: deque(maxlen=LISTINGS), init=False)
    _slowed: float = field(default=1.0, init=False)
    _last_reported: str = field(default="", init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._at = self.stopwatch()

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        began = self.stopwatch()
        done = None
        try:
            done = self.inner(argv, **options)
            return done
        finally:
            # Listings of some owners' jobs are no measure of how busy qmaster is.
            some = "-j" in argv or ("-u" in argv and "*" not in argv)
            listed = argv[0] == "qstat" and not some and done is not None and done.returncode == 0
            seconds = self.stopwatch() - began
            self.spend(seconds, listed=listed)
            if self.on_command is not None:
                self.on_command(argv[0], seconds, done is not None and done.returncode == 0)

    def pause(self, poll: float) -> float:
        """Seconds in which no command should run, at a polling delay of `poll`."""
        with self._lock:
            self._refill()
            return min(max(0.0, -self._credit) / SHARE, LONGEST_PAUSE, PAUSE_OF_POLL * poll)

    def slowed(self, poll: float) -> float:
        """The polling delay to use instead of `poll`."""
        return poll * self._slowed

    def trouble(self, poll: float) -> str:
        """What people should know: that it polls less often, and why; '' if it polls as usual."""
        return (
            f"{self._last_reported}: it is polled every {self.slowed(poll):g} s instead of {poll:g} s"
            if self._last_reported
            else ""
        )

    def spend(self, seconds: float, *, listed: bool = False) -> None:
        """A command has taken this long; `listed`: it was a listing of all jobs."""
        with self._lock:
            self._refill()
            self._credit = max(self._credit - seconds, -SHARE * LONGEST_PAUSE)
            if listed:
                self._judge(seconds)

    def _refill(self) -> None:
        now = self.stopwatch()
        self._credit = min(SHARE * WINDOW, self._credit + SHARE * (now - self._at))
        self._at = now

    def _judge(self, seconds: float) -> None:
        usual = median(self._listings) if len(self._listings) >= ENOUGH else None
        self._listings.append(seconds)
        if usual is not None and seconds >= max(NEVER_SLOW, SLOW * usual):
            if self._slowed < MOST_SLOWED:  # else it was reported, and another figure is no news
                self._slowed = min(MOST_SLOWED, 2 * self._slowed)
                times = f"{seconds / usual:.0f} times its usual {usual:.2g} s" if usual else "long"
                self._last_reported = f"qmaster is slow (qstat took {seconds:.1f} s, {times})"
        elif self._slowed > 1.0:
            self._slowed /= 2
            self._last_reported = self._last_reported if self._slowed > 1.0 else ""
