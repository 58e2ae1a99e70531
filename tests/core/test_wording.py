"""Every reason has a sentence, and the sentence rests on facts that every place gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.core.reasons import Code, because
from autoscaler.report.wording import TEMPLATES, duration, facts_of, text

ROOT = Path(__file__).parents[2]
PLACES = [*(ROOT / "autoscaler").rglob("*.py"), *(ROOT / "sge").rglob("*.py")]


def reasons_given() -> Iterator[tuple[str, Code, frozenset[str]]]:
    """Every `because(Code.X, fact=…)` in the code: where, its code, the facts it gives."""
    for path in PLACES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "because":
                facts = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
                for code in _codes(node.args[0]):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", code, facts


def _codes(node: ast.expr) -> Iterator[Code]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "Code":
            yield Code[part.attr]


def test_every_code_has_a_sentence() -> None:
    assert set(TEMPLATES) == set(Code)


@pytest.mark.parametrize(("place", "code", "facts"), sorted(reasons_given()))
def test_every_fact_a_sentence_needs_is_given(place: str, code: Code, facts: frozenset[str]) -> None:
    needed, _ = facts_of(code)
    # FUTURE is completed where the earliest of a shape is known.
    completed = {Code.FUTURE: {"start_at"}}.get(code, set())
    assert needed - facts - completed == frozenset(), place


def test_a_sentence_is_followed_by_what_was_added_to_it() -> None:
    reason = because(Code.LAUNCH_WANTED, workers=6, type="m5.large")
    reason = reason.then(because(Code.CAPPED, cap="max_workers", limit=2))
    assert text(reason) == "wanted 6 m5.large; capped by max_workers (2)"


def test_what_is_not_known_is_left_out() -> None:
    sentences = [text(because(Code.BOOT_TIMEOUT, limit_s=900.0, message=said)) for said in (None, "", "no capacity")]
    assert sentences == [
        "its machine was not up within 15m",
        "its machine was not up within 15m",
        "its machine was not up within 15m: no capacity",
    ]


def test_lists_and_times_are_written_for_people() -> None:
    sentences = [text(because(Code.RUNS_JOBS, jobs=("12", "13"))), text(because(Code.FUTURE, start_at=0.0))]
    assert sentences == ["it runs jobs 12, 13", "it must not start before 1970-01-01 00:00:00 UTC"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    (
        (Code.RUNS_JOBS, "it runs job 12"),
        (Code.LOST_JOBS_DELETED, "job 12 ended with it and may not start again: deleted by CP_CAP_AUTOSCALE_LOST_JOBS"),
        (Code.LOST_JOBS_STAY, "job 12 ended with it and may not start again: listed as running until deleted"),
    ),
)
def test_one_job_alone_is_no_plural(code: Code, sentence: str) -> None:
    assert text(because(code, jobs=("12",))) == sentence


@pytest.mark.parametrize(
    ("seconds", "words"),
    (
        (0.0, "0s"),
        (0.5, "0.5s"),
        (30.0, "30s"),
        (59.6, "1m"),
        (90.0, "1m30s"),
        (660.0, "11m"),
        (3900.0, "1h05m"),
        (7200.0, "2h"),
        (200000.0, "2d"),
    ),
)
def test_durations_have_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_of_something_is_told_in_the_singular() -> None:
    demand = because(Code.DEMAND, queue="main.q", tasks=1, slots=21)
    other = because(Code.DEMAND, queue="main.q", tasks=11, slots=1)
    assert [text(demand), text(other)] == [
        "1 task of main.q with 21 slots can start nowhere",
        "11 tasks of main.q with 1 slot can start nowhere",
    ]
