"""What one pass leaves for the next: the little that neither Grid Engine nor the provider can tell again.

Written by `plan`, stored by the shell in one transaction with the journal before the plan's first action, read back by
the next observe. A lost memory is safe: nothing is removed before two new observations (rule 8). Times as Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.fleet import Assignment, BucketKey
from autoscaler.core.model.reasons import Reason


class Disabling(StrEnum):
    """Why we disabled a host. A host disabled without a mark of ours was disabled by a person (rule 4)."""

    ENROL = "enrol"
    IDLE = "idle"
    COMMAND = "command"
    STOP = "stop"
    BROKEN = "broken"
    SILENT = "silent"
    """Grid Engine hears nothing of it."""
    INTERRUPTED = "interrupted"
    """Its cloud gave notice."""
    ADVISED = "advised"
    """Its cloud advises to move away."""
    LOST = "lost"
    """Its machine is ending or gone without our doing."""
    SWAP = "swap"
    """It makes room for a stronger worker."""
    GROUP = "group"
    """Its group leaves as a whole: only a person enables it again."""
    AUTO_STOP = "auto_stop"
    """It asked to stop, and was told that it does: only a person enables it again."""


@dataclass(frozen=True, slots=True)
class WorkerNote:
    """What we remember of one worker between passes."""

    first_seen: float
    idle_since: float | None = None
    """Since when every observation showed it in service and empty."""
    disabled_at: float | None = None
    disabling: Disabling | None = None
    """Set together with `disabled_at`, before `qmod -d` is called."""
    seen_disabled: bool = False
    """Whether a later observation showed it disabled: only then is enabled again a person's doing."""
    retired_at: float | None = None
    """When Remove was planned: a machine that is no execution host after this is to be terminated, not enrolled."""
    enrolling_since: float | None = None
    """Since when it was to be made an execution host again and again, without ever being complete."""
    heard_at: float | None = None
    """When Grid Engine first heard its execd."""
    opened: bool = False
    """Whether an observation showed it enabled and heard, or with jobs: it may have run some."""
    host: str | None = None
    empty_since: float | None = None
    """Since when every observation showed it disabled by us and empty: rule 1's two observations, in time."""
    enabled_at: float | None = None
    """When Enable was last planned. The mark stays until an observation shows it enabled, so that a crash in between
    leaves no host of ours behind.
    """
    terminated_at: float | None = None
    """When Terminate was last planned."""
    missing_since: float | None = None
    """Since when the provider's listing has left it out: it may only lag."""
    bucket: BucketKey | None = None
    """Of a machine that its provider did not say is gone: with the next three, what it counts for against limits while
    no listing shows it.
    """
    silent_s: float | None = None
    """For so many seconds, as far as we looked, Grid Engine has heard other hosts but not this one; None: it is heard.
    """
    fenced_at: float | None = None
    """When its end was first planned although it was an execution host, perhaps with jobs: it was silent for too long.
    """
    gone: bool = False
    """Whether its provider confirmed its end."""
    left: bool = False
    """Whether an observation showed that it is no execution host any more: a host of its name is then another's."""
    only_ended: bool = False
    """Whether no observation ever showed its machine alive, as after a lost store: its name alone proves no host to be
    its.
    """
    on_their_way: tuple[str, ...] = ()
    """Jobs that its host had not taken yet when it was last looked at without a newer machine of its name: such a one
    may have got them.
    """
    in_doubt: tuple[str, ...] = ()
    """Jobs on its host that were on their way to an older machine of its name, which is gone: that one may have begun
    them, or this one got them.
    """
    moved: tuple[str, ...] = ()
    """Lost jobs of its that were last rescheduled or deleted."""
    moved_at: float | None = None
    moves: int = 0
    """How often the same ones were."""
    failed: bool = False
    """Whether it was counted as a failed launch: it ended before it joined."""
    quarantined: Reason | None = None
    """Why it was last quarantined."""
    trusted_at: float | None = None
    """When a person enabled it although it was quarantined: what was held against it before counts no more."""
    order_id: str | None = None
    group_id: str = ""
    vcpus: int = 0
    price_per_hour: float | None = None
    completed_at: float | None = None
    """When it was last to get what its own image had not given it as an execution host."""
    asked_at: float | None = None
    """When it, one of a group, last asked to stop and was idle: for its group that counts a while."""
    stop_undone: bool = False
    """A person enabled it while it asked to stop, or had been told that it stops: that it asked counts no more."""
    alarm_since: float | None = None
    """Since when every observation showed it in service, empty, and in alarm in its queue (`a`, `A`)."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A job that we hold while it is rescheduled, because a part of it may still run on a host that lives."""

    hosts: tuple[str, ...]
    """Those hosts."""
    at: float
    """When the hold was planned."""
    pushed_at: float | None = None
    """When it was rescheduled."""
    released_at: float | None = None
    """When the hold was last lifted."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A bucket that is left alone for a while after it failed."""

    bucket: BucketKey
    until: float
    failures: int
    kind: str
    message: str
    failed_at: float | None = None
    """When it last failed. None: an older version did not write it down."""


