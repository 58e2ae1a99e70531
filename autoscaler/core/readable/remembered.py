"""Caches the values of pure functions from one pass to the next. Most waiting job categories are the same objects in
the next pass and need not be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Generic, TypeVar

from autoscaler.core.model.cluster import JobCategory

Value = TypeVar("Value")
Object = TypeVar("Object")


class PerCategory(Generic[Value]):
    """Values of one pure function by job category, for the categories of the last call. An equal category that is
    another object is computed anew, so the values are always those of the function.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[JobCategory, Value]] = {}
        self._job_categories: tuple[JobCategory, ...] = ()
        self._values: tuple[Value, ...] = ()

    def each(self, job_categories: tuple[JobCategory, ...], of: Callable[[JobCategory], Value]) -> tuple[Value, ...]:
        """The function's value of each of these, in their order."""
        if job_categories is self._job_categories:
            return self._values
        before, known, values = self._known, dict[int, tuple[JobCategory, Value]](), list[Value]()
        for category in job_categories:
            first = category.jobs[0] if category.jobs else 0
            entry = before.get(first)
            if entry is None or entry[0] is not category:
                entry = category, of(category)
            known[first] = entry
            values.append(entry[1])
        self._known, self._job_categories, self._values = known, job_categories, tuple(values)
        return self._values


class PerObject(Generic[Object, Value]):
    """Values of one pure function by object, for the objects of the last two turns. As objects are immutable, the value
    of the same object is the same; an equal one that is another object is computed anew.
    """

    def __init__(self) -> None:
        self._shared: object = None
        self._before: dict[str, tuple[Object, Value]] = {}
        self._now: dict[str, tuple[Object, Value]] = {}
        self._last: tuple[object, tuple[Object, ...], tuple[Value, ...]] = None, (), ()
        """Of `each`: what is shared, the objects, and their values."""

    def turn(self, shared: object = None) -> None:
        """A new turn begins. `shared`: all that values depend on besides the object."""
        self._before, self._now = (self._now if shared == self._shared else {}), {}
        self._shared = shared

    def of(self, name: str, one: Object, make: Callable[[Object], Value]) -> Value:
        """`name`: what the object is found by in the next turn."""
        entry = self._now.get(name)
        if entry is None or entry[0] is not one:
            entry = self._before.get(name)
            if entry is None or entry[0] is not one:
                entry = one, make(one)
            self._now[name] = entry
        return entry[1]

    def each(
        self,
        objects: Sequence[Object],
        name: Callable[[Object], str],
        make: Callable[[Object], Value],
        shared: object = None,
    ) -> tuple[Value, ...]:
        """The values of all objects of a turn, in their order. The names are looked at only if some object is new."""
        last_shared, last, values = self._last
        if len(last) == len(objects) and all(map(is_, last, objects)) and last_shared == shared:
            return values
        self.turn(shared)
        values = tuple([self.of(name(one), one, make) for one in objects])
        self._last = shared, tuple(objects), values
        return values


class PerArguments(Generic[Value]):
    """Values of one pure function by its arguments, which are compared by identity: those of equal others are computed
    anew. When there are too many, all are forgotten.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._known: dict[Hashable, tuple[tuple[object, ...], Value]] = {}

    def of(self, key: Hashable, arguments: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """`key`: what the arguments are found by."""
        entry = self._known.get(key)
        if entry is None or any(known is not given for known, given in zip(entry[0], arguments, strict=True)):
            if len(self._known) >= self._most:
                self._known.clear()
            entry = self._known[key] = arguments, make()
        return entry[1]


class LastValue(Generic[Value]):
    """The value of a pure function for the arguments of the last call, if these are likely to come again."""

    def __init__(self) -> None:
        self._last: tuple[object, Value] | None = None

    def value_of(self, arguments: object, of: Callable[[], Value]) -> Value:
        """`arguments`: all that the value depends on, as one immutable value."""
        last = self._last
        if last is None or last[0] != arguments:
            last = self._last = arguments, of()
        return last[1]

    def forget(self) -> None:
        self._last = None
