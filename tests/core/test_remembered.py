"""What is remembered of the last call is used for the same objects only."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoscaler.core.readable.remembered import LastEqual, LastObjects, PerArguments, PerObject


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


def test_the_values_of_the_last_few_calls_are_known_and_no_more() -> None:
    last, made, three = LastObjects[str](2), Counted(), [a_tuple(number) for number in range(3)]
    for one in (*three[:2], *three[:2], three[2], three[1], three[0]):
        assert last.value_of((one,), lambda given=one: made(given)) == f"of {one}"  # type: ignore[misc]
    assert made.asked == [*three, three[0]]


def test_what_is_compared_by_its_contents_may_be_another_object() -> None:
    last, made, one = LastObjects[str](), Counted(), a_tuple(1)
    for besides in (a_tuple(2), a_tuple(2), a_tuple(3)):
        last.value_of((one,), lambda: made(one), besides)
    assert made.asked == [one, one]
    found, asked = PerArguments[str](), Counted()
    for besides in (a_tuple(2), a_tuple(2), a_tuple(3)):
        found.of("name", (one,), lambda: asked(one), besides)
    assert asked.asked == [one, one]


def test_of_equal_values_the_first_is_used_until_another_comes() -> None:
    last, one, equal, other = LastEqual[tuple[int]](), a_tuple(1), a_tuple(1), a_tuple(2)
    assert [last.of(each) for each in (one, equal, other, one)] == [one, one, other, one]
    assert last.of(equal) is one
