"""Groups jobs into job categories while their XML is read: the cost depends on new jobs and on categories, not on all
jobs.

One regular expression takes the job's own values out of each `job_list` (number, priority zero or not, time, tasks, and
the names that decide nothing). The remaining bytes are the key by which it is grouped; of a new key, hard requests are
taken out as well. The first element that differs only in these is also read the careful way (`sge.jobs`); only if both
readings agree are the others like it read the fast way. Elements that the expressions do not match are read the careful
way, and those that cannot be understood are set aside.

A job whose element differs from that of the listing before in the digits of its priority at most is not read again
(`sge.known_jobs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest

from autoscaler.core.model.cluster import HostJob, JobCategory, JobRequest
from autoscaler.sge.jobs import Job, read_job
from autoscaler.sge.known_jobs import NOT_TOLD, Category, KnownJobs, Placed, Waiting, keys_of, split_priority
from autoscaler.sge.markup import Aside, Malformed
from autoscaler.sge.units import Clock, count_tasks

OPEN = b"<job_list"
CLOSE = b"</job_list>"
_OF_JOB = re.compile(rb"</?(?:JB_|JAT_|job_list|state|slots|tasks|full_job_name|[a-z]+_pe|hard_|soft_|binding)")
"""A tag of a job."""
UNREADABLE = HostJob(number=0, task="", state="?", slots=0)
"""Stands for a job that occupies a queue instance and could not be read: its host is busy (rule 1)."""

# 8.1.9 prints `<tasks>` before `<full_job_name>`, older releases behind it.
_JOB = re.compile(
    rb"""\s*+<job_list([^<>]*)>\s*+
    <JB_job_number>([0-9]{1,18})</JB_job_number>\s*+
    <JAT_prio>(?:(0+(?:\.0*)?)|[0-9]+\.?[0-9]*)</JAT_prio>\s*+
    <JB_name>[^<]*+</JB_name>\s*+
    <JB_owner>([^<&\x00-\x1f\x7f-\xff]*)</JB_owner>\s*+
    ((?:<JB_project>[^<]*+</JB_project>\s*+)?<state>[^<]*+</state>)\s*+
    <(JB_submission|JAT_submission|JAT_start)_time>([0-9]{4}-[0-9T:.-]+)</\6_time>\s*+
    (?:<queue_name></queue_name>\s*+)?
    (<slots>[0-9]{1,9}</slots>)\s*+
    (?:<tasks>([0-9,:-]+)</tasks>\s*+)?
    (?:<full_job_name>[^<]*+</full_job_name>\s*+)?
    (?:<tasks>([0-9,:-]+)</tasks>\s*+)?""",
    re.VERBOSE,
)
_HARD = re.compile(
    rb"""<hard_request\ name="([^"<&\x00-\x1f\x7f-\xff]+)"\ resource_contribution="[^"<&]*">
    ([^<&\x00-\x1f\x7f-\xff]*)</hard_request>""",
    re.VERBOSE,
)
"""Without a value that XML escapes: a match equals the careful reading."""
_BETWEEN = b'\n    <job_list state="pending"'
"""8.1.9's text between the end of a waiting job and the next one."""
_STRETCH = 1 << 19
_NUMBER = re.compile(rb"<JB_job_number>([0-9]{1,18})</JB_job_number>")
_PREDECESSORS = re.compile(rb"(?:<((?:ad_)?predecessor_jobs(?:_req)?)>[^<]+</\1>\s*)+")
"""Which jobs a job waits for differs from job to job and decides nothing; only whether it waits for some matters."""


class JobReader:
    """Reads stretches of `job_list` elements of one listing. Not for use by two threads.

    `fast=False` reads every element the careful way; the result is the same. `known`: the jobs of the listing before.
    """

    def __init__(self, clock: Clock, aside: Aside, *, fast: bool = True, known: KnownJobs | None = None) -> None:
        self._clock = clock
        self.aside = aside
        self._fast = fast
        self._before = known or KnownJobs()
        self.known = KnownJobs(categories=self._before.categories)
        """The jobs of this listing, for the next one."""
        self._waiting: list[Waiting | None] = []
        """None: the listing before had it."""
        self._keys: list[int | None] = []
        """The key of each of these in the next listing; None: it has none."""
        self._unchanged = False
        """Whether exactly the jobs wait that waited in the listing before."""
        self._by_key: dict[tuple[object, ...], Category] = {}
        self._kinds: dict[tuple[object, ...], Job | None] = {}
        self._names: dict[bytes, str] = {}
        self._task_lists: dict[bytes, tuple[str, int]] = {}

    def job_categories(self) -> tuple[JobCategory, ...]:
        """All waiting jobs read so far, one category a request, by their first job; jobs by number. Priorities change
        their order in the listing all the time, but no decision depends on it.
        """
        before, known = self._before, self.known
        if self._unchanged and before.job_categories is not None:
            known.waiting, known.job_categories, known.total = before.waiting, before.job_categories, before.total
            return before.job_categories
        waiting = [
            before.waiting[key] if job is None and key is not None else job
            for key, job in zip(self._keys, self._waiting, strict=True)
        ]
        jobs_read = [job for job in waiting if job is not None]
        met: dict[Category, list[Waiting]] = {}
        for job in jobs_read:
            if (jobs := met.get(job.category)) is None:
                met[job.category] = [job]
            else:
                jobs.append(job)
        job_categories = _in_order([category.of(jobs) for category, jobs in met.items()])
        known.categories = {category.ask: category for category in met}
        known.waiting = {key: job for key, job in zip(self._keys, jobs_read, strict=True) if key is not None}
        if len(known.waiting) == len(jobs_read):
            known.job_categories, known.total = job_categories, sum(known.waiting)
        return job_categories

    def read_waiting(self, data: bytes, begin: int, end: int) -> list[Placed]:
        """Read the waiting jobs of data[begin:end]. Returns the jobs among them that name a queue instance: they occupy
        it.
        """
        placed: list[Placed] = []
        stretches = list(_stretches(data, begin, end))
        keys = [keys_of(_usual_parts(data, stretch)) for stretch in stretches] if self._before.waiting else []
        self._unchanged = bool(keys) and self._before.are(keys)
        if not self._unchanged:
            for stretch, their_keys in zip_longest(stretches, keys):
                self._read_stretch(data, stretch, their_keys, placed)
        remainder = data[max(data.rfind(CLOSE, begin, end) + len(CLOSE), begin) : end].strip()
        if remainder and not self._is_warning(remainder):
            self.aside.put_jobs(f"not a whole job_list: {remainder[:60]!r}", count=max(remainder.count(OPEN), 1))
        return placed

    def _read_stretch(
        self, data: bytes, stretch: tuple[int, int], their_keys: list[int | None] | None, placed: list[Placed]
    ) -> None:
        """Read those of its jobs that the listing before did not have. `their_keys`: their keys, if known already."""
        known, keys, waiting = self._before.waiting, self._keys, self._waiting
        if their_keys is not None and all(map(known.__contains__, their_keys)):
            keys += their_keys
            waiting += [None] * len(their_keys)  # looking at them takes as long as finding that all are known
            return
        elements = _parted(data, stretch)
        if their_keys is None or len(their_keys) != len(elements):
            their_keys = keys_of(list(map(_without_beginning, elements)))
        for element, key in zip(elements, their_keys, strict=True):
            job = None if key is None else known.get(key)
            if job is None:
                job = self._wait(element)
            if job is None:
                set_aside = self.aside.count
                job = self._wait_carefully(element + CLOSE, placed)
                key = key if self.aside.count == set_aside else None
            if job is not None:
                keys.append(key)
                waiting.append(job)

    def _is_warning(self, text: bytes) -> bool:
        """Whether text between jobs is no part of a job; then it is set aside as such."""
        if _OF_JOB.search(text):
            return False
        self.aside.put("a line between jobs", f"not understood: {text[:60]!r}")
        return True

    def read_running(self, data: bytes, begin: int, end: int) -> tuple[list[Placed], bytes]:
        """Jobs of data[begin:end] that occupy a queue instance, and the bytes around them. One that cannot be read is
        UNREADABLE.
        """
        jobs: list[Placed] = []
        first = data.find(OPEN, begin, end)
        if first < 0:
            return jobs, data[begin:end]
        for element in _elements(data, first, end):
            front, body, zero = split_priority(element)
            job = self._before.running.get(front + body) if zero is not None else None
            if job is None:
                set_aside = self.aside.count
                job = self._run(element) or self._run_carefully(element + CLOSE)
                if self.aside.count == set_aside:
                    self.known.running[front + body] = job
            else:
                self.known.running[front + body] = job
            jobs.append(job)
        remainder = data[max(data.rfind(CLOSE, first, end) + len(CLOSE), first) : end]
        if OPEN in remainder:
            self.aside.put("a running job", f"cut short: {remainder.strip()[:60]!r}")
            jobs.append(("", UNREADABLE))
        return jobs, data[begin:first] + remainder

    def _wait(self, element: bytes) -> Waiting | None:
        """A waiting job; None if it must be read the careful way."""
        found = _JOB.match(element) if self._fast else None
        if found is None:
            return None
        head, number, zero, owner, state, when, time, slots, tasks, late_tasks = found.groups()
        tasks = tasks or late_tasks
        rest = element[found.end() :]
        if b"predecessor_jobs" in rest:
            rest = _PREDECESSORS.sub(rb"<\1>0</\1>", rest)
        key = (owner, head, zero is None, state, when, slots, tasks is None, rest)
        category = self._by_key.get(key)
        if category is None:
            around, hard = self._without_requests(rest)
            kind = self._kind((*key[1:-1], *around), element + CLOSE, number, zero, tasks, hard)
            if kind is None:
                return None
            category = self._by_key[key] = self._category(replace(kind.ask, owner=owner.decode().strip(), hard=hard))
        try:
            text, count = self._task_list(tasks) if tasks else ("", 1)
            submitted = self._clock.read(time)
        except ValueError:
            return None
        return Waiting(int(number), text, count, submitted, category)

    def _run(self, element: bytes) -> Placed | None:
        """A running job; None if it must be read the careful way."""
        found = _JOB.match(element) if self._fast else None
        if found is None:
            return None
        head, number, zero, owner, state, when, time, slots, tasks, late_tasks = found.groups()
        tasks = tasks or late_tasks
        if when != b"JAT_start":
            return None
        around, hard = self._without_requests(element[found.end() :])
        key = (head, zero is None, state, when, slots, tasks is None, *around)
        kind = self._kind(key, element + CLOSE, number, zero, tasks, hard)
        if kind is None:
            return None
        try:
            started = self._clock.read(time)
            task = self._task_list(tasks)[0] if tasks else ""
        except ValueError:
            return None
        whose = owner.decode().strip()
        return "", HostJob(int(number), task, kind.ask.state, kind.slots, whose, started, hard, kind.granted_pe)

    def _category(self, ask: JobRequest) -> Category:
        """The one of the listing before if there was one."""
        known = self.known.categories.get(ask)
        if known is None:
            known = self.known.categories[ask] = Category(ask)
        return known

    def _without_requests(self, rest: bytes) -> tuple[tuple[bytes, ...], tuple[tuple[str, str], ...]]:
        """The bytes around hard requests, and these, by name."""
        parts = _HARD.split(rest)
        hard = {
            self._names.setdefault(name, name.decode()): value.decode().strip()
            for name, value in zip(parts[1::3], parts[2::3], strict=True)
        }
        return tuple(parts[::3]), tuple(sorted(hard.items()))

    def _kind(
        self,
        key: tuple[object, ...],
        element: bytes,
        number: bytes,
        zero: bytes | None,
        tasks: bytes | None,
        hard: tuple[tuple[str, str], ...],
    ) -> Job | None:
        """The first job that was met with this key, of any owner and with any request; None if elements of this key
        need the careful way.
        """
        if key not in self._kinds:
            self._kinds[key] = self._learn(element, number, zero, tasks, hard)
        return self._kinds[key]

    def _learn(
        self,
        element: bytes,
        number: bytes,
        zero: bytes | None,
        tasks: bytes | None,
        hard: tuple[tuple[str, str], ...],
    ) -> Job | None:
        """Read the first element of a key carefully; None if the fast reading of it would have another result."""
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
            and job.ask.hard == hard
        )
        return job if agree else None

    def _task_list(self, tasks: bytes) -> tuple[str, int]:
        known = self._task_lists.get(tasks)
        if known is None:
            text = tasks.decode()
            known = self._task_lists[tasks] = (text, count_tasks(text))
        return known

    def _wait_carefully(self, element: bytes, placed: list[Placed]) -> Waiting | None:
        job = self._read_last(element, self.aside.put_jobs)
        if job is None:
            return None
        if "@" in job.instance:
            placed.append((job.instance, _host_job(job)))
            return None
        # A rescheduled job (`Rq`) has the time of its last start instead of its submission.
        submitted = job.started if job.submitted is None else job.submitted
        at = NOT_TOLD if submitted is None else submitted
        return Waiting(job.number, job.tasks, job.task_count, at, self._category(job.ask))

    def _run_carefully(self, element: bytes) -> Placed:
        job = self._read_last(element, self._put_running)
        return ("", UNREADABLE) if job is None else (job.instance, _host_job(job))

    def _put_running(self, why: object, job: str = "") -> None:
        self.aside.put(f"job {job}" if job else "a running job", why)

    def _read_last(self, element: bytes, put: Callable[[object, str], None]) -> Job | None:
        """The last `job_list` begun in these bytes; text before it (the torso of another one) is set aside."""
        begin = max(element.rfind(OPEN), 0)
        if (torso := element[:begin].strip()) and not self._is_warning(torso):
            put(f"not a whole job_list: {torso[:60]!r}", "")
        try:
            return read_job(element[begin:], self._clock)
        except Malformed as error:
            found = _NUMBER.search(element, begin)
            put(error, found[1].decode() if found else "")
            return None


