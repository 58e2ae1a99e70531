"""Asks Grid Engine's own scheduler whether jobs could ever run on hosts that do not exist: `qalter -w v` with probe
hosts.

A probe host is an execution host without a machine: disabled before it has slots, attached to its queue directly, its
name resolving for as long as it is there. Whatever happens, all of them are taken away again before `ask` returns; what
a death in between leaves behind carries the reserved name prefix, by which `sweep` finds it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Unpack

from autoscaler.core.actions import PROBE_HOST_PREFIX, ProbeHost
from autoscaler.core.model.evidence import Answer
from autoscaler.core.unsatisfiable.probe_hosts import MOST
from autoscaler.errors import AutoscalerError, CommandTimedOut, GridEngineRefused
from autoscaler.process import Completed, Options, Runner
from sge import objects
from sge.admin import Administrator
from sge.membership import split_objects
from sge.messages import Meaning, meaning
from sge.objects import usable
from sge.qconf import read_attributes, read_names, split_overrides

ASKING = 8.0
"""Seconds from the beginning after which no further job is asked about."""
CLEARING = 5.0
"""Seconds for taking the probe hosts away, besides: the whole takes at most 15."""
LOCK_PATIENCE = 2.0
JOBS_AT_ONCE = 20
"""One command is told the reasons of every queue instance for every job, so its output grows with both."""
WORDS_KEPT = 400

Spoken = tuple[Answer, str]
"""An answer, with Grid Engine's words (or why there is none)."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of asking."""

    answers: Mapping[int, Spoken]
    """For every job that was to be asked about."""
    left: str = ""
    """Why probe hosts could not all be taken away again; a later sweep does. '': none is left."""


class Names(Protocol):
    """`autoscaler.hosts_file.HostsFile`: makes names resolve on this host."""

    def alone(self, patience: float) -> contextlib.AbstractContextManager[None]: ...

    def put(self, addresses: Mapping[str, str]) -> None: ...

    def clear(self) -> None: ...


