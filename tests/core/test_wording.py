"""Every reason has a row, and every place that makes the reason gives the facts of its row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.report.reasons.table import REASONS, SUBJECTS
from autoscaler.report.wording import duration, facts_of, number, so_far, text

ROOT = Path(__file__).parents[2]
PLACES = [path for folder in ("autoscaler", "providers", "sge") for path in (ROOT / folder).rglob("*.py")]
COMPLETED = {Code.FUTURE: frozenset({"start_at"})}
"""Facts that are filled in where the earliest start of a job category is known."""


@dataclass(frozen=True)
class Given:
    """A `because(…)` in the code: where, the codes it may have, the facts it gives."""

    place: str
    codes: frozenset[Code]
    facts: frozenset[str]


def reasons_given(source: str, place: str = "") -> Iterator[Given]:
    """Every `because(Code.X, fact=…)`. Where the code is a variable, all that it may hold in its function."""
    tree = ast.parse(source)
    for scope, node in _scoped(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "because":
            facts = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
            codes = frozenset(_codes(node.args[0])) or frozenset(_held(node.args[0], node, scope, tree))
            yield Given(f"{place}:{node.lineno}", codes, facts)


def _scoped(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every node of a module, with the function that it is in."""
    left: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while left:
        scope, node = left.pop()
        yield scope, node
        inner = node if isinstance(node, ast.FunctionDef) else scope
        left += ((inner, child) for child in ast.iter_child_nodes(node))


def _held(variable: ast.expr, call: ast.Call, scope: ast.AST, tree: ast.AST) -> Iterator[Code]:
    """What a variable may hold at a call: what is assigned to it in the function; else what its `case` accepts; in
    `case _`, what functions of the module return as a code and no other `case` takes.
    """
    name = ast.unparse(variable)
    assigned = (n.value for n in ast.walk(scope) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name)
    yield from (code for value in assigned for code in _codes(value))
    for match in (n for n in ast.walk(scope) if isinstance(n, ast.Match) and ast.unparse(n.subject) == name):
        (case,) = (case for case in match.cases if call in (n for part in case.body for n in ast.walk(part)))
        if named := frozenset(_codes(case.pattern)):
            yield from named
        else:
            returned = (n.value for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None)
            taken = {code for other in match.cases for code in _codes(other.pattern)}
            yield from {code for value in returned for code in _returned(value)} - taken


def _returned(value: ast.expr) -> Iterator[Code]:
    """Codes that a `return` gives by themselves, not inside a call."""
    if isinstance(value, ast.IfExp):
        yield from (*_returned(value.body), *_returned(value.orelse))
    elif isinstance(value, ast.Attribute):
        yield from _codes(value)


def _codes(node: ast.AST) -> Iterator[Code]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "Code":
            yield Code[part.attr]


GIVEN = [
    given
    for path in PLACES
    if "because(" in (source := path.read_text("utf-8"))
    for given in reasons_given(source, str(path.relative_to(ROOT)))
]


def test_every_code_has_one_row() -> None:
    assert sorted(code for _, rows in SUBJECTS for code in rows) == sorted(Code)


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.place)
def test_every_reason_is_made_with_the_facts_its_row_needs(given: Given) -> None:
    assert given.codes != frozenset(), "which code it has cannot be found: name it"
    for code in given.codes:
        row = REASONS[code]
        needed = facts_of(row.sentence)[0] | facts_of(row.short or "")[0]
        assert needed - given.facts - COMPLETED.get(code, frozenset()) == frozenset(), code


@pytest.mark.parametrize("code", Code)
def test_every_reason_is_made_somewhere_and_all_facts_of_its_row_are_given(code: Code) -> None:
    given = [each.facts for each in GIVEN if code in each.codes]
    row = REASONS[code]
    used = frozenset().union(*facts_of(row.sentence), *facts_of(row.short or ""))
    assert given, "no place makes it"
    assert used - frozenset().union(*given) - COMPLETED.get(code, frozenset()) == frozenset()


def test_core_makes_reasons_only_by_because() -> None:
    made = re.compile(r"(?<![\w.])Reason\(")
    core = [path for path in (ROOT / "autoscaler" / "core").rglob("*.py") if path.name != "reasons.py"]
    assert [path.name for path in core if made.search(path.read_text("utf-8"))] == []


def test_a_reason_without_a_needed_fact_is_found() -> None:
    source = "def f(late):\n code = Code.GONE if late else Code.IDLE_NOT_LONG_ENOUGH\n return because(code, idle_s=1)"
    (given,) = reasons_given(source)
    missing = {code: facts_of(REASONS[code].sentence)[0] - given.facts for code in given.codes}
    assert missing == {Code.GONE: frozenset(), Code.IDLE_NOT_LONG_ENOUGH: {"limit_s"}}


def test_reasons_of_the_trail_follow_the_sentence() -> None:
    reason = because(Code.LAUNCH_WANTED, workers=6, type="m5.large")
    reason = reason.then(because(Code.CAPPED, cap="max_workers", limit=2))
    assert text(reason) == "wanted 6 m5.large; capped by max_workers (2)"


def test_unknown_facts_are_left_out() -> None:
    sentences = [
        text(because(Code.BOOT_TIMEOUT, limit_s=900.0, message=message)) for message in (None, "", "no capacity")
    ]
    assert sentences == [
        "its machine was not up within 15m",
        "its machine was not up within 15m",
        "its machine was not up within 15m: no capacity",
    ]


def test_lists_and_times_are_formatted_for_people() -> None:
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
def test_a_single_job_is_in_the_singular(code: Code, sentence: str) -> None:
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


def test_counts_of_one_are_in_the_singular() -> None:
    demand = because(Code.DEMAND, queue="main.q", tasks=1, slots=21)
    other = because(Code.DEMAND, queue="main.q", tasks=11, slots=1)
    assert [text(demand), text(other)] == [
        "1 task of main.q with 21 slots can start on no host",
        "11 tasks of main.q with 1 slot can start on no host",
    ]


@pytest.mark.parametrize(
    ("seconds", "limit", "shown"),
    (
        (2.6, 3.0, "2s of 3s"),
        (2.0, 3.0, "2s of 3s"),
        (599.7, 600.0, "9m59s of 10m"),
        (3725.0, 3770.0, "nearly 1h02m"),
        (0.4, 0.5, "0.4s of 0.5s"),
    ),
)
def test_a_duration_below_its_limit_is_never_rounded_up_to_it(seconds: float, limit: float, shown: str) -> None:
    assert so_far(seconds, limit) == shown


def test_a_large_amount_has_all_its_digits() -> None:
    assert [number(value) for value in (1_500_000.0, 12_345_678.0, 100.0, 0.0005, 0.1 + 0.2)] == [
        "1500000",
        "12345678",
        "100",
        "0.0005",
        "0.3",
    ]
