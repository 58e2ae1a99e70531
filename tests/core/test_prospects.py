"""What is reported as available to launch is what a plan launches."""

from __future__ import annotations

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.facts.prospects import Prospect, prospects
from autoscaler.core.model.fleet import FailureKind, PriceType
from autoscaler.core.model.memory import Event
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from tests.core.building import (
    LARGE,
    NOW,
    X2LARGE,
    XLARGE,
    Thing,
    a_bucket,
    a_failure,
    a_snapshot,
    a_worker,
    jobs,
)


def of(*things: Thing, **settings: object) -> dict[str, Prospect]:
    found = prospects(a_snapshot(*things, **settings))  # type: ignore[arg-type]
    return {prospect.bucket.type.name: prospect for prospect in found}


def test_the_configured_type_is_available_up_to_the_limit() -> None:
    found = of(a_worker("w1"), limits=Limits(max_workers=5))
    assert (found["m5.large"].count, found["m5.large"].refusal) == (4, None)


def test_prospects_are_bounded_by_the_providers_availability() -> None:
    assert of(a_bucket(LARGE, available=3))["m5.large"].count == 3


@pytest.mark.parametrize(
    ("things", "settings", "code"),
    (
        pytest.param((a_bucket(XLARGE), a_bucket(LARGE)), {}, Code.BUCKET_NOT_ALLOWED, id="another type"),
        pytest.param((a_bucket(XLARGE, problem="no quota"),), {"hybrid": True}, Code.BUCKET_UNAVAILABLE, id="problem"),
        pytest.param((a_bucket(XLARGE, available=0),), {"hybrid": True}, Code.BUCKET_UNAVAILABLE, id="none left"),
        pytest.param(
            (a_bucket(XLARGE), a_failure(XLARGE)),
            {"hybrid": True, "unavailability_count_capacity": 1},
            Code.BUCKET_BACKOFF,
            id="failed lately",
        ),
        pytest.param(
            (a_bucket(XLARGE), a_failure(XLARGE, kind=FailureKind.PERMANENT)),
            {"hybrid": True},
            Code.BUCKET_REFUSED,
            id="refused",
        ),
        pytest.param(
            (a_bucket(XLARGE, price=-1),),
            {"hybrid": True, "limits": Limits(max_workers=5, max_price_per_hour=1.0)},
            Code.BUCKET_NO_PRICE,
            id="price unknown under a cap",
        ),
        pytest.param(
            (a_bucket(XLARGE), a_worker("w1")),
            {"hybrid": True, "limits": Limits(max_workers=1)},
            Code.CAPPED,
            id="limit reached",
        ),
        pytest.param(
            (a_bucket(XLARGE, price_type=PriceType.SPOT),), {"hybrid": True}, Code.BUCKET_NOT_ALLOWED, id="price type"
        ),
    ),
)
def test_an_unavailable_type_has_a_reason(things: tuple[Thing, ...], settings: dict[str, object], code: Code) -> None:
    prospect = of(a_bucket(LARGE), *things, **{"family": "m5", **settings})["m5.xlarge"]
    assert (prospect.count, prospect.refusal and prospect.refusal.code) == (0, code)


def test_no_type_is_available_when_the_launches_an_hour_are_used_up() -> None:
    limits = Limits(max_workers=5, max_launches_per_hour=1)
    found = of(limits=limits, launches=(Event(NOW - 60, 1, "execute"),))
    assert found["m5.large"].refusal is not None


def test_the_cheapest_available_type_comes_first() -> None:
    snapshot = a_snapshot(a_bucket(X2LARGE), a_bucket(XLARGE, available=0), a_bucket(LARGE), hybrid=True, family="m5")
    assert [each.bucket.type.name for each in prospects(snapshot)] == ["m5.large", "m5.2xlarge", "m5.xlarge"]


def test_a_plan_launches_as_many_workers_as_its_prospects() -> None:
    snapshot = a_snapshot(jobs(40), a_worker("w1"), limits=Limits(max_workers=4))
    available = {each.bucket.type.name: each.count for each in prospects(snapshot)}
    launched = [action.candidates[0].count for action in plan(snapshot).actions if isinstance(action, Launch)]
    assert launched == [available["m5.large"]]


@pytest.mark.parametrize(
    ("things", "code"),
    (
        pytest.param((Overrides(paused=True, paused_by="ann"),), Code.PAUSED, id="pause"),
        pytest.param((Overrides(stop="now"),), Code.STOPPING, id="stop"),
    ),
)
def test_nothing_is_available_while_nothing_is_launched(things: tuple[Thing, ...], code: Code) -> None:
    prospect = of(*things)["m5.large"]
    assert (prospect.count, prospect.refusal and prospect.refusal.code) == (0, code)
