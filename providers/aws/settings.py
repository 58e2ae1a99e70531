"""Settings of the AWS provider: where and how its machines run. Credentials are not among them: they are found as AWS's
own tools find them (environment, profile, instance role)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from providers.settings import Names

PREFIX = "CP_CAP_AUTOSCALE_AWS_"
ARRAY_IMAGE, ARRAY_DISK = "CP_CAP_AUTOSCALE_INSTANCE_IMAGE", "CP_CAP_AUTOSCALE_INSTANCE_DISK"
"""Set for a queue, suffix or not, they are its node array's own."""
IMAGE = "ami-"


def _groups(value: object) -> object:
    """`mpi=group-a, tight=group-b`, or `group` for every node array."""
    if not isinstance(value, str):
        return value
    pairs = [word.rpartition("=") for word in value.replace(",", " ").split()]
    return {array: group for array, _, group in pairs}


Groups = Annotated[Mapping[str, str], NoDecode, BeforeValidator(_groups)]


class AwsSettings(BaseSettings):
    """Under `CP_CAP_AUTOSCALE_AWS_`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, populate_by_name=True)

    region: str | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        description="Region of the workers. Default: the one of the AWS profile.",
    )
    profile: str | None = Field(None, description="Profile of AWS's own files that the credentials are taken from.")
    endpoint: str | None = Field(None, description="Address of the EC2 service, for a private endpoint or a test.")
    image: str | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}IMAGE", ARRAY_IMAGE),
        description="Image of a worker (`ami-…`). Default: the launch template's.",
    )
    launch_template: str | None = Field(
        None,
        description="Launch template, id or name, and perhaps `:version` (default: its default version); what is set "
        "here otherwise wins over it.",
    )
    subnets: Names = Field((), description="Subnets of the workers, one or more a zone. Default: the default VPC's.")
    security_groups: Names = Field(
        (), description="Security groups by id. Default: the launch template's or the VPC's."
    )
    key: str | None = Field(None, description="Name of the key pair for logging in.")
    instance_profile: str | None = Field(None, description="Instance profile of the workers, name or ARN.")
    disk: Annotated[int, Field(ge=1)] | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}DISK", ARRAY_DISK),
        description="Size of the root disk in GiB. Default: the image's.",
    )
    disk_type: str = Field("gp3", description="Type of the root disk where its size is set.")
    placement_groups: Groups = Field(
        {},
        description="Placement groups for tightly coupled work, `array=group` with commas: orders of that node array "
        "are met whole, in one zone and in that group, or not at all. A name alone: for every node array.",
    )
    families: Names = Field(
        (), description="Instance families that are offered (`c5,m5`). Default: all that the zones have."
    )
    spot_max_price: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Most that a spot worker may cost an hour. Default: the on-demand price, as AWS has it."
    )
    fleets: bool = Field(True, description="Whether an order for several zones is one fleet request (else one each).")
    host_names: Literal["full", "short"] = Field(
        "full", description="Whether Grid Engine is told a worker's whole private DNS name, or its first label only."
    )
    prices: Literal["ask", "catalog"] = Field(
        "ask", description="Whether AWS is asked for prices, or only the catalogue's figures hold."
    )
    catalog: Path | None = Field(None, description="A catalogue file of your own, over the one that comes with us.")
    event_queue: str | None = Field(
        None, description="Address of the SQS queue that gets EC2's interruption and rebalance events for this cell."
    )
    calls_per_second: float = Field(10.0, gt=0, description="Most calls a second to AWS, of all threads together.")

    @field_validator("image")
    @classmethod
    def _is_an_image(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(IMAGE):
            raise ValueError(f"this is no image of EC2: one is named {IMAGE}…")
        return value

    @field_validator("launch_template")
    @classmethod
    def _has_a_name(cls, value: str | None) -> str | None:
        if value is not None and not value.partition(":")[0]:
            raise ValueError("a launch template is named by id or name before the version")
        return value

    def of_array(self, given: Mapping[str, str]) -> AwsSettings:
        """These settings with what is set for one node array, of which images of other kinds (Docker's) are none."""
        own: dict[str, object] = {}
        if (image := given.get(ARRAY_IMAGE, "")).startswith(IMAGE):
            own["image"] = image
        if (disk := given.get(ARRAY_DISK, "")).isdigit():
            own["disk"] = int(disk)
        return self.model_copy(update=own)
