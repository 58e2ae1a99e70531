"""Which numbers are possible for a field, and what replaces impossible ones: a price of NaN, a count below zero, a time
that no calendar has.

The replacement never allows more. An odd price becomes unknown. An odd time becomes the present, so that waits begin
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from autoscaler.core.model.complexes import TOO_MUCH
from autoscaler.core.model.reasons import Code, Reason, because

Value = TypeVar("Value")
LAST = 253_370_764_800.0
"""The year 9999: no time that can be written lies after it."""
MOST = 10**9
"""No count of whole things is larger."""
_TIMES = frozenset({"at", "since", "until", "first_seen", "submitted", "started", "failures_seen", "start_after"})
_UNKNOWN = frozenset({"price_per_hour", "expires_at", "start_after", "started"})
"""Fields that may be unknown, and are if they cannot be read."""
_KINDS = frozenset({"int", "float", "int | None", "float | None"})


@dataclass(frozen=True, slots=True)
class _NumberKind:
    """The possible numbers of a field."""

    name: str
    most: float
    time: bool

    def instead(self, value: float, now: float) -> float | None:
        if self.name in _UNKNOWN:
            return None
        if self.time:
            return now
        return self.most if isinstance(value, int) and value > 0 and self.most == MOST else 0


@cache
def _numbers_of(kind: Any) -> tuple[_NumberKind, ...]:
    """The fields of a dataclass that hold one number each; looked up once for each class."""
    return tuple(_kind(one.name) for one in fields(kind) if str(one.type) in _KINDS)


@cache
def _bounds_of(kind: Any) -> tuple[Callable[[Any], tuple[float | None, ...]], tuple[float, ...]]:
    """What reads all these fields at once, and the most that each may be."""
    numbers = _numbers_of(kind)
    names = [one.name for one in numbers]
    if len(names) > 1:
        return attrgetter(*names), tuple(one.most for one in numbers)
    return lambda one: tuple(getattr(one, name) for name in names), tuple(one.most for one in numbers)


def _kind(name: str) -> _NumberKind:
    if name in _TIMES or name.endswith(("_at", "_since")):
        return _NumberKind(name, LAST, True)
    return _NumberKind(name, TOO_MUCH if name in ("memory", "job", "number") else MOST, False)


def odd_numbers(one: object) -> tuple[tuple[str, float], ...]:
    """The fields of a dataclass with impossible numbers, NaN included."""
    of: Any = type(one)
    values, bounds = _bounds_of(of)
    odd = [at for at, value in enumerate(values(one)) if value is not None and not 0 <= value <= bounds[at]]
    if not odd:
        return ()
    numbers = _numbers_of(of)
    return tuple((numbers[at].name, getattr(one, numbers[at].name)) for at in odd)


def mended(one: Value, what: str, now: float, faults: list[Reason]) -> Value:
    """The same dataclass with a harmless value for every impossible number, each reported as a fault of `what`."""
    odd = odd_numbers(one)
    if not odd:
        return one
    of: Any = type(one)
    kinds = {kind.name: kind for kind in _numbers_of(of)}
    faults += [fault(what, name, value) for name, value in odd]
    changes: dict[str, Any] = {name: kinds[name].instead(value, now) for name, value in odd}
    return replace(one, **changes)  # type: ignore[type-var]


def fault(what: str, name: str, value: float) -> Reason:
    return because(Code.CANNOT_BE_READ, what=what, value=f"{name}={shown(value)}", why="no number that it can be")


def shown(value: float) -> str:
    """A number in a few characters, even if it is long."""
    if isinstance(value, int) and abs(value) > TOO_MUCH:
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    return str(value) if isinstance(value, int) else f"{value:g}"


def times(values: Iterator[float] | tuple[float, ...], now: float) -> tuple[float, ...]:
    """The times, with the present for impossible ones."""
    return tuple(value if 0 <= value <= LAST else now for value in values)


def all_times(values: tuple[float, ...]) -> bool:
    """Whether all of them are possible times. Fast: a listing has tens of thousands, and almost always all are."""
    try:
        total = sum(values)
    except OverflowError:  # a whole number that no float can hold
        return False
    return total == total and (not values or (min(values) >= 0 and max(values) <= LAST))
