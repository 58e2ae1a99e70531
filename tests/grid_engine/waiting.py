"""Waiting for a fact, never for a time; and what a failure is to show besides."""

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
    """Waits for a fact, never for a time."""

    def __call__(self, look: Callable[[], Fact], deadline: float = 15.0, message: str = "") -> Fact: ...


def wait_until(look: Callable[[], Fact], deadline: float = 15.0, message: str = "") -> Fact:
    """The first truthy answer of `look`; fails the test with the last one where there is none in time.

    `deadline`: seconds on an idle machine; more where this one is slower meanwhile.
    """
    limit = Deadline(deadline)
    while not (seen := look()):
        if limit.over():
            pytest.fail(f"{message or 'it did not happen'} within {limit.waited:.0f} s; last seen: {seen!r}")
        time.sleep(STEP)
    return seen
