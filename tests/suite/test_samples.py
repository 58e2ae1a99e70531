"""Without `--thorough` one sample runs for several cases that would prove the same; with it all run."""

from __future__ import annotations

import pytest

from tests.samples import THOROUGH, examples, sample


def test_the_kept_value_always_runs_and_others_only_thoroughly() -> None:
    first, second = sample(("a", "b"), "b")
    assert (first.values, [mark.name for mark in first.marks], second) == (("a",), ["thorough"], "b")


def test_the_kept_value_must_be_among_the_values() -> None:
    with pytest.raises(AssertionError, match="not among the values"):
        sample(("a", "b"), "c")


def test_a_fifth_of_the_examples_run_and_all_thoroughly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THOROUGH, raising=False)
    few = [examples(number) for number in (1, 20, 150)]
    monkeypatch.setenv(THOROUGH, "yes")
    assert (few, [examples(number) for number in (1, 20, 150)]) == ([1, 4, 30], [1, 20, 150])
