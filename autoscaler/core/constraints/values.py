"""Values of resources and node properties, sizes in bytes included, and how they are compared and written.

Sizes are read as cyclecloud-scalelib reads them: `k`, `m`, `g`, `t`, `p` are powers of 1024, `K` to `P` powers of 1000.
Grid Engine's own notation is the other way round; `core/model/complexes.py` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TypeGuard

_UNITS = {"": 1, "b": 1} | {
    letter: factor
    for power, low in enumerate("kmgtp", start=1)
    for letter, factor in ((low, 1024**power), (low.upper(), 1000**power))
}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([a-zA-Z]?)")
TOO_MUCH = 10**18
"""Amounts in a document are smaller, so that results can be counted exactly."""
SIZE_PREFIXES = ("size::", "memory::")


class Size(int):
    """A number of bytes, written with the largest unit that keeps it exact (`20g`)."""

    def __str__(self) -> str:
        whole = int(self)
        for letter in "ptgmk":
            if whole and whole % _UNITS[letter] == 0:
                return f"{whole // _UNITS[letter]}{letter}"
        return f"{whole}b"

    __repr__ = __str__


Scalar = str | int | float | bool
Value = Scalar | datetime | None


def read_size(text: str) -> Size:
    """The bytes of `20g`, `1.5t`, `512m` or `4096`. Raises ValueError naming the text."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS:
        raise ValueError(
            f"{text!r} is not a size: write a number and one of b, k, m, g, t, p (1024) or K, M, G, T, P (1000)"
        )
    size = float(found[1]) * _UNITS[found[2]]
    if size >= TOO_MUCH:
        raise ValueError(f"{text!r} is too large: sizes end below an exabyte")
    return Size(size)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an amount that can be counted; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


SCALE = 1_000_000
"""Fractions are counted in millionths, so that ten tenths are one."""


def millionths(amount: int | float) -> int:
    """An amount as a whole number that can be compared and subtracted without loss."""
    return amount * SCALE if isinstance(amount, int) else round(min(amount, 1e18) * SCALE)


def less(there: int | float, amount: int | float) -> int | float:
    """`there` minus `amount`; bytes stay bytes, whole numbers stay whole."""
    left = millionths(there) - millionths(amount)
    if isinstance(there, Size):
        return Size(left // SCALE)
    return left // SCALE if left % SCALE == 0 else left / SCALE


def same(one: Value, other: Value) -> bool:
    """Equal, and of one kind: 1 is not true, and "16" is not 16."""
    if is_number(one) and is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def shown(value: Value) -> str:
    """A value as text in a reason."""
    match value:
        case None | "":
            return "none"
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def shown_apart(there: Value, required: Sequence[Value]) -> tuple[str, str]:
    """The value that is there and the values that are asked for, as people read them. Text is quoted if the other is
    not text: "16" is not 16, and "true" is not true.
    """

    def quoted(value: Value, others: Sequence[Value]) -> str:
        mixed = isinstance(value, str) and not all(isinstance(other, str) for other in others)
        return f'"{value}"' if mixed else shown(value)

    return quoted(there, required), " or ".join(quoted(value, (there,)) for value in required)


def written(value: Value) -> Scalar | None:
    """A value as text in a document, so that reading it gives the same value."""
    match value:
        case Size():
            return f"{SIZE_PREFIXES[0]}{value}"
        case datetime():
            return value.isoformat()
        case _:
            return value