@dataclass(slots=True)
class ProbeHosts:
    """One for the life of a process, on the host where the qmaster resolves names."""

    runner: Runner
    names: Names
    stopwatch: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time
    _swept: bool = field(default=False, init=False)

    @property
    def swept(self) -> bool:
        """Whether none of ours is left, as far as this process knows: it did look, and every later ask cleared up."""
        return self._swept

    def ask(self, jobs: Sequence[int], probe_hosts: Sequence[ProbeHost]) -> Answers:
        """Grid Engine's answer about each job, were these hosts there. Raises nothing: no answer is an answer, too."""
        if not jobs:
            return Answers({})
        answers: dict[int, Spoken] = {}
        trouble = left = ""
        try:
            with self.names.alone(LOCK_PATIENCE):
                try:
                    administrator = self._within(ASKING)
                    self._take_away(administrator)
                    self._put_up(administrator, probe_hosts)
                    for some in _batches(jobs):
                        answers |= verdicts(some, self._said(administrator, some))
                    answers |= self._ask_one_by_one(administrator, answers)
                except AutoscalerError as error:
                    trouble = str(error)
                finally:
                    self._swept = False
                    left = self._cleared()
        except AutoscalerError as error:
            trouble = str(error)
        nothing = (Answer.NONE, trouble or "Grid Engine printed nothing about it")
        return Answers({job: answers.get(job, nothing) for job in jobs}, left)

    def sweep(self) -> tuple[str, ...]:
        """Take away whatever carries the prefix; returns the names met. Raises AutoscalerError."""
        with self.names.alone(LOCK_PATIENCE):
            found = self._take_away(self._within(CLEARING))
        self._swept = True
        return found

    def _cleared(self) -> str:
        """Take all away, also when the time for asking is over; returns why that failed."""
        try:
            self._take_away(self._within(CLEARING))
        except AutoscalerError as error:
            return str(error)
        self._swept = True
        return ""

    def _within(self, seconds: float) -> Administrator:
        return Administrator(_Hurried(self.runner, self.stopwatch, self.stopwatch() + seconds), timeout=seconds)

    # -- putting up and taking away -----------------------------------------------------------------------------

    def _put_up(self, administrator: Administrator, probe_hosts: Sequence[ProbeHost]) -> None:
        """At no instant could a job start on one: there is no execd, and it is disabled before it has slots.

        Whatever the queue's own number of slots is, an entry of 0 stands before the host is attached.
        """
        if not probe_hosts:
            return
        named = dict(zip(fresh_names(len(probe_hosts), self.clock()), probe_hosts, strict=True))
        self.names.put(_addresses(named))
        with contextlib.ExitStack() as files:
            switches: list[str] = []
            for name, probe_host in named.items():
                values = {"slots": str(probe_host.slots), **dict(probe_host.complex_values)}
                file = files.enter_context(objects.as_file(objects.exec_host(name, values)))
                switches += ["-Ae", str(file)]
            added = administrator.configure(*switches)
        if len([line for line in added.said if meaning(line) is Meaning.CHANGED]) != len(named):
            raise GridEngineRefused("; ".join(added.said) or "qconf -Ae printed nothing")
        by_queue: dict[str, list[str]] = {}
        for name, probe_host in named.items():
            by_queue.setdefault(usable("queue", probe_host.queue), []).append(name)
        for queue, names in by_queue.items():
            closed = ",".join(f"[{name}=0]" for name in names)
            administrator.configure("-aattr", "queue", "slots", closed, queue)
            administrator.configure("-aattr", "queue", "hostlist", ",".join(names), queue)
        disabled = administrator.disable_all(tuple(named))
        if missing := [name for name in named if not any(f'@{name}"' in line for line in disabled.said)]:
            raise GridEngineRefused(f"Grid Engine did not create {', '.join(missing)}: {'; '.join(disabled.said)}")
        for queue, names in by_queue.items():
            opened = ",".join(f"[{name}={named[name].slots}]" for name in names)
            administrator.configure("-aattr", "queue", "slots", opened, queue)

    def _take_away(self, administrator: Administrator) -> tuple[str, ...]:
        """Whatever carries the prefix, in the order that leaves it findable by it; returns the names met.

        `qconf -dattr queue slots [HOST=N]` would set the entry, not delete it; of several `-purge` in one command only
        the first is heeded, though all are said to be; and a name must resolve to be deleted. So what is left is looked
        at, not believed.
        """
        found, places = _look(administrator)
        if not found:
            self.names.clear()
            return ()
        self.names.put(_addresses(found))
        for place in places:
            for name in place.slots:
                administrator.configure("-purge", "queue", "slots", f"{place.queue}@{name}")
            if place.attached:
                administrator.configure("-dattr", "queue", "hostlist", ",".join(place.attached), place.queue)
        administrator.configure("-de", ",".join(found))  # of one that is no execution host it is said, and no harm
        left, _ = _look(administrator)
        if left:
            raise GridEngineRefused(f"{', '.join(left)} could not be removed")
        self.names.clear()
        return found

    # -- asking -------------------------------------------------------------------------------------------------

    def _said(self, administrator: Administrator, jobs: Sequence[int]) -> str:
        return administrator.verify([str(job) for job in jobs])

    def _ask_one_by_one(self, administrator: Administrator, answers: Mapping[int, Spoken]) -> dict[int, Spoken]:
        """What was said of several jobs at once is told apart by its order alone where no job was named in it: a job
        that such words would doom is asked about again by itself.
        """
        doomed = [(job, said) for job, (answer, said) in answers.items() if answer is Answer.IMPOSSIBLE]
        doubtful = [job for job, said in doomed if not said.startswith(f"Job {job} ")]
        alone: dict[int, Spoken] = {}
        for job in doubtful if len(answers) > 1 else ():
            alone[job] = (Answer.NONE, "Grid Engine did not answer for this job alone")
            with contextlib.suppress(CommandTimedOut):
                alone |= verdicts([job], self._said(administrator, [job]))
        return alone


