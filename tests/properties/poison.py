"""One odd value planted anywhere in a reading: every leaf of a tree of frozen values can be reached and replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

Path = tuple[str | int | tuple[str, Any], ...]
"""How a leaf is reached: names of fields, positions in tuples, and for a mapping ("[]", key)."""

NUMBERS: tuple[float, ...] = (0, -1, 10**6, 2**31, 2**63, 10**18, 10**400, -(10**400))
FLOATS: tuple[float, ...] = (*(float(text) for text in ("nan", "inf", "-inf", "1e308", "-1e308", "5e-324")), 0.5, -0.5)
TEXTS = (
    *("", " ", "-", "NaN", "Infinity", "INFINITY", "-INFINITY", "1e400", "-1e400", "9" * 400, "0x10", "-1", "1e-400"),
    *("4Q", "4GB", "1:2:3:4:5", "99999999:0:0", "²", "١٢", "TRUE", "undefined", "2026-13-45T99:99:99", "1,5", "1-"),
    *(
        "a b",
        "a;rm -rf /",
        "../..",
        "@",
        "@@",
        "*",
        "[",
        "!(",
        "(" * 3000,
        "w1|",
        "\x00",
        "\x1b[31m",
        "ä" * 300,
        "'\"<&>",
    ),
    *("%s{}", "{what}", "[what]", "\ud800", "\u202e", "名前"),
)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number and text below, with its path. Enumeration values and booleans are left out."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from leaves(below, (*path, ("[]", key)))
    elif isinstance(value, tuple):
        for at, below in enumerate(value):
            yield from leaves(below, (*path, at))
    elif isinstance(value, int | float | str) and not isinstance(value, bool | Enum):
        yield path, value


def planted(value: Any, path: Path, poison: Any) -> Any:
    """The same tree with another value at the end of this path."""
    if not path:
        return poison
    step, rest = path[0], path[1:]
    match step:
        case str():
            return replace(value, **{step: planted(getattr(value, step), rest, poison)})
        case int():
            return (*value[:step], planted(value[step], rest, poison), *value[step + 1 :])
        case (_, key):
            return {**value, key: planted(value[key], rest, poison)}


def poisons_for(value: Any) -> tuple[Any, ...]:
    """What could stand in the place of such a value."""
    if isinstance(value, str):
        return TEXTS
    return (*NUMBERS, *FLOATS) if isinstance(value, float) else NUMBERS
