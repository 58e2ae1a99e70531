"""What one pass leaves for the next: the little that neither Grid Engine nor the provider can report again.

`plan` makes it, the shell stores it in one transaction with the journal before the plan's first action, and the next
observation reads it back. A lost memory is safe: nothing is removed before two new observations (rule 8). Times as Unix
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.evidence import KeptBy
from autoscaler.core.model.fleet import Assignment, BucketKey, FailureKind, OrderedFor
from autoscaler.core.model.reasons import Reason


class Disabling(StrEnum):
    """Why we disabled a host. A host disabled without a mark of ours was disabled by a person (rule 4)."""

    ENROL = "enrol"
    IDLE = "idle"
    COMMAND = "command"
    STOP = "stop"
    BROKEN = "broken"
    SILENT = "silent"
    """qmaster has no load report from it."""
    INTERRUPTED = "interrupted"
    """Its cloud gave notice."""
    ADVISED = "advised"
    """Its cloud advises to move away."""
    LOST = "lost"
    """Its machine is ending or gone without our doing."""
    SWAP = "swap"
    """A stronger worker replaces it."""
    GROUP = "group"
    """Its group leaves as a whole: only a person enables it again."""
    AUTO_STOP = "auto_stop"
    """It asked to stop, and got the answer that it stops: only a person enables it again."""


@dataclass(frozen=True, slots=True)
class WorkerNote:
    """The memory of one worker between passes."""

    first_seen: float
    idle_since: float | None = None
    """Since when every observation showed it in service and empty."""
    disabled_at: float | None = None
    disabling: Disabling | None = None
    """Set together with `disabled_at`, before `qmod -d` runs."""
    left_disabled: tuple[str, ...] = ()
    """Queues whose instances there a person had disabled before us: enabling the host leaves these out (rule 4)."""
    seen_disabled: bool = False
    """Whether a later observation showed it disabled. Only then does an enabled host mean that a person enabled it."""
    disabled_queues: tuple[str, ...] = ()
    """Queues whose instances there an observation has shown disabled since the mark was set. If one of them is enabled,
    we or a person enabled it; any other queue is new there.
    """
    tried: Disabling | None = None
    """Why we wanted to disable it, if no observation after that showed it disabled: it is not. If it soon is after all,
    that is this mark, and no person's doing.
    """
    tried_at: float | None = None
    retired_at: float | None = None
    """When Remove was planned: a machine that is no execution host after this is to be terminated, not enrolled."""
    enrolling_since: float | None = None
    """Since when its enrolment was tried again and again without ever being complete."""
    joined_at: float | None = None
    """When qmaster had its first load report."""
    opened: bool = False
    """Whether an observation showed it enabled and reporting, or with jobs: it may have run some."""
    host: str | None = None
    empty_since: float | None = None
    """Since when every observation showed it disabled by us and empty: rule 1's two observations, in time."""
    enabled_at: float | None = None
    """When Enable was last planned. The mark stays until an observation shows it enabled, so that no host of ours stays
    disabled after a crash in between.
    """
    terminated_at: float | None = None
    """When Terminate was last planned."""
    missing_since: float | None = None
    """Since when the provider's listing has left it out; the listing may only lag."""
    bucket: BucketKey | None = None
    """Its bucket, unless its provider said that it is gone. With `vcpus` and `price_per_hour` it counts against limits
    even if no listing shows it.
    """
    silent_s: float | None = None
    """Observed seconds for which qmaster had load reports of other hosts but not of this one; None: it reports."""
    unvouched_s: float = 0.0
    """Those of `silent_s` until the last observation in which no worker vouched for its network: they prove nothing."""
    fenced_at: float | None = None
    """When its end was first planned although it was an execution host, perhaps with jobs: it was fenced."""
    gone: bool = False
    """Whether its provider confirmed its end."""
    left: bool = False
    """Whether an observation showed that it is no execution host any more: a host of its name then belongs to another
    machine.
    """
    only_ended: bool = False
    """Whether no observation ever showed its machine alive, as after a lost store: then its name alone does not prove
    that a host is its own.
    """
    on_their_way: tuple[str, ...] = ()
    """Jobs in transfer to its host at the last observation without a newer machine of its name: such a machine may have
    got them.
    """
    uncertain_jobs: tuple[str, ...] = ()
    """Jobs on its host that were in transfer to an older machine of its name, which is gone: either machine may have
    begun them.
    """
    moved: tuple[str, ...] = ()
    """Its lost jobs that were last rescheduled or deleted."""
    moved_at: float | None = None
    moves: int = 0
    """How often in a row the same ones were."""
    failed: bool = False
    """Whether it was counted as a failed launch: it ended before it joined."""
    stopped: bool = False
    """Whether its machine was stopped from outside, and not started since."""
    quarantined: Reason | None = None
    """Why it was last quarantined."""
    trusted_at: float | None = None
    """When a person enabled it although it was quarantined: earlier failures no longer count."""
    order_id: str | None = None
    ordered_for: tuple[OrderedFor, ...] = ()
    """The owners of the jobs that it was ordered for."""
    group_id: str = ""
    vcpus: int = 0
    price_per_hour: float | None = None
    completed_at: float | None = None
    """When it was last to get the values that its own image had not given its execution host."""
    asked_to_stop_at: float | None = None
    """For a worker of a group: when it last asked to stop and was idle. For its group that counts for a while."""
    stop_undone: bool = False
    """Whether a person enabled it after it asked to stop: its request no longer counts."""
    alarm_since: float | None = None
    """Since when every observation showed it in service, empty, and in alarm in its queue (`a`, `A`)."""
    made_at: float | None = None
    """When its machine was made, by our own clock; that of its cloud may differ."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that we hold while it is rescheduled, because a part of it may still run on a host that lives."""

    hosts: tuple[str, ...]
    """Hosts that live and may still run a part of it."""
    at: float
    """When the hold was planned."""
    rescheduled_at: float | None = None
    """When it was rescheduled."""
    released_at: float | None = None
    """When the hold was last lifted."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A bucket that is not launched for a while after it failed."""

    bucket: BucketKey
    until: float
    failures: int
    kind: FailureKind
    message: str
    failed_at: float | None = None
    """When it last failed. None: not known."""