@dataclass(frozen=True, slots=True)
class CameUp:
    """A bucket whose machines came up."""

    bucket: BucketKey
    made_at: float
    """When the newest of these was made."""
    at: float
    """When Grid Engine last heard one of these for the first time."""


@dataclass(frozen=True, slots=True)
class SwapNote:
    """What a node array considers or carries out: workers that make room for a stronger one."""

    leaving: tuple[str, ...] = ()
    """Ids of those workers. Empty: none is considered."""
    hosts: tuple[str, ...] = ()
    """Their names, for reasons that outlive them."""
    type: str = ""
    """Instance type that is to come."""
    since: float | None = None
    """Since when every observation has found this change the best."""
    begun_at: float | None = None
    """When it was begun: its workers leave. None: only considered."""
    ended_at: float | None = None
    """When the last change was done or called off."""
    spared: tuple[str, ...] = ()
    """Workers that a person enabled while they made room: no swap touches them again."""


@dataclass(frozen=True, slots=True)
class UnsatisfiableNote:
    """A waiting job that nothing allowed could ever run, as far as is known."""

    fingerprint: str = ""
    """Of all that this rests on."""
    since: float | None = None
    """Since when every observation has found it so, with that fingerprint. None: the last observation did not."""
    asked_at: float | None = None
    """When Grid Engine was last to be asked, as long as it has not answered."""
    asked: int = 0
    """How often in a row, without an answer."""
    told: Reason | None = None
    """What was last left in the job's context."""
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
class LaunchTrial:
    """A launch for waiting jobs, for as long as it is open whether it helps any of them."""

    node_array: str
    """That of the settings."""
    ordered_at: float
    assignment: Assignment = ()
    """The categories that it was for, of many those with the most tasks."""
    workers: int = 0
    """How many its provider acknowledged."""
    boot_s: float | None = None
    """From the order until Grid Engine first heard one of them."""
    joined_at: float | None = None
    """When Grid Engine first heard the last of them."""
    joined_s: float = 0.0
    """For so many seconds since then we looked."""
    ran_at: float | None = None
    """Since when jobs have been seen to run on them, if none of those failed to start in the end."""
    started: tuple[str, ...] = ()
    """The categories that those jobs may be of."""
    seen: tuple[str, ...] = ()
    """What their hosts showed that keeps jobs from starting."""
    excused: bool = False
    """Whether a person or a cloud took one of them away: then it proves nothing that none ran a job."""
    closed: bool = False
    """Whether it is known how it ended; kept while its order is listed."""


@dataclass(frozen=True, slots=True)
class UnhelpedCategory:
    """A job category for which the last launches of a node array helped none of its jobs."""

    failures: int
    """So many launches in a row."""
    failed_at: float
    wait_s: float
    """So long after `failed_at` nothing is launched for it."""
    owners: tuple[str, ...] = ()
    """Two of the owners of its jobs at most: whether there are several is what matters."""
    seen: tuple[str, ...] = ()

    @property
    def until(self) -> float:
        return self.failed_at + self.wait_s


