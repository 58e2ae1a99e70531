"""Sums of what workers cost: with an unknown part the sum is unknown, in any order (rule 5)."""

from __future__ import annotations

import pytest

from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.limits.limits import Usage, launches_left_in_window, most_of, room_for
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.policy import CircuitBreaker, Limits
from tests.core.building import LARGE, NOW, XLARGE, a_bucket

KNOWN, UNKNOWN = a_bucket(LARGE, price=0.1), a_bucket(XLARGE, price=-1)
COSTLY, FREE = (
    Usage(price_per_hour=1.0, total_price_per_hour=1.0),
    Usage(price_per_hour=None, total_price_per_hour=None),
)


def prices(usage: Usage) -> tuple[float | None, float | None]:
    return usage.price_per_hour, usage.total_price_per_hour


@pytest.mark.parametrize(("one", "other"), ((COSTLY, FREE), (FREE, COSTLY)))
def test_a_sum_with_an_unknown_price_is_unknown(one: Usage, other: Usage) -> None:
    assert one.plus_others(other).price_per_hour is None
    assert one.plus_elsewhere(other).total_price_per_hour is None
    assert prices(one.at_least(other)) == (None, None)
    assert one.since(Usage(), other).total_price_per_hour is None
    assert Usage().since(one, other).total_price_per_hour is None


def test_adding_workers_of_unknown_price_makes_the_sum_unknown_unless_there_are_none() -> None:
    assert prices(COSTLY.plus(2, None, 1)) == (None, None)
    assert COSTLY.plus(2, None, 0) == COSTLY
    assert prices(COSTLY.plus(2, 0.5, 2)) == (2.0, 2.0)


def test_at_least_takes_the_greater_value_of_each_field() -> None:
    one, other = Usage(1, 8, 1.0, total_workers=3, total_cores=1, total_price_per_hour=2.0), Usage(2, 4, 3.0)
    assert one.at_least(other) == Usage(2, 8, 3.0, total_workers=3, total_cores=1, total_price_per_hour=2.0)


@pytest.mark.parametrize("order", ((KNOWN, UNKNOWN), (UNKNOWN, KNOWN)))
def test_a_launch_with_a_candidate_of_unknown_price_has_an_unknown_cost(order: tuple[Bucket, ...]) -> None:
    launch = Launch("execute", tuple(LaunchSet((bucket,), 2) for bucket in order), because(Code.DEMAND))
    most = most_of(launch)
    assert (most.workers, most.cores, most.price_per_hour) == (2, 8, None)


@pytest.mark.parametrize(
    ("price", "taken", "room"),
    ((0.1, 0.8, 2), (0.1, 1.0, 0), (0.1, 1.5, 0), (0.0, 5.0, 9), (-1, 0.0, 0), (0.1, None, 0)),
)
def test_the_number_of_workers_that_fit_under_a_price_cap(price: float, taken: float | None, room: int) -> None:
    """A worker that costs nothing always has room under it; of an unknown price none has."""
    limits = Limits(max_workers=9, max_price_per_hour=1.0)
    assert room_for(a_bucket(LARGE, price=price), limits, Usage(price_per_hour=taken)).count == room


@pytest.mark.parametrize(
    ("event", "resumed_at", "left"),
    (
        (Event(NOW - 59.9, 3, "execute"), None, 1),
        (Event(NOW - 60.0, 3, "execute"), None, 4),
        (Event(NOW - 30.0, 3, "execute"), NOW - 30.0, 4),
        (Event(NOW - 30.0, 3, "execute"), NOW - 31.0, 1),
        (Event(NOW - 30.0, 3, "execute", launched=0), None, 4),
        (Event(NOW - 30.0, 9, "execute"), None, 0),
    ),
)
def test_launches_in_the_window_count_unless_they_failed_or_a_person_resumed_since(
    event: Event, resumed_at: float | None, left: int
) -> None:
    room = launches_left_in_window(CircuitBreaker(max_launches=4, window=60.0), [event], NOW, resumed_at)
    assert room is not None
    assert room.count == left


def test_a_launch_counts_with_the_maximum_of_each_figure_over_its_candidates() -> None:
    """Many cheap small workers or a few dear large ones: whichever it gets is within the sum."""
    many, dear = LaunchSet((a_bucket(LARGE, price=0.1),), 5), LaunchSet((a_bucket(XLARGE, price=0.9),), 3)
    for candidates in ((many, dear), (dear, many)):
        most = most_of(Launch("execute", candidates, because(Code.DEMAND)))
        assert (most.workers, most.cores, round(most.price_per_hour or 0.0, 9)) == (5, 12, 2.7)
