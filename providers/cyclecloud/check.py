"""Finds what would fail with this cluster, by reading only: address, certificate, credentials, node arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.providers.cyclecloud.api import Api
from autoscaler.providers.cyclecloud.nodes import same_region
from autoscaler.providers.cyclecloud.settings import Boot, CycleCloudSettings
from autoscaler.providers.cyclecloud.status import NodeArray, Status
from autoscaler.providers.interface import NotAuthenticated, Problem, ProviderError, Refused, Throttled
from autoscaler.providers.price_age import of_old_prices, oldest_price

PREFIX = "CP_CAP_AUTOSCALE_CYCLECLOUD_"


def problems(api: Api, settings: CycleCloudSettings) -> Sequence[Problem]:
    """All problems, the fatal ones first."""
    found = [*_of_transport(api, settings)]
    try:
        status = api.status()
    except Throttled as error:
        return [*found, Problem(str(error), "wait, or let fewer programs call this CycleCloud server", fatal=False)]
    except (Refused, NotAuthenticated) as error:
        return [Problem(str(error), _remedy(str(error), settings)), *found]
    except ProviderError as error:
        return [Problem(str(error), f"check {PREFIX}URL, the network and the certificate ({PREFIX}CA)"), *found]
    found += _of_status(status, settings)
    return sorted(found, key=lambda problem: not problem.fatal)


def _remedy(words: str, settings: CycleCloudSettings) -> str:
    if " 401" in words or " 403" in words:
        return f"check {PREFIX}USERNAME and {PREFIX}PASSWORD, and that this user may see cluster {settings.cluster}"
    return f"check {PREFIX}URL and {PREFIX}CLUSTER: a cluster's name counts upper and lower case"


def _of_transport(api: Api, settings: CycleCloudSettings) -> Iterator[Problem]:
    if not settings.verify and settings.ca is None:
        yield Problem(
            "the CycleCloud server's certificate is not verified: anybody on the network path can read the password",
            f"set {PREFIX}CA to the server's certificate",
            fatal=False,
        )
    if api.rest.base.startswith("http://"):
        yield Problem("calls to the CycleCloud server are not encrypted", f"write https:// in {PREFIX}URL", fatal=False)


def _of_status(status: Status, settings: CycleCloudSettings) -> Iterator[Problem]:
    if status.problem is not None:
        yield Problem(status.problem, f"start cluster {status.cluster} in CycleCloud, then check again")
    present = {array.name for array in status.arrays}
    wanted = [pair.partition("=")[2] for pair in settings.node_arrays]
    for name in wanted:
        if name not in present:
            yield Problem(
                f"cluster {status.cluster} has no node array {name}",
                f"it has {', '.join(sorted(present)) or 'none'}: correct {PREFIX}NODE_ARRAYS or the cluster's template",
            )
    served = [array for array in status.arrays if settings.serves(array.name) is not None]
    buckets = [(array, bucket) for array in served for bucket in array.buckets]
    if not any(bucket.problem is None for _, bucket in buckets):
        reasons = dict.fromkeys(f"{array.name} {bucket.machine_type}: {bucket.problem}" for array, bucket in buckets)
        yield Problem(
            f"no bucket of cluster {status.cluster} can be ordered from: {'; '.join(reasons) or 'there is none'}",
            "correct machine types and limits in its template, or ask Azure for more quota",
        )
    for array in served:
        if array.own_cloud_init and settings.boot is Boot.CLOUD_INIT:
            yield Problem(
                f"node array {array.name} has its own cloud-init, which our boot script replaces",
                f"set {PREFIX}BOOT to cluster-init, and let a cluster-init script run the boot script",
                fatal=False,
            )
        if settings.location and array.region and not same_region(array.region, settings.location):
            yield Problem(
                f"node array {array.name} is in {array.region}, and {PREFIX}LOCATION says {settings.location}",
                f"set {PREFIX}LOCATION to {array.region.replace(' ', '').lower()}",
                fatal=False,
            )
    yield from _of_prices(served, settings)
    yield from _twice(status, settings)


def _of_prices(served: Sequence[NodeArray], settings: CycleCloudSettings) -> Iterator[Problem]:
    """Of the regions of these node arrays."""
    regions = {array.region.replace(" ", "").lower() for array in served}
    dates = [found for region in regions if (found := oldest_price(settings.catalog, "azure", region)) is not None]
    yield from of_old_prices(
        min(dates, default=None), f"give your region's figures of now in a file, and name it in {PREFIX}CATALOG"
    )


def _twice(status: Status, settings: CycleCloudSettings) -> Iterator[Problem]:
    """Two arrays that offer the same to one of ours: only the first is ever used."""
    first: dict[tuple[str, str, str, str], str] = {}
    for array in status.arrays:
        ours = settings.serves(array.name)
        for bucket in array.buckets if ours is not None else ():
            key = (ours or "", bucket.machine_type, array.zone, array.price_type)
            other = first.setdefault(key, array.name)
            if other != array.name:
                yield Problem(
                    f"node arrays {other} and {array.name} both offer {bucket.machine_type} to {ours}: the "
                    f"autoscaler never uses {array.name} for it",
                    f"make them differ in zone or price, or name only one in {PREFIX}NODE_ARRAYS",
                    fatal=False,
                )
