"""What quotas leave to jobs on each host (`hosts {*} to slots=$num_proc`), as amounts that placement counts.

A job takes of the amount of each rule that holds for it on a host. Which rule of a set that is depends on the rules
before it that match the host: an amount belongs to a rule and to these, and to one value of each other filter in
braces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

QUOTA = "quota "
"""The names of these amounts begin so."""
_DYNAMIC = re.compile(r"\$(\w+)(?:\*(\d+(?:\.\d+)?))?\Z")


@dataclass(frozen=True, slots=True)
class HostLimit:
    """An amount on hosts, of one rule."""

    quota: str
    rule: int
    resource: str
    text: str
    """The limit as it is written."""
    before: frozenset[int] = frozenset()
    """Earlier rules of the set that match its hosts."""
    values: tuple[tuple[str, str], ...] = ()
    """The one value of each other filter in braces."""

    @property
    def name(self) -> str:
        others = "".join(f" {what}={value}" for what, value in self.values)
        before = f" ({','.join(map(str, sorted(self.before)))})" if self.before else ""
        return f"{QUOTA}{self.quota}/{self.rule + 1}{before}{others}: {self.resource}={self.text}"


@dataclass(frozen=True, slots=True)
class OfferedLimit:
    """The same on workers to come. `of_queue`: it holds in their queue only."""

    limit: HostLimit
    type: str
    of_queue: bool


def is_dynamic(text: str) -> bool:
    """Whether a limit depends on a value of the host (`$num_proc*2`)."""
    return _DYNAMIC.match(text) is not None


def factor_of(text: str) -> tuple[str, float]:
    """The complex of a dynamic limit, and by how much its value counts."""
    found = _DYNAMIC.match(text)
    return ("", 0.0) if found is None else (found[1], float(found[2] or 1))


def written_limit(left: float, limit: float) -> str:
    """What is left of a limit, and all of it, as a value of a host or queue instance."""
    return f"{max(left, 0)!r}/{limit!r}"


def left_of(text: str, *, emptied: bool = False) -> float:
    """What is left of a limit; `emptied`: as if nothing ran there."""
    left, _, limit = text.partition("/")
    return float(limit if emptied else left)
