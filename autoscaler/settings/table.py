"""The one table of settings: name, environment name, type, unit, default, help.

Everything else is derived from it: loading, validation, the sample file in `conf/`, the reference page in `docs/`,
`config show`. `Process` holds what there is once; `QueueSettings` what a further queue may have under a suffix
`_1`, `_2`, …. Parameters that Cloud Pipeline's users already set keep their names and defaults. A setting that is known
but does nothing here carries `unheeded`: why.
"""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from autoscaler.core.model.fleet import PriceType
from autoscaler.core.policy import DeadlockAnswer, LostJobs

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
Seconds = Annotated[float, Field(ge=0)]
_EXPORT = r"^[A-Za-z0-9][A-Za-z0-9.-]*:/[A-Za-z0-9._/-]*$"
"""An NFS export: server and path."""
_METHOD = r"^(NONE|SIG[A-Z0-9]+|/[A-Za-z0-9_./-]+)$"
"""What ends a job, as queue_conf(5) has it."""
_PLATFORM = "only the provider `cloud_pipeline` needs it"


class Strategy(StrEnum):
    """How a hybrid node array sizes its next worker."""

    CPU_CAPACITY = "cpu-capacity"
    NAIVE_CPU_CAPACITY = "naive-cpu-capacity"
    DEFAULT = "default"


class OwnerNotice(StrEnum):
    """How a job's owner is told what became of it, besides the job's context and our log."""

    NONE = "none"
    FILE = "file"
    MAIL = "mail"


