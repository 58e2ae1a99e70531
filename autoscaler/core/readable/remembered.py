"""Caches the values of pure functions from one pass to the next. Most waiting job categories are the same objects in
the next pass and need not be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import is_
from typing import Generic, TypeVar

from autoscaler.core.model.cluster import JobCategory

Value = TypeVar("Value")
Object = TypeVar("Object")


def same_objects(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether both have the same objects in the same order."""
    return len(some) == len(others) and all(map(is_, some, others))


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
    """Values of one pure function by object, for the objects of the last call. As objects are immutable, the value of
    the same object is the same; an equal one that is another object is computed anew.
    """

    def __init__(self) -> None:
        self._last: tuple[object, tuple[Object, ...], tuple[Value, ...]] = None, (), ()
        """What is shared, the objects, and their values."""
        self._known: dict[str, tuple[Object, Value]] = {}
        """The same objects and values by name."""

    def each(
        self,
        objects: Sequence[Object],
        names: Iterable[str],
        make: Callable[[Object], Value],
        shared: object = None,
    ) -> tuple[Value, ...]:
        """The values of all these objects, in their order. `names`: what each is found by in the next call, looked at
        only if some object is new. `shared`: all that values depend on besides the object.
        """
        last_shared, last, values = self._last
        alike = last_shared == shared
        if alike and same_objects(last, objects):
            return values
        known, names = self._known if alike else {}, list(names)
        values = tuple(
            [
                entry[1] if (entry := known.get(name)) is not None and entry[0] is one else make(one)
                for name, one in zip(names, objects, strict=True)
            ]
        )
        self._known = dict(zip(names, zip(objects, values, strict=True), strict=True))
        self._last = shared, tuple(objects), values
        return values


class PerArguments(Generic[Value]):
    """Values of one pure function by its arguments, which are compared by identity: those of equal others are computed
    anew. When there are too many, all are forgotten.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._known: dict[Hashable, tuple[tuple[object, ...], object, Value]] = {}

    def of(
        self, key: Hashable, arguments: tuple[object, ...], make: Callable[[], Value], besides: object = None
    ) -> Value:
        """`key`: what the arguments are found by. `besides`: arguments that are compared by their contents."""
        entry = self._known.get(key)
        if entry is None or entry[1] != besides or not same_objects(entry[0], arguments):
            if len(self._known) >= self._most:
                self._known.clear()
            entry = self._known[key] = arguments, besides, make()
        return entry[2]


class LastObjects(Generic[Value]):
    """The values of a pure function for the arguments of the last few calls, which are compared by identity."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._known: tuple[tuple[tuple[object, ...], object, Value], ...] = ()
        """The newest last. Replaced as a whole: another thread may plan at the same time."""

    def value_of(self, arguments: tuple[object, ...], of: Callable[[], Value], besides: object = None) -> Value:
        """`arguments` and `besides`: all that the value depends on. `besides` is compared by its contents."""
        known = self._known
        for objects, values, value in reversed(known):
            if same_objects(objects, arguments) and values == besides:
                return value
        made = of()
        self._known = (*known, (arguments, besides, made))[-self._most :]
        return made


class LastEqual(Generic[Value]):
    """The last of some equal values: what is made of it is found again by identity."""

    def __init__(self) -> None:
        self._last: Value | None = None

    def of(self, value: Value) -> Value:
        """The last value itself, if this one is equal; else this one."""
        last = self._last
        if last is None or last != value:
            last = self._last = value
        return last


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
