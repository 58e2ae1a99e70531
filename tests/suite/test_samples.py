"""Without `--thorough` a sample stands for what would prove the same once more; with it all runs."""

from __future__ import annotations

import pytest

from tests.samples import THOROUGH, examples, sample


def test_what_is_kept_always_runs_and_the_rest_with_thorough_only() -> None:
    first, second = sample(("a", "b"), "b")
    assert (first.values, [mark.name for mark in first.marks], second) == (("a",), ["thorough"], "b")


def test_what_is_kept_must_be_there() -> None:
    with pytest.raises(AssertionError, match="not among the values"):
        sample(("a", "b"), "c")


def test_a_fifth_of_random_examples_and_all_with_thorough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THOROUGH, raising=False)
    few = [examples(number) for number in (1, 20, 150)]
    monkeypatch.setenv(THOROUGH, "yes")
    assert (few, [examples(number) for number in (1, 20, 150)]) == ([1, 4, 30], [1, 20, 150])
