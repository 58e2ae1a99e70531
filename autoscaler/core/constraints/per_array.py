"""Values for all node arrays, with other values for some: timeouts in seconds, and which workers are kept alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerNodeArray(Generic[T]):
    """`named` for the node arrays named there, `default` for all others."""

    default: T
    named: Mapping[str, T] = field(default_factory=dict)

    def of(self, node_array: str) -> T:
        return self.named.get(node_array, self.default)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Workers that are never to be removed: those of some node arrays, or by name."""

    arrays: PerNodeArray[bool] = PerNodeArray(False)
    names: frozenset[str] = frozenset()

    def holds(self, node_array: str, name: str | None) -> bool:
        return self.arrays.of(node_array) or (name is not None and name in self.names)
