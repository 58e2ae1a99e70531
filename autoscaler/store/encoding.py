"""How core's values are written down as JSON and read back: the one notation of the store and of record folders.

Frozen dataclasses become objects, tuples lists, enums their values; a reader names the type it expects.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Value = TypeVar("Value")


class Unreadable(ValueError):
    """The text is not of the expected form; the message says where."""


def write(value: object, *, indent: int | None = None) -> str:
    """JSON of a value made of dataclasses, mappings, sequences, enums and plain values."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False)


def read(text: str | bytes, kind: type[Value]) -> Value:
    """Decode what `write` encoded from a value of type `kind`. Raises Unreadable."""
    try:
        return cast("Value", _adapter(cast("Any", kind)).validate_json(text))
    except ValueError as error:  # pydantic's is one
        raise Unreadable(f"no {getattr(kind, '__name__', kind)}: {error}") from error


def from_row(row: sqlite3.Row, kind: type[Value], **given: object) -> Value:
    """The dataclass that has a row's columns as its fields, except those that are `given`; further columns are left
    out. Raises Unreadable.
    """
    adapter, objects = _adapter(cast("Any", kind)), _objects(cast("Any", kind))
    try:
        columns = {
            name: _value(row[name], objects.get(name)) for name in _fields(cast("Any", kind)) if name not in given
        }
        return cast("Value", adapter.validate_python(columns | given))
    except ValueError as error:
        raise Unreadable(f"no {kind.__name__}: {error}") from error


def columns_of(value: object) -> dict[str, Any]:
    """A dataclass as the row that `from_row` reads: values that are not plain as JSON."""
    columns = plain(value)
    return {name: write(each) if isinstance(each, list | dict) else each for name, each in columns.items()}


def plain(value: object) -> Any:
    """The same value in dicts, lists, strings, numbers and None; mapping keys as they are."""
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if names := _fields(kind):
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted((plain(item) for item in value), key=repr)
    return value


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Names of a dataclass's fields, looked up once a class: tens of thousands of values may be written in a pass."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def _key(key: object) -> Any:
    return key.value if isinstance(key, Enum) else key


def _value(column: Any, kind: Any) -> Any:
    return column if kind is None or column is None else read(column, kind)


@cache
def _objects(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass that a column holds as JSON, by name, with their types."""
    return {name: hint for name, hint in get_type_hints(kind).items() if not _is_plain(hint)}


def _is_plain(hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return all(map(_is_plain, get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, str | int | float | None)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # a fifth of a second, which many commands need not spend

    return TypeAdapter(kind)
