"""Values of Grid Engine's complexes as numbers that can be compared and subtracted, and numbers as Grid Engine writes
them.

`autoscaler.sge.units` reads listings; this reads what jobs ask for and hosts offer, by the complex's type. An
unreadable value is None, never an error: one odd request must not fail a pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from autoscaler.core.model.cluster import Complex

_NUMBER = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:[eE]([+-]?\d+))?([kKmMgGtT]?)")
_FACTORS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HEXADECIMAL = re.compile(r"0[xX]([0-9a-fA-F]{1,16})([kKmMgGtT]?)")
RESOURCE_MAP = "RSMAP"
"""A consumable whose units have ids: a host has `2(0 1)` or `2(gpu0[mem=80G] gpu1[mem=40G])`, a job asks for `2`,
`2(gpu0 gpu1)` or `2[same=id]`. Only the amount counts. Grid Engine decides which unit a job gets.
"""
NUMERIC = frozenset({"INT", "DOUBLE", "MEMORY", "TIME", "BOOL", RESOURCE_MAP})
"""Types of complexes whose values are numbers."""
_IDS = re.compile(r"(\([^()]*\)|\[[^\[\]]*\])\Z")
TOO_MUCH = 10**18
"""No host has this much of anything; smaller amounts can be counted exactly."""
_DEEPEST = 200
"""The most brackets and negations of an expression: nobody writes as many, each is a level of recursion."""
_TRUE = frozenset({"true", "t", "yes", "y"})
_FALSE = frozenset({"false", "f", "no", "n"})
_VALUELESS = {"true": 1, "false": 0}
"""A request without a value (`-l gpu`) is printed as `gpu=TRUE`, and counts as 1 (seen on 8.1.9)."""
_ENDLESS = frozenset({"infinity", "inf", "unlimited"})


@lru_cache(maxsize=65536)
def amount(text: str, kind: str) -> float | None:
    """The number that a value of a complex of this type stands for: bytes, seconds, 1 or 0 for true and false, infinity
    only if it is written so. None: it is no number, or more than can be counted (`1e400`).
    """
    word = _IDS.sub("", text.strip()).rstrip() if kind == RESOURCE_MAP else text.strip()
    lower = word.lower()
    if lower in _ENDLESS:
        return float("inf")
    if kind == "BOOL" and lower in _TRUE | _FALSE:
        return float(lower in _TRUE)
    if lower in _VALUELESS:
        return _VALUELESS[lower]
    if kind == "TIME" and ":" in word:
        return _duration(word)
    found = _HEXADECIMAL.fullmatch(word)
    if found is not None:
        return int(found[1], 16) * _FACTORS[found[2]]
    found = _NUMBER.fullmatch(word)
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return _counted(float(f"{number}e{exponent or 0}") * _FACTORS[suffix])


def _counted(value: float) -> float | None:
    """Whole numbers as `int`, so that they are counted exactly; None: it overflowed."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def _duration(text: str) -> float | None:
    parts = text.split(":")
    if len(parts) > 4 or not all(part == "" or part.replace(".", "", 1).isdecimal() for part in parts):
        return None
    units = (86400, 3600, 60, 1)[4 - len(parts) :]
    return _counted(sum(float(part or 0) * unit for part, unit in zip(parts, units, strict=True)))


@lru_cache(maxsize=4096)
def canonical(text: str, kind: str) -> str:
    """One text for equal values, so that `8G`, `8.000G` and `8192M` compare as equal."""
    value = amount(text, kind) if kind in NUMERIC else None
    return text.strip() if value is None else str(value)


@lru_cache(maxsize=65536)
def satisfies(requested: str, relop: str, offered: str) -> bool:
    """Grid Engine compares *asked relop offered*, both canonical: `8589934592 <= 25276784640`, `lx-* == lx-amd64`."""
    left, right = _number(requested), _number(offered)
    if left is not None and right is not None:
        return {
            "==": left == right,
            "!=": left != right,
            ">=": left >= right,
            "<=": left <= right,
            ">": left > right,
            "<": left < right,
        }.get(relop, False)
    if relop == "!=":
        return not matches(requested, offered)
    return relop == "==" and matches(requested, offered)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def matches(expression: str, value: str) -> bool:
    """Grid Engine's pattern expressions: wildcards with `|`, `&`, `!` and brackets (`lx-*|sol-*`, `!(w1|w2)`). Case
    does not count.
    """
    return _Expression(expression.lower()).matches(value.lower())


class _Expression:
    """Recursive descent over one expression: an `|` of `&` of patterns, negated or not. A malformed expression matches
    nothing.
    """

    def __init__(self, text: str) -> None:
        self._tokens = re.findall(r"[|&!()]|[^|&!()]+", text)
        self._at = 0
        self._too_deep = sum(token in "(!" for token in self._tokens) > _DEEPEST

    def matches(self, value: str) -> bool:
        if self._too_deep:
            return False
        self._at = 0
        found = self._any(value)
        return found and self._at == len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _any(self, value: str) -> bool:
        found = self._all(value)
        while self._peek() == "|":
            self._at += 1
            found = self._all(value) or found
        return found

    def _all(self, value: str) -> bool:
        found = self._one(value)
        while self._peek() == "&":
            self._at += 1
            found = self._one(value) and found
        return found

    def _one(self, value: str) -> bool:
        token = self._peek()
        self._at += 1
        if token == "!":
            return not self._one(value)
        if token == "(":
            found = self._any(value)
            self._at += 1
            return found
        return bool(token) and fnmatchcase(value, token.strip())


def by_any_name(complexes: Mapping[str, Complex]) -> dict[str, Complex]:
    """Complexes by name and by shortcut; a name wins over another's shortcut."""
    return {**{entry.shortcut: entry for entry in complexes.values()}, **complexes}


def runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """First and last of each run of numbers without a gap."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return tuple(found)


@lru_cache(maxsize=65536)
def task_count(tasks: str) -> int:
    """How many tasks a list has (`1-100:3`, `5,7,9-11`), never expanded; 1 for a job that is no array ('')."""
    return sum(_length(part) for part in tasks.split(",")) if tasks else 1


def split_tasks(tasks: str, count: int) -> tuple[str, str]:
    """The first `count` tasks of a list and the others, as lists: (`1-9:2`, 3) → (`1-5:2`, `7-9:2`)."""
    if not tasks or count >= task_count(tasks):
        return (tasks, "") if count else ("", tasks)
    first: list[str] = []
    others: list[str] = []
    for part in tasks.split(","):
        length = _length(part)
        taken = max(min(count, length), 0)
        count -= taken
        start, step = _start_and_step(part)
        first += _range(start, step, taken)
        others += _range(start + taken * step, step, length - taken)
    return ",".join(first), ",".join(others)


def has_task(tasks: str, task: int) -> bool:
    """Whether a list of tasks (`1-100:3`, `5,7,9-11`), never expanded, names this one."""
    for part in filter(None, tasks.split(",")):
        start, step = _start_and_step(part)
        if start <= task < start + step * _length(part) and (task - start) % step == 0:
            return True
    return False


def _start_and_step(part: str) -> tuple[int, int]:
    ends, _, step = part.partition(":")
    return int(ends.partition("-")[0]), int(step or 1)


def _length(part: str) -> int:
    ends = part.partition(":")[0]
    start, step = _start_and_step(part)
    return (int(ends.partition("-")[2] or start) - start) // step + 1


def _range(start: int, step: int, length: int) -> list[str]:
    if length <= 0:
        return []
    return [str(start)] if length == 1 else [f"{start}-{start + (length - 1) * step}:{step}"]
