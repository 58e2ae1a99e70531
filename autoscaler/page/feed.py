"""Tells open pages that there is news: after each pass, and after each command of a person.

One thread follows the store's commits. Streams wait without a thread of their own, and their number has a limit, so
that they take no place from those who ask or command.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from autoscaler.api.listeners import STREAMS
from autoscaler.engine.wakeup import Wakeup
from autoscaler.errors import StateNotKept
from autoscaler.store.store import Store
from autoscaler.supervised import supervised

OF_ONE = 12
"""Streams of one user at once."""
SETTLE = 0.25
"""Seconds after a commit until it is reported: a pass commits several times."""
SHORTEST_WAIT, LONGEST_WAIT = 0.25, 60.0
"""Seconds between two checks for commits, with news and without."""
CHECK_EVERY = 30.0
"""Seconds after which a quiet stream looks whether its session still holds."""

log = logging.getLogger("autoscaler.api")


class TooManyStreams(Exception):
    """The page asks now and then instead."""


@dataclass(slots=True)
class Feed:
    """For one process. `mark` names the present state of the store; it changes with each news."""

    _start: str = field(default_factory=lambda: secrets.token_hex(4))
    _count: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _waiting: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, str]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def mark(self) -> str:
        return f"{self._start}-{self._count}"

    def publish(self) -> None:
        """There is news."""
        with self._guard:
            self._count += 1
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._ended.set()
        self._wake()

    def _wake(self) -> None:
        with self._guard:
            waiting = [(event, loop) for event, (loop, _) in self._waiting.items()]
        for event, loop in waiting:
            with contextlib.suppress(RuntimeError):  # its server has ended
                loop.call_soon_threadsafe(event.set)

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[asyncio.Event]:
        """A place for a stream of this user, until the end of the block. Raises TooManyStreams."""
        event = asyncio.Event()
        with self._guard:
            held = Counter(each for _, each in self._waiting.values())
            if held.total() >= STREAMS or held[name] >= OF_ONE:
                raise TooManyStreams
            self._waiting[event] = asyncio.get_running_loop(), name
        try:
            yield event
        finally:
            with self._guard:
                self._waiting.pop(event, None)

    async def marks(self, event: asyncio.Event, seen: str, holds: Callable[[], bool]) -> AsyncIterator[str]:
        """Each news for the holder of a place, as the mark after it; '' once their login holds no more. `seen`: the
        mark that the page already shows.
        """
        while not self._ended.is_set():
            if self.mark != seen:
                seen = self.mark
                yield seen
            event.clear()
            if self.mark == seen and not self._ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), CHECK_EVERY)
            if not await asyncio.to_thread(holds):
                yield ""
                return

    @contextlib.contextmanager
    def following(self, store: Store) -> Iterator[None]:
        """Publish what other processes commit to this store, until the end of the block."""
        wakeup = Wakeup(SHORTEST_WAIT)
        wakeup.watch(store.database.log_file)

        def follow() -> None:
            seen: int | None = None
            while not self._ended.is_set():
                try:
                    changes = store.database.changes_by_others
                    if seen is not None and changes != seen:
                        self._ended.wait(SETTLE)
                        changes = store.database.changes_by_others
                        self.publish()
                    seen = changes
                except StateNotKept as error:
                    log.warning("the page cannot see passes: %s", error)
                wakeup.wait(LONGEST_WAIT)

        thread = supervised(follow, "page", self._ended)
        try:
            yield
        finally:
            self.close()
            wakeup.ring()
            thread.join(5)
            wakeup.close()
