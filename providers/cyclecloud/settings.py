"""Settings of the CycleCloud provider: server, cluster, and the names of our node arrays there."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, FilePath, field_validator

from autoscaler.providers.settings import ExtensionSettings, Names, Secret

Seconds = Annotated[float, Field(gt=0)]


class Boot(StrEnum):
    """How a node gets the boot script."""

    CLOUD_INIT = "cloud-init"
    """As the node's `CloudInit`: it runs before anything CycleCloud does on the node, and replaces the array's own."""
    CLUSTER_INIT = "cluster-init"
    """In its configuration, from where a cluster-init script of the array takes and runs it."""
    NONE = "none"
    """Not at all: the array's image or cluster-init starts the execution daemon by itself."""


class CycleCloudSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_CYCLECLOUD_`."""

    env_prefix = "CP_CAP_AUTOSCALE_CYCLECLOUD_"

    url: str = Field(description="Address of the CycleCloud server, https://HOST.")
    username: str = Field(description="CycleCloud user who may add and end nodes of the cluster.")
    password: Secret = Field(description="The user's password; in a file only as env:NAME or file:PATH.")
    cluster: str = Field(min_length=1, description="Name of the cluster whose node arrays are used.")
    node_arrays: Names = Field(
        (),
        description="Which of the cluster's node arrays serve which of the autoscaler's, as OURS=THEIRS; "
        "several may serve one. Default: the array of the same name.",
    )
    boot: Boot = Field(
        Boot.CLOUD_INIT, description="How the boot script reaches a node: cloud-init, cluster-init or none."
    )
    location: str = Field(
        "",
        description="Azure region of the node arrays (`eastus`). The file of VM sizes needs it, and our REST "
        "API reports it to callers. Default: unknown.",
    )
    capacity_delay: Annotated[float, Field(ge=0)] = Field(
        300.0,
        description="Seconds after a bucket's last capacity failure during which the autoscaler orders "
        "nothing from it.",
    )
    ca: FilePath | None = Field(None, description="File of certificates to trust instead of the system's.")
    verify: bool = Field(
        True, description="Whether the server's certificate must be trusted; set false only for tests."
    )
    connect_timeout: Seconds = Field(5.0, description="Time limit of a connection, in seconds.")
    read_timeout: Seconds = Field(20.0, description="Seconds without data after which a call fails.")
    catalog: Path | None = Field(None, description="Your own catalogue file, which overrides the included one.")

    @field_validator("node_arrays")
    @classmethod
    def _pairs(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        for pair in pairs:
            ours, separator, theirs = pair.partition("=")
            if not (ours and separator and theirs):
                raise ValueError(f"{pair!r} is not OURS=THEIRS")
        served = Counter(pair.partition("=")[2] for pair in dict.fromkeys(pairs))
        twice = sorted(theirs for theirs, count in served.items() if count > 1)
        if twice:
            raise ValueError(
                f"a node array of the cluster can serve only one of ours: {', '.join(twice)} serves several"
            )
        return tuple(dict.fromkeys(pairs))

    def serves(self, theirs: str) -> str | None:
        """Which of our node arrays the cluster's array `theirs` serves; None: none."""
        if not self.node_arrays:
            return theirs
        pairs = (pair.partition("=") for pair in self.node_arrays)
        return next((ours for ours, _, name in pairs if name == theirs), None)
