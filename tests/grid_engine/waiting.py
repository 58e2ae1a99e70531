"""Waiting for a condition, never for a fixed time; and what a failure shows besides."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

from tests.deadlines import Deadline

STEP = 0.1
Fact = TypeVar("Fact")
Shown = dict[str, Callable[[], str]]
"""Titles and functions whose text is added to a failure's report."""


class Until(Protocol):
    """Waits for a condition, never for a fixed time."""

    def __call__(self, condition: Callable[[], Fact], deadline: float = 15.0, message: str = "") -> Fact: ...


def wait_until(condition: Callable[[], Fact], deadline: float = 15.0, message: str = "") -> Fact:
    """The first truthy answer of `condition`; fails the test with the last one where there is none in time.

    `deadline`: seconds on an idle machine; more where this one is slower meanwhile.
    """
    limit = Deadline(deadline)
    while not (seen := condition()):
        if limit.over():
            pytest.fail(f"{message or 'it did not happen'} within {limit.waited:.0f} s; last seen: {seen!r}")
        time.sleep(STEP)
    return seen
