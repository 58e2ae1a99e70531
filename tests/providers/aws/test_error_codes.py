"""Which error of EC2 stops a node array, makes a bucket back off, or is repeated: by the protocol, both ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
)
from botocore.parsers import ResponseParserError

from autoscaler.providers.aws.errors import error_for, translated
from autoscaler.providers.aws.orders import fleet_answer, places
from autoscaler.providers.interface import (
    NotAuthenticated,
    OutOfCapacity,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import Connect, problems_but_prices
from tests.providers.aws.test_orders import BOTH_WAYS, TYPE, buckets, order

JUDGED: tuple[tuple[str, type[ProviderError]], ...] = (
    ("InvalidFleetConfiguration", OutOfCapacity),
    ("ReservationCapacityExceeded", OutOfCapacity),
    ("InvalidAMIID.Unavailable", OutOfCapacity),
    ("PendingVerification", QuotaReached),
)
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "aws.md"
MEANINGS: dict[str, tuple[type[ProviderError], ...]] = {
    "backs off": (OutOfCapacity, QuotaReached),
    "stops the array": (Refused,),
    "asked again": (Unreachable,),
    "slows down": (Throttled,),
}


@BOTH_WAYS
@pytest.mark.parametrize(("code", "meaning"), JUDGED)
def test_a_temporary_error_is_a_shortfall_of_its_buckets(
    region: Region, connect: Connect, zones: str, code: str, meaning: type[ProviderError]
) -> None:
    provider = connect(zones)
    asked = order(buckets(provider))
    region.fault(*({"kind": "error", "code": code, "operation": name} for name in ("RunInstances", "CreateFleet")))
    answer = provider.launch(asked)
    assert (answer.ids, {type(error) for _, error in answer.shortfalls}) == ((), {meaning})


@BOTH_WAYS
def test_a_launch_that_timed_out_can_be_repeated(region: Region, connect: Connect, zones: str) -> None:
    provider = connect(zones)
    asked = order(buckets(provider))
    fault = {"kind": "error", "code": "RequestTimeout", "times": 1}
    region.fault(*({**fault, "operation": name} for name in ("RunInstances", "CreateFleet")))
    with pytest.raises(Unreachable):
        provider.launch(asked)
    assert len(provider.launch(asked).ids) == 1


def written() -> list[tuple[str, str]]:
    """Code and meaning of each line of the page's table."""
    rows = re.findall(r"^\| (`[^|]+`) \| (backs off|stops the array|asked again|slows down) \|", PAGE.read_text(), re.M)
    return [(code, meaning) for codes, meaning in rows for code in re.findall(r"`([^`]+)`", codes)]


def test_the_page_lists_every_tested_code() -> None:
    codes = {code for code, _ in written()}
    assert {code for code, _ in JUDGED} | {"RequestTimeout", "UnauthorizedOperation", "OperationNotPermitted"} <= codes


@pytest.mark.parametrize(("code", "meaning"), written())
def test_an_error_code_has_the_effect_that_the_page_lists(code: str, meaning: str) -> None:
    assert isinstance(error_for(code, "words"), MEANINGS[meaning])


