"""Settings of the Cloud Pipeline provider, most of them from the environment of every master run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field

from autoscaler.providers.settings import ExtensionSettings, Names, Secret

Name = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]


def _also(setting: str, container: str) -> AliasChoices:
    """A setting of ours, else the variable that the platform itself puts into a master's container."""
    return AliasChoices(setting, container)


class CloudPipelineSettings(ExtensionSettings):
    """Under `CP_CAP_AUTOSCALE_CLOUD_PIPELINE_`, and the variables of the master's container by their own names."""

    env_prefix = "CP_CAP_AUTOSCALE_CLOUD_PIPELINE_"

    api: Name = Field(validation_alias="API", description="Address of the platform's REST API.")
    token: Secret = Field(
        validation_alias="API_TOKEN", description="Token for it. The autoscaler renews it before it expires."
    )
    run_id: int = Field(
        validation_alias="RUN_ID", gt=0, description="Id of the master run, whose workers the autoscaler launches."
    )
    cloud: Name = Field(
        validation_alias=_also("CP_CAP_AUTOSCALE_CLOUD_PROVIDER", "CLOUD_PROVIDER"),
        json_schema_extra={"also": "CLOUD_PROVIDER"},
        description="AWS, AZURE or GCP: how the names of instance types show their family.",
    )
    region_id: int = Field(
        validation_alias=_also("CP_CAP_AUTOSCALE_CLOUD_REGION_ID", "CLOUD_REGION_ID"),
        json_schema_extra={"also": "CLOUD_REGION_ID"},
        description="The platform's number of the workers' region.",
    )
    image: Name = Field(
        validation_alias=_also("CP_CAP_AUTOSCALE_INSTANCE_IMAGE", "docker_image"),
        json_schema_extra={"also": "docker_image"},
        description="Image of a worker.",
    )
    disk: int = Field(
        validation_alias=_also("CP_CAP_AUTOSCALE_INSTANCE_DISK", "instance_disk"),
        json_schema_extra={"also": "instance_disk"},
        gt=0,
        description="Disk of a worker, GB.",
    )
    instance_type: str = Field(
        "",
        validation_alias=_also("CP_CAP_AUTOSCALE_INSTANCE_TYPE", "instance_size"),
        json_schema_extra={"also": "instance_size"},
        description="Instance type of workers. The autoscaler asks for the prices of its family first.",
    )
    command: Name = Field(
        "sleep infinity",
        validation_alias="CP_CAP_AUTOSCALE_CMD_TEMPLATE",
        description="Command of a worker's run; its image enrols it besides.",
    )
    queue: Name = Field("main.q", validation_alias="CP_CAP_SGE_QUEUE_NAME", description="Queue that a worker joins.")
    host_group: Name = Field(
        "@allhosts", validation_alias="CP_CAP_SGE_HOSTLIST_NAME", description="Host group that a worker joins."
    )
    inherited_names: Names = Field(
        (),
        validation_alias="CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_NAMES",
        description="Parameters of the master run that its workers inherit.",
    )
    inherited_prefixes: Names = Field(
        ("CP_CAP_MOUNT_OPTIONS_",),
        validation_alias="CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_PREFIXES",
        description="Prefixes of such parameters.",
    )
    owner_parameter: str = Field(
        "",
        validation_alias="CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME",
        description="Parameter that carries the owner of the master run to a worker; empty: none.",
    )
    owner: str = Field("", validation_alias="OWNER", description="Owner of the master run.")
    task: str = Field(
        "",
        validation_alias="CP_CAP_AUTOSCALE_TASK",
        description="Task of the master run whose log the autoscaler writes. Default: GridEngineAutoscaling-QUEUE.",
    )
    certificates: Path | None = Field(None, description="File of certificates to trust instead of the system's.")
    verify: bool = Field(True, description="False: trust any certificate.")
    token_duration: Positive = Field(86400.0, description="Validity of a new token, in seconds.")
    page_size: int = Field(400, gt=0, le=1000, description="Number of runs on one page of a listing.")
    host_list: Path | None = Field(
        None,
        validation_alias="DEFAULT_HOSTFILE",
        description="The cluster's list of host names, one a line, in which the autoscaler keeps those of workers.",
    )
    take_over: Names = Field(
        (),
        description="QUEUE=ARRAY, with commas: queues whose additional workers, launched by the platform's own "
        "autoscaler, are taken over, and their node arrays. Set where the platform's launcher starts us.",
    )
    node_mem_reservations: bool = Field(
        False,
        validation_alias="CP_CAP_AUTOSCALE_NODE_MEM_RESERVATIONS",
        description="Whether a worker offers its type's memory without what the platform keeps of it.",
    )
    keep_types: Positive = Field(600.0, description="Seconds for which the list of allowed instance types is cached.")
    setup_task: Name = Field("SGEWorkerSetup", description="Task of a worker's run that enrols it in Grid Engine.")

    @property
    def arrays_taken_over(self) -> dict[str, str]:
        """By queue, the node array of workers that the platform's own autoscaler launched for it."""
        return {queue: array for queue, _, array in (each.rpartition("=") for each in self.take_over) if queue}

    @property
    def log_task(self) -> str:
        """The task under which this cluster's log stands in the master run."""
        return self.task or f"GridEngineAutoscaling-{self.queue.removesuffix('.q')}"
