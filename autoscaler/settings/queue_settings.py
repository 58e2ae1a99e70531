"""The settings of a queue and its node array (`rows` explains a row)."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.core.model.fleet import PriceType
from autoscaler.settings.rows import AtLeastOne, Count, Positive, Seconds, Section, of_platform, setting
from autoscaler.settings.strategies import known_name

_METHOD = r"^(NONE|SIG[A-Z0-9]+|/[A-Za-z0-9_./-]+)$"
"""A `terminate_method` of queue_conf(5)."""


class HybridSize(StrEnum):
    """Which size the strategy cpu-capacity prefers."""

    FITTING = "fitting"
    LARGEST = "largest"


class CostPrice(StrEnum):
    """What the strategy `cost` compares sets by."""

    HOUR = "hour"
    PAID = "paid"


class Pack(StrEnum):
    """In which order the scheduler fills workers."""

    OFF = "off"
    FIXED = "fixed"
    PREDICTED = "predicted"


def _price_types(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _host_group(value: str) -> str:
    if not value.startswith("@"):
        raise ValueError(f"a host group starts with '@': write '@{value}'")
    return value


def _families(value: str | None) -> str | None:
    """Written without blanks, so that equal lists are equal."""
    return value and ",".join(part.strip() for part in value.split(",") if part.strip())


def _command(value: str) -> str:
    words = shlex.split(value)
    if not words or not words[0].startswith("/"):
        raise ValueError("a command must begin with an absolute path")
    return value


class QueueSettings(Section):
    """The settings of each autoscaled queue and its node array. A suffix `_1`, `_2`, … stands for a further queue."""

    queue: str = setting("CP_CAP_SGE_QUEUE_NAME", "main.q", "Name of the autoscaled queue.")
    host_group: Annotated[str, AfterValidator(_host_group)] = setting(
        "CP_CAP_SGE_HOSTLIST_NAME",
        "@allhosts",
        "Host group that workers join. Each further queue needs its own.",
    )
    static: bool = setting(
        "CP_CAP_SGE_QUEUE_STATIC",
        True,
        "Whether persistent workers belong to this queue. Default of a further queue: false.",
    )
    default: bool = setting(
        "CP_CAP_SGE_QUEUE_DEFAULT",
        True,
        "Whether jobs that name no queue may run in it. Default of a further queue: false.",
    )
    pe_local: str = setting(
        "CP_CAP_SGE_PE_NAME", "local", "Parallel environment with all slots on one host; `init` makes it."
    )
    pe_mpi: str = setting("CP_CAP_SGE_PE_MPI_NAME", "mpi", "Parallel environment over several hosts; `init` makes it.")
    pe_slots: AtLeastOne = setting("CP_CAP_SGE_PE_SLOTS", 999999, "Slots of both parallel environments.")
    pe_mpi_slots: AtLeastOne | None = setting(
        "CP_CAP_SGE_PE_MPI_SLOTS",
        None,
        "Slots of the parallel environment over several hosts. Default: those of CP_CAP_SGE_PE_SLOTS.",
    )
    terminate_method: Annotated[str, Field(pattern=_METHOD)] = setting(
        "CP_CAP_SGE_TERMINATE_METHOD",
        "NONE",
        "`terminate_method` of a queue that `init` makes: NONE, a signal or an absolute path. An existing queue keeps "
        "its own.",
    )
    shell_start_mode: Literal["unix_behavior", "posix_compliant", "script_from_stdin"] = setting(
        "CP_CAP_SGE_SHELL_START_MODE",
        "posix_compliant",
        "`shell_start_mode` of a queue that `init` makes. An existing queue keeps its own.",
    )
    master_cores: Count | None = setting(
        "CP_CAP_SGE_MASTER_CORES", None, "Cores of the master that run jobs; 0: none. Default: all."
    )
    free_cores: Count = setting(
        "CP_CAP_SGE_WORKER_FREE_CORES",
        0,
        "Cores of each worker and of the master that run no jobs. If that would leave no core, all run jobs.",
    )
    gpu_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_GPU",
        "gpus",
        "Complex for a worker's GPUs, if Grid Engine has it.",
    )
    memory_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM",
        "ram",
        "Complex for a worker's memory, if Grid Engine has it.",
    )
    cpu_complex: str | None = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_CPU",
        None,
        "Complex for a worker's cores besides its slots, if Grid Engine has it. Default: none.",
    )
    exclusive_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_EXCLUSIVE",
        "exclusive",
        "Complex by which a job requests a host exclusively. If Grid Engine has none of this name, its only one of "
        "relation EXCL is used.",
    )

    watch_only: bool = setting(
        "CP_CAP_AUTOSCALE_WATCH_ONLY",
        False,
        "Launch no worker for this queue, but go on watching it. Jobs that only a worker could run are reported, and "
        "neither deleted nor held. With Cloud Pipeline's launcher: a queue with CP_CAP_AUTOSCALE=false.",
    )
    workers: Count = setting("CP_CAP_AUTOSCALE_WORKERS", 3, "Most additional workers.")
    min_workers: Count = setting(
        "CP_CAP_AUTOSCALE_MIN_WORKERS", 0, "Additional workers that the autoscaler keeps even if they are idle."
    )
    max_cores: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_MAX_CORES", None, "Most cores of all additional workers together."
    )
    max_price_per_hour: Positive | None = setting(
        "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        None,
        "Highest price of all additional workers together. With this limit, the autoscaler launches no type whose "
        "price it does not know.",
        unit="per hour",
    )
    max_launches_per_hour: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_MAX_LAUNCHES_PER_HOUR",
        None,
        "Most workers launched in any 60 minutes. If jobs have several owners, half of what others left of it may be "
        "launches for one owner that have helped no job, or not yet.",
    )
    instance_type: str | None = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE", None, "Instance type of workers. Default: the master's.", also="instance_size"
    )
    instance_disk: int | None = of_platform(
        "CP_CAP_AUTOSCALE_INSTANCE_DISK", None, explanation="Disk of a worker.", unit="GB", also="instance_disk"
    )
    instance_image: str | None = of_platform(
        "CP_CAP_AUTOSCALE_INSTANCE_IMAGE", None, explanation="Image of a worker.", also="docker_image"
    )
    price_types: Annotated[tuple[PriceType, ...], BeforeValidator(_price_types), Field(min_length=1)] = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE",
        (PriceType.ON_DEMAND,),
        "`on_demand`, `spot`, or both in the order of preference. Default: the master's.",
        also="price_type",
    )
    price_type_deadline: Seconds = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE_DEADLINE",
        0.0,
        "How long a job must have been able to run before the autoscaler launches another price type than the first "
        "for it.",
        unit="s",
    )
    price_type_premium: Seconds | None = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE_MAX_PREMIUM",
        None,
        "How much more another price type may cost than the first, as a share of the first's price: with "
        "`spot,on_demand`, 1.5 allows on-demand workers at up to 2.5 times the spot price of their type.",
    )
    command_template: str = of_platform("CP_CAP_AUTOSCALE_CMD_TEMPLATE", "sleep infinity")
    hybrid: bool = setting(
        "CP_CAP_AUTOSCALE_HYBRID", False, "Choose the type of workers by pending demand, from a whole instance family."
    )
    hybrid_family: Annotated[str | None, AfterValidator(_families)] = setting(
        "CP_CAP_AUTOSCALE_HYBRID_FAMILY",
        None,
        "Instance family of hybrid workers (c5, r5, Dsv5), or several: `m5,r5,c5`, with `*` and `?` for what differs "
        "(`c5*`). Default: that of the instance type.",
    )
    hybrid_max_cores: Count = setting(
        "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE", 0, "Most cores of one hybrid worker; 0: no cap.", unit="cores"
    )
    descending: bool = setting(
        "CP_CAP_AUTOSCALE_DESCENDING", False, "If the instance type is not available, try smaller types of its family."
    )
    strategy: Annotated[str, AfterValidator(known_name)] = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_STRATEGY",
        "cpu-capacity",
        "cpu-capacity: the type that runs the most pending cores. naive-cpu-capacity: the smallest type with as many "
        "cores as wait. default: naive-cpu-capacity if the batch size is 1, else cpu-capacity. cost: the cheapest set "
        "of workers of all families, sizes and price types that are allowed. Or one of your own "
        "([extend](extend.md#a-strategy-of-your-own)).",
    )
    cost_price: CostPrice = setting(
        "CP_CAP_AUTOSCALE_COST_PRICE",
        CostPrice.HOUR,
        "Of the strategy cost: least price an hour, or (paid) until the workers can leave, by earlier run times.",
    )
    hybrid_size: HybridSize = setting(
        "CP_CAP_AUTOSCALE_HYBRID_SIZE",
        HybridSize.FITTING,
        "Of the strategy cpu-capacity. fitting: for jobs on one host the smallest type that holds the largest of them, "
        "of 16 cores at least, while CP_CAP_AUTOSCALE_WORKERS is far from reached. largest: the type that runs most "
        "pending cores. Default: largest in a run of Cloud Pipeline (RUN_ID is set), else fitting.",
    )
    pack: Pack = setting(
        "CP_CAP_AUTOSCALE_PACK",
        Pack.OFF,
        "fixed: each worker gets a number (`seq_no`) in the queue as it joins, so that jobs go to the longest serving "
        "workers first, and the last ones leave. predicted: workers also exchange numbers, so that jobs go first where "
        "work is estimated to end last. The scheduler follows it only with `queue_sort_method seqno`, for the whole "
        "cell: `init --apply scheduler` sets that. off: numbers are left alone.",
    )
    wait_for_free: Seconds = setting(
        "CP_CAP_AUTOSCALE_WAIT_FOR_FREE",
        0.0,
        "For how long at most a job that is estimated to find room within a boot, by earlier run times, launches "
        "nothing.",
        unit="s",
    )
    scale_up_batch: AtLeastOne = setting("CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE", 1, "Most workers in one launch.")
    scale_down_batch: AtLeastOne = setting(
        "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE", 1, "Most workers that the autoscaler begins to remove in one pass."
    )
    scale_up_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT",
        30.0,
        "A job is expired if it still waits after it has been able to run for this long. The autoscaler launches "
        "workers for the demand of its queue then.",
        unit="s",
    )
    scale_down_timeout: Seconds | None = setting(
        "CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT",
        None,
        "If set, no worker leaves before all autoscaled queues have been empty for this long, in addition to its idle "
        "timeout.",
        unit="s",
    )
    idle_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT",
        30.0,
        "The autoscaler removes a worker that has been idle for this long, unless a waiting job could use it.",
        unit="s",
    )
    billing_step: Positive = setting(
        "CP_CAP_AUTOSCALE_BILLING_STEP",
        1.0,
        "Steps in which a worker's time is billed. With 600 s or more, idle workers leave in the last sixth of a step.",
        unit="s",
    )
    billing_minimum: Seconds = setting("CP_CAP_AUTOSCALE_BILLING_MINIMUM", 60.0, "Least time that is billed.", unit="s")
    health_check: Annotated[str, AfterValidator(_command)] | None = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECK",
        None,
        "Command that checks whether a worker is healthy. It runs on the master, with host name, address and worker "
        "id as further arguments. Exit code 0: healthy; 1: sick, and its first line of output is the reason; any "
        "other code, or no end within 30 s: unknown. The autoscaler replaces a worker that is sick twice in a row "
        "when it is empty.",
    )
    health_checks: Path = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECKS",
        Path("/etc/sge-autoscaler/health-checks"),
        "Directory of further health checks, from which a request can choose one by name (`HealthCheck`). They run as "
        "the user of the autoscaler, so only that user should have write access.",
    )
    health_interval: Positive = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECK_INTERVAL", 60.0, "Time from one health check of a worker to the next.", unit="s"
    )
    boot_timeout: Positive = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT",
        900.0,
        "The autoscaler terminates a worker that has not joined this long after its order.",
        unit="s",
    )
    unavailability_delay: Seconds = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY",
        1800.0,
        "How long the backoff of a type that keeps failing lasts.",
        unit="s",
    )
    unavailability_count_capacity: AtLeastOne = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_INSUFFICIENT",
        5,
        "Out-of-capacity answers that start the backoff.",
    )
    unavailability_count_failure: AtLeastOne = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_FAILURE", 5, "Failed boots that start the backoff."
    )
