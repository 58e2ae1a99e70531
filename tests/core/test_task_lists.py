"""Lists of tasks as Grid Engine prints them."""

from __future__ import annotations

import pytest

from autoscaler.core.model.complexes import has_task


@pytest.mark.parametrize(
    ("tasks", "named", "unnamed"),
    (
        ("1-9:4", (1, 5, 9), (2, 4, 8, 10)),
        ("5,7,9-11", (5, 7, 9, 10, 11), (6, 8, 12)),
        ("3", (3,), (1, 99)),
        ("", (), (1,)),
    ),
)
def test_a_task_is_found_in_a_task_list(tasks: str, named: tuple[int, ...], unnamed: tuple[int, ...]) -> None:
    assert [has_task(tasks, one) for one in (*named, *unnamed)] == [True] * len(named) + [False] * len(unnamed)
