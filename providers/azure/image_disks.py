"""Which data disks an image brings. Azure keeps them when the machine ends, unless each is said to be deleted then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from providers.azure.calls import Calls
from providers.azure.errors import MachineUnknown
from providers.azure.machine import image_reference
from providers.azure.settings import COMPUTE, AzureSettings
from providers.interface import Refused

VERSION, GALLERIES = "2024-07-01", "2023-07-03"
_NUMBERS = re.compile(r"\d+")


def data_disks(calls: Calls, settings: AzureSettings) -> tuple[int, ...]:
    """Their numbers (LUN). Raises Refused where the image may not be read, Unreachable, Throttled."""
    reference = image_reference(settings.image)
    try:
        if "id" in reference:
            return _of_id(calls, reference["id"])
        if "publisher" in reference:
            return _of_marketplace(calls, settings, reference)
    except MachineUnknown as error:
        raise Refused(f"the image {settings.image} does not exist: {error}") from error
    raise Refused(f"the disks of {settings.image}, an image of somebody else's gallery, cannot be read")


def _of_id(calls: Calls, image: str) -> tuple[int, ...]:
    if "/galleries/" not in image.lower():
        stored = calls.get(image, VERSION)["properties"].get("storageProfile") or {}
        return _numbers(stored.get("dataDisks"))
    if "/versions/" not in image.lower() or image.lower().endswith("/versions/latest"):
        base = re.sub(r"/versions/latest$", "", image, flags=re.IGNORECASE)
        image = f"{base}/versions/{_newest(calls.get_pages(f'{base}/versions', GALLERIES), image)}"
    stored = calls.get(image, GALLERIES)["properties"].get("storageProfile") or {}
    return _numbers(stored.get("dataDiskImages"))


def _of_marketplace(calls: Calls, settings: AzureSettings, of: Mapping[str, str]) -> tuple[int, ...]:
    path = (
        f"/subscriptions/{settings.subscription}/providers/{COMPUTE}/locations/{settings.location}/publishers/"
        f"{of['publisher']}/artifacttypes/vmimage/offers/{of['offer']}/skus/{of['sku']}/versions"
    )
    version = of["version"]
    if version == "latest":
        version = _newest(calls.listed(path, VERSION), settings.image)
    return _numbers(calls.get(f"{path}/{version}", VERSION)["properties"].get("dataDiskImages"))


def _newest(found: list[Any], image: str) -> str:
    names = [str(each["name"]) for each in found]
    if not names:
        raise Refused(f"the image {image} has no version")
    return max(names, key=lambda name: [int(number) for number in _NUMBERS.findall(name)])


def _numbers(disks: Any) -> tuple[int, ...]:
    return tuple(sorted(int(disk["lun"]) for disk in disks or ()))
