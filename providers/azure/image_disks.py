"""The data disks of an image. Azure keeps them when the machine ends, unless the request deletes each of them then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.azure.errors import MachineUnknown
from autoscaler.providers.azure.machine import image_reference
from autoscaler.providers.azure.settings import COMPUTE, AzureSettings
from autoscaler.providers.interface import Refused

VERSION, GALLERIES = "2024-07-01", "2023-07-03"
_NUMBERS = re.compile(r"\d+")


def data_disks(calls: Calls, settings: AzureSettings) -> tuple[int, ...]:
    """Their numbers (LUN). Raises Refused if the image may not be read, Unreachable, Throttled."""
    reference = image_reference(settings.image)
    try:
        if "id" in reference and "/galleries/" not in reference["id"].lower():
            stored = calls.get(reference["id"], VERSION)["properties"].get("storageProfile") or {}
            return _numbers(stored.get("dataDisks"))
        if "publisher" in reference:
            return _of_marketplace(calls, settings, reference)
        return _of_gallery(calls, reference.get("id") or _path_of_others(settings))
    except MachineUnknown as error:
        raise Refused(f"the image {settings.image} does not exist: {error}") from error


def _path_of_others(settings: AzureSettings) -> str:
    """The path of an image in a shared or public gallery: its id is below no subscription, and it is looked up in the
    region.
    """
    return f"/subscriptions/{settings.subscription}/providers/{COMPUTE}/locations/{settings.location}{settings.image}"


def _of_gallery(calls: Calls, image: str) -> tuple[int, ...]:
    if "/versions/" not in image.lower() or image.lower().endswith("/versions/latest"):
        base = re.sub(r"/versions/latest$", "", image, flags=re.IGNORECASE)
        image = f"{base}/versions/{_newest(calls.get_pages(f'{base}/versions', GALLERIES), image)}"
    stored = calls.get(image, GALLERIES)["properties"].get("storageProfile") or {}
    return _numbers(stored.get("dataDiskImages"))


def versions_path(settings: AzureSettings, of: Mapping[str, str]) -> str:
    """The path that lists the versions of an image of the marketplace."""
    return (
        f"/subscriptions/{settings.subscription}/providers/{COMPUTE}/locations/{settings.location}/publishers/"
        f"{of['publisher']}/artifacttypes/vmimage/offers/{of['offer']}/skus/{of['sku']}/versions"
    )


def _of_marketplace(calls: Calls, settings: AzureSettings, of: Mapping[str, str]) -> tuple[int, ...]:
    path, version = versions_path(settings, of), of["version"]
    if version == "latest":
        version = _newest(calls.listed(path, VERSION), settings.image)
    return _numbers(calls.get(f"{path}/{version}", VERSION)["properties"].get("dataDiskImages"))


def _newest(found: list[Any], image: str) -> str:
    names = [str(each["name"]) for each in found if not _left_out(each.get("properties") or {})]
    if not names:
        raise Refused(f"the image {image} has no version")
    # Versions are numbers with dots: 1.10.0 is newer than 1.9.0.
    return max(names, key=lambda name: [int(number) for number in _NUMBERS.findall(name)])


def _left_out(properties: Mapping[str, Any]) -> bool:
    """Whether `latest` never means this version."""
    published = properties.get("publishingProfile") or properties
    return published.get("excludeFromLatest") is True


def _numbers(disks: Any) -> tuple[int, ...]:
    return tuple(sorted(int(disk["lun"]) for disk in disks or ()))
