"""Commit subjects are short."""

from __future__ import annotations

import pytest

from bench.subjects import LONGEST, problems


@pytest.mark.parametrize(
    "message",
    (
        "A plain subject",
        "A" * LONGEST,
        "Short\n\nand a body of any length " * 9,
        f"Merge {'x' * 90}",
        "`make dist` works",
    ),
)
def test_a_good_subject_has_no_problem(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "what"),
    (
        ("A" * (LONGEST + 1), "has 73 characters"),
        ("fix it", "small letter"),
        ("Mend it.", "full stop"),
        ("Mend it\nat once", "no empty line"),
    ),
)
def test_a_bad_subject_is_reported(message: str, what: str) -> None:
    assert [what in problem for problem in problems(message)] == [True]
