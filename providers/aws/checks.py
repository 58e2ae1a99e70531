"""Finds what would fail before anything is launched: each part by itself, then a dry launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.errors import UNAUTHORIZED, MachineUnknown, WouldSucceed
from autoscaler.providers.aws.market import Market
from autoscaler.providers.aws.orders import Place, fleet_request, fleet_template, places, run_request
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.interface import (
    LaunchOrder,
    NotAuthenticated,
    OutOfCapacity,
    Problem,
    ProviderError,
    QuotaReached,
    Refused,
    Throttled,
    Unreachable,
)
from autoscaler.providers.price_age import of_old_prices

POLICY = "give these credentials the permissions of conf/aws/policy.json"
CREDENTIALS = "set AWS_PROFILE, or give this machine an instance profile, as for AWS's own command line"


def problems(calls: Calls, settings: AwsSettings, market: Market, cell: str) -> Iterator[Problem]:
    """Changes nothing. Raises Unreachable and Throttled: then nothing is known."""
    try:
        calls.region  # noqa: B018 - looked up for its error
    except Refused as error:
        yield Problem(str(error), "set CP_CAP_AUTOSCALE_AWS_REGION or the profile's region")
        return
    try:
        market.terms()
    except NotAuthenticated as error:
        yield Problem(str(error), CREDENTIALS)
        return
    except Refused as error:
        yield Problem(str(error), _remedy(error, "set it to something that exists in this region"))
        return
    for subnet in market.terms().missing:
        yield Problem(
            f"the subnet {subnet} does not exist here; the autoscaler uses the others",
            "correct CP_CAP_AUTOSCALE_AWS_SUBNETS",
            False,
        )
    if not _usable(market):
        yield Problem(
            f"no instance type of {', '.join(settings.families) or 'any family'} fits the image and the subnets' zones",
            "check CP_CAP_AUTOSCALE_AWS_FAMILIES, and the image's architecture",
        )
        return
    yield from of_old_prices(
        market.oldest_price(),
        "allow the call pricing:GetProducts (CP_CAP_AUTOSCALE_AWS_PRICES=ask), or refresh the file of "
        "CP_CAP_AUTOSCALE_AWS_CATALOG: `sge-autoscaler catalog refresh`",
    )
    yield from _placement_groups(calls, settings)
    yield from _queue(calls, settings)
    yield from _rights(calls)
    yield from _dry_runs(calls, settings, market, cell)


def _queue(calls: Calls, settings: AwsSettings) -> Iterator[Problem]:
    """Of the queue of events: its name, and the right to receive. No message is hidden or deleted."""
    if settings.event_queue is None:
        return
    queue: dict[str, Any] = {"QueueUrl": settings.event_queue}
    named = lambda: calls.ask("get_queue_attributes", service="sqs", AttributeNames=["QueueArn"], **queue)  # noqa: E731
    failed = list(_tried(named, "reading the event queue", fatal=False))
    yield from failed
    if not failed:
        one: dict[str, Any] = {**queue, "MaxNumberOfMessages": 1, "VisibilityTimeout": 0, "WaitTimeSeconds": 0}
        received = lambda: calls.ask("receive_message", service="sqs", **one)  # noqa: E731
        yield from _tried(received, "receiving events of the queue", fatal=False)


NO_MACHINE = "i-00000000000000000"
"""An id that no machine has: EC2 checks the right first."""


def _rights(calls: Calls) -> Iterator[Problem]:
    """Each call that is not part of a launch, as a dry run. Only a missing right counts: there is nothing to act on."""
    needed: tuple[tuple[str, str, bool, dict[str, Any]], ...] = (
        ("describe_instances", "listing workers", True, {}),
        ("terminate_instances", "ending a worker", True, {"InstanceIds": [NO_MACHINE]}),
        ("describe_spot_instance_requests", "reading notices of spot machines", False, {}),
        ("describe_instance_status", "reading scheduled maintenance", False, {}),
        ("get_console_output", "reading the console of a worker that never joined", False, {"InstanceId": NO_MACHINE}),
        ("describe_spot_price_history", "reading spot prices", False, {}),
    )
    for operation, what, fatal, given in needed:
        asked = partial(calls.ask, operation, DryRun=True, **given)
        for problem in _tried(asked, what, fatal=fatal):
            if UNAUTHORIZED in problem.what:
                yield problem


def _dry_runs(calls: Calls, settings: AwsSettings, market: Market, cell: str) -> Iterator[Problem]:
    """A launch of the smallest type, in every way that orders can be made, without launching."""
    terms = market.terms()
    smallest = min(_usable(market), key=lambda bucket: (bucket.type.vcpus, bucket.type.memory, bucket.key))
    alike = tuple(
        bucket
        for bucket in market.buckets()
        if (bucket.type, bucket.key.price_type, bucket.key.placement_group)
        == (smallest.type, smallest.key.price_type, smallest.key.placement_group)
    )
    order = LaunchOrder("check-0", "check", cell, "check", alike, 1, "#!/bin/sh\n")
    found = places(order, terms)
    run = run_request(order, found[0], settings, terms)
    yield from _tried(lambda: calls.ask("run_instances", **run, DryRun=True), "a launch")
    if len(found) > 1 and settings.fleets:
        yield from _fleet(calls, settings, market, order, found)


def _usable(market: Market) -> list[Bucket]:
    """The buckets that may be ordered: on-demand machines, or spot ones if the launch template allows no others."""
    can = [bucket for bucket in market.buckets() if bucket.problem is None]
    return [bucket for bucket in can if bucket.key.price_type is PriceType.ON_DEMAND] or can


def _fleet(
    calls: Calls, settings: AwsSettings, market: Market, order: LaunchOrder, found: tuple[Place, ...]
) -> Iterator[Problem]:
    template = fleet_template(order, settings, market.terms())
    fleet = fleet_request(order, found, settings, market.terms(), template["LaunchTemplateName"])
    yield from _tried(lambda: calls.ask("create_launch_template", **template, DryRun=True), "a fleet's launch template")
    # The template does not exist, so an error other than a missing permission proves nothing.
    for problem in _tried(lambda: calls.ask("create_fleet", **fleet, DryRun=True), "a launch over several zones"):
        if UNAUTHORIZED in problem.what:
            yield problem


def _placement_groups(calls: Calls, settings: AwsSettings) -> Iterator[Problem]:
    names = sorted(set(settings.placement_groups.values()))
    if not names:
        return
    try:
        found = calls.ask("describe_placement_groups", GroupNames=names)["PlacementGroups"]
    except (Unreachable, Throttled):
        raise
    except ProviderError as error:
        yield Problem(f"placement groups: {error}", _remedy(error, "create them: aws ec2 create-placement-group"))
        return
    for group in found:
        if group.get("Strategy") != "cluster":
            yield Problem(
                f"the placement group {group['GroupName']} has the strategy {group.get('Strategy')}, not cluster",
                "create one with the strategy cluster",
                fatal=False,
            )


def _tried(ask: Callable[[], object], what: str, *, fatal: bool = True) -> Iterator[Problem]:
    try:
        ask()
    except WouldSucceed:
        return
    except (Unreachable, Throttled):
        raise
    except (
        OutOfCapacity,
        QuotaReached,
    ) as error:  # it passes, and other types may be available: this keeps no service from starting
        yield Problem(
            f"{what} of the smallest type would fail now: {error}", "allow other types or zones as well", False
        )
    except MachineUnknown:
        return
    except ProviderError as error:
        yield Problem(f"{what} would fail: {error}", _remedy(error, "correct the setting that it names"), fatal)


def _remedy(error: ProviderError, otherwise: str) -> str:
    words = str(error)
    if "credentials" in words.lower() or "profile" in words.lower():
        return CREDENTIALS
    return POLICY if UNAUTHORIZED in words or "AccessDenied" in words else otherwise
