"""An object with values that it has already is the same object, and never anything else than `replace` makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from autoscaler.core.model.changed import changed


@dataclass(frozen=True, slots=True)
class _Note:
    at: float | None = None
    count: int = 0
    names: tuple[str, ...] = ()


def test_an_object_that_would_be_equal_is_not_made() -> None:
    note = _Note(3.0, 2, ("a", "b"))
    assert changed(note, at=3.0, names=("a", "b")) is note


@pytest.mark.parametrize("values", ({"at": 3}, {"count": 2.0}, {"count": 3}, {"at": None}, {"names": ("a",)}))
def test_any_difference_makes_what_replace_makes(values: dict[str, object]) -> None:
    note = _Note(3.0, 2, ("a", "b"))
    made = changed(note, **values)
    assert made is not note
    assert repr(made) == repr(replace(note, **values))  # type: ignore[arg-type]
