"""Has providers restart or reimage machines as callers ask, where no job can be on them.

Only a worker that a person has disabled: nothing starts there, and two looks a scheduler interval apart must have shown
it empty. Anything else is answered with why not. What was begun when the process died is not begun again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from autoscaler.errand import Executor, on_thread
from autoscaler.errors import AutoscalerError
from autoscaler.store.looks import LastLook, SeenWorker
from autoscaler.store.store import Store
from autoscaler.store.verbs import Asked
from providers.interface import Operates, Provider

log = logging.getLogger("autoscaler.operate")


class Operator:
    """One for the life of a process: it knows what is under way off the loop's thread."""

    def __init__(
        self, store: Store, provider: Provider, clock: Callable[[], float], executor: Executor = on_thread
    ) -> None:
        self._store, self._provider, self._clock, self._executor = store, provider, clock, executor
        self._under_way: dict[int, Future[None]] = {}

    def carry_on(self, look: LastLook, now: float, interval: float) -> None:
        """After a successful look: end what cannot be done any more, begin what can. `interval`: the scheduler's."""
        asked = self._store.verbs.open()
        if not asked:
            return
        seen = {each.worker.id: each for each in look.workers}
        for each in asked:
            if each.id not in self._under_way:
                self._step(each, seen, now, interval)

    def _step(self, asked: Asked, seen: Mapping[str, SeenWorker], now: float, interval: float) -> None:
        worker, provider = seen.get(asked.worker_id), self._provider
        if asked.begun_at is not None:
            self._end(asked, "interrupted: it may have been done, or not")
        elif worker is None or not worker.closed:
            self._end(asked, "not done: it is not disabled and empty any more")
        elif not isinstance(provider, Operates):
            self._end(asked, f"not done: {provider.name} has no {asked.verb}")
        elif asked.empty_since is None:
            self._store.verbs.seen_empty(asked, now)
        elif now - asked.empty_since >= interval:
            self._store.verbs.begin(asked, now)
            call = self._executor(
                lambda: provider.operate(asked.worker_id, asked.verb), f"{asked.verb}-{asked.worker_id}"
            )
            self._under_way[asked.id] = call
            call.add_done_callback(lambda done: self._ended(asked, done))

    def _ended(self, asked: Asked, done: Future[None]) -> None:
        error = done.exception()
        if error is not None and not isinstance(error, AutoscalerError):
            log.error("%s of %s failed by a defect", asked.verb, asked.worker_id, exc_info=error)
        self._end(asked, "done" if error is None else f"not done: {error}")
        self._under_way.pop(asked.id, None)

    def _end(self, asked: Asked, message: str) -> None:
        log.info("%s of %s, which %s asked for: %s", asked.verb, asked.worker_id, asked.who, message)
        self._store.verbs.end(asked, message, self._clock())
