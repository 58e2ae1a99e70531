"""The settings that exist once, for all queues (`rows` explains a row)."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.core.cost.spending import Budget, BudgetAction, Whose
from autoscaler.core.policy import DeadlockAnswer, LostJobs, OwnerKind
from autoscaler.settings.rows import AtLeastOne, Count, Positive, Seconds, Section, of_platform, setting, without_effect


def _engine(value: object) -> object:
    """As the shim reads it."""
    return value.strip().lower() or None if isinstance(value, str) else value


_OF_LOGGING = {"WARN": "WARNING", "FATAL": "CRITICAL", "NOTSET": "DEBUG"}
"""Further names of levels that Python's logging takes."""


def _level(value: object) -> object:
    return _OF_LOGGING.get(value, value) if isinstance(value, str) else value


Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_level)]
_EXPORT = r"^[A-Za-z0-9][A-Za-z0-9.-]*:/[A-Za-z0-9._/-]*$"
"""An NFS export: server and path."""


class OwnerNotice(StrEnum):
    """How a job's owner learns of a hold or deletion, besides the job's context and our log."""

    NONE = "none"
    FILE = "file"
    MAIL = "mail"


def _list(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_list)]


def budget_of(entry: str) -> Budget:
    """`user:ann=200`. Raises ValueError."""
    owner, _, amount = entry.partition("=")
    whose, _, name = owner.partition(":")
    try:
        found = Budget(Whose(whose.strip()), name.strip(), float(amount))
    except ValueError:
        found = Budget(Whose.CELL, "", 0.0)
    if found.whose is Whose.CELL or not found.name or not 0 < found.amount < float("inf"):
        raise ValueError(f"{entry!r} is no budget: write user:NAME=AMOUNT or project:NAME=AMOUNT")
    return found


def _budgets(entries: tuple[str, ...]) -> tuple[str, ...]:
    owners = [budget_of(entry).owner for entry in entries]
    if twice := {owner for owner in owners if owners.count(owner) > 1}:
        raise ValueError(f"{' and '.join(sorted(twice))} has two budgets")
    return entries


def _network(value: str) -> str:
    ipaddress.ip_network(value)
    return value


def _grid_engine(value: str) -> str:
    if value.upper() != "SGE":
        raise ValueError("the autoscaler serves Grid Engine only: leave this at SGE")
    return "SGE"


