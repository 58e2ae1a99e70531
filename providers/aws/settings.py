"""Settings of the AWS provider: where and how its machines run. Credentials are not among them: they are found as AWS's
own tools find them (environment, profile, instance role)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator

from autoscaler.providers.settings import ByArray, ExtensionSettings, Names

PREFIX = "CP_CAP_AUTOSCALE_AWS_"
ARRAY_IMAGE, ARRAY_DISK = "CP_CAP_AUTOSCALE_INSTANCE_IMAGE", "CP_CAP_AUTOSCALE_INSTANCE_DISK"
"""Settings that a queue may have, with or without suffix, for its own node array."""
IMAGE = "ami-"


class AwsSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_AWS_`."""

    env_prefix = PREFIX

    region: str | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        description="Region of the workers. Default: that of the AWS profile.",
    )
    profile: str | None = Field(None, description="Profile in AWS's own files from which the credentials are read.")
    endpoint: str | None = Field(None, description="Address of the EC2 service, for a private endpoint or a test.")
    image: str | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}IMAGE", ARRAY_IMAGE),
        description="Image of a worker (`ami-…`). Default: the launch template's.",
    )
    launch_template: str | None = Field(
        None,
        description="Launch template: id or name, optionally with `:version` (default: its default version). "
        "The other settings here override it.",
    )
    subnets: Names = Field(
        (), description="Subnets of the workers, one or more for each zone. Default: those of the default VPC."
    )
    security_groups: Names = Field(
        (), description="Security groups by id. Default: the launch template's or the VPC's."
    )
    key: str | None = Field(None, description="Name of the key pair for logins.")
    instance_profile: str | None = Field(None, description="Instance profile of the workers, name or ARN.")
    disk: Annotated[int, Field(ge=1)] | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}DISK", ARRAY_DISK),
        description="Size of the root disk in GiB. Default: the image's.",
    )
    disk_type: str = Field("gp3", description="Type of the root disk, if its size is set.")
    placement_groups: ByArray = Field(
        {},
        description="Placement groups for tightly coupled work, `array=group` separated by commas. AWS places "
        "an order of that node array completely in one zone and in that group, or not at all. A name alone "
        "is for every node array.",
    )
    families: Names = Field(
        (), description="Instance families that the autoscaler may use (`c5,m5`). Default: all that the zones have."
    )
    spot_max_price: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Highest price of a spot worker an hour. Default: the on-demand price, AWS's own default."
    )
    fleets: bool = Field(
        True, description="Whether an order for several zones is one fleet request (else one request for each zone)."
    )
    host_names: Literal["full", "short"] = Field(
        "full",
        description="Whether a worker's name in Grid Engine is its whole private DNS name, or only the first label.",
    )
    prices: Literal["ask", "catalog"] = Field(
        "ask", description="Whether the autoscaler asks AWS for prices, or uses the catalogue's figures only."
    )
    catalog: Path | None = Field(None, description="Your own catalogue file, which overrides the included one.")
    event_queue: str | None = Field(
        None, description="URL of the SQS queue that gets EC2's interruption and rebalance events for this cell."
    )
    calls_per_second: float = Field(10.0, gt=0, description="Most calls a second to AWS, of all threads together.")

    @field_validator("image")
    @classmethod
    def _is_an_image(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(IMAGE):
            raise ValueError(f"this is not an EC2 image: its name must begin with {IMAGE}")
        return value

    @field_validator("launch_template")
    @classmethod
    def _has_a_name(cls, value: str | None) -> str | None:
        if value is not None and not value.partition(":")[0]:
            raise ValueError("a launch template is named by id or name before the version")
        return value

    def of_array(self, given: Mapping[str, str]) -> AwsSettings:
        """These settings with those of one node array; an image of another kind (Docker's) is ignored."""
        own: dict[str, object] = {}
        if (image := given.get(ARRAY_IMAGE, "")).startswith(IMAGE):
            own["image"] = image
        if (disk := given.get(ARRAY_DISK, "")).isdecimal():
            own["disk"] = int(disk)
        return self.model_copy(update=own)
