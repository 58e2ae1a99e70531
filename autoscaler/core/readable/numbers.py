"""Numbers that can be what they are given for, and what stands for those that cannot: a price of NaN, a count below
zero, a time that no calendar has.

A number that cannot be read is never taken for one that allows more: an unknown price stays unknown, a time becomes the
present, so that whatever is waited for is waited for anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

from autoscaler.core.model.complexes import TOO_MUCH
from autoscaler.core.model.reasons import Code, Reason, because

Value = TypeVar("Value")
LAST = 253_370_764_800.0
"""The year 9999: no time that can be written lies after it."""
MOST = 10**9
"""More than there is of anything that is counted in whole ones."""
_TIMES = frozenset({"at", "since", "until", "first_seen", "submitted", "started", "failures_seen", "start_after"})
_UNKNOWN = frozenset({"price_per_hour", "expires_at", "start_after", "started"})
"""What may be unknown, and is where it cannot be read."""
_KINDS = frozenset({"int", "float", "int | None", "float | None"})


@dataclass(frozen=True, slots=True)
class _Kind:
    """The numbers that a field may hold."""

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
def _numbers_of(kind: Any) -> tuple[_Kind, ...]:
    """The fields of a dataclass that hold one number each; looked up once a class."""
    return tuple(_kind(one.name) for one in fields(kind) if str(one.type) in _KINDS)


@cache
def _bounds_of(kind: Any) -> tuple[tuple[str, float], ...]:
    return tuple((one.name, one.most) for one in _numbers_of(kind))


def _kind(name: str) -> _Kind:
    if name in _TIMES or name.endswith(("_at", "_since")):
        return _Kind(name, LAST, True)
    return _Kind(name, TOO_MUCH if name in ("memory", "job", "number") else MOST, False)


def odd_numbers(one: object) -> tuple[tuple[str, float], ...]:
    """The fields of a dataclass whose numbers cannot be what they are given for, NaN among them."""
    of: Any = type(one)
    found: list[tuple[str, float]] = []
    for name, most in _bounds_of(of):
        value = getattr(one, name)
        if value is not None and not 0 <= value <= most:
            found.append((name, value))
    return tuple(found)


def mended(one: Value, what: str, now: float, faults: list[Reason]) -> Value:
    """The same dataclass with something harmless for every number that cannot be read, which is told as of `what`."""
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
    """A number in a few characters, however long it is."""
    if isinstance(value, int) and abs(value) > TOO_MUCH:
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    return str(value) if isinstance(value, int) else f"{value:g}"


def times(values: Iterator[float] | tuple[float, ...], now: float) -> tuple[float, ...]:
    """Times with the present for those that no calendar has."""
    return tuple(value if 0 <= value <= LAST else now for value in values)


def all_times(values: tuple[float, ...]) -> bool:
    """Whether all of them are times. Fast: a listing has tens of thousands, and almost always all are."""
    try:
        total = sum(values)
    except OverflowError:  # a whole number that no float can hold
        return False
    return total == total and (not values or (min(values) >= 0 and max(values) <= LAST))
