"""What Grid Engine reports, in its own terms, as immutable values.

`sge` reads them, and only `demand` interprets them. Nothing here decides. Names are Grid Engine's (queue, PE, complex).
Units: memory in bytes, durations in seconds, times as Unix seconds (UTC). Host names are as Grid Engine prints them,
lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum
from types import MappingProxyType

from autoscaler.core.model.calendars import Calendar
from autoscaler.core.model.host_limits import HostLimit
from autoscaler.core.model.reasons import Reason

UNLIMITED_SLOTS = 9_999_999
"""How Grid Engine prints the open end of a PE range (`-pe mpi 4-`)."""


def short_name(host: str) -> str:
    """A host's name without its domain. Case does not count."""
    return host.partition(".")[0].lower()


class Consumable(StrEnum):
    """How a complex is used up (`qconf -sc`): not at all, by every slot, once by a job, or once on each host."""

    NO = "NO"
    PER_SLOT = "YES"
    PER_JOB = "JOB"
    PER_HOST = "HOST"


@dataclass(frozen=True, slots=True)
class Complex:
    """One line of `qconf -sc`."""

    name: str
    shortcut: str
    type: str
    """INT, DOUBLE, MEMORY, TIME, BOOL, STRING, CSTRING, RESTRING or HOST."""
    relop: str
    requestable: str
    consumable: Consumable
    default: str


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a queue, PE or host, by names of access lists and projects; all empty: everybody."""

    user_lists: tuple[str, ...] = ()
    xuser_lists: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    xprojects: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """The lists that are not empty, as `name=value`."""
        named = ((name, getattr(self, name)) for name in ACCESS_ATTRIBUTES)
        return tuple(f"{name}={' '.join(value)}" for name, value in named if value)


OPEN = Access()
"""The access of what everybody may use."""


ACCESS_ATTRIBUTES = ("user_lists", "xuser_lists", "projects", "xprojects")


@dataclass(frozen=True, slots=True)
class AccessList:
    """`qconf -su`: users, and primary groups as `@group`."""

    name: str
    entries: tuple[str, ...] = ()
    grants: bool = True
    """Whether it is an access list at all: the scheduler ignores a set whose type is DEPT alone."""


@dataclass(frozen=True, slots=True)
class ParallelEnvironment:
    """`qconf -sp`: how a job's slots may spread."""

    name: str
    slots: int
    allocation_rule: str
    """`$pe_slots`, `$fill_up`, `$round_robin` or a number: that many slots on every host."""
    user_lists: tuple[str, ...] = ()
    xuser_lists: tuple[str, ...] = ()

    @property
    def access(self) -> Access:
        return Access(self.user_lists, self.xuser_lists)


BATCH = "BATCH"
"""The type of queue that starts ordinary jobs."""


