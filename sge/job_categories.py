"""Groups jobs into shapes while their XML is read: cost by shapes, not by jobs, and no object for a waiting job.

One regular expression takes out of each `job_list` what is its own (number, priority zero or not, time, tasks, and
the names that decide nothing). The bytes left over are the key it is grouped by. The first element of each key is
also read the careful way (`sge.jobs`); only where both readings agree are the others of that key read the fast way.
Whatever the expression does not match is read the careful way, and what that cannot understand is set aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autoscaler.core.model.cluster import HostJob, JobCategory, JobRequest
from sge.jobs import Job, read_job
from sge.markup import Aside, Malformed
from sge.units import Clock, count_tasks

NOT_TOLD = float("inf")
"""Stands for a time of submission until it is known when the job is first seen."""
OPEN = b"<job_list"
CLOSE = b"</job_list>"
UNREADABLE = HostJob(number=0, task="", state="?", slots=0)
"""Stands for a job that occupies a queue instance and could not be read: its host is busy (rule 1)."""

Placed = tuple[str, HostJob]
"""A job that occupies a queue instance, and the `queue@host` it names itself ('' inside a Queue-List)."""

_JOB = re.compile(
    rb"""\s*<job_list([^<>]*)>\s*
    <JB_job_number>([0-9]{1,18})</JB_job_number>\s*
    <JAT_prio>(?:(0+(?:\.0*)?)|[0-9]+\.?[0-9]*)</JAT_prio>\s*
    <JB_name>[^<]*</JB_name>\s*
    <JB_owner>([^<&\x00-\x1f\x7f-\xff]*)</JB_owner>\s*
    ((?:<JB_project>[^<]*</JB_project>\s*)?<state>[^<]*</state>)\s*
    <(JB_submission|JAT_start)_time>([0-9]{4}-[0-9T:.-]+)</\6_time>\s*
    (?:<queue_name></queue_name>\s*)?
    (<slots>[0-9]{1,9}</slots>)\s*
    (?:<tasks>([0-9,:-]+)</tasks>\s*)?
    (?:<full_job_name>[^<]*</full_job_name>\s*)?
    (?:<tasks>([0-9,:-]+)</tasks>\s*)?""",
    re.VERBOSE,
)
_NUMBER = re.compile(rb"<JB_job_number>([0-9]{1,18})</JB_job_number>")
_PREDECESSORS = re.compile(rb"(?:<((?:ad_)?predecessor_jobs(?:_req)?)>[^<]+</\1>\s*)+")
"""Which jobs a job waits for differs from job to job and decides nothing; that it waits for some does."""

_Key = tuple[bytes | bool, ...]


@dataclass(slots=True)
class _Group:
    """A shape in the making: the lists hold one entry a job."""

    jobs: list[int] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    submitted: list[float] = field(default_factory=list)
    count: int = 0
    undated: set[int] = field(default_factory=set)

    def add(self, number: int, tasks: str, count: int, submitted: float | None) -> None:
        self.jobs.append(number)
        self.tasks.append(tasks)
        self.submitted.append(NOT_TOLD if submitted is None else submitted)
        self.count += count
        if submitted is None:
            self.undated.add(number)

    def category(self, ask: JobRequest) -> JobCategory:
        undated = frozenset(self.undated)
        return JobCategory(ask, tuple(self.jobs), tuple(self.tasks), tuple(self.submitted), self.count, undated)


class JobReader:
    """Reads stretches of `job_list` elements of one listing. Not for use by two threads.

    `fast=False` reads every element the careful way; the result is the same.
    """

    def __init__(self, clock: Clock, aside: Aside, *, fast: bool = True) -> None:
        self._clock = clock
        self._aside = aside
        self._fast = fast
        self._groups: dict[JobRequest, _Group] = {}
        self._groups_by_key: dict[tuple[bytes, _Key], _Group] = {}
        self._kinds: dict[_Key, Job | None] = {}
        self._task_lists: dict[bytes, tuple[str, int]] = {}

    def shapes(self) -> tuple[JobCategory, ...]:
        """All waiting jobs read so far, one shape an Ask, in the order met; jobs as Grid Engine listed them."""
        return tuple(group.category(ask) for ask, group in self._groups.items() if group.jobs)

    def read_waiting(self, data: bytes, begin: int, end: int) -> list[Placed]:
        """Group the waiting jobs of data[begin:end]. Jobs among them that name a queue instance come back: they
        occupy it.
        """
        placed: list[Placed] = []
        find, at = data.find, begin
        while (close := find(CLOSE, at, end)) >= 0:
            if not (self._fast and self._group(data, at, close)):
                self._wait_carefully(data[at : close + len(CLOSE)], placed)
            at = close + len(CLOSE)
        if remainder := data[at:end].strip():
            self._aside.put_jobs(f"not a whole job_list: {remainder[:60]!r}", count=max(remainder.count(OPEN), 1))
        return placed

    def read_running(self, data: bytes, begin: int, end: int) -> tuple[list[Placed], bytes]:
        """Jobs of data[begin:end] that occupy a queue instance, and the bytes around them. One that cannot be read is
        UNREADABLE.
        """
        jobs: list[Placed] = []
        first = data.find(OPEN, begin, end)
        if first < 0:
            return jobs, data[begin:end]
        at = first
        while (close := data.find(CLOSE, at, end)) >= 0:
            jobs.append((self._run(data, at, close) if self._fast else None) or self._run_carefully(data, at, close))
            at = close + len(CLOSE)
        remainder = data[at:end]
        if OPEN in remainder:
            self._aside.put("a running job", f"cut short: {remainder.strip()[:60]!r}")
            jobs.append(("", UNREADABLE))
        return jobs, data[begin:first] + remainder

    def _group(self, data: bytes, at: int, close: int) -> bool:
        """Add the waiting job of data[at:close] to its group; False where it must be read the careful way."""
        found = _JOB.match(data, at, close)
        if found is None:
            return False
        head, number, zero, owner, state, when, time, slots, tasks, late_tasks = found.groups()
        tasks = tasks or late_tasks
        rest = data[found.end() : close]
        if b"predecessor_jobs" in rest:
            rest = _PREDECESSORS.sub(rb"<\1>0</\1>", rest)
        key = (head, zero is None, state, when, slots, tasks is None, rest)
        group = self._groups_by_key.get((owner, key))
        if group is None:
            kind = self._kind(key, data[at : close + len(CLOSE)], number, zero, tasks)
            if kind is None:
                return False
            ask = replace(kind.ask, owner=owner.decode().strip())
            group = self._groups_by_key[owner, key] = self._groups.setdefault(ask, _Group())
        try:
            text, count = self._task_list(tasks) if tasks else ("", 1)
            submitted = self._clock.read(time)
        except ValueError:
            return False
        group.add(int(number), text, count, submitted)
        return True

    def _run(self, data: bytes, at: int, close: int) -> Placed | None:
        """The running job of data[at:close]; None where it must be read the careful way."""
        found = _JOB.match(data, at, close)
        if found is None:
            return None
        head, number, zero, owner, state, when, time, slots, tasks, late_tasks = found.groups()
        tasks = tasks or late_tasks
        if when != b"JAT_start":
            return None
        key = (head, zero is None, state, when, slots, tasks is None, data[found.end() : close])
        kind = self._kind(key, data[at : close + len(CLOSE)], number, zero, tasks)
        if kind is None:
            return None
        try:
            started = self._clock.read(time)
            task = self._task_list(tasks)[0] if tasks else ""
        except ValueError:
            return None
        whose, ask = owner.decode().strip(), kind.ask
        return "", HostJob(int(number), task, ask.state, kind.slots, whose, started, ask.hard, kind.granted_pe)

    def _kind(self, key: _Key, element: bytes, number: bytes, zero: bytes | None, tasks: bytes | None) -> Job | None:
        """The first job that was met with this key, whoever owns it; None where elements of this key need the careful
        way.
        """
        if key not in self._kinds:
            self._kinds[key] = self._learn(element, number, zero, tasks)
        return self._kinds[key]

    def _learn(self, element: bytes, number: bytes, zero: bytes | None, tasks: bytes | None) -> Job | None:
        """Read the first element of a key carefully; None where the fast reading of it would say something else."""
        if element.count(OPEN) > 1:  # the torso of a job and a whole one
            return None
        try:
            job = read_job(element, self._clock)
        except Malformed:
            return None
        agree = (
            job.plain
            and not job.instance
            and job.number == int(number)
            and job.ask.unscheduled == (zero is not None)
            and job.tasks == (tasks or b"").decode()
        )
        return job if agree else None

    def _task_list(self, tasks: bytes) -> tuple[str, int]:
        known = self._task_lists.get(tasks)
        if known is None:
            text = tasks.decode()
            known = self._task_lists[tasks] = (text, count_tasks(text))
        return known

    def _wait_carefully(self, element: bytes, placed: list[Placed]) -> None:
        job = self._read_last(element, self._aside.put_jobs)
        if job is None:
            return
        if "@" in job.instance:
            placed.append((job.instance, _host_job(job)))
            return
        submitted = job.started if job.submitted is None else job.submitted
        self._groups.setdefault(job.ask, _Group()).add(job.number, job.tasks, job.task_count, submitted)

    def _run_carefully(self, data: bytes, at: int, close: int) -> Placed:
        job = self._read_last(data[at : close + len(CLOSE)], self._put_running)
        return ("", UNREADABLE) if job is None else (job.instance, _host_job(job))

    def _put_running(self, why: object, job: str = "") -> None:
        self._aside.put(f"job {job}" if job else "a running job", why)

    def _read_last(self, element: bytes, put: Callable[[object, str], None]) -> Job | None:
        """The last `job_list` begun in these bytes; what stands before it (the torso of another one) is set aside."""
        begin = max(element.rfind(OPEN), 0)
        if torso := element[:begin].strip():
            put(f"not a whole job_list: {torso[:60]!r}", "")
        try:
            return read_job(element[begin:], self._clock)
        except Malformed as error:
            found = _NUMBER.search(element, begin)
            put(error, found[1].decode() if found else "")
            return None


def _host_job(job: Job) -> HostJob:
    ask = job.ask
    return HostJob(job.number, job.tasks, ask.state, job.slots, ask.owner, job.started, ask.hard, job.granted_pe)
