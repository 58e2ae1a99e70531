"""How long a test may wait on the machine that it runs on. A limit holds for an idle machine like the one that it was
chosen on. On a busy or slow machine it is multiplied by how much longer a piece of work takes there. The work is
measured at each quarter of a limit and while the test waits on, because load comes and goes: what delayed the test may
be over when its limit is. A wait that ends early never measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

REFERENCE = 0.036
"""Seconds that `work` takes where the limits were chosen, idle."""
MOST = 20.0
"""No limit is stretched further: a fact that never comes must fail the test some day."""
MEASURED_FOR = 2.0
"""Seconds that a measurement stands for."""
CHECKS = 4
"""How often the work is measured before a limit is over."""


def work() -> float:
    """Wall time in seconds of a fixed piece of work. It is longer than a scheduler's time slice, so that it competes
    with all other processes.
    """
    began = time.monotonic()
    total = 0
    for number in range(400_000):
        total += number * number % 7
    assert total
    return time.monotonic() - began


class Machine:
    """How many times as long as the reference this machine takes, by its last measurement."""

    def __init__(self, measure: Callable[[], float] = work, clock: Callable[[], float] = time.monotonic) -> None:
        self._measure, self._clock = measure, clock
        self._slower, self._measured_at = 1.0, -MEASURED_FOR

    def slower(self) -> float:
        """The factor, 1 to MOST, measured within the last seconds."""
        if self._clock() - self._measured_at >= MEASURED_FOR:
            self._slower = min(max(self._measure() / REFERENCE, 1.0), MOST)
            self._measured_at = self._clock()
        return self._slower


THIS = Machine()


class Deadline:
    """`seconds` from now on an idle machine; more on one that is slower meanwhile."""

    def __init__(self, seconds: float, machine: Machine = THIS, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._machine, self._clock = seconds, machine, clock
        self._began, self._most, self._checks = clock(), 1.0, 0

    @property
    def waited(self) -> float:
        """Seconds since it was set."""
        return self._clock() - self._began

    def over(self) -> bool:
        """Whether the limit has passed, multiplied by the slowest moment since it was set."""
        checks = int(self.waited * CHECKS / self.seconds) if self.seconds else CHECKS
        if checks > self._checks:
            self._checks = checks
            self._most = max(self._most, self._machine.slower())
        return self.waited > self.seconds * self._most


def wait_for(holds: Callable[[], object], seconds: float, step: float = 0.01) -> bool:
    """Whether it holds before the time is over; checked once more at its end."""
    deadline = Deadline(seconds)
    while not holds():
        if deadline.over():
            return bool(holds())
        time.sleep(step)
    return True


def stretched(seconds: float) -> float:
    """For a limit that others enforce, such as the timeout of a command: its value now on this machine."""
    return seconds * THIS.slower()


def replace_sleep(monkeypatch: pytest.MonkeyPatch, module: str, sleep: Callable[[float], object]) -> None:
    """Let this module alone call `sleep` for `time.sleep`: threads of other modules sleep as ever."""
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