@dataclass(frozen=True, slots=True)
class ProtectedArray:
    """What a node array's launches for jobs came to of late."""

    categories: Mapping[str, UnhelpedCategory] = field(default_factory=lambda: MappingProxyType({}))
    """By key."""
    failures: int = 0
    """Launches in a row that helped nobody."""
    helped_at: float | None = None
    """When one was last seen to have helped."""
    stopped: Reason | None = None
    """Why it launches nothing for jobs until a person resumes."""
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something counted by caps and brakes, forgotten after the longest window."""

    at: float
    count: int
    node_array: str
    family: str = ""
    """The array of the settings that it stems from, where it is not one itself: whose launches an hour it counts to."""
    launched: int | None = None
    """Of a launch, whose `count` is the most that it may bring: the workers given, once its orders are answered."""


@dataclass(frozen=True, slots=True)
class ReportedType:
    """What empty workers of an instance type showed that differs from what the type promises."""

    type: str
    node_array: str
    values: tuple[tuple[str, str | None], ...]
    """By complex; None: it has no such value."""
    at: float
    """When Grid Engine first heard the newest of these workers."""


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """Jobs in whose context we left why they wait."""

    reason: Reason
    """With names alone, so that it seldom changes."""
    at: float
    """When it was written, or taken away (`WAITS_NO_MORE`)."""
    jobs: tuple[tuple[int, int], ...]
    """First and last number of each run of them."""
    retry_at: float | None = None
    """Set: it is known not to have been written, and is tried again from then on."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All of it; the empty one is what a new cell starts with."""

    passes: int = 0
    workers: Mapping[str, WorkerNote] = field(default_factory=lambda: MappingProxyType({}))
    """By worker id."""
    able_since: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """Jobs that were once unable to run (held, dependent, future): since when they could. Jobs of which no submission
    time is told: since they were first seen. Others: since submission.
    """
    unable: tuple[int, ...] = ()
    """Job numbers seen unable to run at the last observation, sorted."""
    details: Mapping[int, JobDetail] = field(default_factory=lambda: MappingProxyType({}))
    swaps: Mapping[str, SwapNote] = field(default_factory=lambda: MappingProxyType({}))
    """By node array."""
    rests: tuple[Backoff, ...] = ()
    came_up: tuple[CameUp, ...] = ()
    """The last success of each bucket: what failed before it counts no more."""
    reported: tuple[ReportedType, ...] = ()
    stopped: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Node array → the permanent error that stopped its launches."""
    failures_seen: float = 0.0
    """Launch failures up to this time are already counted in `rests`."""
    launches: tuple[Event, ...] = ()
    removals: tuple[Event, ...] = ()
    kills: tuple[Event, ...] = ()
    """Jobs deleted or held because nothing could ever run them."""
    suspicions: Mapping[int, UnsatisfiableNote] = field(default_factory=lambda: MappingProxyType({}))
    """By job."""
    quarantines: tuple[Event, ...] = ()
    """Workers disabled because they seem broken."""
    quiet_since: float | None = None
    """Since when no counted job waited and none ran in any autoscaled queue (the seed's scale-down rule)."""
    hearing: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    """By name of every host ever heard: None while it reports, else since when it is silent."""
    looked_at: float | None = None
    """The time of the last observation."""
    asked: tuple[int, ...] = ()
    """Jobs that run on lost or leaving workers, of which `qstat -j` is to tell whether they may start again."""
    held_back: Mapping[str, HeldBack] = field(default_factory=lambda: MappingProxyType({}))
    """By job (`12`, `12.3`)."""
    trials: Mapping[str, LaunchTrial] = field(default_factory=lambda: MappingProxyType({}))
    """By order id."""
    closed_since: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """By id of a node operation: since when every observation has shown its machine disabled by a person and empty."""
    unhelpful: tuple[Event, ...] = ()
    """Workers of launches that helped none of the jobs that they were for."""
    protected: Mapping[str, ProtectedArray] = field(default_factory=lambda: MappingProxyType({}))
    """By node array of the settings."""
    waiting_notes: tuple[WaitingNote, ...] = ()
    waiting_told_at: float | None = None
    """When a context was last to be changed for these."""
    brake: Reason | None = None
    """Set: too much happened in too short a time; nothing is launched or removed until a person resumes."""