def _in_order(job_categories: list[JobCategory]) -> tuple[JobCategory, ...]:
    """By first job, and tasks of it; of those that have this in common, by their requests."""
    if len({category.jobs[0] for category in job_categories}) == len(job_categories):
        return tuple(sorted(job_categories, key=lambda category: category.jobs[0]))
    return tuple(sorted(job_categories, key=lambda category: (category.jobs[0], category.tasks[0], repr(category.ask))))


def _elements(data: bytes, begin: int, end: int) -> Iterator[bytes]:
    for stretch in _stretches(data, begin, end):
        yield from _parted(data, stretch)


def _stretches(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole `job_list`, each without its last end. Little at a time is cut into pieces: that is fast, and
    takes little memory.
    """
    while (stop := data.rfind(CLOSE, begin, min(begin + _STRETCH, end))) >= 0 or (
        stop := data.find(CLOSE, begin, end)
    ) >= 0:
        yield begin, stop
        begin = stop + len(CLOSE)


def _parted(data: bytes, stretch: tuple[int, int]) -> list[bytes]:
    """The text before each end of a `job_list`, without the end."""
    begin, stop = stretch
    return data[begin:stop].split(CLOSE)


def _usual_parts(data: bytes, stretch: tuple[int, int]) -> list[bytes]:
    """The jobs of a stretch without their usual beginning. Searching the usual text between two jobs takes less time
    than searching the end of one; jobs with any other text between them are one piece, which is no known job.
    """
    begin, stop = stretch
    if not data.startswith(_BETWEEN, begin):
        return list(map(_without_beginning, _parted(data, stretch)))
    return data[begin + len(_BETWEEN) : stop].split(CLOSE + _BETWEEN)


def _without_beginning(element: bytes) -> bytes:
    return element.removeprefix(_BETWEEN) if element.startswith(_BETWEEN) else b"\x00" + element


def _host_job(job: Job) -> HostJob:
    ask = job.ask
    return HostJob(job.number, job.tasks, ask.state, job.slots, ask.owner, job.started, ask.hard, job.granted_pe)