def verdicts(jobs: Sequence[int], said: str) -> dict[int, Spoken]:
    """What `qalter -w v JOBS` said of each job, in their order: lines that name it, then one that ends its part.

    Anything that is not exactly one known ending a job, in order and about that job, is no answer about any of them.
    """
    parts: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, said.splitlines())):
        parts[-1].append(line)
        if _ENDS.match(line):
            parts.append([])
    strange = (Answer.NONE, _shortened(said.strip() or "Grid Engine printed nothing"))
    if parts.pop() or len(parts) != len(jobs):
        return dict.fromkeys(jobs, strange)
    told = list(zip(jobs, parts, strict=True))
    if any(named != str(job) for job, part in told for named in filter(None, map(_job_named, part))):
        return dict.fromkeys(jobs, strange)
    return {job: (_KNOWN.get(_ending(part[-1]), Answer.NONE), _shortened("; ".join(part))) for job, part in told}


_ENDS = re.compile(r"verification: |denied: |error: ")
_NAMED = re.compile(r'(?:Job |denied: job ")(\d+)\b')
_KNOWN: Mapping[str, Answer] = {
    "no suitable queues": Answer.IMPOSSIBLE,
    "found suitable queue(s)": Answer.POSSIBLE,
    "found possible assignment": Answer.POSSIBLE,
}
_WITH_SLOTS = re.compile(r" with \d+ slots$")


def _job_named(line: str) -> str | None:
    found = _NAMED.match(line)
    return found[1] if found else None


def _ending(line: str) -> str:
    head, _, words = line.partition("verification: ")
    return "" if head else _WITH_SLOTS.sub("", words)


def _shortened(said: str) -> str:
    return said if len(said) <= WORDS_KEPT else f"{said[: WORDS_KEPT // 2]} … {said[-WORDS_KEPT // 2 :]}"


def _batches(jobs: Sequence[int]) -> Iterator[Sequence[int]]:
    return (jobs[start : start + JOBS_AT_ONCE] for start in range(0, len(jobs), JOBS_AT_ONCE))


NUMBERINGS = 1_000_000
"""Seconds, eleven days, after which names come again: the qmaster has long forgotten them by then."""


def fresh_names(count: int, now: float) -> list[str]:
    """Names that no question of an earlier second had.

    The qmaster looks names up again that it met, for minutes after their last use. One of a probe host is unknown by
    then, and stays so for it when the next question has put the same name into the hosts file.
    """
    first = int(now) % NUMBERINGS * MOST + 1
    return [f"{PROBE_HOST_PREFIX}{number}" for number in range(first, first + count)]


# -- what carries the prefix ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a queue names probe hosts."""

    queue: str
    attached: tuple[str, ...]
    slots: tuple[str, ...]


def _look(administrator: Administrator) -> tuple[tuple[str, ...], list[_Place]]:
    """Every name that carries the prefix, and where queues have it."""
    hosts = _reserved(read_names(administrator.show("-sel")))
    places = list(_places(administrator.show("-sq", "*")))
    in_queues = (name for place in places for name in (*place.attached, *place.slots))
    return tuple(dict.fromkeys((*hosts, *in_queues))), places


def _places(queues: str) -> Iterator[_Place]:
    for text in split_objects(queues, "qname"):
        attributes = read_attributes(text)
        attached = _reserved(re.split(r"[\s,]+", attributes.get("hostlist", "")))
        slots = _reserved(split_overrides(attributes.get("slots", ""))[1])
        if attached or slots:
            yield _Place(attributes["qname"], attached, slots)


def _reserved(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.lower().startswith(PROBE_HOST_PREFIX))


def _addresses(names: Iterable[str]) -> dict[str, str]:
    """Loopback, where nothing listens; the same name always the same address, since Grid Engine remembers those."""
    return {name: _address(int(number)) for name in names if (number := re.sub(r"\D", "", name) or "0")}


def _address(number: int) -> str:
    return f"127.1.{number // 250 % 250}.{number % 250 + 1}"


@dataclass(frozen=True, slots=True)
class _Hurried:
    """A runner whose commands must all have ended at one time."""

    inner: Runner
    stopwatch: Callable[[], float]
    until: float

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        left = self.until - self.stopwatch()
        if left <= 0:
            raise CommandTimedOut(f"{' '.join(argv[:2])} did not start: Grid Engine answered too slowly")
        options["timeout"] = min(options["timeout"], left)
        return self.inner(argv, **options)
