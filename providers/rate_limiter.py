"""One rate limit for each cloud and process, and retries if a cloud answers "too many calls".

Every thread's calls to a cloud go through its one `RateLimiter`: they start at most so often, and once the cloud asked
one to slow down, all of its kind wait: a pause of launches does not keep workers from being listed and ended. It is as
long as the cloud asks, but at most `LONGEST_PAUSE`: then one call asks again. Waits are jittered, so that clusters
throttled together do not come back together.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from autoscaler.providers.interface import CallBudget, Throttled

Answer = TypeVar("Answer")

RATE, BURST = 20.0, 20
PATIENCE = 8.0
"""Seconds after which a throttled call is given up: a whole launch has 30."""
FIRST_WAIT = 0.25
LONGEST_WAIT = 5.0
LONGEST_PAUSE = 60.0
"""Seconds for which calls of a kind pause, whatever the cloud asks for."""


@dataclass(slots=True)
class RateLimiter:
    """Calls to one cloud from this process. Safe to be used by several threads."""

    rate: float = RATE
    """Calls a second in the long run."""
    burst: int = BURST
    """Calls that may start at once after a pause."""
    patience: float = PATIENCE
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next: float = field(default=float("-inf"), init=False)
    """The time at which the next call would start if none of the burst were left over."""
    _paused_until: dict[str, float] = field(default_factory=dict, init=False)
    """By kind of call."""
    _budget: CallBudget = field(default_factory=CallBudget, init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)

    def budget(self) -> CallBudget:
        """The present state, and totals so far."""
        with self._guard:
            now = self.clock()
            first = max(self._next, now - (self.burst - 1) / self.rate)
            self._paused_until = {kind: until for kind, until in self._paused_until.items() if until > now}
            paused = {kind: until - now for kind, until in self._paused_until.items()}
            left = 0 if "" in paused or first > now else int((now - first) * self.rate + 1e-6) + 1
            return replace(self._budget, left=left, paused=paused)

    def call(self, ask: Callable[[], Answer], kind: str = "") -> Answer:
        """The answer of `ask`, which is called again while it raises Throttled; after `patience` seconds that error is
        raised. `kind`: which calls the cloud limits together, as far as is known; its name is shown to people.
        """
        jittered = wait_random_exponential(multiplier=FIRST_WAIT, min=FIRST_WAIT / 5, max=LONGEST_WAIT)
        began = self.clock()

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            asked = error.retry_after if isinstance(error, Throttled) else None
            seconds = max(jittered(state), min(asked or 0.0, LONGEST_PAUSE))
            self._pause(kind, seconds)
            return max(seconds, asked or 0.0)

        def stop(state: RetryCallState) -> bool:
            return self.clock() - began + state.upcoming_sleep > self.patience

        retrying = Retrying(
            retry=retry_if_exception_type(Throttled),
            wait=wait,
            stop=stop,
            sleep=lambda _: None,  # `_turn` waits, together with everybody else
            reraise=True,
        )
        return retrying(lambda: self._asked(ask, kind))

    def _asked(self, ask: Callable[[], Answer], kind: str) -> Answer:
        self._turn(kind)
        try:
            return ask()
        except Throttled:
            self._count(throttled=1)
            raise

    def _turn(self, kind: str) -> None:
        """Wait until a call may start. Raises Throttled if the cloud's pause is longer than our patience."""
        if (seconds := self._take_or_wait(kind)) <= 0:
            return
        began = self.clock()
        self._count(waiting=1)
        try:
            while seconds > 0:
                if (left := self._paused_for(kind)) > self.patience:
                    error = Throttled(f"{kind}{': ' * bool(kind)}it asked to wait {math.ceil(left)} s")
                    error.retry_after = left
                    raise error
                self.sleep(seconds)
                seconds = self._take_or_wait(kind)
        finally:
            self._count(waiting=-1, waited_s=self.clock() - began)

    def _count(self, *, waiting: int = 0, throttled: int = 0, waited_s: float = 0.0) -> None:
        with self._guard:
            budget = self._budget
            self._budget = replace(
                budget,
                waiting=budget.waiting + waiting,
                throttled=budget.throttled + throttled,
                waited_s=budget.waited_s + waited_s,
            )

    def _paused_for(self, kind: str) -> float:
        with self._guard:
            return self._until(kind) - self.clock()

    def _until(self, kind: str) -> float:
        return self._paused_until.get(kind, float("-inf"))

    def _take_or_wait(self, kind: str) -> float:
        with self._guard:
            now = self.clock()
            self._next = max(self._next, now - (self.burst - 1) / self.rate)
            if (seconds := max(self._next, self._until(kind)) - now) > 0:
                return seconds
            self._next += 1 / self.rate
            self._budget = replace(self._budget, calls=self._budget.calls + 1)
            return 0.0

    def _pause(self, kind: str, seconds: float) -> None:
        with self._guard:
            self._paused_until[kind] = max(self._until(kind), self.clock() + seconds)

    def troubles(self) -> dict[str, str]:
        """The kinds of calls that pause for longer than a call waits."""
        paused = [kind or "all calls" for kind, left in self.budget().paused.items() if left > self.patience]
        words = f"too many calls: they pause, as the cloud asks, at most {LONGEST_PAUSE:g} s at a time"
        return dict.fromkeys(paused, words)


_limiters: dict[str, RateLimiter] = {}
_registry = threading.Lock()


def rate_limiter_of(cloud: str, rate: float = RATE, burst: int = BURST) -> RateLimiter:
    """The process's one rate limiter for a cloud: name its account or endpoint too if limits are counted by that. The
    last given limits hold for all.
    """
    with _registry:
        limiter = _limiters.setdefault(cloud, RateLimiter())
        limiter.rate, limiter.burst = rate, burst
        return limiter