def _price_types(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _list(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _host_group(value: str) -> str:
    if not value.startswith("@"):
        raise ValueError(f"a host group starts with '@': write '@{value}'")
    return value


def _grid_engine(value: str) -> str:
    if value.upper() != "SGE":
        raise ValueError("only Grid Engine is served: leave it at SGE")
    return "SGE"


def _command(value: str) -> str:
    words = shlex.split(value)
    if not words or not words[0].startswith("/"):
        raise ValueError("a command begins with its absolute path")
    return value


def setting(
    env: str, default: Any, explanation: str, *, unit: str = "", unheeded: str = "", also: str = "", provider: str = ""
) -> Any:
    """One row. `also`: a variable of the master container that is read when the setting itself is not set.
    `provider`: the one that heeds it, by its own model.
    """
    extra = {"unit": unit, "unheeded": unheeded, "also": also, "provider": provider}
    return Field(
        default=default, alias=env, description=explanation, json_schema_extra={k: v for k, v in extra.items() if v}
    )


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Process(_Section):
    """What there is once, however many queues are served."""

    autoscale: bool | None = setting(
        "CP_CAP_AUTOSCALE", None, "Only an explicit false stops `run`, which then says so and ends with exit code 0."
    )
    provider: str | None = setting(
        "CP_CAP_AUTOSCALE_PROVIDER",
        None,
        "Who rents out machines: `local`, another installed provider, or an import path `package.module:Class`.",
    )
    tag: str | None = setting(
        "CP_CAP_AUTOSCALE_TAG",
        None,
        "The tag that marks this cell's machines at the provider. Default: made once, kept beside the cell's files.",
    )
    hosts_file: Path | None = setting(
        "CP_CAP_AUTOSCALE_HOSTS_FILE",
        None,
        "Hosts file of the master in which the names of workers are kept, for a cloud whose DNS does not know them. "
        "Default: /etc/hosts where workers join by themselves, else none.",
    )
    lease: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_LEASE",
        7200.0,
        "A worker that has seen no qmaster for so long, and has no job, ends itself.",
        unit="s",
    )
    longest_lease: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_LONGEST_LEASE", 86400.0, "The same of a worker that still has jobs.", unit="s"
    )
    worker_mount: Annotated[str, Field(pattern=_EXPORT)] | None = setting(
        "CP_CAP_AUTOSCALE_WORKER_MOUNT",
        None,
        "NFS export that a worker mounts at SGE_ROOT (`server:/path`). Default: none, its image has it.",
    )
    worker_install: bool = setting(
        "CP_CAP_AUTOSCALE_WORKER_INSTALL",
        True,
        "Whether a worker without an sge_execd installs the package of its distribution.",
    )
    worker_bootstrap: Path | None = setting(
        "CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP",
        None,
        "Script of your own, a file of the master, that a worker runs as root before it joins: mounts, users, "
        "packages. One that fails keeps the worker out. Default: none.",
    )
    auto_stop: str | None = setting(
        "CP_CAP_AUTOSCALE_AUTOSTOP",
        None,
        "Address of this host and port at which workers may ask whether they may stop (`10.0.0.1:8650`; `0.0.0.0:8650` "
        "for every interface). Default: none, nothing listens.",
    )
    work_directory: Path | None = setting(
        "CP_CAP_AUTOSCALE_WORKDIR",
        None,
        "Where state is kept. Default: /var/lib/sge-autoscaler for root, else the user's state directory.",
    )
    log_directory: Path | None = setting(
        "CP_CAP_AUTOSCALE_LOGDIR", None, "Also write the log to a file in this directory."
    )
    verbose: bool = setting(
        "CP_CAP_AUTOSCALE_VERBOSE", False, "Log every verdict of every pass that says something new."
    )
    log_level_run: Level = setting(
        "CP_CAP_AUTOSCALE_LOGGING_LEVEL_RUN",
        "INFO",
        "Level of the run's log at the platform.",
        unheeded="only the provider `cloud_pipeline` has such a log",
        provider="cloud_pipeline",
    )
    log_level_file: Level = setting("CP_CAP_AUTOSCALE_LOGGING_LEVEL_FILE", "DEBUG", "Level of the log file.")
    log_level_console: Level = setting("CP_CAP_AUTOSCALE_LOGGING_LEVEL_CONSOLE", "INFO", "Level of what is printed.")
    log_format: str = setting(
        "CP_CAP_AUTOSCALE_LOGGING_FORMAT",
        "plain",
        "plain or json. A format string of Python's logging, as used elsewhere, is read as plain.",
    )
    polling_delay: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_POLLING_DELAY", 10.0, "Look at least this often, events or not.", unit="s"
    )
    batch_delay: Seconds = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY",
        10.0,
        "At least so long between two launches for one node array, however many events wake the loop.",
        unit="s",
    )
    order_grace: Seconds = setting(
        "CP_CAP_AUTOSCALE_ORDER_GRACE",
        600.0,
        "So long an acknowledged order counts as supply though no listing of the provider shows its workers yet.",
        unit="s",
    )
    total_workers: Annotated[int, Field(ge=0)] | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_WORKERS",
        None,
        "Most additional workers of all queues together. CP_CAP_AUTOSCALE_WORKERS holds for each queue by itself.",
    )
    total_cores: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_CORES", None, "Most cores of the additional workers of all queues together."
    )
    total_price_per_hour: Annotated[float, Field(gt=0)] | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
        None,
        "Most that the additional workers of all queues together may cost. A type whose price is not known is then not "
        "launched for any queue.",
        unit="per hour",
    )
    protected_after: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_PROTECTED_MODE_TIMEOUT",
        600.0,
        "A launch for waiting jobs helped nobody if none started on its workers for so long after they joined. The "
        "next launch for jobs like these then waits: one boot time, then twice as long each time, up to an hour.",
        unit="s",
    )
    brake_window: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_BRAKE_WINDOW", 600.0, "The window of the three figures below.", unit="s"
    )
    brake_launches: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_BRAKE_LAUNCHES",
        200,
        "At most so many workers are launched in the window, by all node arrays together; the rest waits for it.",
    )
    brake_removals: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_BRAKE_REMOVALS",
        200,
        "More removed workers than this in the window pause everything until `resume`.",
    )
    brake_kills: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_BRAKE_KILLS",
        50,
        "More jobs deleted or held as impossible than this in the window pause everything until `resume`.",
    )
    detail_lookups: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_AUTOSCALE_DETAIL_LOOKUPS", 200, "At most so many jobs in a pass's one `qstat -j`."
    )
    silence_timeout: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT",
        600.0,
        "A worker that Grid Engine has not heard for so long while it heard others is ended; its jobs are touched when "
        "its provider says that it is gone. Until then it is only closed.",
        unit="s",
    )
    group_pes: Annotated[tuple[str, ...], BeforeValidator(_list)] = setting(
        "CP_CAP_AUTOSCALE_GROUP_PES",
        (),
        "Parallel environments whose jobs stay inside one group of workers near each other, with commas. Jobs ask for "
        "them by a wildcard (-pe 'mpi*' 64); the queue itself must not name them in its pe_list (`init` leaves them "
        "out of a new one).",
    )
    lost_jobs: LostJobs = setting(
        "CP_CAP_AUTOSCALE_LOST_JOBS",
        LostJobs.REPORT,
        "What becomes of a job that may not start again when its machine is gone. report: it stands as running until "
        "somebody deletes it. delete: it is deleted. force: it is started again all the same.",
    )
    deadlock: DeadlockAnswer = setting(
        "CP_CAP_AUTOSCALE_DEADLOCK",
        DeadlockAnswer.HOLD,
        "What becomes of a waiting job that nothing allowed could ever run, once Grid Engine has said so too. kill: it "
        "is deleted. hold: it is held until it can run. report: it is only told. Default: kill where Cloud Pipeline "
        "runs this (RUN_ID is set), hold elsewhere.",
    )
    black_hole_failures: Annotated[int, Field(ge=0)] = setting(
        "CP_CAP_AUTOSCALE_BLACK_HOLE_FAILURES",
        3,
        "A worker on which so many starts of jobs failed one after another, of two jobs or more and with none that "
        "ran, lets no further job in and is replaced when it is empty. 0: never.",
    )
    swap: bool = setting(
        "CP_CAP_AUTOSCALE_SWAP",
        True,
        "When limits are reached and waiting jobs need stronger workers than any there, a weaker one makes room.",
    )
    queue_demand: bool = setting(
        "CP_CAP_AUTOSCALE_QUEUE_DEMAND",
        True,
        "Waiting jobs ask for workers by themselves. Without, only requests of callers do, and all workers there are, "
        "busy ones too, count towards what these ask for.",
    )
    rules: Path | None = setting(
        "CP_CAP_AUTOSCALE_RULES",
        None,
        "File of rules, JSON or TOML: what workers have before they exist, which jobs may run on what, timeouts by "
        "node array, who is kept alive (docs/rules.md). Read again at every look.",
    )
    vm_sizes: Path | None = setting(
        "CP_CAP_AUTOSCALE_VM_SIZES",
        None,
        "File of VM sizes, in the place of `conf/vm_sizes.json`: what a size is where its provider does not say, or "
        "says too few GPUs.",
    )
    grid_engine_timeout: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_GRID_ENGINE_TIMEOUT",
        30.0,
        "A Grid Engine command without an answer for so long is ended; a pass that cannot read does nothing.",
        unit="s",
    )
    policies: Annotated[tuple[str, ...], BeforeValidator(_list)] = setting(
        "CP_CAP_AUTOSCALE_POLICIES",
        (),
        "Autoscale policies, which want workers ahead of jobs or for other work: names, or import paths "
        "`package.module:Class`. Each has options of its own under `CP_CAP_AUTOSCALE_POLICY_<NAME>_`.",
    )
    policies_deadline: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_POLICIES_DEADLINE",
        10.0,
        "An autoscale policy without an answer for so long is told of; what it wanted lapses 5 minutes after its last.",
        unit="s",
    )
    notify_owner: OwnerNotice = setting(
        "CP_CAP_AUTOSCALE_NOTIFY_OWNER",
        OwnerNotice.NONE,
        "How the owner of a job that is held or deleted is told why, besides the job's context (`qstat -j`) and "
        "`explain JOB`. file: `<job name>.<job id>.autoscaler` beside its output, written with the owner's rights. "
        "mail: to the job's `-M`, else to the owner, through Grid Engine's mailer.",
    )
    socket: Path | None = setting(
        "CP_CAP_AUTOSCALE_SOCKET",
        None,
        "Unix socket at which callers ask for what node arrays should hold. Default: one a cell in "
        "/run/sge-autoscaler for root, in the work directory for others or where one is set.",
    )
    socket_group: str | None = setting(
        "CP_CAP_AUTOSCALE_SOCKET_GROUP", None, "Group whose members may ask there. Default: only who runs this may."
    )
    caller_url: str | None = setting(
        "CP_CAP_AUTOSCALE_URL",
        None,
        "For callers only (`sge-autoscaler autoscale`, `jetpack.autoscale`): the autoscaler to ask over HTTP, as "
        "https://HOST:PORT, instead of at the socket.",
    )
    caller_login: Path | None = setting(
        "CP_CAP_AUTOSCALE_LOGIN", None, "For callers only: a file whose first line is USER:PASSWORD, for that address."
    )
    http: str | None = setting(
        "CP_CAP_AUTOSCALE_HTTP",
        None,
        "Address and port at which `run` serves CycleCloud's REST API, 127.0.0.1:8651 for example; without an address "
        "the loopback. Default: it is not served.",
    )
    http_passwords: Path | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_PASSWORDS",
        None,
        "Who may call it: a file of users with hashed passwords, written by `sge-autoscaler serve passwd USER`. "
        "Default: `http-passwords` where state is kept.",
    )
    http_certificate: Path | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_CERT", None, "Its certificate, a PEM file: with this and the key only TLS is spoken."
    )
    http_key: Path | None = setting("CP_CAP_AUTOSCALE_HTTP_KEY", None, "The certificate's key, a PEM file.")
    http_cluster: str | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_CLUSTER", None, "How callers of it name the cluster. Default: the cell's name."
    )
    dry_run: bool = setting("CP_CAP_AUTOSCALE_DRY_RUN", False, "`run` decides and logs but changes nothing anywhere.")
    dry_init: bool = setting(
        "CP_CAP_AUTOSCALE_DRY_INIT",
        False,
        "",
        unheeded="`init` always shows the difference first and changes nothing unasked",
    )
    cloud_provider: str | None = setting(
        "CP_CAP_AUTOSCALE_CLOUD_PROVIDER",
        None,
        "",
        unheeded=_PLATFORM,
        provider="cloud_pipeline",
        also="CLOUD_PROVIDER",
    )
    cloud_region_id: str | None = setting(
        "CP_CAP_AUTOSCALE_CLOUD_REGION_ID",
        None,
        "",
        unheeded=_PLATFORM,
        provider="cloud_pipeline",
        also="CLOUD_REGION_ID",
    )
    static_instance_type: str | None = setting(
        "CP_CAP_AUTOSCALE_STATIC_INSTANCE_TYPE",
        None,
        "",
        unheeded="persistent workers are read from Grid Engine itself, whatever their type",
    )
    owner_parameter_name: str | None = setting(
        "CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME", None, "", unheeded=_PLATFORM, provider="cloud_pipeline"
    )
    active_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT",
        30.0,
        "",
        unit="s",
        unheeded="events wake the loop; there is no active mode to time out",
    )
    invalid_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_INVALID_TIMEOUT",
        3600.0,
        "",
        unit="s",
        unheeded="CP_CAP_AUTOSCALE_SILENCE_TIMEOUT says when a worker that fell silent is ended",
    )
    task: str | None = setting("CP_CAP_AUTOSCALE_TASK", None, "", unheeded=_PLATFORM, provider="cloud_pipeline")
    event_ttl: Seconds = setting(
        "CP_CAP_AUTOSCALE_EVENT_TTL",
        10800.0,
        "",
        unit="s",
        unheeded="failures are remembered for the unavailability delay",
    )
    custom_requirements: bool = setting(
        "CP_CAP_AUTOSCALE_CUSTOM_REQUIREMENTS", True, "", unheeded="consumable complexes always count"
    )
    custom_requirements_purge: bool = setting(
        "CP_CAP_AUTOSCALE_CUSTOM_REQUIREMENTS_PURGE",
        False,
        "",
        unheeded="no request is taken out of a job: one for what no worker has keeps it waiting, and `explain JOB` "
        "says so",
    )
    node_mem_reservations: bool = setting(
        "CP_CAP_AUTOSCALE_NODE_MEM_RESERVATIONS",
        False,
        "",
        unheeded="a worker offers the memory that its type is sold with; what its system keeps back can be taken off "
        "by rules (docs/rules.md)",
    )
    dns_hosts: bool = setting(
        "CP_CAP_AUTOSCALE_DNS_HOSTS",
        False,
        "",
        unheeded="no DNS entry is made: names of workers are kept in CP_CAP_AUTOSCALE_HOSTS_FILE",
    )
    owner: str | None = setting(
        "CP_CAP_AUTOSCALE_OWNER",
        None,
        "",
        unheeded="whom workers belong to is the master run's OWNER, under the name that "
        "CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME says",
    )
    grid_engine: Annotated[str, AfterValidator(_grid_engine)] = setting(
        "CP_CAP_AUTOSCALE_GRID_ENGINE",
        "SGE",
        "Which scheduler is served, as Cloud Pipeline names them. There is only this one: any other is an error.",
    )
    disable_default_queue: bool = setting(
        "CP_CAP_SGE_DISABLE_DEFAULT_QUEUE",
        False,
        "Serve only the queues that have a suffix; what is set without one holds for them where they inherit it.",
    )
    extra_pe_path: Path | None = setting(
        "CP_CAP_SGE_EXTRA_PE_PATH",
        None,
        "",
        unheeded="`init` makes no further parallel environments: `qconf -Ap FILE` and the queue's `pe_list` do, and "
        "all that Grid Engine has are used",
    )
    reporting_params: str | None = setting(
        "CP_CAP_SGE_REPORTING_PARAMS",
        None,
        "",
        unheeded="the cell's own configuration says it (`qconf -mconf`), which `init` leaves alone",
    )
    scheduler_default_queue: str | None = setting(
        "CP_CAP_SGE_SCHEDULER_DEFAULT_QUEUE",
        None,
        "",
        unheeded="CP_CAP_SGE_QUEUE_DEFAULT says which queues serve jobs that name none; a `-q` in the cell's "
        "sge_request is part of each job's request, and is heeded as such",
    )
    gpu_rsmap_devices: str | None = setting(
        "CP_CAP_SGE_GPU_RSMAP_DEVICES",
        None,
        "",
        unheeded="GPUs are counted, and no devices are given out: a prolog does that, which images and queues bring",
    )
    gpu_exclusive_mode: str | None = setting(
        "CP_CAP_SGE_GPU_EXCLUSIVE_MODE",
        None,
        "",
        unheeded="the compute mode of GPUs is what a worker's image sets",
    )
    gpu_locks: str | None = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_LOCKS_GPU",
        None,
        "",
        unheeded="it is where that prolog keeps its locks; nothing here looks at them",
    )
    exclusive_enabled: bool | None = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_EXCLUSIVE_ENABLED",
        None,
        "",
        unheeded="the complex CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_EXCLUSIVE is used where Grid Engine has it, and "
        "`init` makes none",
    )
    inheritable_parameter_names: str | None = setting(
        "CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_NAMES", None, "", unheeded=_PLATFORM, provider="cloud_pipeline"
    )
    inheritable_parameter_prefixes: str = setting(
        "CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_PREFIXES",
        "CP_CAP_MOUNT_OPTIONS_",
        "",
        unheeded=_PLATFORM,
        provider="cloud_pipeline",
    )


