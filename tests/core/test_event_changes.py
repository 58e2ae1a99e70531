"""Changes between two listings, and sets of numbers that differ little, checked against a plain implementation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.events.changes import compared
from autoscaler.core.events.numbers import MOST_APART, Numbers

NUMBERS = st.frozensets(st.integers(0, 40))


@given(st.lists(st.booleans(), max_size=600), st.lists(st.integers(0, 600), max_size=30), st.data())
def test_new_and_missing_items_of_a_listing_are_found(
    kept: list[bool], inserted: list[int], data: st.DataObject
) -> None:
    before = [object() for _ in kept]
    now = [item for item, stays in zip(before, kept, strict=True) if stays]
    for at in inserted:
        now.insert(at, object())
    new, gone = compared(before, now)
    old, listed = set(map(id, before)), set(map(id, now))
    assert {at for at, item in enumerate(now) if id(item) not in old} <= set(new)
    assert {at for at, item in enumerate(before) if id(item) not in listed} <= set(gone)
    # One that moved far is reported as both, never as one of them.
    both = {id(now[at]) for at in new} & old
    assert both == {id(before[at]) for at in gone} & listed


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=600))
def test_a_changed_mark_is_a_change(marks: list[tuple[bool, bool]]) -> None:
    items = [object() for _ in marks]
    before, now = [mark for mark, _ in marks], [mark for _, mark in marks]
    assert compared(items, items, before, now) == ([at for at, (one, other) in enumerate(marks) if one != other], [])


@given(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_numbers_behave_like_a_set(first: frozenset[int], changes: list[tuple[frozenset[int], frozenset[int]]]) -> None:
    plain, numbers = set(first), Numbers(first)
    for more, fewer in changes:
        plain = (plain | more) - fewer
        numbers = numbers.plus(more).minus(fewer)
        assert (len(numbers), sorted(numbers)) == (len(plain), sorted(plain))
        assert numbers.missing(tuple(range(41))) == [number for number in range(41) if number not in plain]


def test_a_change_without_effect_returns_the_same_object() -> None:
    numbers = Numbers(frozenset(range(10)))
    assert numbers.plus({3, 4}) is numbers
    assert numbers.minus({11}) is numbers
    assert sorted(numbers.plus(frozenset(range(MOST_APART + 20)))) == list(range(MOST_APART + 20))
