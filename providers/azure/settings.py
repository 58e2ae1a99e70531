"""Settings of the Azure provider: where and how its machines run. Credentials are not among them: they are found as
azure-identity finds them (AZURE_* environment, managed identity, Azure CLI)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, BeforeValidator, Field, field_validator

from autoscaler.outside_files import read_text
from autoscaler.providers.settings import ByArray, ExtensionSettings, Names

PREFIX = "CP_CAP_AUTOSCALE_AZURE_"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
COMPUTE = "Microsoft.Compute"
NETWORK = "Microsoft.Network"
PRICE_LIST = "https://prices.azure.com/api/retail/prices"


def _key(value: object) -> object:
    """A public key itself, or the file that holds it."""
    if isinstance(value, str) and value.startswith("file:"):
        try:
            return read_text(Path(value.removeprefix("file:"))).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{value.removeprefix('file:')} cannot be read: {error}") from error
    return value


class AzureSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_AZURE_`."""

    env_prefix = PREFIX

    subscription: str = Field(
        validation_alias=AliasChoices(f"{PREFIX}SUBSCRIPTION", "AZURE_SUBSCRIPTION_ID"),
        min_length=1,
        description="Id of the subscription that pays for the workers.",
    )
    resource_group: str = Field(min_length=1, description="Resource group of the workers.")
    location: str = Field(min_length=1, description="Region of the workers (`westeurope`).", pattern=r"^[a-z0-9]+$")
    endpoint: str = Field(
        "https://management.azure.com",
        description="Address of Azure's Resource Manager, for another cloud of Microsoft's or a test.",
    )
    image: str = Field(
        validation_alias=AliasChoices(f"{PREFIX}IMAGE", "CP_CAP_AUTOSCALE_INSTANCE_IMAGE"),
        min_length=1,
        description="Image of a worker: its resource id (image, gallery image or version), or "
        "`publisher:offer:sku:version` of the marketplace.",
    )
    plan: str | None = Field(None, description="`publisher:product:name` of the plan that a marketplace image needs.")
    specialized: bool = Field(False, description="Whether the image is specialized: it contains its own users.")
    subnet: str = Field(min_length=1, description="Subnet of the workers: `network/subnet`, or its resource id.")
    security_group: str | None = Field(
        None, description="Network security group, name or resource id. Default: the subnet's."
    )
    public_address: bool = Field(False, description="Whether each worker gets a public address; it ends with it.")
    accelerated_networking: bool = Field(False, description="Whether network cards use it; not every size can.")
    user: str = Field("sgeadmin", description="Name of the user for logins.")
    key: Annotated[str | None, BeforeValidator(_key)] = Field(
        None, description="Public ssh key of that user, or `file:PATH` of it. Azure requires one."
    )
    identity: str | None = Field(
        None, description="Managed identity of the workers: `system`, or the resource id of an existing one."
    )
    worker_role: str | None = Field(
        None,
        description="Resource id of the role that a worker's `system` identity gets on its own machine, so that "
        "it can delete this machine (conf/azure/worker-role.json).",
    )
    disk: Annotated[int, Field(ge=1)] | None = Field(
        None,
        validation_alias=AliasChoices(f"{PREFIX}DISK", "CP_CAP_AUTOSCALE_INSTANCE_DISK"),
        description="Size of the system disk in GiB. Default: the image's.",
    )
    disk_type: str = Field("StandardSSD_LRS", description="Storage of the system disk.")
    ephemeral_disk: Literal["CacheDisk", "ResourceDisk", "NvmeDisk"] | None = Field(
        None,
        description="Where an ephemeral system disk lies on the machine that serves the worker, which costs nothing: "
        "`CacheDisk`, `ResourceDisk` or `NvmeDisk`; not every size has room. Default: a managed disk.",
    )
    trusted_launch: bool = Field(
        False, description="Whether workers start by Trusted Launch, which some images demand; not every size can."
    )
    secure_boot: bool = Field(
        True, description="Whether a worker of Trusted Launch starts only signed boot loaders and drivers."
    )
    encryption_at_host: bool = Field(
        False,
        description="Whether the machine that serves a worker encrypts its disks and caches; the subscription must "
        "have the feature `EncryptionAtHost`.",
    )
    zones: Names = Field((), description="Availability zones (`1,2`). Default: none; Azure chooses.")
    availability_sets: ByArray = Field(
        {},
        description="Availability sets for tightly coupled work, `array=set` separated by commas: InfiniBand "
        "works only among the machines of one set. A name alone is for every node array.",
    )
    scale_set: str | None = Field(
        None, description="Flexible scale set of the workers, name or resource id. Default: none."
    )
    families: Names = Field(
        (), description="Families of sizes that the autoscaler may use (`Dsv5,Fsv2`). Default: all."
    )
    spot_max_price: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Highest price of a spot worker an hour, in US dollars. Default: the on-demand price."
    )
    host_domain: str = Field("", description="Domain of a worker's host name in Grid Engine. Default: none.")
    catalog: Path | None = Field(None, description="Your own catalogue file, which overrides the included one.")
    price_list: str = Field(
        PRICE_LIST,
        description="Address of Azure's public list of retail prices, or of a mirror; `catalog refresh` reads it.",
    )
    calls_per_second: float = Field(
        10.0, gt=0, description="Most calls a second to Azure in the long run, of all threads together."
    )

    @field_validator("endpoint")
    @classmethod
    def _keeps_the_token(cls, value: str) -> str:
        """A token may cross a network by https only."""
        address = urlsplit(value)
        if address.scheme != "https" and not (address.scheme == "http" and address.hostname in LOOPBACK):
            raise ValueError("the address must begin with https://")
        return value.rstrip("/")

    @field_validator("image")
    @classmethod
    def _is_an_image(cls, value: str) -> str:
        if not value.startswith("/") and value.count(":") != 3:
            raise ValueError("write a resource id, or publisher:offer:sku:version")
        return value

    @field_validator("plan")
    @classmethod
    def _is_a_plan(cls, value: str | None) -> str | None:
        if value is not None and value.count(":") != 2:
            raise ValueError("write publisher:product:name")
        return value

    @field_validator("subnet")
    @classmethod
    def _is_a_subnet(cls, value: str) -> str:
        if not value.startswith("/") and value.count("/") != 1:
            raise ValueError("write network/subnet, or a resource id")
        return value

    @property
    def group_path(self) -> str:
        """The resource group as a path of ARM."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.resource_group}"

    @property
    def subnet_id(self) -> str:
        if self.subnet.startswith("/"):
            return self.subnet
        network, _, subnet = self.subnet.partition("/")
        return self.id_of(NETWORK, "virtualNetworks", network, "subnets", subnet)

    def id_of(self, namespace: str, kind: str, name: str, *rest: str) -> str:
        """The resource id of something of this resource group, unless `name` is one already."""
        if name.startswith("/"):
            return name
        return "/".join((self.group_path, "providers", namespace, kind, name, *rest))
