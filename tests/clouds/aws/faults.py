"""What goes wrong between a client and the played cloud, until it is healed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    """How a call goes wrong."""

    ERROR = "error"
    """Refused with an error code, and a status."""
    RESET = "reset"
    """The connection is reset before anything was done."""
    LOST = "lost"
    """It is done, and then the connection is reset."""
    SLOW = "slow"
    """Answered after some seconds."""
    GARBAGE = "garbage"
    """The answer is cut off in its middle."""
    NAMELESS = "nameless"
    """The answer names no machine: a launch's has none, a listing's have no ids."""
    STRANGER = "stranger"
    """Somebody else answers, with status 200 and a page of his own."""


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong, `times` times; -1: always."""

    kind: FaultKind
    operation: str = "*"
    times: int = -1
    code: str = "InternalError"
    message: str = "as asked by the test"
    status: int = 400
    seconds: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Fault:
        return cls(**{**values, "kind": FaultKind(values["kind"])})


@dataclass(slots=True)
class Faults:
    """Those that are set now."""

    set_now: list[Fault] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, operation: str) -> Fault | None:
        """The fault that a call of `operation` meets, used up by it."""
        with self._guard:
            for fault in self.set_now:
                if fault.operation in ("*", operation) and fault.times != 0:
                    fault.times -= 1 if fault.times > 0 else 0
                    return fault
        return None
