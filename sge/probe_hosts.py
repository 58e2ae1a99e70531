"""Asks Grid Engine's own scheduler whether jobs could ever run on hosts that do not exist: `qalter -w v` with probe
hosts.

A probe host is an execution host without a machine: disabled before it has slots, attached to its queue directly, its
name resolving for as long as it exists. In any case all of them are removed again before `ask` returns; probe hosts
that a killed process left behind have the reserved name prefix, by which `sweep` finds them.
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
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.membership import split_objects
from autoscaler.sge.messages import Meaning, meaning
from autoscaler.sge.objects import usable
from autoscaler.sge.qconf import read_attributes, read_names, split_overrides

ASKING = 8.0
"""Seconds from the beginning after which no further job is asked about."""
CLEARING = 5.0
"""Further seconds for removing the probe hosts: the whole takes at most 15."""
LOCK_PATIENCE = 2.0
JOBS_AT_ONCE = 20
"""Jobs in one command: its output has the reasons of every queue instance for every job, so it grows with both."""
WORDS_KEPT = 400

Spoken = tuple[Answer, str]
"""An answer, with Grid Engine's words (or why there is none)."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers."""

    answers: Mapping[int, Spoken]
    """For every job in question."""
    left: str = ""
    """Why not all probe hosts could be removed; a later sweep does it. '': none is left."""


class Names(Protocol):
    """`autoscaler.hosts_file.HostsFile`: makes names resolve on this host."""

    def locked(self, patience: float) -> contextlib.AbstractContextManager[None]: ...

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
    _named: int = field(default=-1, init=False)
    """The second by which the last probe hosts were named."""

    @property
    def swept(self) -> bool:
        """Whether no probe host of ours is left, as far as this process knows: it has checked, and every later `ask`
        removed its own.
        """
        return self._swept

    def ask(self, jobs: Sequence[int], probe_hosts: Sequence[ProbeHost]) -> Answers:
        """Grid Engine's answer about each job, if these hosts existed. Raises nothing: a missing answer is an answer,
        too.
        """
        if not jobs:
            return Answers({})
        answers: dict[int, Spoken] = {}
        trouble = left = ""
        try:
            with self.names.locked(LOCK_PATIENCE):
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
        """Remove all hosts with the prefix; returns their names. Raises AutoscalerError."""
        with self.names.locked(LOCK_PATIENCE):
            found = self._take_away(self._within(CLEARING))
        self._swept = True
        return found

    def _cleared(self) -> str:
        """Remove all, also if the time for asking is over; returns why that failed."""
        try:
            self._take_away(self._within(CLEARING))
        except AutoscalerError as error:
            return str(error)
        self._swept = True
        return ""

    def _within(self, seconds: float) -> Administrator:
        return Administrator(_WithDeadline(self.runner, self.stopwatch, self.stopwatch() + seconds), timeout=seconds)

    # -- putting up and taking away -----------------------------------------------------------------------------

    def _put_up(self, administrator: Administrator, probe_hosts: Sequence[ProbeHost]) -> None:
        """At no instant could a job start on one: there is no execd, and it is disabled before it has slots.

        Whatever the queue's own number of slots is, an entry of 0 exists before the host is attached.
        """
        if not probe_hosts:
            return
        self._named = max(int(self.clock()), self._named + 1)  # several questions may begin within one second
        named = dict(zip(fresh_names(len(probe_hosts), self._named), probe_hosts, strict=True))
        self.names.put(_addresses(named))
        with contextlib.ExitStack() as files:
            switches: list[str] = []
            for name, probe_host in named.items():
                values = {"slots": str(probe_host.slots), **dict(probe_host.complex_values)}
                file = files.enter_context(objects.as_file(objects.exec_host(name, values)))
                switches += ["-Ae", str(file)]
            # qconf carries out each of several -Ae, but of several -purge the first only.
            added = administrator.configure(*switches)
        if len([line for line in added.output if meaning(line) is Meaning.CHANGED]) != len(named):
            raise GridEngineRefused("; ".join(added.output) or "qconf -Ae printed nothing")
        by_queue: dict[str, list[str]] = {}
        for name, probe_host in named.items():
            by_queue.setdefault(usable("queue", probe_host.queue), []).append(name)
        for queue, names in by_queue.items():
            closed = ",".join(f"[{name}=0]" for name in names)
            administrator.configure("-aattr", "queue", "slots", closed, queue)
            # By the queue's own host list: other queues that use its host group do not see the probe host.
            administrator.configure("-aattr", "queue", "hostlist", ",".join(names), queue)
        disabled = administrator.disable_all(tuple(named))
        if missing := [name for name in named if not any(f'@{name}"' in line for line in disabled.output)]:
            raise GridEngineRefused(f"Grid Engine did not create {', '.join(missing)}: {'; '.join(disabled.output)}")
        for queue, names in by_queue.items():
            opened = ",".join(f"[{name}={named[name].slots}]" for name in names)
            administrator.configure("-aattr", "queue", "slots", opened, queue)

    def _take_away(self, administrator: Administrator) -> tuple[str, ...]:
        """Remove all with the prefix, in an order that leaves it findable by it; returns the names.

        `qconf -dattr queue slots [HOST=N]` would set the entry, not delete it; of several `-purge` in one command only
        the first is carried out, though all are reported so; and a name must resolve to be deleted. So the result is
        looked up, not believed.
        """
        found, places = _present(administrator)
        if not found:
            self.names.clear()
            return ()
        self.names.put(_addresses(found))
        for place in places:
            for name in place.slots:
                administrator.configure("-purge", "queue", "slots", f"{place.queue}@{name}")
            if place.attached:
                administrator.configure("-dattr", "queue", "hostlist", ",".join(place.attached), place.queue)
        administrator.configure("-de", ",".join(found))  # harmless for a name that is no execution host
        left, _ = _present(administrator)
        if left:
            raise GridEngineRefused(f"{', '.join(left)} could not be removed")
        self.names.clear()
        return found

    # -- asking -------------------------------------------------------------------------------------------------

    def _said(self, administrator: Administrator, jobs: Sequence[int]) -> str:
        return administrator.verify([str(job) for job in jobs])

    def _ask_one_by_one(self, administrator: Administrator, answers: Mapping[int, Spoken]) -> dict[int, Spoken]:
        """If an answer about several jobs names none, it belongs to a job by its order alone: a job that such an answer
        would doom is asked about again by itself.
        """
        doomed = [(job, output) for job, (answer, output) in answers.items() if answer is Answer.UNSATISFIABLE]
        doubtful = [job for job, output in doomed if not output.startswith(f"Job {job} ")]
        locked: dict[int, Spoken] = {}
        for job in doubtful if len(answers) > 1 else ():
            locked[job] = (Answer.NONE, "Grid Engine did not answer for this job alone")
            with contextlib.suppress(CommandTimedOut):
                locked |= verdicts([job], self._said(administrator, [job]))
        return locked


