"""Jobs whose machine is gone or about to go: which of them may start again, and what happens to the others.

A job may be rescheduled only when nothing of it can still run (rule 7). If a part of it is on living hosts, it is held,
rescheduled, and released when Grid Engine has had the time to end that part. Decision 17 has figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property

from autoscaler.core.actions import Hold, Kill, Release, Reschedule
from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, JobDetail, Queue
from autoscaler.core.model.memory import HeldJob, Memory
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import LostJobs

REPORTS_TO_WAIT = 2
"""Load reports of a living host after which its part of a rescheduled job has ended: the first one shows Grid Engine
that the part runs, and the answer ends it.
"""
MARGIN = 75.0
"""Further seconds for the end itself: a job with `-notify` is warned a minute before it is killed."""

COMES_BACK = 3600.0
"""Seconds for which a hold that we lifted may come back. Grid Engine 8.1.9 spools the hold of a rescheduled job, but
not that it was lifted: if qmaster restarts before the job starts, the job is held once more.
"""


class MayRestart(Enum):
    """Whether a job may be started again."""

    YES = auto()
    BY_FORCE = auto()
    """Its checkpointing environment allows it, but Grid Engine has to be forced."""
    NO = auto()
    UNKNOWN = auto()
    """Grid Engine has not been asked yet."""


def restart_of(job: HostJob, may_rerun: bool, detail: JobDetail | None) -> MayRestart:
    """`-r y` and `-r n` decide first, then the queue's `rerun`, then checkpointing."""
    if detail is None:
        return MayRestart.UNKNOWN
    if detail.rerun is not None:
        return MayRestart.YES if detail.rerun else MayRestart.NO
    if may_rerun:
        return MayRestart.YES
    # Grid Engine refuses even such a job: `running in queue none where jobs are not rerunable`.
    return MayRestart.BY_FORCE if detail.restarts else MayRestart.NO


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """The hosts of each running job, and what is known about it."""

    places: Mapping[str, frozenset[str]]
    """By job: all hosts that it occupies."""
    gone: frozenset[str]
    """Hosts whose machine is certainly gone."""
    queues: Mapping[str, Queue]
    host_groups: Mapping[str, tuple[str, ...]]
    details: Mapping[int, JobDetail]
    queried: frozenset[int]
    """Jobs that an earlier pass asked about: if one has no detail now, Grid Engine has none."""
    held_back: Mapping[str, HeldJob]

    def restart(self, job: HostJob, queue: str) -> MayRestart:
        found = restart_of(job, self._may_rerun(job, self.queues.get(queue)), self.details.get(job.number))
        return MayRestart.YES if found is MayRestart.UNKNOWN and job.number in self.queried else found

    def _may_rerun(self, job: HostJob, queue: Queue | None) -> bool:
        """The queue's `rerun` on the hosts of the job; if they differ, TRUE: Grid Engine refuses the others."""
        if queue is None:
            return False
        return any(self._rerun_on(host, queue) for host in self.places.get(job.name, ("",)))

    def _rerun_on(self, host: str, queue: Queue) -> bool:
        own = queue.rerun_by_host.get(host)
        if own is not None:
            return own
        groups = (name for name in queue.rerun_by_host if host in self.host_groups.get(name, ()))
        group = next(groups, None)
        return queue.rerun if group is None else queue.rerun_by_host[group]

    def alive(self, name: str) -> tuple[str, ...]:
        """Hosts on which a job may still run."""
        return tuple(sorted(self.places.get(name, frozenset()) - self.gone))


