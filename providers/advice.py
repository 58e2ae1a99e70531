"""Facts that decisions can do without: notices, prices, quotas, power states. A source that refuses, is throttled
or answers nonsense fails alone: its last good answer stands, and a trouble says so. The list of workers is no advice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from autoscaler.providers.interface import ProviderError

Answer = TypeVar("Answer")
Other = TypeVar("Other")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Advice:
    """The sources of one provider. Safe to be used by several threads."""

    _troubles: dict[str, str] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def read(self, what: str, call: Callable[[], Answer], otherwise: Other) -> Answer | Other:
        """The answer, or `otherwise` if there is none; `what` names the source for people. Raises nothing."""
        try:
            answer = call()
        except ProviderError as error:
            self._note(what, str(error))
            return otherwise
        except Exception as error:
            if self._note(what, f"a defect: {error!r}"):
                log.exception("%s raised an error that the provider's contract does not allow", what)
            return otherwise
        self.forget(what)
        return answer

    def forget(self, what: str) -> None:
        """This source is not needed now."""
        with self._guard:
            self._troubles.pop(what, None)

    def troubles(self) -> dict[str, str]:
        """What failed when it was asked last, and why."""
        with self._guard:
            return {what: f"not known now, which stops nothing else: {why}" for what, why in self._troubles.items()}

    def _note(self, what: str, why: str) -> bool:
        """Whether it is new."""
        with self._guard:
            new = self._troubles.get(what) != why
            self._troubles[what] = why
            return new
