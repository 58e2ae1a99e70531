"""What the platform keeps of a node's memory for Kubernetes, the system and the rest: a container has what is left.

The same figures as the platform's own (`cluster.node.*.mem.*`), in whole MiB, and whole GiB for the container.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MIB, GIB = 1024**2, 1024**3
_DEFAULTS = {"kube": (0.025, 256.0, 1024.0), "system": (0.025, 256.0, 1024.0), "extra": (0.05, 512.0, math.inf)}


@dataclass(frozen=True, slots=True)
class Reservation:
    """A share of the memory, at least and at most so many MiB."""

    ratio: float
    least: float
    most: float

    def of(self, mib: float) -> int:
        return int(min(max(self.least, math.ceil(mib * self.ratio)), self.most))


def read_reservations(preference: Callable[[str], Any]) -> tuple[Reservation, ...]:
    """As the platform's preferences have them, else its defaults. `preference` may raise ProviderError."""
    return tuple(
        Reservation(
            _number(preference(f"cluster.node.{part}.mem.ratio"), ratio),
            _number(preference(f"cluster.node.{part}.mem.min.mib"), least),
            _number(preference(f"cluster.node.{part}.mem.max.mib"), most),
        )
        for part, (ratio, least, most) in _DEFAULTS.items()
    )


def left_of(memory: int, reservations: tuple[Reservation, ...]) -> int:
    """Bytes of a node's memory that a container has."""
    mib = memory // GIB * 1024
    return int(max(0, mib - sum(each.of(mib) for each in reservations)) / 1024) * GIB


def _number(value: Any, default: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default
