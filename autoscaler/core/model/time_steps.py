"""Moves all that is remembered to a clock that was set to another time, so that no duration changes.

Only times that our own clock gave are moved: those of Grid Engine and of the provider stand as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Reason

MAPPED = frozenset({"able_since", "silent_since", "closed_since"})
"""Fields of `Memory` that hold a time by key."""
NO_TIMES = frozenset({"boot_s", "joined_s", "wait_s", "silent_s", "spot", "unvouched_s", "price_per_hour"})
"""Other numbers that are no whole ones: durations, prices and counts."""
_Value = TypeVar("_Value")


def is_time(name: str) -> bool:
    """Whether a field of this name holds a time."""
    return name in {"at", "since", "until", "first_seen", "failures_seen"} or name.endswith(("_at", "_since"))


def moved(memory: Memory, step: float) -> Memory:
    """The memory as it would be had the clock always been `step` seconds ahead."""
    return _moved(memory, step)


def _moved(value: _Value, step: float) -> _Value:
    if isinstance(value, Reason) or not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(
        value, **{field.name: _field(field.name, getattr(value, field.name), step) for field in fields(value)}
    )


def _field(name: str, value: Any, step: float) -> Any:
    if isinstance(value, Mapping):
        each = _later if name in MAPPED else _moved
        return MappingProxyType({key: each(one, step) for key, one in value.items()})
    if isinstance(value, tuple):
        return tuple(_moved(one, step) for one in value)
    return _later(value, step) if is_time(name) else _moved(value, step)


def _later(value: Any, step: float) -> Any:
    """A time `step` seconds later; 0, as `failures_seen` begins, is none."""
    return value + step if isinstance(value, float) and value else value