class Process(Section):
    """The settings that exist once, for all queues."""

    autoscale: bool | None = setting(
        "CP_CAP_AUTOSCALE",
        None,
        "`run` starts unless this is false. If it is false, `run` says so and ends with exit code 0.",
    )
    provider: str | None = setting(
        "CP_CAP_AUTOSCALE_PROVIDER",
        None,
        "The provider that rents machines: `local`, another installed provider, or an import path "
        "`package.module:Class`.",
    )
    tag: str | None = setting(
        "CP_CAP_AUTOSCALE_TAG",
        None,
        "Tag that marks this cell's machines at the provider. Default: the autoscaler makes one and keeps it beside "
        "the cell's files.",
    )
    hosts_file: Path | None = setting(
        "CP_CAP_AUTOSCALE_HOSTS_FILE",
        None,
        "Hosts file of the master in which the autoscaler keeps the names of workers, for a cloud whose DNS does not "
        "know them. "
        "Default: /etc/hosts where workers join by themselves, else none.",
    )
    lease: Positive = setting(
        "CP_CAP_AUTOSCALE_LEASE",
        7200.0,
        "A worker without a job shuts itself down if it has not reached qmaster for this long.",
        unit="s",
    )
    longest_lease: Positive = setting(
        "CP_CAP_AUTOSCALE_LONGEST_LEASE",
        86400.0,
        "A worker with jobs shuts itself down if it has not reached qmaster for this long.",
        unit="s",
    )
    worker_mount: Annotated[str, Field(pattern=_EXPORT)] | None = setting(
        "CP_CAP_AUTOSCALE_WORKER_MOUNT",
        None,
        "NFS export that a worker mounts at SGE_ROOT (`server:/path`). Default: none; the worker's image contains it.",
    )
    worker_install: bool = setting(
        "CP_CAP_AUTOSCALE_WORKER_INSTALL",
        True,
        "Whether a worker that has no sge_execd installs its distribution's package.",
    )
    worker_bootstrap: Path | None = setting(
        "CP_CAP_AUTOSCALE_WORKER_BOOTSTRAP",
        None,
        "Script on the master that each worker runs as root before it joins, for mounts, users or packages. If the "
        "script fails, the worker does not join. Default: none.",
    )
    auto_stop: str | None = setting(
        "CP_CAP_AUTOSCALE_AUTOSTOP",
        None,
        "Address of this host and port at which workers can ask whether they may stop (`10.0.0.1:8650`; `0.0.0.0:8650` "
        "for every interface). `sge-autoscaler serve` listens there. Default: none.",
    )
    work_directory: Path | None = setting(
        "CP_CAP_AUTOSCALE_WORKDIR",
        None,
        "Directory for the autoscaler's state. Default: /var/lib/sge-autoscaler for root, else the user's state "
        "directory.",
    )
    trusted_group: str | None = setting(
        "CP_CAP_AUTOSCALE_TRUSTED_GROUP",
        None,
        "Group whose members may write the files that the autoscaler relies on (settings, rules, passwords, state …) "
        "and the directories above them. The autoscaler refuses a file that anybody else may write, but root and its "
        "own user. For the settings file itself this setting is read from the environment only. Default: none.",
    )
    log_directory: Path | None = setting(
        "CP_CAP_AUTOSCALE_LOGDIR", None, "Directory for a log file, besides the printed log. Default: no log file."
    )
    verbose: bool = setting(
        "CP_CAP_AUTOSCALE_VERBOSE", False, "Log each verdict on jobs, workers and offers when it changes."
    )
    log_level_run: Level = setting(
        "CP_CAP_AUTOSCALE_LOGGING_LEVEL_RUN",
        "INFO",
        "Level of the run log on the platform.",
        no_effect="only the provider `cloud_pipeline` has a run log",
        provider="cloud_pipeline",
    )
    log_level_file: Level = setting("CP_CAP_AUTOSCALE_LOGGING_LEVEL_FILE", "DEBUG", "Level of the log file.")
    log_level_console: Level = setting("CP_CAP_AUTOSCALE_LOGGING_LEVEL_CONSOLE", "INFO", "Level of the printed log.")
    log_format: str = setting(
        "CP_CAP_AUTOSCALE_LOGGING_FORMAT",
        "plain",
        "plain or json. A format string of Python's logging counts as plain.",
    )
    polling_delay: Positive = setting(
        "CP_CAP_AUTOSCALE_POLLING_DELAY",
        10.0,
        "Longest time from one pass to the next, also without events; six times that while no job is pending and no "
        "worker is there, ordered or requested, if events arrive.",
        unit="s",
    )
    batch_delay: Seconds = setting(
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_DELAY",
        10.0,
        "Shortest time between two launches for one node array.",
        unit="s",
    )
    order_grace: Seconds = setting(
        "CP_CAP_AUTOSCALE_ORDER_GRACE",
        600.0,
        "How long an accepted order counts as supply while the provider's listing does not show its workers.",
        unit="s",
    )
    total_workers: Count | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_WORKERS",
        None,
        "Most additional workers of all queues together. CP_CAP_AUTOSCALE_WORKERS limits each queue separately.",
    )
    total_cores: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_CORES", None, "Most cores of the additional workers of all queues together."
    )
    total_price_per_hour: Positive | None = setting(
        "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
        None,
        "Highest price of the additional workers of all queues together. With this limit, the autoscaler launches no "
        "type whose price it does not know.",
        unit="per hour",
    )
    cost_kept: Seconds = setting(
        "CP_CAP_AUTOSCALE_COST_KEPT",
        400 * 86400.0,
        "How long the autoscaler keeps what workers cost and for whom, as `cost` shows it.",
        unit="s",
    )
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = setting(
        "CP_CAP_AUTOSCALE_CURRENCY",
        None,
        "Currency of all prices, as three letters. Default: that of your own catalogue file, else USD.",
    )
    budget: Positive | None = setting(
        "CP_CAP_AUTOSCALE_BUDGET",
        None,
        "What all workers may cost in a calendar month (UTC), by the estimate of `sge-autoscaler cost`. The autoscaler "
        "reports 50, 80 and 100 %.",
        unit="a month",
    )
    budgets: Annotated[tuple[str, ...], BeforeValidator(_list), AfterValidator(_budgets)] = setting(
        "CP_CAP_AUTOSCALE_BUDGETS",
        (),
        "The same for jobs of single users and projects, with commas: `user:ann=200, project:wind=1500`.",
        unit="a month",
    )
    budget_action: BudgetAction = setting(
        "CP_CAP_AUTOSCALE_BUDGET_ACTION",
        BudgetAction.WARN,
        "What happens when a budget is spent, besides the report. warn: nothing. cheapest: only the cheapest offer "
        "is launched, or only for jobs of this user or project. stop: nothing is launched, or nothing for jobs of this "
        "user or project. No worker is removed for it.",
    )
    protected_after: Positive = setting(
        "CP_CAP_AUTOSCALE_PROTECTED_MODE_TIMEOUT",
        600.0,
        "If no waiting job starts on the workers of a launch within this time after they joined, the launch did not "
        "help. The next launch for such jobs then waits: one boot time at first, but a tenth of this time at least, "
        "then twice as long each time, up to an hour. A worker that only such jobs need leaves once it has been idle "
        "for this time.",
        unit="s",
    )
    circuit_breaker_window: Positive = setting(
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_WINDOW",
        600.0,
        "Window in which the circuit breaker counts: the next three settings.",
        unit="s",
    )
    circuit_breaker_launches: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_LAUNCHES",
        200,
        "Most workers that all node arrays together launch in the window; further launches wait. If jobs have several "
        "owners, launches for those with most are left out for others, as for the next setting.",
    )
    circuit_breaker_removals: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_REMOVALS",
        200,
        "If more workers than this are removed in the window, the circuit breaker stops launches and removals until "
        "`resume`. If jobs have several owners, half as many as there were in 30 days do not count (two at least, "
        "those for whom most were launched); if only without the one with most they are more than this, those with "
        "most wait until some of the window has passed.",
    )
    circuit_breaker_kills: AtLeastOne | None = setting(
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_KILLS",
        50,
        "Most jobs of one owner that are deleted or held as unsatisfiable in the window; further ones wait. If jobs of "
        "many others are more than this, none are deleted or held until `resume`. In a cell of one owner the circuit "
        "breaker then stops launches and removals too.",
    )
    job_owner: OwnerKind = setting(
        "CP_CAP_AUTOSCALE_JOB_OWNER",
        OwnerKind.USER,
        "What tells the owners of jobs apart: `user`, `project` or `account` (`qsub -A`). What one owner causes is "
        "counted for that owner, and does not change what others get. A job without a project or account counts for "
        "its user. Users choose the account: take it only if a JSV checks it.",
    )
    detail_lookups: AtLeastOne = setting(
        "CP_CAP_AUTOSCALE_DETAIL_LOOKUPS", 200, "Most jobs in the one `qstat -j` of a pass."
    )
    silence_timeout: Positive = setting(
        "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT",
        600.0,
        "The autoscaler terminates a worker if qmaster has had no load report from it for this long, but has reports "
        "from another worker of the same zone. Until then it only disables the worker. If several of a zone fell "
        "silent together, or none of it reports, it terminates none, and notifies operators. It reschedules or deletes "
        "the worker's jobs only after the provider reports that the machine is gone.",
        unit="s",
    )
    group_pes: Names = setting(
        "CP_CAP_AUTOSCALE_GROUP_PES",
        (),
        "Parallel environments, separated by commas, whose jobs stay inside one group of workers near each other. "
        "Jobs request them by a wildcard (-pe 'mpi*' 64). The pe_list of the queue itself must not name them; `init` "
        "leaves them out of a queue that it makes.",
    )
    lost_jobs: LostJobs = setting(
        "CP_CAP_AUTOSCALE_LOST_JOBS",
        LostJobs.REPORT,
        "What the autoscaler does with a job that may not start again, when its machine is gone. report: it only "
        "reports the job, which qmaster lists as running until somebody deletes it. delete: it deletes the job. "
        "force: it reschedules the job all the same.",
    )
    deadlock: DeadlockAnswer = setting(
        "CP_CAP_AUTOSCALE_DEADLOCK",
        DeadlockAnswer.HOLD,
        "What the autoscaler does with a waiting job that nothing allowed can ever run, after Grid Engine has "
        "confirmed this. kill: it deletes the job. hold: it holds the job until it can run. report: it only reports "
        "it. Default: kill in a run of Cloud Pipeline (RUN_ID is set), hold elsewhere.",
    )
    black_hole_failures: Count = setting(
        "CP_CAP_AUTOSCALE_BLACK_HOLE_FAILURES",
        3,
        "The autoscaler quarantines a worker after this many failed job starts in a row, of two jobs or more: it "
        "disables the worker and replaces it when it is empty. 0: never.",
    )
    swap: bool = setting(
        "CP_CAP_AUTOSCALE_SWAP",
        True,
        "Replace a weak worker by a stronger one if waiting jobs need it and a limit leaves no room for both.",
    )
    queue_demand: bool = setting(
        "CP_CAP_AUTOSCALE_QUEUE_DEMAND",
        True,
        "Whether waiting jobs are demand. If false, only requests of callers are demand, and all workers count "
        "towards these, busy ones included.",
    )
    rules: Path | None = setting(
        "CP_CAP_AUTOSCALE_RULES",
        None,
        "File of rules, JSON or TOML: the resources of workers that do not exist yet, which jobs may run on which "
        "workers, timeouts of node arrays, workers that never leave (docs/rules.md). The autoscaler reads it again in "
        "each pass.",
    )
    vm_sizes: Path | None = setting(
        "CP_CAP_AUTOSCALE_VM_SIZES",
        None,
        "File of VM sizes that replaces `conf/vm_sizes.json`. It describes sizes that the provider does not describe, "
        "or describes with too few GPUs.",
    )
    grid_engine_timeout: Positive = setting(
        "CP_CAP_AUTOSCALE_GRID_ENGINE_TIMEOUT",
        30.0,
        "Time limit of each Grid Engine command. A pass in which a reading command fails does nothing.",
        unit="s",
    )
    policies: Names = setting(
        "CP_CAP_AUTOSCALE_POLICIES",
        (),
        "Autoscale policies, which request workers ahead of jobs or for other work: names, or import paths "
        "`package.module:Class`. Each policy has its own settings `CP_CAP_AUTOSCALE_POLICY_<NAME>_…`.",
    )
    policies_deadline: Positive = setting(
        "CP_CAP_AUTOSCALE_POLICIES_DEADLINE",
        10.0,
        "Time limit of an autoscale policy's answer. The autoscaler reports a policy that exceeds it; the policy's "
        "last request lapses 5 minutes after it was made.",
        unit="s",
    )
    listeners: Names = setting(
        "CP_CAP_AUTOSCALE_LISTENERS",
        (),
        "Pass listeners of your own: names, or import paths `package.module:Class` "
        "([extend](extend.md#a-pass-listener-of-your-own)).",
    )
    notify_owner: OwnerNotice = setting(
        "CP_CAP_AUTOSCALE_NOTIFY_OWNER",
        OwnerNotice.NONE,
        "How the owner of a held or deleted job learns the reason, besides the job's context (`qstat -j`) and "
        "`explain JOB`. file: `<job name>.<job id>.autoscaler` beside its output, written with the owner's rights. "
        "mail: to the job's `-M`, else to the owner, through Grid Engine's mailer.",
    )
    job_context: bool = setting(
        "CP_CAP_AUTOSCALE_JOB_CONTEXT",
        False,
        "Write into the context of a job that has waited for 10 minutes why it waits (`qstat -j`, variable "
        "`autoscaler`), without times and counts, and take it away when the job runs. A job's text changes once an "
        "hour at most. A server-side JSV must allow `ac` in `jsv_allowed_mod`; `doctor` says if it does not.",
    )
    notifications: Path | None = setting(
        "CP_CAP_AUTOSCALE_NOTIFICATIONS",
        None,
        "File of the services that notify operators, one URL a line as Apprise has them (`mailto://…`, `jsons://…`, "
        "`slack://…`): of the circuit breaker, protected mode, refused launches, a limit reached for long, lost "
        "workers, old prices and more. Others must not be able to read it. Default: nobody is notified.",
    )
    notify_resolved: bool = setting(
        "CP_CAP_AUTOSCALE_NOTIFY_RESOLVED", True, "Whether operators are also notified when the cause has passed."
    )
    notify_interval: Positive = setting(
        "CP_CAP_AUTOSCALE_NOTIFY_INTERVAL",
        60.0,
        "Shortest time from one notification to the next; what happens in between goes into one message.",
        unit="s",
    )
    notify_limit_after: Seconds = setting(
        "CP_CAP_AUTOSCALE_NOTIFY_LIMIT_AFTER",
        1800.0,
        "Operators are notified of a limit that has kept jobs waiting for this long.",
        unit="s",
    )
    socket: Path | None = setting(
        "CP_CAP_AUTOSCALE_SOCKET",
        None,
        "Unix socket at which callers request workers of node arrays. Default: one for each cell, in "
        "/run/sge-autoscaler if root runs the autoscaler and no work directory is set, else in the work directory.",
    )
    socket_group: str | None = setting(
        "CP_CAP_AUTOSCALE_SOCKET_GROUP",
        None,
        "Group whose members may request workers at this socket. Default: only root, the user who runs the autoscaler "
        "and Grid Engine's managers. Every user of this machine may read answers.",
    )
    job_details: Literal["everybody", "owner"] = setting(
        "CP_CAP_AUTOSCALE_JOB_DETAILS",
        "everybody",
        "Who may see why a job waits (`jobs`, `explain JOB`): `everybody`, as with qstat, or only its `owner` and Grid "
        "Engine's managers.",
    )
    caller_url: str | None = setting(
        "CP_CAP_AUTOSCALE_URL",
        None,
        "For callers only (`sge-autoscaler autoscale`, `jetpack.autoscale`, and commands that ask, as `status`): "
        "address of the autoscaler to call over HTTP instead of the socket, as https://HOST:PORT.",
    )
    caller_token: Path | None = setting(
        "CP_CAP_AUTOSCALE_TOKEN_FILE",
        None,
        "For commands that ask at that address: file whose first line is a token of `serve token create`.",
    )
    caller_ca: Path | None = setting(
        "CP_CAP_AUTOSCALE_CA_FILE",
        None,
        "For callers only: certificate (PEM) of the authority that signed the server's, at that address. Default: the "
        "authorities that this machine trusts.",
    )
    caller_login: Path | None = setting(
        "CP_CAP_AUTOSCALE_LOGIN", None, "For callers only: file whose first line is USER:PASSWORD for that address."
    )
    munge: Path | None = setting(
        "CP_CAP_AUTOSCALE_MUNGE",
        None,
        "Socket of MUNGE's daemon (/run/munge/munge.socket.2). `serve`: users of submit hosts log in by MUNGE, as "
        "readers, and Grid Engine's managers may act. For commands that ask at that address: it proves the user. "
        "Default: no login by MUNGE.",
    )
    http: str | None = setting(
        "CP_CAP_AUTOSCALE_HTTP",
        None,
        "Address and port at which `sge-autoscaler serve` serves CycleCloud's REST API, 127.0.0.1:8651 for example. A "
        "port alone: on the loopback address. Default: it is not served.",
    )
    http_plain: bool = setting(
        "CP_CAP_AUTOSCALE_HTTP_PLAIN",
        False,
        "Serve it without TLS also at an address that other machines can reach. Passwords and tokens can then be read "
        "on the network. If false, such an address needs CP_CAP_AUTOSCALE_HTTP_CERT. For callers: call it there.",
    )
    http_proxies: Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(_list)] = setting(
        "CP_CAP_AUTOSCALE_HTTP_PROXIES",
        (),
        "Addresses or networks of proxies, with commas, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. "
        "Default: none; every call counts as one of the address that it came from.",
    )
    http_user_header: str | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_USER_HEADER",
        None,
        "Name of the header in which the proxies of CP_CAP_AUTOSCALE_HTTP_PROXIES name the user whom they have logged "
        "in, for the page: `X-Forwarded-User`, for example. The proxy must remove it from what clients send. Users of "
        "the password file have their role, others may read. Default: users log in at the page.",
    )
    http_hosts: Names = setting(
        "CP_CAP_AUTOSCALE_HTTP_HOSTS",
        (),
        "Further host names that callers may give (`Host`), with commas: an alias, or a proxy's own name. This "
        "machine's names and all addresses are always accepted; a call for any other name is refused.",
    )
    http_passwords: Path | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_PASSWORDS",
        None,
        "File of the users who may call it, with hashed passwords; `sge-autoscaler serve passwd USER` writes it. "
        "Default: `http-passwords` in the work directory.",
    )
    http_certificate: Path | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_CERT",
        None,
        "TLS certificate of the REST API, a PEM file. With certificate and key it accepts TLS only.",
    )
    http_key: Path | None = setting("CP_CAP_AUTOSCALE_HTTP_KEY", None, "Key of this certificate, a PEM file.")
    http_cluster: str | None = setting(
        "CP_CAP_AUTOSCALE_HTTP_CLUSTER", None, "Name of the cluster in the REST API. Default: the cell's name."
    )
    dry_run: bool = setting("CP_CAP_AUTOSCALE_DRY_RUN", False, "If true, `run` decides and logs, but changes nothing.")
    dry_init: bool = without_effect(
        "CP_CAP_AUTOSCALE_DRY_INIT",
        False,
        "only a process that Cloud Pipeline starts reads it: it checks the settings of its queue then, and ends",
    )
    engine: Annotated[Literal["ours", "platform"] | None, BeforeValidator(_engine)] = without_effect(
        "CP_CAP_AUTOSCALE_ENGINE",
        None,
        "only the script reads it that Cloud Pipeline starts for a queue, once `platform install` has put ours there: "
        "`platform` starts the platform's own autoscaler, `ours` never falls back to that",
    )
    cloud_provider: str | None = of_platform("CP_CAP_AUTOSCALE_CLOUD_PROVIDER", None, also="CLOUD_PROVIDER")
    cloud_region_id: str | None = of_platform("CP_CAP_AUTOSCALE_CLOUD_REGION_ID", None, also="CLOUD_REGION_ID")
    static_instance_type: str | None = without_effect(
        "CP_CAP_AUTOSCALE_STATIC_INSTANCE_TYPE",
        None,
        "the autoscaler reads persistent workers from Grid Engine, whatever their type",
    )
    owner_parameter_name: str | None = of_platform("CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME", None)
    active_timeout: Seconds = of_platform(
        "CP_CAP_AUTOSCALE_ACTIVE_TIMEOUT",
        30.0,
        explanation="How long after its last job a run keeps the tag `SGE_IN_USE`.",
        unit="s",
    )
    invalid_timeout: Seconds = without_effect(
        "CP_CAP_AUTOSCALE_INVALID_TIMEOUT",
        3600.0,
        "CP_CAP_AUTOSCALE_SILENCE_TIMEOUT sets when the autoscaler terminates a silent worker",
        unit="s",
    )
    task: str | None = of_platform("CP_CAP_AUTOSCALE_TASK", None)
    event_ttl: Seconds = without_effect(
        "CP_CAP_AUTOSCALE_EVENT_TTL",
        10800.0,
        "the autoscaler remembers failures for CP_CAP_AUTOSCALE_INSTANCE_UNAVAILABILITY_DELAY",
        unit="s",
    )
    custom_requirements: bool = without_effect(
        "CP_CAP_AUTOSCALE_CUSTOM_REQUIREMENTS", True, "consumable complexes always count"
    )
    custom_requirements_purge: bool = without_effect(
        "CP_CAP_AUTOSCALE_CUSTOM_REQUIREMENTS_PURGE",
        False,
        "the autoscaler takes no request out of a job: if no worker has what the job requests, the job waits "
        "and `explain JOB` says so",
    )
    node_mem_reservations: bool = of_platform(
        "CP_CAP_AUTOSCALE_NODE_MEM_RESERVATIONS",
        False,
        explanation="Whether a worker offers its type's memory without what the platform keeps for Kubernetes and the "
        "system, by the platform's preferences `cluster.node.*.mem.*`.",
    )
    dns_hosts: bool = of_platform(
        "CP_CAP_AUTOSCALE_DNS_HOSTS",
        False,
        explanation="Whether the platform's DNS knows workers by name. The autoscaler then writes no names of workers "
        "into a hosts file.",
    )
    owner: str | None = without_effect(
        "CP_CAP_AUTOSCALE_OWNER",
        None,
        "the owner of workers is the master run's OWNER; CP_CAP_AUTOSCALE_OWNER_PARAMETER_NAME names the parameter",
    )
    grid_engine: Annotated[str, AfterValidator(_grid_engine)] = setting(
        "CP_CAP_AUTOSCALE_GRID_ENGINE",
        "SGE",
        "Name of the scheduler in Cloud Pipeline. Any other value than SGE is an error.",
    )
    disable_default_queue: bool = setting(
        "CP_CAP_SGE_DISABLE_DEFAULT_QUEUE",
        False,
        "Serve only the queues that have a suffix. With provider cloud_pipeline they still inherit what has none.",
    )
    extra_pe_path: Path | None = without_effect(
        "CP_CAP_SGE_EXTRA_PE_PATH",
        None,
        "`init` makes no further parallel environments: add them by `qconf -Ap FILE` and the queue's "
        "`pe_list`; the autoscaler uses all that Grid Engine has",
    )
    reporting_params: str | None = without_effect(
        "CP_CAP_SGE_REPORTING_PARAMS",
        None,
        "the cell's configuration has it (`qconf -mconf`), and `init` does not change that",
    )
    scheduler_default_queue: str | None = without_effect(
        "CP_CAP_SGE_SCHEDULER_DEFAULT_QUEUE",
        None,
        "CP_CAP_SGE_QUEUE_DEFAULT selects the queues that serve jobs without a queue; a `-q` in the cell's "
        "sge_request is part of each job's request",
    )
    gpu_rsmap_devices: str | None = without_effect(
        "CP_CAP_SGE_GPU_RSMAP_DEVICES",
        None,
        "the autoscaler counts GPUs and assigns no devices: a prolog of the queue or image does that",
    )
    gpu_exclusive_mode: str | None = without_effect(
        "CP_CAP_SGE_GPU_EXCLUSIVE_MODE", None, "a worker's image sets the compute mode of GPUs"
    )
    gpu_locks: str | None = without_effect(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_LOCKS_GPU",
        None,
        "that prolog keeps its locks there; the autoscaler does not read them",
    )
    exclusive_enabled: bool | None = without_effect(
        "CP_CAP_GE_CONSUMABLE_RESOURCE_EXCLUSIVE_ENABLED",
        None,
        "the autoscaler uses the complex CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_EXCLUSIVE if Grid Engine has it, "
        "and `init` makes none",
    )
    inheritable_parameter_names: str | None = of_platform("CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_NAMES", None)
    inheritable_parameter_prefixes: str = of_platform(
        "CP_CAP_AUTOSCALE_INHERITABLE_PARAMETER_PREFIXES", "CP_CAP_MOUNT_OPTIONS_"
    )
