"""What a pure function gave for the objects of the pass before. Most of what waits is the same object in the next one,
and need not be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """Values of one pure function by object, for the objects of the last call. An object that is equal but another one
    is asked about anew; so the values are those of the function, whoever else asks in between.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Value]] = {}

    def each(self, objects: Sequence[Any], of: Callable[[Any], Value]) -> list[Value]:
        """The function's value of each of these objects, in their order. The objects are immutable."""
        before, known, values = self._known, dict[int, tuple[object, Value]](), list[Value]()
        for one in objects:
            key = id(one)
            entry = before.get(key)
            if entry is None or entry[0] is not one:
                entry = one, of(one)
            known[key] = entry
            values.append(entry[1])
        self._known = known
        return values