def test_an_image_of_somebody_else_stops_the_array_although_ec2_calls_it_an_authentication_failure() -> None:
    assert type(error_for("AuthFailure", "Not authorized for images: [ami-1]")) is Refused


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    (
        ("OfAnotherYear", 400, Refused),
        ("OfAnotherYear", 428, Refused),
        ("OfAnotherYear", 429, Throttled),
        ("OfAnotherYear", 499, Refused),
        ("OfAnotherYear", 500, Unreachable),
        ("OfAnotherYear", 503, Unreachable),
        ("OfAnotherYearLimitExceeded", 400, QuotaReached),
        ("RequestLimitExceeded", 503, Throttled),
        ("InsufficientInstanceCapacity", 500, OutOfCapacity),
        ("", 400, Unreachable),
    ),
)
def test_an_unknown_code_is_judged_by_its_http_status(code: str, status: int, kind: type[ProviderError]) -> None:
    """A temporary error never stops a node array."""
    assert type(error_for(code, "", status=status)) is kind
    answer: Any = {"Error": {"Code": code, "Message": "words"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert type(translated(ClientError(answer, "RunInstances"), "launching")) is kind


def test_an_error_without_a_status_counts_as_http_400() -> None:
    assert type(translated(ClientError({"Error": {"Code": "OfAnotherYear"}}, "RunInstances"), "launching")) is Refused
    assert "HTTP 400" in str(translated(ClientError({}, "RunInstances"), "launching"))


@pytest.mark.parametrize(
    ("error", "kind"),
    (
        (NoCredentialsError(), NotAuthenticated),
        (CredentialRetrievalError(provider="iam-role", error_msg="timed out"), NotAuthenticated),
        (NoRegionError(), Refused),
        (EndpointConnectionError(endpoint_url="x"), Unreachable),
        (OSError(), Unreachable),
    ),
)
def test_a_fault_of_credentials_or_of_the_connection_stops_no_array(
    error: Exception, kind: type[ProviderError]
) -> None:
    made = translated(error, "launching")
    assert (type(made), str(made).startswith("launching: ")) == (kind, True)


class TestOneBadSubnet:
    """It does not prevent the use of the others."""

    def test_a_missing_subnet_is_left_out_and_reported(self, region: Region) -> None:
        plane = AwsPlane(region, "ab")
        good = ",".join(plane.world["subnets"][f"us-east-1{letter}"] for letter in "ab")
        provider = plane.like("ab", subnets=f"subnet-00000000,{good}").connect("contract-cell")
        assert len(provider.launch(order(buckets(provider), count=2)).ids) == 2
        (problem,) = problems_but_prices(provider)
        assert (problem.fatal, "subnet-00000000" in problem.what) == (False, True)

    @pytest.mark.parametrize("left", ({}, {f"{TYPE}/us-east-1b/*": 1}, {f"{TYPE}/us-east-1b/*": 0}))
    def test_a_subnet_deleted_since_does_not_refuse_an_order(
        self, region: Region, connect: Connect, left: dict[str, Any]
    ) -> None:
        provider = connect("ab")
        found = buckets(provider)
        region.control("without_subnet", zone="us-east-1a")
        region.control("stock", left=left)
        answer = provider.launch(order(found, count=2))
        assert len(answer.ids) == left.get(f"{TYPE}/us-east-1b/*", 2)
        assert not [error for _, error in answer.shortfalls if isinstance(error, Refused)]

    def test_without_fleets_the_next_offers_leave_out_a_deleted_subnet(self, region: Region, connect: Connect) -> None:
        provider = connect("ab", fleets="false")
        found = buckets(provider)
        region.control("without_subnet", zone="us-east-1a")
        ((_, error),) = provider.launch(order(found)).shortfalls
        assert isinstance(error, OutOfCapacity)
        assert {bucket.key.zone for bucket in provider.buckets()} == {"us-east-1b"}

    def test_without_any_valid_subnet_no_worker_is_launched_and_buckets_have_the_cause(
        self, region: Region, connect: Connect
    ) -> None:
        provider = connect("ab")
        found = buckets(provider)
        region.control("without_subnet", zone="us-east-1a")
        region.control("without_subnet", zone="us-east-1b")
        assert provider.launch(order(found)).ids == ()
        problems = [str(bucket.problem) for bucket in provider.buckets()]
        assert problems
        assert all("no such subnet" in each for each in problems)


def test_an_unparsable_answer_is_not_quoted_completely() -> None:
    message = str(
        translated(ResponseParserError(f"Unable to parse response (cut off):\n{'<item>' * 10_000}"), "describe")
    )
    assert message == "describe: Unable to parse response (cut off):"


@pytest.mark.parametrize("code", ("RequestLimitExceeded", "AuthFailure", "InternalError"))
def test_a_fleet_whose_places_all_have_a_passing_error_made_nothing_and_is_ordered_anew(
    connect: Connect, code: str
) -> None:
    """As a lack of capacity it would put all buckets into backoff; open, its token would give the same answer again."""
    provider = connect("ab")
    asked = order(buckets(provider))
    found = places(asked, provider.market.terms())
    errors = [
        {"ErrorCode": code, "LaunchTemplateAndOverrides": {"Overrides": {"SubnetId": each.subnet}}} for each in found
    ]
    assert len(found) == 2
    with pytest.raises(Throttled):
        fleet_answer(asked, found, {"Instances": [], "Errors": errors})
    assert fleet_answer(asked, found, {"Instances": [], "Errors": errors[:1]}).ids == ()