class QueueSettings(_Section):
    """What each autoscaled queue and its node array have of their own. A suffix `_1`, `_2`, … is a further queue."""

    queue: str = setting("CP_CAP_SGE_QUEUE_NAME", "main.q", "The autoscaled queue.")
    host_group: Annotated[str, AfterValidator(_host_group)] = setting(
        "CP_CAP_SGE_HOSTLIST_NAME",
        "@allhosts",
        "The host group that workers join. Each further queue needs one of its own.",
    )
    static: bool = setting(
        "CP_CAP_SGE_QUEUE_STATIC", True, "Persistent workers belong to this queue. Default false for a further queue."
    )
    default: bool = setting(
        "CP_CAP_SGE_QUEUE_DEFAULT", True, "Takes jobs that name no queue. Default false for a further queue."
    )
    pe_local: str = setting(
        "CP_CAP_SGE_PE_NAME", "local", "Parallel environment with all slots on one host; `init` makes it."
    )
    pe_mpi: str = setting("CP_CAP_SGE_PE_MPI_NAME", "mpi", "Parallel environment over several hosts; `init` makes it.")
    pe_slots: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_SGE_PE_SLOTS", 999999, "Slots of both parallel environments."
    )
    pe_mpi_slots: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_SGE_PE_MPI_SLOTS", None, "Slots of the one over several hosts. Default: as CP_CAP_SGE_PE_SLOTS."
    )
    terminate_method: Annotated[str, Field(pattern=_METHOD)] = setting(
        "CP_CAP_SGE_TERMINATE_METHOD",
        "NONE",
        "`terminate_method` of a queue that `init` makes: NONE, a signal or an absolute path. A queue that there is "
        "keeps its own.",
    )
    shell_start_mode: Literal["unix_behavior", "posix_compliant", "script_from_stdin"] = setting(
        "CP_CAP_SGE_SHELL_START_MODE",
        "posix_compliant",
        "`shell_start_mode` of a queue that `init` makes. A queue that there is keeps its own.",
    )
    master_cores: Annotated[int, Field(ge=0)] | None = setting(
        "CP_CAP_SGE_MASTER_CORES", None, "Cores of the master that serve jobs; 0: none. Default: all of them."
    )
    free_cores: Annotated[int, Field(ge=0)] = setting(
        "CP_CAP_SGE_WORKER_FREE_CORES",
        0,
        "Cores kept back from jobs on every worker and the master; where nothing would be left, all serve.",
    )
    gpu_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_GPU",
        "gpus",
        "Complex that carries a worker's GPUs, where Grid Engine has it.",
    )
    memory_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_RAM",
        "ram",
        "Complex that carries a worker's memory, where Grid Engine has it.",
    )
    cpu_complex: str | None = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_CPU",
        None,
        "Complex that carries a worker's cores besides its slots, where Grid Engine has it. Default: none.",
    )
    exclusive_complex: str = setting(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_EXCLUSIVE",
        "exclusive",
        "Complex that asks for a host of one's own, where Grid Engine has it.",
    )

    workers: Annotated[int, Field(ge=0)] = setting("CP_CAP_AUTOSCALE_WORKERS", 3, "Most additional workers at a time.")
    min_workers: Annotated[int, Field(ge=0)] = setting(
        "CP_CAP_AUTOSCALE_MIN_WORKERS", 0, "Additional workers that are kept even with nothing to do."
    )
    max_cores: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_MAX_CORES", None, "Most cores of additional workers together."
    )
    max_price_per_hour: Annotated[float, Field(gt=0)] | None = setting(
        "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        None,
        "Most that additional workers together may cost. A type whose price is not known is then not launched.",
        unit="per hour",
    )
    max_launches_per_hour: Annotated[int, Field(ge=1)] | None = setting(
        "CP_CAP_AUTOSCALE_MAX_LAUNCHES_PER_HOUR", None, "Most workers launched in any 60 minutes."
    )
    instance_type: str | None = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE", None, "Instance type of workers. Default: the master's.", also="instance_size"
    )
    instance_disk: int | None = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_DISK",
        None,
        "Disk of a worker.",
        unit="GB",
        unheeded=_PLATFORM,
        provider="cloud_pipeline",
        also="instance_disk",
    )
    instance_image: str | None = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_IMAGE",
        None,
        "Image of a worker.",
        unheeded=_PLATFORM,
        provider="cloud_pipeline",
        also="docker_image",
    )
    price_types: Annotated[tuple[PriceType, ...], BeforeValidator(_price_types), Field(min_length=1)] = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE",
        (PriceType.ON_DEMAND,),
        "`on_demand`, `spot`, or both in the order in which they are tried. Default: the master's.",
        also="price_type",
    )
    price_type_deadline: Annotated[float, Field(ge=0)] = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE_DEADLINE",
        0.0,
        "So long a job must have been able to run before another price type than the first is taken for it.",
        unit="s",
    )
    price_type_premium: Annotated[float, Field(ge=0)] | None = setting(
        "CP_CAP_AUTOSCALE_PRICE_TYPE_MAX_PREMIUM",
        None,
        "Most that another price type may cost over the first, as a share of its price: with `spot,on_demand`, 1.5 "
        "allows on-demand workers at up to 2.5 times the spot price of their type.",
    )
    command_template: str = setting(
        "CP_CAP_AUTOSCALE_CMD_TEMPLATE", "sleep infinity", "", unheeded=_PLATFORM, provider="cloud_pipeline"
    )
    hybrid: bool = setting(
        "CP_CAP_AUTOSCALE_HYBRID", False, "Size workers by pending demand, out of a whole instance family."
    )
    hybrid_family: str | None = setting(
        "CP_CAP_AUTOSCALE_HYBRID_FAMILY", None, "That family (c5, r5, Dsv5). Default: the instance type's own."
    )
    hybrid_max_cores: Annotated[int, Field(ge=0)] = setting(
        "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE", 0, "Most cores of one hybrid worker; 0: no cap.", unit="cores"
    )
    descending: bool = setting(
        "CP_CAP_AUTOSCALE_DESCENDING", False, "When the instance type cannot be had, try smaller ones of its family."
    )
    strategy: Strategy = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_STRATEGY",
        Strategy.CPU_CAPACITY,
        "cpu-capacity: the type that runs the most pending cores. naive-cpu-capacity: the smallest type with as many "
        "cores as wait. default: naive unless batching.",
    )
    scale_up_batch: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE", 1, "Most workers in one launch."
    )
    scale_down_batch: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE", 1, "Most workers that begin to leave in one pass."
    )
    scale_up_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT",
        30.0,
        "A job that has been able to run for so long and waits still is expired.",
        unit="s",
    )
    scale_down_timeout: Seconds | None = setting(
        "CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT",
        None,
        "Set: no worker leaves before all autoscaled queues have been empty for so long, on top of its idle timeout.",
        unit="s",
    )
    idle_timeout: Seconds = setting(
        "CP_CAP_AUTOSCALE_IDLE_TIMEOUT",
        30.0,
        "A worker with nothing on it for so long is excessive, unless waiting work could use it.",
        unit="s",
    )
    health_check: Annotated[str, AfterValidator(_command)] | None = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECK",
        None,
        "Command that says whether a worker is healthy: run on the master with host name, address and worker id as "
        "further arguments. Exit code 0: healthy; 1: sick, and its first line says why; anything else, or no end "
        "within 30 s: unknown. A worker found sick twice in a row is replaced when it is empty.",
    )
    health_checks: Path = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECKS",
        Path("/etc/sge-autoscaler/engine/health_checks-checks"),
        "Directory of further such commands, among which a request may choose one by name (`HealthCheck`). Whoever may "
        "write there has them run as the autoscaler.",
    )
    health_interval: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_HEALTH_CHECK_INTERVAL", 60.0, "From one health check of a worker to its next.", unit="s"
    )
    boot_timeout: Annotated[float, Field(gt=0)] = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT",
        900.0,
        "A worker that Grid Engine has not heard so long after its order is given back.",
        unit="s",
    )
    unavailability_delay: Seconds = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY",
        1800.0,
        "So long a type that keeps failing is left alone.",
        unit="s",
    )
    unavailability_count_capacity: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_INSUFFICIENT", 5, "Out-of-capacity answers until then."
    )
    unavailability_count_failure: Annotated[int, Field(ge=1)] = setting(
        "CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_COUNT_FAILURE", 5, "Failed boots until then."
    )


SECTIONS: tuple[type[BaseModel], ...] = (Process, QueueSettings)
"""Names the settings file; stands outside the table because it cannot be written in the file itself."""


def rows(section: type[BaseModel]) -> dict[str, str]:
    """Environment name → field name of a section, in the order of the table."""
    return {str(info.alias): name for name, info in section.model_fields.items()}


def extra(section: type[BaseModel], field: str, key: str) -> str:
    """`unit`, `unheeded`, `also` or `provider` of a row; '' where it has none."""
    value = section.model_fields[field].json_schema_extra
    return str(value.get(key, "")) if isinstance(value, dict) else ""