def verdicts(jobs: Sequence[int], output: str) -> dict[int, Spoken]:
    """The answer of `qalter -w v JOBS` for each job, in their order: lines that name it, then one that ends its part.

    Output without exactly one known ending for each job, in order and about that job, is no answer about any of them.
    """
    parts: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, output.splitlines())):
        parts[-1].append(line)
        if _ENDS.match(line):
            parts.append([])
    strange = (Answer.NONE, _shortened(output.strip() or "Grid Engine printed nothing"))
    if parts.pop() or len(parts) != len(jobs):
        return dict.fromkeys(jobs, strange)
    parts_by_job = list(zip(jobs, parts, strict=True))
    if any(named != str(job) for job, part in parts_by_job for named in filter(None, map(_job_named, part))):
        return dict.fromkeys(jobs, strange)
    return {
        job: (_KNOWN.get(_ending(part[-1]), Answer.NONE), _shortened("; ".join(part))) for job, part in parts_by_job
    }


_ENDS = re.compile(r"verification: |denied: |error: ")
_NAMED = re.compile(r'(?:Job |denied: job ")(\d+)\b')
# A held or running job gets `job is already running or is held`, which is no answer.
_KNOWN: Mapping[str, Answer] = {
    "no suitable queues": Answer.UNSATISFIABLE,
    "found suitable queue(s)": Answer.SATISFIABLE,
    "found possible assignment": Answer.SATISFIABLE,
}
_WITH_SLOTS = re.compile(r" with \d+ slots$")


def _job_named(line: str) -> str | None:
    found = _NAMED.match(line)
    return found[1] if found else None


def _ending(line: str) -> str:
    head, _, words = line.partition("verification: ")
    return "" if head else _WITH_SLOTS.sub("", words)


def _shortened(output: str) -> str:
    return output if len(output) <= WORDS_KEPT else f"{output[: WORDS_KEPT // 2]} … {output[-WORDS_KEPT // 2 :]}"


def _batches(jobs: Sequence[int]) -> Iterator[Sequence[int]]:
    return (jobs[start : start + JOBS_AT_ONCE] for start in range(0, len(jobs), JOBS_AT_ONCE))


NUMBERINGS = 1_000_000
"""Seconds, eleven days, after which names come again: the qmaster has long forgotten them by then."""


def fresh_names(count: int, now: float) -> list[str]:
    """Names that no question of an earlier second had.

    The qmaster looks names that it met up again, for minutes after their last use. A probe host's name is unknown by
    then, and would stay unknown for qmaster when the next question has put the same name into the hosts file.
    """
    first = int(now) % NUMBERINGS * MOST + 1
    return [f"{PROBE_HOST_PREFIX}{number}" for number in range(first, first + count)]


# -- probe hosts by name ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Probe hosts in one queue."""

    queue: str
    attached: tuple[str, ...]
    slots: tuple[str, ...]


def _present(administrator: Administrator) -> tuple[tuple[str, ...], list[_Place]]:
    """Every name with the prefix, and the queues that have it."""
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
    """Loopback, where nothing listens; the same name always has the same address, since Grid Engine remembers those."""
    return {name: _address(int(number)) for name in names if (number := re.sub(r"\D", "", name) or "0")}


def _address(number: int) -> str:
    return f"127.1.{number // 250 % 250}.{number % 250 + 1}"


@dataclass(frozen=True, slots=True)
class _WithDeadline:
    """A runner whose commands must all have ended by one time."""

    inner: Runner
    stopwatch: Callable[[], float]
    until: float

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        left = self.until - self.stopwatch()
        if left <= 0:
            raise CommandTimedOut(f"{' '.join(argv[:2])} did not start: Grid Engine answered too slowly")
        options["timeout"] = min(options["timeout"], left)
        return self.inner(argv, **options)
