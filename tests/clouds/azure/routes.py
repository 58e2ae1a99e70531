"""Which calls the played Resource Manager knows: their paths, options and versions, and the permission each takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.clouds.azure.answers import (
    Answer,
    Reply,
    Request,
    cards,
    console,
    create,
    delete,
    error,
    forbidden,
    gallery_version,
    gallery_versions,
    get,
    grant,
    image,
    image_version,
    image_versions,
    machines,
    operated,
    others_versions,
    paged,
    permissions,
    permitted,
    skus,
    states,
    there,
    view,
)
from tests.clouds.azure.region import GROUP, LOCATION, MACHINES, SUBSCRIPTION, Azure


@dataclass(frozen=True, slots=True)
class Route:
    """One call: its name, the permission it takes, the versions of its API that are taken."""

    name: str
    method: str
    path: re.Pattern[str]
    action: str
    answer: Answer
    versions: str = r"20\d\d-\d\d-\d\d"
    options: frozenset[str] = frozenset()


def route(name: str, method: str, path: str, action: str, answer: Answer, *options: str) -> Route:
    return Route(name, method, re.compile(path, re.IGNORECASE), action, answer, options=frozenset(options))


_S, _G = f"/subscriptions/{SUBSCRIPTION}", f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
_VM, _C = f"{MACHINES}/(?P<name>[^/]+)", "Microsoft.Compute"
_N = f"{_G}/providers/Microsoft.Network"
_MARKET = f"{_S}/providers/{_C}/locations/{LOCATION}/publishers/p/artifacttypes/vmimage/offers/o/skus/s/versions"
_OTHERS = f"{_S}/providers/{_C}/locations/{LOCATION}"
_GALLERY = f"{_G}/providers/{_C}/galleries/mine/images/worker"
ROUTES = (
    route("CreateMachine", "PUT", _VM, f"{_C}/virtualMachines/write", create),
    route("GetMachine", "GET", _VM, f"{_C}/virtualMachines/read", get, "$expand"),
    route("DeleteMachine", "DELETE", _VM, f"{_C}/virtualMachines/delete", delete, "forceDeletion"),
    route("InstanceView", "GET", f"{_VM}/instanceView", f"{_C}/virtualMachines/instanceView/read", view),
    route(
        "Console",
        "POST",
        f"{_VM}/retrieveBootDiagnosticsData",
        f"{_C}/virtualMachines/retrieveBootDiagnosticsData/action",
        console,
    ),
    route("ListMachines", "GET", MACHINES, f"{_C}/virtualMachines/read", machines, "$filter", "$expand", "$skiptoken"),
    route(
        "ListStates",
        "GET",
        f"{_S}/providers/{_C}/virtualMachines",
        f"{_C}/virtualMachines/read",
        states,
        "statusOnly",
        "$filter",
        "$skiptoken",
    ),
    route("Skus", "GET", f"{_S}/providers/{_C}/skus", f"{_C}/skus/read", skus, "$filter", "$skiptoken"),
    route(
        "Usages",
        "GET",
        f"{_S}/providers/{_C}/locations/{LOCATION}/usages",
        f"{_C}/locations/usages/read",
        lambda azure, request: paged(azure, request, azure.usages()),
        "$skiptoken",
    ),
    route(
        "Operation",
        "GET",
        f"{_S}/providers/{_C}/locations/{LOCATION}/operations/(?P<name>[^/]+)",
        f"{_C}/locations/operations/read",
        operated,
    ),
    route("Cards", "GET", f"{_N}/networkInterfaces", "Microsoft.Network/networkInterfaces/read", cards, "$skiptoken"),
    route(
        "Subnet",
        "GET",
        f"{_N}/virtualNetworks/net/subnets/default",
        "Microsoft.Network/virtualNetworks/subnets/read",
        there("subnet"),
    ),
    route(
        "SecurityGroup",
        "GET",
        f"{_N}/networkSecurityGroups/closed",
        "Microsoft.Network/networkSecurityGroups/read",
        there("security group"),
    ),
    route("Set", "GET", f"{_G}/providers/{_C}/availabilitySets/tight", f"{_C}/availabilitySets/read", there("set")),
    route(
        "ScaleSet",
        "GET",
        f"{_G}/providers/{_C}/virtualMachineScaleSets/(?P<name>flexible)",
        f"{_C}/virtualMachineScaleSets/read",
        there("scale set", orchestrationMode="Flexible"),
    ),
    route("Image", "GET", f"{_G}/providers/{_C}/images/worker", f"{_C}/images/read", image),
    route(
        "Versions", "GET", _MARKET, f"{_C}/locations/publishers/artifacttypes/offers/skus/versions/read", image_versions
    ),
    route(
        "Version",
        "GET",
        f"{_MARKET}/(?P<version>[^/]+)",
        f"{_C}/locations/publishers/artifacttypes/offers/skus/versions/read",
        image_version,
    ),
    route("GalleryImage", "GET", _GALLERY, f"{_C}/galleries/images/read", there("image")),
    route("GalleryVersions", "GET", f"{_GALLERY}/versions", f"{_C}/galleries/images/versions/read", gallery_versions),
    route(
        "GalleryVersion",
        "GET",
        f"{_GALLERY}/versions/(?P<version>[^/]+)",
        f"{_C}/galleries/images/versions/read",
        gallery_version,
    ),
    *(
        found
        for kind in ("communityGalleries", "sharedGalleries")
        for action in (f"{_C}/locations/{kind}/images/versions/read",)
        for found in (
            route(
                f"Versions of {kind}", "GET", f"{_OTHERS}/{kind}/theirs/images/worker/versions", action, others_versions
            ),
            route(
                f"Version of {kind}",
                "GET",
                f"{_OTHERS}/{kind}/theirs/images/worker/versions/(?P<version>[^/]+)",
                action,
                gallery_version,
            ),
        )
    ),
    route("Subscription", "GET", _S, "Microsoft.Resources/subscriptions/read", there("subscription")),
    route("Group", "GET", _G, "Microsoft.Resources/subscriptions/resourceGroups/read", there("group")),
    route(
        "Permissions",
        "GET",
        f"{_G}/providers/Microsoft.Authorization/permissions",
        "Microsoft.Authorization/permissions/read",
        permissions,
    ),
    route(
        "Grant",
        "PUT",
        f"{_VM}/providers/Microsoft.Authorization/roleAssignments/[^/]+",
        "Microsoft.Authorization/roleAssignments/write",
        grant,
    ),
)


def answered(azure: Azure, request: Request, found: Route) -> Reply:
    """One call of Resource Manager: who asks, what for, in which version."""
    azure.calls.append(found.name)
    if request.headers.get("Authorization") != f"Bearer {azure.token}":
        return error(401, "ExpiredAuthenticationToken", "The access token has expired.")
    unknown = request.query.keys() - found.options - {"api-version"}
    if unknown or not re.fullmatch(found.versions, request.query.get("api-version", "")):
        azure.refused.append(f"{found.name}: {sorted(unknown) or 'no api-version'}")
        return error(400, "InvalidApiVersionParameter", f"no such version or option: {sorted(unknown)}")
    if not permitted(azure, found.action):
        return forbidden(found.action)
    azure.settle()
    return found.answer(azure, request)
