"""The order of a run: tests on a real cell, which mostly wait, are spread evenly among those that compute. xdist gives
every worker a stretch of the order. Alphabetically, the tests on cells were one stretch: while the others computed one
worker waited for its cell, and at the end all did.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar


class Located(Protocol):
    """Anything with a file, as a test has."""

    @property
    def path(self) -> Path: ...


Test = TypeVar("Test", bound=Located)


def spread(waiting: Sequence[Test], computing: Sequence[Test]) -> list[Test]:
    """All of both. Each kind keeps its order, and no file of tests that compute is divided, so that their shared
    fixtures are made once.
    """
    files = [list(tests) for _, tests in groupby(computing, key=lambda test: test.path)]
    found: list[Test] = []
    given = passed = 0
    for tests in files:
        passed += len(tests)
        due = len(waiting) * passed // len(computing)
        found += [*tests, *waiting[given:due]]
        given = due
    return [*found, *waiting[given:]]