@dataclass(frozen=True, slots=True)
class CameUp:
    """A bucket whose machines came up."""

    bucket: BucketKey
    made_at: float
    """When the newest of these machines was made."""
    at: float
    """The last time at which one of these had its first load report."""


@dataclass(frozen=True, slots=True)
class SwapNote:
    """The swap that a node array considers or carries out."""

    leaving: tuple[str, ...] = ()
    """Ids of the workers that are replaced. Empty: no swap is considered."""
    hosts: tuple[str, ...] = ()
    """Their names, for reasons that are shown after their end."""
    type: str = ""
    """Instance type of the stronger worker."""
    since: float | None = None
    """Since when every observation has found this swap the best."""
    begun_at: float | None = None
    """When it began: its workers leave. None: it is only considered."""
    ended_at: float | None = None
    """When the last swap was done or cancelled."""
    spared: tuple[str, ...] = ()
    """Workers that a person enabled during their swap: no swap touches them again."""


@dataclass(frozen=True, slots=True)
class UnsatisfiableNote:
    """A waiting job that may be unsatisfiable, and what was done about it."""

    fingerprint: str = ""
    """Hash of all that this verdict rests on."""
    since: float | None = None
    """Since when every observation has found it so, with that fingerprint. None: the last observation did not."""
    asked_at: float | None = None
    """When a pass last planned to ask Grid Engine, as long as it has not answered."""
    asked: int = 0
    """How often in a row it was asked without an answer."""
    annotated: Reason | None = None
    """The reason that was last written into the job's context."""
    write_at: float | None = None
    """When that is tried again, as its command failed; None: it did not."""
    deleted_at: float | None = None
    """When Kill was last planned."""
    held_at: float | None = None
    """When Hold was last planned: a hold on it is then ours."""
    held: bool = False
    """An observation since then showed it held."""
    released_at: float | None = None
    """When Release was last planned."""
    spared: bool = False
    """A person released it after we held it: it is not held again."""


