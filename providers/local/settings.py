"""Settings of the local provider: where its machines live, and which faults are injected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoscaler.providers.settings import ExtensionSettings, Names

Seconds = Annotated[float, Field(ge=0)]


class LocalSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_LOCAL_`."""

    env_prefix = "CP_CAP_AUTOSCALE_LOCAL_"

    network: Path = Field(description="Directory of the cell's namespace tree, on whose network the machines live.")
    state: Path | None = Field(
        None, description="Directory of the machines' records. Default: `machines` in that directory."
    )
    catalog: Path | None = Field(None, description="Your own catalogue file, which overrides the included one.")
    boot_delay: Seconds = Field(0.0, description="Seconds from launch until a machine runs and its boot script starts.")
    max_machines: int | None = Field(None, ge=0, description="The account's quota: most machines at a time.")
    out_of_capacity: Names = Field((), description="Instance types that are out of capacity.")
    failing_boots: Names = Field(
        (), description="Instance types whose boot script fails; a number n: each nth machine fails."
    )
    listing_lag: Seconds = Field(0.0, description="Seconds until listings show launches and ends.")
    sudden_death: Seconds | None = Field(None, description="Seconds from a machine's boot until it dies.")
    keep_records: Seconds = Field(86400.0, description="Seconds for which the record of an ended machine is kept.")

    def boot_fails(self, instance_type: str, number: int) -> bool:
        """Whether the `number`-th machine, of this type, is to fail at boot."""
        every = [int(word) for word in self.failing_boots if word.isdecimal() and int(word)]
        return instance_type in self.failing_boots or any(number % n == 0 for n in every)
