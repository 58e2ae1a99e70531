"""Where a provider has its machines, as far as its settings name it."""

from __future__ import annotations

from typing import TypedDict

from autoscaler.providers.interface import Provider


class Where(TypedDict):
    """The first subnet if there are several; '' if the settings name none."""

    region: str
    subnet: str


def place_of(provider: Provider) -> Where:
    """Region and subnet."""
    settings = getattr(provider, "settings", None)
    regions = (getattr(settings, field, None) for field in ("region", "location"))
    subnets = getattr(settings, "subnets", None) or (getattr(settings, "subnet", None),)
    return Where(region=str(next(filter(None, regions), "")), subnet=str(subnets[0] or ""))
