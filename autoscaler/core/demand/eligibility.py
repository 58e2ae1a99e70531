"""Which waiting jobs could start if a host were there, by job states, holds, start times and task limits.

A category stays whole unless `qstat -j` showed differences between its jobs; then it is split into parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from autoscaler.core.demand.detail_needs import NOTHING, Needs
from autoscaler.core.model.cluster import ExecutionHost, JobCategory, JobDetail, JobRequest
from autoscaler.core.model.complexes import split_tasks, task_count
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import in_turn
from autoscaler.core.policy import Policy
from autoscaler.core.readable.remembered import PerCategory

# A job that `qmod -rj` made pending again shows `Rq`, not `qw`.
MORE = 5
"""By how much more jobs are looked up in a pass where `qstat` shows no priorities."""
WAITING_STATES = frozenset({"qw", "Rq", "Rqw"})
_UNABLE = frozenset({Code.HELD, Code.DEPENDENT, Code.FUTURE, Code.IN_ERROR, Code.REQUESTS_UNREAD})
"""A job that had one of these begins to wait anew when it becomes able to run."""


@dataclass(frozen=True, slots=True)
class CategoryPart:
    """Jobs of one category with the same verdict. `jobs` and `tasks` are parallel; `count` is in tasks."""

    ask: JobRequest
    jobs: tuple[int, ...]
    tasks: tuple[str, ...]
    count: int
    oldest: float
    """Since when the longest waiting job of them could run."""
    reason: Reason | None = None
    """Why they do not count; None: they count so far."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """All waiting jobs in parts, and what to remember of single jobs."""

    parts: tuple[CategoryPart, ...]
    able_since: Mapping[int, float]
    unable: tuple[int, ...]
    depends_on_time: bool
    """Whether any of it depends on the present time."""


@dataclass(slots=True)
class _Gathered:
    jobs: list[int] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    count: int = 0
    oldest: float = float("inf")
    start: float = float("inf")


def judge(
    job_categories: tuple[JobCategory, ...],
    hosts: Sequence[ExecutionHost],
    memory: Memory,
    details: Mapping[int, JobDetail],
    now: float,
    max_array_tasks: int | None = None,
    *,
    priorities: bool = True,
) -> Eligibility:
    """Split the waiting jobs by what keeps them from running. `max_array_tasks`: how many tasks of one array may run at
    once. `priorities`: whether priority 0.00000 tells that a job is not scheduled yet; if not, jobs count before
    `qstat -j` was read.
    """
    ledger = _Ledger(hosts, memory, details, now, max_array_tasks)
    ledger.priorities = priorities
    whole = zip(job_categories, _WHOLE.each(job_categories, _as_whole), strict=True)
    ledger.ahead = submitted_ahead(job_categories, now)
    parts = tuple(part for category, all_of_it in whole for part in ledger.split(category, all_of_it))
    return Eligibility(parts, ledger.able_since, tuple(sorted(ledger.unable)), ledger.depends_on_time)


def submitted_ahead(job_categories: tuple[JobCategory, ...], now: float) -> bool:
    """Whether jobs were submitted later than now: Grid Engine's clock is ahead of ours, or one was set."""
    return max(_NEWEST.each(job_categories, lambda category: max(category.submitted)), default=-inf) > now


_WHOLE = PerCategory[CategoryPart]()
_NEWEST = PerCategory[float]()


def _as_whole(category: JobCategory) -> CategoryPart:
    """The whole category as one part."""
    reason = _state_reason(category.ask)
    return CategoryPart(category.ask, category.jobs, category.tasks, category.count, min(category.submitted), reason)


