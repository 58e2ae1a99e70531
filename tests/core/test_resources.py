"""Values of complexes as numbers, and patterns as Grid Engine reads them."""

from __future__ import annotations

import pytest

from autoscaler.core.model.complexes import amount, canonical, matches, satisfies, split_tasks, task_count
from autoscaler.core.placement.amounts import written


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    (
        ("4G", "MEMORY", 4 * 2**30),
        ("4g", "MEMORY", 4 * 10**9),
        ("1.5K", "MEMORY", 1536),
        ("489.5M", "MEMORY", 489.5 * 2**20),
        ("2.000000", "INT", 2),
        ("1e3", "DOUBLE", 1000),
        ("1:0:0", "TIME", 3600),
        ("30:00:00:00", "TIME", 30 * 86400),
        (":30:", "TIME", 1800),
        ("90", "TIME", 90),
        ("INFINITY", "TIME", float("inf")),
        ("TRUE", "BOOL", 1),
        ("0.000000", "BOOL", 0),
        ("-", "MEMORY", None),
        ("much", "INT", None),
        ("true", "INT", 1),
        ("1:x", "TIME", None),
        ("1e400", "MEMORY", None),
        ("0e99999", "MEMORY", 0),
        ("1e" + "9" * 5000, "DOUBLE", None),
        ("9" * 400, "INT", None),
        ("9" * 400 + ":0:0", "TIME", None),
        ("²:0:0", "TIME", None),
        ("nan", "DOUBLE", None),
        ("0x10", "INT", 16),
        ("0x2K", "MEMORY", 2048),
        ("", "INT", None),
    ),
)
def test_an_amount_is_read_by_the_type_of_its_complex(text: str, kind: str, value: float | None) -> None:
    assert amount(text, kind) == value


def test_equal_amounts_have_the_same_canonical_text() -> None:
    assert len({canonical(text, "MEMORY") for text in ("8G", "8.000G", "8192M", "8589934592")}) == 1


@pytest.mark.parametrize(
    ("expression", "value", "found"),
    (
        ("lx-*", "lx-amd64", True),
        ("lx-amd64|sol-*", "sol-sparc", True),
        ("!lx-*", "lx-amd64", False),
        ("!(w1|w2)", "w3", True),
        ("!(w1|w2)", "w2", False),
        ("w*&!w2", "w2", False),
        ("w*&!w2", "w1", True),
        ("W1", "w1", True),
        ("w[12]", "w2", True),
        ("", "w1", False),
        ("(w1", "w1", False),
        ("w1|", "w1", False),
        ("(" * 50_000, "w1", False),
        ("!" * 50_000 + "w1", "w1", False),
        ("|".join(f"w{n}" for n in range(5000)), "w4999", True),
    ),
)
def test_patterns_combine_as_in_grid_engine(expression: str, value: str, found: bool) -> None:
    assert matches(expression, value) is found


@pytest.mark.parametrize(
    ("asked", "relop", "offered", "holds"),
    (
        ("8", "<=", "16", True),
        ("16", "<=", "8", False),
        ("8", "==", "8.0", True),
        ("8", "!=", "8", False),
        ("8", ">=", "4", True),
        ("lx-*", "==", "lx-amd64", True),
        ("lx-*", "!=", "lx-amd64", False),
        ("a", "<=", "b", False),
    ),
)
def test_requested_is_compared_with_offered_by_the_relop(asked: str, relop: str, offered: str, holds: bool) -> None:
    assert satisfies(asked, relop, offered) is holds


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    (
        (32 * 2**30, "MEMORY", "32G"),
        (2**40, "MEMORY", "1T"),
        (1000, "MEMORY", "1000"),
        (4, "INT", "4"),
        (1, "BOOL", "TRUE"),
        (float("inf"), "MEMORY", "INFINITY"),
    ),
)
def test_amounts_are_written_exactly(value: float, kind: str, text: str) -> None:
    assert written(value, kind) == text


@pytest.mark.parametrize(("tasks", "count"), (("", 1), ("7", 1), ("1-100:3", 34), ("5-19:2", 8), ("1-3:1,7,9-10", 6)))
def test_tasks_of_a_task_list_are_counted(tasks: str, count: int) -> None:
    assert task_count(tasks) == count


@pytest.mark.parametrize(
    ("tasks", "count", "first", "others"),
    (
        ("1-9:2", 3, "1-5:2", "7-9:2"),
        ("1-3:1,7,9-10:1", 4, "1-3:1,7", "9-10:1"),
        ("1-3:1", 0, "", "1-3:1"),
        ("1-3:1", 3, "1-3:1", ""),
        ("1-3:1", 1, "1", "2-3:1"),
        ("", 1, "", ""),
    ),
)
def test_a_task_list_is_divided_in_its_order(tasks: str, count: int, first: str, others: str) -> None:
    assert split_tasks(tasks, count) == (first, others)
