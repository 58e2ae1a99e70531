"""What stands for more of its kind in a run without `--thorough`: some of a test's parameters, some random examples."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = "TESTS_THOROUGH"
"""In the environment of a run with `--thorough`, so that modules know when they are imported."""
SHARE = 5


def sample(values: Iterable[Any], *kept: Any) -> list[Any]:
    """All of them as a test's parameters. Those that are not kept run with `--thorough` only."""
    kept = tuple(dict.fromkeys(kept))
    found = [value if value in kept else pytest.param(value, marks=pytest.mark.thorough) for value in values]
    assert len([value for value in found if value in kept]) == len(kept), f"{kept} are not among the values"
    return found


def thorough() -> bool:
    """Whether all is to be tested, each thing as it is used."""
    return bool(os.environ.get(THOROUGH))


def examples(number: int) -> int:
    """This many random examples, or a fifth of them without `--thorough`."""
    return number if thorough() else -(-number // SHARE)
