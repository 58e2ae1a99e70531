"""Answers of the store for people, as long as the autoscaler gives none: what it did and what is in force are still
known while it is down, hangs, or is started again. Each says that it is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autoscaler.api.answers import OF_STORE, Answering, Answers, Asker, Reply
from autoscaler.api.relayed_answers import unanswered

ASKED_AGAIN = 5.0
"""Seconds for which an autoscaler that gave no answer is not asked again: a view has several questions, and each may
take seconds until it is known that the autoscaler hangs.
"""


@dataclass(slots=True)
class NoPass:
    """In place of the last pass."""

    unobserved: str = ""
    """Why the autoscaler does not answer."""
    seen: None = None
    quiet_s: float = 0.0


@dataclass(slots=True)
class AnsweredOrStored:
    """Any thread may call."""

    relayed: Answering
    stored: Answers
    """Made with `no_pass`."""
    no_pass: NoPass
    owners_only: Callable[[], bool]
    """Whether details of a job are for its owner and managers, as the autoscaler that does not answer was told."""
    stopwatch: Callable[[], float] = time.monotonic
    _silent_until: float = field(default=0.0, init=False)

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        if self.stopwatch() < self._silent_until:
            reply = unanswered(self.no_pass.unobserved)
        else:
            reply = self.relayed.answer(question, query, asker)
        if not reply.unanswered:
            self._silent_until = 0.0
            return reply
        if self.stopwatch() >= self._silent_until:
            self.no_pass.unobserved, self._silent_until = reply.unanswered, self.stopwatch() + ASKED_AGAIN
        if question not in OF_STORE:
            return reply
        self.stored.owners_only = self.owners_only()
        return self.stored.answer(question, query, asker)