@dataclass(frozen=True, slots=True)
class Queue:
    """`qconf -sq`: a cluster queue with its own default and its overrides per host or host group."""

    name: str
    hostlist: tuple[str, ...]
    slots: int
    slots_by_host: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=n]` and `[@group=n]`."""
    pe_list: tuple[str, ...] = ()
    pe_list_by_host: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=pe pe]` and `[@group=pe]`, which hold there instead of `pe_list`."""
    rerun: bool = False
    rerun_by_host: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=TRUE]` and `[@group=TRUE]`."""
    complex_values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    complex_values_by_host: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    access: Access = OPEN
    access_by_host: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=list]` and `[@group=list]`: place → attribute → names that hold there instead."""
    limits: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """h_rt, s_rt, h_vmem, … that are not INFINITY: a job that asks for more never starts here."""
    limits_by_host: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=value]` and `[@group=value]`: place → limit → what holds there instead, INFINITY included."""
    calendar: str = ""
    """Name of the calendar that opens and closes it; '' for none."""
    calendar_by_host: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=name]` and `[@group=name]`."""
    subordinates: tuple[str, ...] = ()
    """Queues whose instances its own jobs suspend on the same host (`subordinate_list`)."""
    qtype: tuple[str, ...] = (BATCH, "INTERACTIVE")
    """Kinds of job that it starts besides parallel ones and those of its `ckpt_list`; may be empty."""
    qtype_by_host: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    ckpt_list: tuple[str, ...] = ()
    """Checkpointing environments whose jobs it starts."""
    ckpt_list_by_host: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=name name]` and `[@group=name]`, like those of `qtype`."""
    seq_no: int = 0
    """Its instances' place in the order in which the scheduler fills hosts, if that is by `seqno`; lower ones first."""
    seq_no_by_host: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides `[host=n]` and `[@group=n]`."""

    @property
    def restricted(self) -> tuple[str, ...]:
        """Non-empty user_lists, xuser_lists, projects or xprojects, as `name=value`, with their overrides."""
        overrides = (
            f"{name}=[{place}={' '.join(names) or 'NONE'}]"
            for place, values in sorted(self.access_by_host.items())
            for name, names in sorted(values.items())
        )
        return (*self.access.shown, *overrides)


@dataclass(frozen=True, slots=True)
class HostJob:
    """A job (or one array task of it) that occupies a queue instance, in whatever state."""

    number: int
    task: str
    """Array task id, or '' for a job that is no array."""
    state: str
    slots: int
    """Its share on this queue instance."""
    owner: str = ""
    started: float | None = None
    hard: tuple[tuple[str, str], ...] = ()
    pe: str = ""
    """The parallel environment that it was granted; '': none, or not known."""

    @property
    def name(self) -> str:
        """Its name as an argument of commands: `12`, or `12.3` for a task."""
        return f"{self.number}.{self.task}" if self.task else str(self.number)

    @property
    def on_its_way(self) -> bool:
        """Whether it is in transfer (`t`): its host has not taken it yet, and the next machine that answers under that
        name gets it.
        """
        return "t" in self.state


@dataclass(frozen=True, slots=True)
class QueueInstance:
    """A queue on one host. `states` are Grid Engine's letters; a job can start only if there are none."""

    queue: str
    host: str
    slots: int
    used: int
    reserved: int
    states: str = ""
    jobs: tuple[HostJob, ...] = ()
    in_flight: int = 0
    """Of `used`: slots of jobs that were dispatched after the jobs and before the hosts were read. These jobs still
    count as waiting.
    """
    domain: str = ""
    """Set by `queue_instances` if its configuration differs from that of its queue's instances on new workers: the
    queue domain of it and those like it (`main.q@@x`). '': the queue itself.
    """
    consumables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Set by `queue_instances`: the consumable `complex_values` of its queue here, used or not."""

    @property
    def pool(self) -> str:
        return self.domain or self.queue


@dataclass(frozen=True, slots=True)
class ExecutionHost:
    """One execution host with every queue instance on it."""

    name: str
    instances: tuple[QueueInstance, ...] = ()
    load: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`hl:` values that its execd reported; empty if it never did."""
    consumables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`hc:` values: what is left now of its consumable `complex_values`."""
    fixed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`hf:` values: properties that jobs do not use up."""
    heard: bool = True
    """Whether its execd reports: load values are there and no queue instance is in state `u`."""
    access: Access = OPEN
    """Read for persistent hosts only, and only if lists or projects are named elsewhere in the cell."""

    @property
    def jobs(self) -> tuple[HostJob, ...]:
        if len(self.instances) == 1:
            return self.instances[0].jobs
        return tuple([job for instance in self.instances for job in instance.jobs])

    @property
    def in_error(self) -> bool:
        """Whether a job start failed in a queue instance (`E`): no job enters there until somebody clears that."""
        if len(self.instances) == 1:
            return "E" in self.instances[0].states
        return any("E" in instance.states for instance in self.instances)

    @property
    def busy(self) -> bool:
        """Any job in any queue instance, in any state, or any reserved slot (rule 1)."""
        return any(instance.jobs or instance.used or instance.reserved for instance in self.instances)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What all jobs of one category share, as Grid Engine prints it: its key as the XML is read."""

    state: str
    """`qw`, `hqw`, `Rq`, `Eqw`, …"""
    slots_min: int = 1
    slots_max: int = 1
    pe: str | None = None
    """Requested PE name, perhaps with wildcards; None for a job without one."""
    hard: tuple[tuple[str, str], ...] = ()
    """Hard resource requests (name, value text), sorted by name."""
    queues: tuple[str, ...] = ()
    """Hard queue requests, perhaps with wildcards or `@host`."""
    master_queues: tuple[str, ...] = ()
    master_hard: tuple[tuple[str, str], ...] = ()
    """Requests for the master task alone (`-scope master -l`, Open Cluster Scheduler from 9.1 on)."""
    slave_hard: tuple[tuple[str, str], ...] = ()
    """Requests for all other tasks (`-scope slave -l`)."""
    owner: str = ""
    project: str | None = None
    """None: it has none, or the listing does not show it; if it matters, `access` fills it in from `qstat -j`."""
    group: str | None = None
    """Its primary group, from `qstat -j` if access lists name groups."""
    ckpt: str | None = None
    """Its checkpointing environment, from `qstat -j` if queues differ in their `ckpt_list`."""
    account: str | None = None
    """Its account (`-A`), from `qstat -j` if accounts tell owners apart."""
    dependent: bool = False
    """Whether it waits for predecessor jobs."""
    array: bool = False
    unscheduled: bool = False
    """Priority 0.00000: its start time is in the future (`-a`), or the scheduler has not seen it yet; only `qstat -j`
    shows which.
    """
    fault: Reason | None = None
    """The part of it that cannot be read: such a job does not count."""


@dataclass(frozen=True, slots=True)
class JobCategory:
    """All waiting jobs with the same request. `jobs` (by number), `tasks` and `submitted` are parallel."""

    ask: JobRequest
    jobs: tuple[int, ...]
    tasks: tuple[str, ...]
    """Task lists as printed (`5-19:2`, `1-3:1,7`), '' for a job that is no array. Never expanded."""
    submitted: tuple[float, ...]
    count: int
    """How many tasks wait (a job that is no array counts as one)."""
    undated: frozenset[int] = frozenset()
    """Jobs without a known submission time: `submitted` has the time when they were first seen."""


def names_of(job: int, tasks: str) -> list[str]:
    """A job with a list of tasks, as arguments of commands: `12`, `12.3`, `12.5-9:2`."""
    return [f"{job}.{some}" for some in tasks.split(",")] if tasks else [str(job)]


@dataclass(frozen=True, slots=True)
class JobDetail:
    """Facts of a waiting job that only `qstat -j` shows, remembered between passes."""

    job: int
    read_at: float
    start_after: float | None = None
    """`-a`: not before this time."""
    concurrency: int | None = None
    """`-tc`: how many tasks may run at once."""
    unscheduled: bool = False
    """Whether its priority was zero at that time: if that changes, it is looked up again."""
    rerun: bool | None = None
    """`-r y` or `-r n`; None: its queue decides."""
    restarts: bool = False
    """Its checkpointing environment starts it again when its host is lost (`when` with `r`)."""
    context: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    group: str | None = None
    """Its primary group, for access lists; None: neither this nor the next fields were read."""
    project: str = ""
    reservation: int | None = None
    """The advance reservation that it runs inside (`-ar`)."""
    ckpt: str | None = None
    """Its checkpointing environment, '' for none; None: this was not read."""
    immediate: bool = False
    """`-now y`: it starts at once or is given up."""
    account: str | None = None
    """`-A`; None: it was not read."""


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """One `limit` line of a resource quota set. A filter of None matches all; `each` lists filters in braces: the limit
    holds for each alone.
    """

    limits: Mapping[str, str]
    users: tuple[str, ...] | None = None
    projects: tuple[str, ...] | None = None
    pes: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None
    each: frozenset[str] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """`qconf -srqs`: of an enabled set the first matching rule holds."""

    name: str
    enabled: bool
    rules: tuple[QuotaRule, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One complete reading of Grid Engine."""

    hosts: tuple[ExecutionHost, ...]
    job_categories: tuple[JobCategory, ...]
    queues: Mapping[str, Queue]
    pes: Mapping[str, ParallelEnvironment]
    complexes: Mapping[str, Complex]
    host_groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Nested groups are resolved: every value has hosts only."""
    containing_groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By host group that is in others: all groups that it is in, the nearest first. Their hosts are theirs, too."""
    execution_hosts: frozenset[str] = frozenset()
    """`qconf -sel`: all execution hosts, reporting or not."""
    global_consumables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`hc:` values of the global host: what is left of licences and the like."""
    global_values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`complex_values` of the global host: what the whole cell has of them, used or not."""
    ckpts: tuple[str, ...] = ()
    """Checkpointing environments that jobs can ask for (`qconf -sckptl`)."""
    quotas: tuple[QuotaSet, ...] = ()
    access_lists: Mapping[str, AccessList] = field(default_factory=lambda: MappingProxyType({}))
    """The lists that a queue, PE, host or quota names, as far as they were read."""
    global_access: Access = OPEN
    """Access of the global host, which holds for every host."""
    details: Mapping[int, JobDetail] = field(default_factory=lambda: MappingProxyType({}))
    """Fresh answers of this pass's `qstat -j`; older ones are in memory."""
    schedule_interval: float = 15.0
    load_report_time: float = 40.0
    calendars: Mapping[str, Calendar] = field(default_factory=lambda: MappingProxyType({}))
    """The calendars that queues name, as far as they could be read."""
    zone: tzinfo = UTC
    """The qmaster's time zone: calendars hold in its local time."""
    max_user_jobs: int | None = None
    """`maxujobs`: how many jobs and tasks of one user may run at once. None: any number."""
    max_array_tasks: int | None = None
    """`max_aj_instances`: how many tasks of one array may run at once. None: any number."""
    max_reservation: int | None = None
    """For how many jobs (`-R y`) the scheduler reserves resources. None: not known."""
    priorities: bool = True
    """Whether `qstat` shows priorities of waiting jobs (`report_pjob_tickets`): without them all have 0.00000."""
    default_duration: float = float("inf")
    """How long a job without `h_rt` and `s_rt` is taken to run, where the scheduler plans ahead."""
    max_unheard: float = 300.0
    """Seconds of silence after which Grid Engine shows a host's queue instances as unknown (`u`)."""
    pools: Mapping[str, Queue] = field(default_factory=lambda: MappingProxyType({}))
    """Set by `queue_instances`: queues with the values of their instances, without overrides. A queue's name stands for
    its instances on new workers, a queue domain for others.
    """
    masters: frozenset[str] = frozenset()
    """Set by `queue_instances`: requests for the queue of the master task that its queue instances have amounts for."""
    host_limits: tuple[HostLimit, ...] = ()
    """Set by `host_quotas`: what quotas give to each host, as amounts of its queue instances and of itself."""
    configuration_read: bool = False
    """Whether queues and host groups were read: then one that is not among them does not exist."""
    context_allowed: bool = True
    """Whether the context of jobs can be changed (`qalter -ac`): a JSV may forbid it."""
    set_aside: tuple[Reason, ...] = ()
    """Parts of the reading that could not be understood, with the cause."""

    def places_of(self, host_group: str) -> tuple[str, ...]:
        """The host groups of a worker that joins this one. A queue may have values of its own for each of them."""
        return (host_group, *self.containing_groups.get(host_group, ()))
