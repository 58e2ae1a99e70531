"""Which fields an action shows in JSON, under which key, and how its values become plain ones.

Made of the action's class alone: `document` fills these fields in, `schema` declares them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.model.actions import InJson, in_json

PAIRS = tuple[tuple[str, str], ...]
"""In JSON an object."""


@dataclass(frozen=True, slots=True)
class JsonField:
    """One key of an action, or of a value inside it."""

    key: str
    type: Any
    """Of its value, as the class says; `null_if_empty` added to it."""
    description: str
    of: Callable[[Any], Any]
    """Action → plain value."""


@cache
def json_fields(kind: type) -> tuple[JsonField, ...]:
    """Fields and properties of a dataclass that are shown, in the order in which the class has them."""
    return tuple(_fields(kind))


def _fields(kind: type) -> Iterator[JsonField]:
    hints = get_type_hints(kind, include_extras=True)
    found = [(field.name, hints[field.name]) for field in dataclasses.fields(kind) if field.name != "reason"]
    found += [
        (name, get_type_hints(member.fget, include_extras=True)["return"])
        for owner in reversed(kind.__mro__)
        for name, member in vars(owner).items()
        if isinstance(member, property) and in_json(member)
    ]
    for name, hint in found:
        shape = next((each for each in get_args(hint)[1:] if isinstance(each, InJson)), InJson())
        if not shape.shown:
            continue
        declared = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        to_plain = _to_plain(declared)
        if shape.null_if_empty:
            declared = declared | None
        yield JsonField(name, declared, shape.description, _getter(name, to_plain, empty_is_null=shape.null_if_empty))


def _getter(name: str, to_plain: Callable[[Any], Any], *, empty_is_null: bool) -> Callable[[Any], Any]:
    def of(action: Any) -> Any:
        value = getattr(action, name)
        return None if empty_is_null and not value else to_plain(value)

    return of


def _to_plain(declared: Any) -> Callable[[Any], Any]:
    """How a value of this type becomes plain. Raises TypeError for a type that has no form in JSON yet."""
    if declared == PAIRS:
        return dict
    if get_origin(declared) is tuple:
        item = _to_plain(get_args(declared)[0])
        return lambda values: [item(value) for value in values]
    if dataclasses.is_dataclass(declared) and isinstance(declared, type):
        fields = json_fields(declared)
        return lambda value: {field.key: field.of(value) for field in fields}
    options = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    if any(option not in (str, int, float, bool, type(None)) for option in options):
        raise TypeError(f"{declared} has no form in JSON: mark the field ENGINE_ONLY, or say here what it becomes")
    return lambda value: value
