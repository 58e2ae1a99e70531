"""A provider that only has prices: it lists what a catalogue offers, has no machines, and takes no orders.

A trial decides with it, so that it needs neither a cloud nor its credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from autoscaler.core.model.fleet import Bucket, Worker
from autoscaler.errors import WriteRefused
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.interface import Launched, LaunchOrder, Problem
from autoscaler.providers.settings import ExtensionSettings


class NoSettings(ExtensionSettings):
    """It has none."""


class PriceList:
    """The included catalogue, and the operator's own file over it."""

    name: ClassVar[str] = "price-list"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[NoSettings]] = NoSettings

    def __init__(self, catalog: Path | None = None) -> None:
        """Raises SettingsError if the file cannot be read."""
        self._buckets = load_catalog(catalog).buckets()

    def buckets(self) -> Sequence[Bucket]:
        return self._buckets

    def workers(self) -> Sequence[Worker]:
        return ()

    def check(self) -> Sequence[Problem]:
        return ()

    def launch(self, order: LaunchOrder) -> Launched:
        raise WriteRefused(f"a price list takes no orders: launch {order.count}")

    def terminate(self, ids: Sequence[str]) -> None:
        raise WriteRefused(f"a price list has no machines: terminate {', '.join(ids)}")
