"""The same object with some values changed; the very same if they already are what they should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

Value = TypeVar("Value", bound=Any)


def changed(one: Value, /, **values: Any) -> Value:
    """As `dataclasses.replace`, but an object that would be equal is not made: nearly all notes of workers are as the
    last pass left them, and what is the same object need not be looked at again.
    """
    for name, value in values.items():
        now = getattr(one, name)
        if now is not value and (type(now) is not type(value) or now != value):
            return replace(one, **values)
    return one
