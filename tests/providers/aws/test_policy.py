"""The permissions that we ask operators for are exactly those that are needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.aws import tags
from autoscaler.providers.contract import CELL
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import problems_but_prices
from tests.providers.aws.test_notices import queue, send, warning
from tests.providers.aws.test_orders import buckets, order

POLICY = json.loads((resources.files("autoscaler.conf") / "aws" / "policy.json").read_text(encoding="utf-8"))
CHANGING = ("Run", "Create", "Terminate", "Delete", "Pass")


def as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each action with the statement that allows it."""
    for statement in POLICY["Statement"]:
        for action in as_list(statement["Action"]):
            yield action, statement


@pytest.fixture
def needed(region: Region) -> set[str]:
    """The permissions of all that the provider ever does, each in both ways of launching."""
    events = queue(region)
    plane = AwsPlane(region, "ab", prices="ask", event_queue=events, instance_profile="workers")
    region.control("stock", groups={"close": "cluster"})
    close = {"placement_groups": "execute=close"}
    for zones, more in (("ab", dict[str, str]()), ("a", close)):
        provider = plane.like(zones, **more).connect(CELL)
        assert problems_but_prices(provider) == []
        group = "close" if more else ""
        for price_type in PriceType:
            token = f"{zones}-{price_type}"
            ids = provider.launch(order(buckets(provider, price_type, group), token=token)).ids
            send(region, events, warning(ids[0]))
            provider.workers()
            provider.interruptions()
            provider.notices_kept()  # events are deleted once a plan that has them is kept
            provider.interruptions()
            provider.console(ids[0])
            provider.terminate(ids)
    region.control("age_templates", days=30)
    old = plane.like("ab", disk="50", launch_template=region.control("make_template")["name"]).connect(CELL)
    old.launch(order(buckets(old), token="later"))
    return set(region.control("calls")["permissions"]) - {"sqs:SendMessage"}  # EventBridge's, played above


def test_the_policy_allows_exactly_the_needed_permissions(needed: set[str]) -> None:
    assert {action for action, _ in statements()} == needed


@pytest.mark.parametrize(("action", "statement"), [each for each in statements() if each[0].startswith("ec2:")])
def test_changing_actions_are_allowed_only_with_the_tag_of_the_cell(action: str, statement: dict[str, Any]) -> None:
    if not action.removeprefix("ec2:").startswith(CHANGING) or statement["Sid"] == "LaunchWithWhatIsThere":
        return
    conditions = statement["Condition"]["StringEquals"]
    assert {f"aws:RequestTag/{tags.CELL}", f"aws:ResourceTag/{tags.CELL}"} & set(conditions)


def test_a_launch_may_not_create_resources_without_the_tag() -> None:
    (statement,) = [each for each in POLICY["Statement"] if each["Sid"] == "LaunchWithWhatIsThere"]
    made = ("instance/", "volume/", "network-interface/", "fleet/", "spot-instances-request/")
    assert not [arn for arn in statement["Resource"] if arn.rpartition(":")[2].startswith(made)]
