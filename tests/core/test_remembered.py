"""What is remembered of the last call is used for the same objects only."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoscaler.core.readable.remembered import LastObjects, PerObject


@dataclass
class Counted:
    """A function that knows for what it was called."""

    asked: list[object] = field(default_factory=list)

    def __call__(self, one: object) -> str:
        self.asked.append(one)
        return f"of {one}"


def a_tuple(number: int) -> tuple[int]:
    """A new object each time."""
    return (number,)


def test_the_value_of_the_same_object_is_not_made_again() -> None:
    remembered, made, one, other = PerObject[tuple[int], str](), Counted(), a_tuple(1), a_tuple(2)
    first = remembered.each([one, other], ["a", "b"], made)
    assert (remembered.each([one, other], ["a", "b"], made), made.asked) == (first, [one, other])


def test_an_equal_object_is_asked_anew_and_the_others_are_not() -> None:
    remembered, made, one = PerObject[tuple[int], str](), Counted(), a_tuple(1)
    remembered.each([one, a_tuple(2)], ["a", "b"], made)
    del made.asked[:]
    remembered.each([one, another := a_tuple(2)], ["a", "b"], made)
    assert [each is another for each in made.asked] == [True]


def test_objects_are_found_at_another_place_by_their_names() -> None:
    remembered, made, one, other = PerObject[tuple[int], str](), Counted(), a_tuple(1), a_tuple(2)
    remembered.each([one, other], ["a", "b"], made)
    assert remembered.each([other], ["b"], made) == (f"of {other}",)
    assert len(made.asked) == 2


def test_two_objects_of_one_name_have_each_their_own_value() -> None:
    remembered, made, one, other = PerObject[tuple[int], str](), Counted(), a_tuple(1), a_tuple(2)
    for objects in ([one, other], [other, one]):
        assert remembered.each(objects, ["a", "a"], made) == tuple(f"of {each}" for each in objects)


def test_nothing_is_used_again_if_what_values_share_differs() -> None:
    remembered, made, one = PerObject[tuple[int], str](), Counted(), a_tuple(1)
    for shared in (1, 1, 2):
        remembered.each([one], ["a"], made, shared)
    assert made.asked == [one, one]


def test_the_last_value_holds_for_the_same_arguments_only() -> None:
    last, made, one, other = LastObjects[str](), Counted(), a_tuple(1), a_tuple(2)
    for arguments in ((one, other), (one, other), (one, a_tuple(2)), (one,), (one, other)):
        assert last.value_of(arguments, lambda given=arguments: made(given)) == f"of {arguments}"  # type: ignore[misc]
    assert len(made.asked) == 4