@dataclass(frozen=True, slots=True)
class UnstartedJob:
    """A job that fits on free hosts and has not started, the first of its category."""

    job: int
    tasks: str
    """Its waiting tasks; '' for a job that is no array. If some start, the note begins anew."""
    since: float
    """Since when every observation has found it to fit."""
    ask_at: float
    """From when on the scheduler is asked why it does not start."""
    asked_at: float | None = None
    kept_by: KeptBy | None = None
    """The last answer; None: there is none yet."""
    said: str = ""
    hosts: tuple[str, ...] = ()
    """Hosts on which it seems to fit and the scheduler does not start it: placement leaves them out."""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LaunchTrial:
    """A launch for waiting jobs, until it is known whether it helps any of them."""

    node_array: str
    """The array of the settings."""
    ordered_at: float
    assignment: Assignment = ()
    """The categories that it was for; of many those with the most tasks."""
    workers: int = 0
    """How many workers its provider acknowledged."""
    boot_s: float | None = None
    """Seconds from the order to the first load report of one of them."""
    joined_at: float | None = None
    """When the last of them had its first load report."""
    joined_s: float = 0.0
    """Observed seconds since then."""
    ran_at: float | None = None
    """Since when jobs have been seen to run on them, unless these failed to start in the end."""
    started: tuple[str, ...] = ()
    """Categories that these jobs may be of."""
    seen: tuple[str, ...] = ()
    """States of their hosts that keep jobs from starting."""
    excused: bool = False
    """Whether a person or a cloud took one of them away: then it proves nothing that no job ran."""
    closed: bool = False
    """Whether its result is known; it is kept as long as its order is listed."""
    ordered_for: tuple[OrderedFor, ...] = ()
    failed_at_start: bool = False
    """Whether a job failed at its start on one of them."""


@dataclass(frozen=True, slots=True)
class UnhelpedCategory:
    """A job category for which the last launches of a node array helped none of its jobs."""

    failures: int
    """Number of these launches in a row."""
    failed_at: float
    wait_s: float
    """For this long after `failed_at` nothing is launched for it."""
    owners: tuple[str, ...] = ()
    """Two of the owners of its jobs at most: it only matters whether there are several."""
    seen: tuple[str, ...] = ()
    at_start: bool = False
    """Whether its jobs failed at their start, so perhaps by their own fault, and no longer wait. It then holds for jobs
    of its owners only.
    """

    @property
    def until(self) -> float:
        return self.failed_at + self.wait_s


@dataclass(frozen=True, slots=True)
class ProtectedArray:
    """The recent results of a node array's launches for jobs."""

    categories: Mapping[str, UnhelpedCategory] = field(default_factory=lambda: MappingProxyType({}))
    """By key."""
    failures: int = 0
    """Launches in a row that helped no job."""
    helped_at: float | None = None
    """When a launch was last seen to have helped."""
    stopped: Reason | None = None
    """Why it launches nothing for jobs until a person resumes."""
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class OwnerSeen:
    """An owner of jobs."""

    owner: str
    at: float
    """The begin of the day on which jobs of theirs were last seen."""
    asked_at: float | None = None
    """When a pass last planned to ask Grid Engine about a job of theirs that may be unsatisfiable."""
    answered: bool = True
    """Whether an answer has been seen since then."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that caps and the circuit breaker count; forgotten after the longest window."""

    at: float
    count: int
    node_array: str
    family: str = ""
    """The array of the settings that it stems from, if any: it counts for that one's launches an hour."""
    owner: str = ""
    """The owner whose jobs caused it, or for whom most of the launch was; '': nobody."""
    launched: int | None = None
    """For a launch, once its orders are answered: the workers that it brought. `count`: the most it may bring."""


@dataclass(frozen=True, slots=True)
class ReportedType:
    """Values that empty workers of an instance type reported and that differ from those that the type promises."""

    type: str
    node_array: str
    values: tuple[tuple[str, str | None], ...]
    """By complex; None: they reported none."""
    at: float
    """When the newest of these workers had its first load report."""


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """Jobs in whose context the autoscaler wrote why they wait."""

    reason: Reason
    """Its facts are names only, so that it seldom changes."""
    at: float
    """When it was written, or removed (`WAITS_NO_MORE`)."""
    jobs: tuple[tuple[int, int], ...]
    """First and last number of each range of them."""
    retry_at: float | None = None
    """If set, it could not be written, and is tried again from then on."""


