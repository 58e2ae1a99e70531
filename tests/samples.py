"""Samples that stand for similar cases in a run without `--thorough`: some parameters or random examples of a test."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = "TESTS_THOROUGH"
"""In the environment of a run with `--thorough`, so that modules know when they are imported."""
SHARE = 5


def sample(values: Iterable[Any], *kept: Any) -> list[Any]:
    """All of them as parameters of a test. Those that are not kept run with `--thorough` only."""
    kept = tuple(dict.fromkeys(kept))
    found = [value if value in kept else pytest.param(value, marks=pytest.mark.thorough) for value in values]
    assert len([value for value in found if value in kept]) == len(kept), f"{kept} are not among the values"
    return found


def thorough() -> bool:
    """Whether every case is to be tested."""
    return bool(os.environ.get(THOROUGH))


def examples(number: int) -> int:
    """This many random examples, or a fifth of them without `--thorough`."""
    return number if thorough() else -(-number // SHARE)
