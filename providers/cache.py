"""Answers of a cloud that are needed in every pass but change seldom: requested at first use, renewed later on another
thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autoscaler.background import Executor, on_thread

Value = TypeVar("Value")


@dataclass(slots=True)
class Cached(Generic[Value]):
    """The answer of `ask`: the first call waits for it, and it is renewed off the caller's thread once it is older than
    `max_age`.

    A renewal that fails leaves the old answer, and is tried again after a tenth of `max_age`.
    """

    ask: Callable[[], Value]
    max_age: float
    """Seconds."""
    clock: Callable[[], float] = time.monotonic
    executor: Executor = on_thread
    _value: Value | None = field(default=None, init=False)
    _due: float = field(default=float("-inf"), init=False)
    _renewal: Future[Value] | None = field(default=None, init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)

    def get(self) -> Value:
        """The answer; raises the errors of the very first call."""
        with self._guard:
            if self._value is None:
                return self._keep(self.ask())
            if self._renewal is not None and self._renewal.done():
                renewal, self._renewal = self._renewal, None
                if renewal.exception() is None:
                    return self._keep(renewal.result())
                self._due = self.clock() + self.max_age / 10
            if self._renewal is None and self.clock() >= self._due:
                self._renewal = self.executor(self.ask, "renewal")
            return self._value

    def _keep(self, value: Value) -> Value:
        self._value, self._due = value, self.clock() + self.max_age
        return value