@dataclass(frozen=True, slots=True)
class HostOrder:
    """The sequence numbers of a queue's workers, where they follow estimates."""

    written_at: float = float("-inf")
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By worker id, what was written last. Another number is a person's."""
    before: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What was written before, which still stands if the last change failed."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The whole memory; a new cell starts with the empty one."""

    passes: int = 0
    left_hosts: tuple[str, ...] = ()
    """Execution hosts that do not report and have the names of workers that have left: Grid Engine was restored to a
    time when it had them, or their names were given to others.
    """
    workers: Mapping[str, WorkerNote] = field(default_factory=lambda: MappingProxyType({}))
    """By worker id."""
    able_since: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """Since when jobs could run that once could not (held, dependent, future), and since when jobs without a known
    submission time were first seen. All other jobs could run since submission.
    """
    unable: tuple[int, ...] = ()
    """Job numbers seen unable to run at the last observation, sorted."""
    details: Mapping[int, JobDetail] = field(default_factory=lambda: MappingProxyType({}))
    swaps: Mapping[str, SwapNote] = field(default_factory=lambda: MappingProxyType({}))
    """By node array."""
    backoffs: tuple[Backoff, ...] = ()
    came_up: tuple[CameUp, ...] = ()
    """The last success of each bucket: earlier failures no longer count."""
    reported: tuple[ReportedType, ...] = ()
    spot: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    """By type and zone (`m5.large us-east-1a`): hours of ended spot machines, and how many of them their cloud took."""
    stopped: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Node array → the permanent error that stopped its launches."""
    failures_seen: float = 0.0
    """Launch failures up to this time are counted in `backoffs` already."""
    launches: tuple[Event, ...] = ()
    removals: tuple[Event, ...] = ()
    kills: tuple[Event, ...] = ()
    """Jobs deleted or held as unsatisfiable."""
    unsatisfiable_jobs: Mapping[int, UnsatisfiableNote] = field(default_factory=lambda: MappingProxyType({}))
    """By job."""
    quarantines: tuple[Event, ...] = ()
    """Workers disabled because they seem broken."""
    queues_empty_since: float | None = None
    """Since when no counted job waited and none ran in any autoscaled queue (Cloud Pipeline's rule)."""
    silent_since: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    """By name of every host that ever reported: None if it reports, else since when it is silent."""
    observed_at: float | None = None
    """The time of the last observation."""
    annotated_at: float | None = None
    """When a pass last planned texts for unsatisfiable jobs."""
    lost_at: float | None = None
    """When this memory began although workers of an earlier one were there; None: it did not, or that is long ago."""
    lookups: tuple[int, ...] = ()
    """Jobs on lost or leaving workers that `qstat -j` is asked about: whether they may start again."""
    held_back: Mapping[str, HeldJob] = field(default_factory=lambda: MappingProxyType({}))
    """By job (`12`, `12.3`)."""
    trials: Mapping[str, LaunchTrial] = field(default_factory=lambda: MappingProxyType({}))
    """By order id."""
    closed_since: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """By id of a node operation: since when every observation has shown its machine disabled by a person and empty."""
    unhelpful: tuple[Event, ...] = ()
    """Workers of launches that helped no job that they were for."""
    protected: Mapping[str, ProtectedArray] = field(default_factory=lambda: MappingProxyType({}))
    """By node array of the settings."""
    unstarted: Mapping[int, UnstartedJob] = field(default_factory=lambda: MappingProxyType({}))
    """By job."""
    waiting_notes: tuple[WaitingNote, ...] = ()
    waiting_written_at: float | None = None
    """When a pass last planned changes of contexts for these."""
    host_orders: Mapping[str, HostOrder] = field(default_factory=lambda: MappingProxyType({}))
    """By queue."""
    owners: tuple[OwnerSeen, ...] = ()
    """Those whose jobs were seen last, few: it matters if there are several, and how many may agree."""
    kills_stopped: Reason | None = None
    """If set, no job is deleted or held until a person resumes: that hit jobs of too many owners."""
    circuit_breaker: Reason | None = None
    """If set, the circuit breaker is on: nothing is launched or removed until a person resumes."""
