"""Finds what would fail before anything is launched: credentials, permissions, network, image, sizes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from autoscaler.providers.azure.calls import Calls, Record
from autoscaler.providers.azure.errors import MachineUnknown
from autoscaler.providers.azure.image_disks import data_disks, versions_path
from autoscaler.providers.azure.listing import states
from autoscaler.providers.azure.machine import image_reference
from autoscaler.providers.azure.market import Market
from autoscaler.providers.azure.settings import COMPUTE, NETWORK, PREFIX, AzureSettings
from autoscaler.providers.interface import NotAuthenticated, Problem, ProviderError, Refused, Throttled, Unreachable
from autoscaler.providers.price_age import of_old_prices, oldest_price

CREDENTIALS = (
    "log in with `az login`, give this machine a managed identity, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and "
    "AZURE_CLIENT_SECRET"
)
ROLE = "give these credentials the roles of conf/azure/role.json and conf/azure/reader-role.json"
RESOURCES, AUTHORIZATION, NETWORKS, IMAGES = "2022-12-01", "2022-04-01", "2024-05-01", "2024-07-01"
NEEDED = (
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/instanceView/read",
    "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
)
"""Permissions for launching and ending; the whole role has a few more (conf/azure/role.json)."""

Answer = TypeVar("Answer")


def problems(calls: Calls, settings: AzureSettings, market: Market) -> Iterator[Problem]:
    """Changes nothing. Raises Unreachable and Throttled: then nothing is known."""
    try:
        calls.get(f"/subscriptions/{settings.subscription}", RESOURCES)
    except NotAuthenticated as error:
        yield Problem(str(error), CREDENTIALS)
        return
    except (Refused, MachineUnknown) as error:
        yield Problem(f"the subscription cannot be read: {error}", f"check {PREFIX}SUBSCRIPTION; {ROLE}")
        return
    group = yield from _found(calls, settings.group_path, RESOURCES, "the resource group", f"{PREFIX}RESOURCE_GROUP")
    if group is None:
        return
    yield from _permissions(calls, settings)
    # Azure gives the power states of a whole subscription only. Without them a stopped machine looks as if it ran.
    yield from _read(lambda: states(calls), "the states of the subscription's machines", ROLE)
    yield from _read(market.quotas, "quotas", ROLE, fatal=False)
    yield from _network(calls, settings)
    yield from _image(calls, settings)
    yield from _login(settings)
    yield from _sizes(market, settings)
    yield from _data_disks(calls, settings)
    yield from _prices(settings)


def _read(
    ask: Callable[[], Answer], what: str, remedy: str, *, fatal: bool = True
) -> Generator[Problem, None, Answer | None]:
    """Yields a problem if it cannot be read; returns the answer."""
    try:
        return ask()
    except (Unreachable, Throttled):
        raise
    except ProviderError as error:
        yield Problem(f"{what} cannot be read: {error}", remedy, fatal)
        return None


def _found(calls: Calls, path: str, version: str, what: str, setting: str) -> Generator[Problem, None, Record | None]:
    """The same for a resource that a setting names."""
    return (yield from _read(lambda: calls.get(path, version), what, f"check {setting}, or {ROLE}"))


def _permissions(calls: Calls, settings: AzureSettings) -> Iterator[Problem]:
    path = f"{settings.group_path}/providers/Microsoft.Authorization/permissions"
    what = "the permissions of these credentials"
    granted = yield from _read(lambda: calls.get_pages(path, AUTHORIZATION), what, ROLE, fatal=False)
    if granted is None:
        return
    missing = [action for action in NEEDED if not any(_allows(each, action) for each in granted)]
    if missing:
        yield Problem(f"these credentials may not do {', '.join(missing)} in {settings.resource_group}", ROLE)


def _allows(granted: Record, action: str) -> bool:
    """Whether one role allows an action: its patterns may have `*`, and letters of either case."""
    return _matches(granted.get("actions") or (), action) and not _matches(granted.get("notActions") or (), action)


def _matches(patterns: Sequence[str], action: str) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _network(calls: Calls, settings: AzureSettings) -> Iterator[Problem]:
    yield from _found(calls, settings.subnet_id, NETWORKS, "the subnet", f"{PREFIX}SUBNET")
    if settings.security_group:
        path = settings.id_of(NETWORK, "networkSecurityGroups", settings.security_group)
        yield from _found(calls, path, NETWORKS, "the network security group", f"{PREFIX}SECURITY_GROUP")
    for name in sorted(set(settings.availability_sets.values())):
        path = settings.id_of(COMPUTE, "availabilitySets", name)
        yield from _found(calls, path, IMAGES, f"the availability set {name}", f"{PREFIX}AVAILABILITY_SETS")
    if settings.scale_set:
        path = settings.id_of(COMPUTE, "virtualMachineScaleSets", settings.scale_set)
        found = yield from _found(calls, path, IMAGES, "the scale set", f"{PREFIX}SCALE_SET")
        if found is not None and (found.get("properties") or {}).get("orchestrationMode") != "Flexible":
            yield Problem(
                f"the scale set {settings.scale_set} is not flexible", "make one with --orchestration-mode Flexible"
            )


def _image(calls: Calls, settings: AzureSettings) -> Iterator[Problem]:
    reference: Mapping[str, str] = image_reference(settings.image)
    if "id" in reference:
        yield from _found(calls, reference["id"], IMAGES, "the image", f"{PREFIX}IMAGE")
    elif "publisher" in reference:
        versions, version = versions_path(settings, reference), reference["version"]
        path = versions if version == "latest" else f"{versions}/{version}"
        # Versions are a bare list, not a record: only their existence is checked.
        remedy = f"check {PREFIX}IMAGE: `az vm image list --all`"
        yield from _read(lambda: calls.exists(path, IMAGES), "the image", remedy)


def _data_disks(calls: Calls, settings: AzureSettings) -> Iterator[Problem]:
    """Disks of an image that cannot be read would be left behind by every worker."""
    try:
        data_disks(calls, settings)
    except Refused as error:
        yield Problem(
            f"data disks of the image, if it has any, would stay and cost money when a worker ends: {error}",
            f"use an image without data disks, or {ROLE}",
            fatal=False,
        )


def _prices(settings: AzureSettings) -> Iterator[Problem]:
    oldest = oldest_price(settings.catalog, "azure", settings.location)
    yield from of_old_prices(oldest, f"`sge-autoscaler catalog refresh --output FILE`, and set {PREFIX}CATALOG to it")


def _login(settings: AzureSettings) -> Iterator[Problem]:
    if not settings.specialized and not settings.key:
        yield Problem("Azure creates no Linux machine without a public key", f"set {PREFIX}KEY, perhaps to file:PATH")
    if settings.identity is None:
        yield Problem(
            "workers have no identity: one that loses its master for good cannot delete itself and goes on to "
            "cost money",
            f"set {PREFIX}IDENTITY=system and {PREFIX}WORKER_ROLE",
            fatal=False,
        )


def _sizes(market: Market, settings: AzureSettings) -> Iterator[Problem]:
    found = yield from _read(market.buckets, "sizes or quotas", ROLE)
    if found is None:
        return
    if not found:
        families = ", ".join(settings.families) or "any family"
        yield Problem(f"{settings.location} has no size of {families}", f"check {PREFIX}FAMILIES and {PREFIX}LOCATION")
    elif all(bucket.problem for bucket in found):
        yield Problem(
            f"no size is available; {found[0].key.instance_type}: {found[0].problem}",
            f"check {PREFIX}FAMILIES and {PREFIX}ZONES, or ask Azure for quota",
        )