class _Ledger:
    """What is known of single jobs while job categories are split."""

    def __init__(
        self,
        hosts: Sequence[ExecutionHost],
        memory: Memory,
        details: Mapping[int, JobDetail],
        now: float,
        max_array_tasks: int | None,
    ) -> None:
        self._max_array_tasks = max_array_tasks
        self.priorities = True
        self.able_since: dict[int, float] = {}
        self.unable: set[int] = set()
        self.depends_on_time = False
        self.ahead = False
        self._hosts = hosts
        self._since = memory.able_since
        self._was_unable = frozenset(memory.unable)
        self._details = details
        self._remembered = self._was_unable.union(memory.able_since, details)
        """Jobs of which something is known that others of their category do not share."""
        self._now = now
        self._rooms: dict[int, int] = {}
        self._running: dict[int, int] | None = None

    def split(self, category: JobCategory, whole: CategoryPart) -> Iterable[CategoryPart]:
        if whole.reason is not None:
            if whole.reason.code in _UNABLE:
                self.unable.update(category.jobs)
            return (whole,)
        ask = category.ask
        self.depends_on_time |= bool(category.undated)
        if (
            ask.array
            or ask.unscheduled
            or category.undated
            or (self.ahead and max(category.submitted) > self._now)
            or not self._remembered.isdisjoint(category.jobs)
        ):
            return self._split_by_job(category)
        return (whole,)

    def _split_by_job(self, category: JobCategory) -> Iterable[CategoryPart]:
        groups: dict[Reason | None, _Gathered] = {}
        for job, tasks, submitted in zip(category.jobs, category.tasks, category.submitted, strict=True):
            since = self._able_since(job, submitted)
            for reason, some, count in self._verdicts(job, tasks, category.ask):
                if reason is not None and reason.code in _UNABLE:
                    self.unable.add(job)
                group = groups.setdefault(reason, _Gathered())
                group.jobs.append(job)
                group.tasks.append(some)
                group.count += count
                group.oldest = min(group.oldest, submitted if reason is not None else since)
                group.start = min(group.start, self._start(job) or group.start)
            if job not in self.unable and (since != submitted or job in category.undated):
                self.able_since[job] = since
        for reason, group in groups.items():
            if reason is not None and reason.code is Code.FUTURE:
                reason = because(Code.FUTURE, start_at=group.start)
            yield CategoryPart(category.ask, tuple(group.jobs), tuple(group.tasks), group.count, group.oldest, reason)

    def _able_since(self, job: int, submitted: float) -> float:
        known = self._since.get(job)
        if known is not None and known < submitted and job not in self._was_unable:
            return known  # it was submitted by a clock that is, or was, ahead of ours
        submitted = min(submitted, self._now)
        since = self._now if job in self._was_unable else submitted if known is None else known
        start = self._start(job)
        self.depends_on_time |= job in self._was_unable or start is not None
        return start if start is not None and submitted < start <= self._now else max(since, submitted)

    def _start(self, job: int) -> float | None:
        detail = self._details.get(job)
        return detail.start_after if detail else None

    def _verdicts(self, job: int, tasks: str, ask: JobRequest) -> Iterable[tuple[Reason | None, str, int]]:
        """The verdicts on one job's tasks: (why they do not count, which, how many)."""
        count, detail = task_count(tasks), self._details.get(job)
        # Only `qstat -j` shows `-tc`, and whether priority 0.00000 is due to `-a` or to a job that is new.
        unscheduled = ask.unscheduled and self.priorities
        if detail is None or (unscheduled and not detail.unscheduled):
            yield (because(Code.NOT_READ_YET) if ask.array or unscheduled else None), tasks, count
            return
        if detail.start_after is not None and detail.start_after > self._now:
            yield because(Code.FUTURE), tasks, count
            return
        # Grid Engine gives up a job with `-now y` that it cannot start at once: no worker would be in time.
        if detail.immediate:
            yield because(Code.IMMEDIATE), tasks, count
            return
        room, beyond = self._room(job, detail, count) if ask.array else (count, None)
        first, others = split_tasks(tasks, room)
        if room:
            yield None, first, room
        if room < count:
            yield beyond, others, count - room

    def _room(self, job: int, detail: JobDetail, count: int) -> tuple[int, Reason | None]:
        """How many more of these tasks of an array may run, and which limit keeps the others back (`-tc`, or the cell's
        limit for arrays). An array may stand in several job categories.
        """
        most = self._max_array_tasks
        if detail.concurrency and (most is None or detail.concurrency <= most):
            most, beyond = detail.concurrency, because(Code.BEYOND_CONCURRENCY, limit=detail.concurrency)
        elif most is not None:
            beyond = because(Code.BEYOND_ARRAY_LIMIT, limit=most)
        else:
            return count, None
        if self._running is None:
            self._running = _running_tasks(self._hosts)
        left = self._rooms.get(job, max(most - self._running.get(job, 0), 0))
        room = min(count, left)
        self._rooms[job] = left - room
        return room, beyond