class _Places(Mapping[str, frozenset[str]]):
    """Worked out when they are first looked at: mostly no job is lost."""

    def __init__(self, hosts: Sequence[ExecutionHost]) -> None:
        self._hosts = hosts

    @cached_property
    def _found(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for host in self._hosts:
            for job in host.jobs:
                found[job.name] = found.get(job.name, frozenset()) | {host.name}
        return found

    def __getitem__(self, job: str) -> frozenset[str]:
        return self._found[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def job_places(cluster: Cluster, memory: Memory, gone: frozenset[str], oldest: float) -> JobPlaces:
    """The places of all jobs. Details of this observation override remembered ones; details from before `oldest` do not
    count.
    """
    return JobPlaces(
        places=_Places(cluster.hosts),
        gone=gone,
        queues=cluster.queues,
        host_groups=cluster.host_groups,
        details={
            job: detail for job, detail in {**memory.details, **cluster.details}.items() if detail.read_at >= oldest
        },
        queried=frozenset(memory.lookups),
        held_back=memory.held_back,
    )


def jobs_on(host: ExecutionHost) -> list[tuple[HostJob, str]]:
    """Every job on a host once, with its queue."""
    found: dict[str, tuple[HostJob, str]] = {}
    for instance in host.instances:
        for job in instance.jobs:
            found.setdefault(job.name, (job, instance.queue))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class JobsStep:
    """The next action for the lost jobs of one host."""

    kind: type[Reschedule] | type[Hold] | type[Kill] | None
    """None: nothing is done, for `reason`."""
    jobs: tuple[str, ...]
    reason: Reason
    forced: bool = False


def next_for_jobs(
    lost: Sequence[tuple[HostJob, str]],
    where: JobPlaces,
    policy: LostJobs,
    tried: frozenset[str],
    refused: frozenset[str],
) -> JobsStep:
    """The next action for jobs that were lost with one host; one kind at a time, the most certain first.

    `tried`: jobs with a recent action. `refused`: jobs for which it failed too often.
    """
    groups: dict[Code, list[HostJob]] = {}
    for job, queue in lost:
        result = _what_to_do(job, where.restart(job, queue), where, policy, refused=job.name in refused)
        groups.setdefault(result, []).append(job)
    for code in _STEPS:
        jobs = [job for job in groups.get(code, ()) if job.name not in tried]
        if jobs:
            return _step(code, jobs, where)
    return _nothing(groups, where)


_STEPS = (
    Code.DELETED_BY_OWNER,
    Code.LOST_JOBS_RESCHEDULED,
    Code.LOST_JOBS_FORCED,
    Code.PARTLY_ALIVE,
    Code.LOST_JOBS_DELETED,
    Code.LOST_JOBS_ASKED,
)


def _what_to_do(job: HostJob, restart: MayRestart, where: JobPlaces, policy: LostJobs, *, refused: bool) -> Code:
    """The verdict on one lost job."""
    # `dr`, `dt`: somebody deleted it. On a host that is gone that takes `qdel -f`.
    if "d" in job.state:
        return Code.DELETED_BY_OWNER
    if restart is MayRestart.UNKNOWN:
        return Code.LOST_JOBS_ASKED
    may_restart = restart is not MayRestart.NO and not refused
    if not may_restart and policy is not LostJobs.FORCE:
        return Code.LOST_JOBS_DELETED if policy is LostJobs.DELETE else Code.LOST_JOBS_STAY
    # `qmod -rj` starts a job elsewhere at once, before its processes on living hosts end: it has to be held (`hr`).
    if where.alive(job.name) and not ("h" in job.state and job.name in where.held_back):
        return Code.PARTLY_ALIVE
    return Code.LOST_JOBS_RESCHEDULED if may_restart and restart is MayRestart.YES else Code.LOST_JOBS_FORCED


def _step(code: Code, jobs: Sequence[HostJob], where: JobPlaces) -> JobsStep:
    names = tuple(job.name for job in jobs)
    match code:
        case Code.LOST_JOBS_RESCHEDULED | Code.LOST_JOBS_FORCED:
            return JobsStep(Reschedule, names, because(code, jobs=names), forced=code is Code.LOST_JOBS_FORCED)
        case Code.PARTLY_ALIVE:
            hosts = tuple(sorted({host for job in jobs for host in where.alive(job.name)}))
            return JobsStep(Hold, names, because(code, jobs=names, hosts=hosts))
        case Code.LOST_JOBS_ASKED:
            return JobsStep(None, names, because(code, jobs=names))
        case _:
            return JobsStep(Kill, names, because(code, jobs=names))


def _nothing(groups: Mapping[Code, Sequence[HostJob]], where: JobPlaces) -> JobsStep:
    """Nothing is done now: the jobs may not start again, or an action is recent."""
    code = Code.LOST_JOBS_STAY if Code.LOST_JOBS_STAY in groups else next(iter(groups))
    reason = _step(code, groups[code], where).reason
    return JobsStep(None, (), reason)


# -- jobs that are held while they are rescheduled ----------------------------------------------------------------


def holding(
    before: Mapping[str, HeldJob], actions: Iterable[object], where: JobPlaces, now: float
) -> dict[str, HeldJob]:
    """The held jobs after these actions."""
    kept = dict(before)
    for action in actions:
        if isinstance(action, Hold):
            kept |= {job: HeldJob(where.alive(job), now) for job in action.jobs}
        elif isinstance(action, Reschedule):
            kept |= {job: replace(kept[job], rescheduled_at=now) for job in action.jobs if job in kept}
        elif isinstance(action, Release):
            kept |= {job: replace(kept[job], released_at=now) for job in action.jobs if job in kept}
    return kept


@dataclass(frozen=True, slots=True)
class Releases:
    """Which held jobs are released now, and which stay remembered."""

    action: Release | None
    held_back: Mapping[str, HeldJob]


def release_jobs(cluster: Cluster, memory: Memory, where: JobPlaces, retry_after: float, now: float) -> Releases:
    """Release jobs that were rescheduled long enough ago, once more if a lifted hold came back; forget jobs that run or
    are gone.
    """
    if not memory.held_back:
        return Releases(None, {})
    held = frozenset(
        str(job) for category in cluster.job_categories if "h" in category.ask.state for job in category.jobs
    )
    wait_s = REPORTS_TO_WAIT * cluster.load_report_time + MARGIN
    alive = {host.name: host.heard for host in cluster.hosts if host.name not in where.gone}
    kept: dict[str, HeldJob] = {}
    ready: list[str] = []
    for job, note in memory.held_back.items():
        is_held, runs = job.partition(".")[0] in held, job in where.places
        if is_held or _may_be_held_later(note, now, runs=runs):
            kept[job] = note
        if not is_held or runs or note.rescheduled_at is None:
            continue
        recently = note.released_at is not None and now - note.released_at < retry_after
        if not recently and _ended_everywhere(note, alive, waited=now - note.rescheduled_at >= wait_s):
            ready.append(job)
    if not ready:
        return Releases(None, kept)
    hosts = tuple(sorted({host for job in ready for host in memory.held_back[job].hosts}))
    return Releases(Release(tuple(ready), because(Code.ENDED_EVERYWHERE, hosts=hosts)), kept)


def _may_be_held_later(note: HeldJob, now: float, *, runs: bool) -> bool:
    """Whether a job that is not held now may be held later: it still runs, or its lifted hold comes back."""
    if note.released_at is None:
        return runs
    return not runs and now - note.released_at < COMES_BACK


def _ended_everywhere(note: HeldJob, alive: Mapping[str, bool], *, waited: bool) -> bool:
    """Whether the job's parts on living hosts have ended. `alive`: by name of these hosts, whether they report;
    `waited`: Grid Engine has had the time to end the parts.
    """
    hosts = [host for host in note.hosts if host in alive]
    return not hosts or (waited and all(alive[host] for host in hosts))