def _running_tasks(hosts: Sequence[ExecutionHost]) -> dict[int, int]:
    """How many tasks of each job occupy a queue instance; a task over several hosts counts once."""
    seen = {(job.number, job.task) for host in hosts for instance in host.instances for job in instance.jobs}
    counts: dict[int, int] = {}
    for number, _ in seen:
        counts[number] = counts.get(number, 0) + 1
    return counts


def _state_reason(ask: JobRequest) -> Reason | None:
    if ask.fault is not None:
        return ask.fault
    if "E" in ask.state:
        return because(Code.IN_ERROR, state=ask.state)
    if "h" in ask.state:
        return because(Code.DEPENDENT if ask.dependent else Code.HELD, state=ask.state)
    return None if ask.state in WAITING_STATES else because(Code.UNKNOWN_STATE, state=ask.state)


def details_wanted(
    job_categories: Sequence[JobCategory], memory: Memory, policy: Policy, now: float, needs: Needs = NOTHING
) -> tuple[int, ...]:
    """Jobs to ask `qstat -j` about in this pass: those on lost workers, running ones that quotas count by project or
    group, then those never looked up or changed, then old answers that keep a job from counting.

    Of each user in turn the oldest first, at most `policy.detail_lookups`. Held and failed jobs can wait: they do not
    count anyway.
    """
    needs = needs.under(policy)

    def may_need_details(category: JobCategory) -> bool:
        """False for most categories: nothing is known of their jobs, and nothing needs to be."""
        if _state_reason(category.ask) is not None:
            return False
        unknown = _urgency(category.ask, None, policy, now, needs)
        return unknown is not None or not memory.details.keys().isdisjoint(category.jobs)

    wanted = [
        (rank, submitted, job, category.ask.owner)
        for category in job_categories
        if may_need_details(category)
        for job, submitted in zip(category.jobs, category.submitted, strict=True)
        if (rank := _urgency(category.ask, memory.details.get(job), policy, now, needs)) is not None
    ]
    running_jobs = needs.running if needs.of_running else ()
    running = [job for job in running_jobs if job not in memory.details or memory.details[job].group is None]
    most = policy.detail_lookups // 2  # those that wait must not starve behind them
    jobs = (*memory.lookups, *running[:most], *in_turn((owner, job) for _, _, job, owner in sorted(wanted)))
    # Without priorities every job must be looked up once: one with a start time would be launched for.
    return tuple(dict.fromkeys(jobs))[: policy.detail_lookups * (1 if needs.priorities else MORE)]


def _urgency(ask: JobRequest, detail: JobDetail | None, policy: Policy, now: float, needs: Needs) -> int | None:
    """0: nothing valid is known; 1: an old answer keeps the job from counting; None: nothing to ask."""
    if detail is None:
        by_context = policy.rules is not None and policy.rules.by_context
        return 0 if ask.array or ask.unscheduled or by_context or needs.any else None
    if (ask.unscheduled and not detail.unscheduled) or (needs.any and not needs.known_of(detail)):
        return 0
    if (
        needs.project or needs.reservation or needs.ckpt or needs.account
    ) and now - detail.read_at >= policy.detail_age:
        return 1  # `qalter -P`, `-ar`, `-ckpt` and `-A` change them
    keeps = detail.concurrency is not None or (detail.start_after is not None and detail.start_after > now)
    if keeps and (detail.unscheduled != ask.unscheduled or now - detail.read_at >= policy.detail_age):
        return 1
    return None
