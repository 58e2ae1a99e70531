"""The listing of all jobs, read so that long requests of some owners do not keep the jobs of others waiting.

How long a job's element in `qstat -r` is, its owner decides: `-hold_jid` with 200,000 names makes 14 MB of it, and
eight such jobs make qstat take longer than an observation may. Without `-r` the element is short whatever the job
requests. So where requests are long, the listing is put together: all jobs without requests, the requests of most
owners in every reading, and those of the owners with the longest ones in turns of their own, which take a small share
of the time. In between these owners' jobs count as they were read last; jobs that were not read yet do not count, and
say so.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autoscaler.errors import CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Runner
from autoscaler.sge.configuration import require_success, run
from autoscaler.sge.markup import document_in
from autoscaler.sge.qstat import COMMAND
from autoscaler.sge.within_time import few, read_within

BRIEF = tuple(word for word in COMMAND if word != "-r")
"""All jobs without what they request."""
USUAL = 1_000
"""Bytes of a job in a listing that nobody is asked to save."""
EXTRA = 2_000_000
"""The most bytes of a listing besides these for which requests are still read in every pass."""
PATIENCE, PER_JOB = 3.0, 0.001
"""Seconds that the requests of some owners may take, and of each of their jobs besides."""
BUDGET = 10.0
"""Seconds that finding out whose requests are long may take in one reading, besides those of each job."""
TURN = 10.0
"""Seconds that the requests of one of the owners with the longest ones may take."""
REST = 40.0
"""The time from one such reading to the next, in times its seconds."""
TOGETHER = 500
"""The most owners in one command."""

_ELEMENT = re.compile(rb"<job_list\b[^<>]*>.*?</job_list>", re.DOTALL)
_OWNER = re.compile(rb"</JB_name>\s*<JB_owner>([^<]*)</JB_owner>")
_KEY = tuple(re.compile(rb"<%b>([^<]*)</%b>" % (tag, tag)) for tag in (b"JB_job_number", b"state", b"slots", b"tasks"))
_PRIORITY = re.compile(rb"<JAT_prio>[^<]*</JAT_prio>")
_PENDING = re.compile(rb"""<job_list\b(?=[^<>]*state=["']pending["'])[^<>]*""")
_UNREAD = b' requests="unread"'
_USER = re.compile(rb"[A-Za-z0-9_.+$-][A-Za-z0-9_.+$@-]{0,255}")
"""Names that `-u` does not take for a pattern or a list."""

Key = tuple[bytes | None, ...]


@dataclass(slots=True)
class _Apart:
    """An owner whose requests are read in turns of their own."""

    due: float
    size: int | None = None
    """Bytes of the last reading; None: it did not end in time."""
    elements: Mapping[Key, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class SharedListing:
    """One for the life of a process. Not for use by two threads."""

    stopwatch: Callable[[], float] = time.monotonic
    _apart: dict[bytes, _Apart] = field(default_factory=dict, init=False)
    _too_long: bool = field(default=False, init=False)
    """Whether a whole listing did not end in time, and it is not known for all owners whose fault that is."""

    def read(self, runner: Runner, timeout: float) -> bytes:
        """A listing as `qstat -u '*' -s a -r -f -xml` prints it; a waiting job whose request was not read has the
        attribute `requests="unread"`. Raises GridEngineNotObservable.
        """
        if not self._apart and not self._too_long:
            began = self.stopwatch()
            data = _within(runner, COMMAND, timeout)
            if data is not None:
                owners = _longest(data)
                # Where all jobs have one owner nobody else waits.
                if owners and len(_owners(data)) > 1:
                    self._set_apart(owners, data, self.stopwatch() - began)
                return data
            self._too_long = True
            # A qmaster that answers nothing is noticed soon.
            return self._put_together(runner, timeout / 3)
        return self._put_together(runner, timeout)

    @property
    def trouble(self) -> str:
        """Whose requests are read more rarely, and what to do; '' if all are read in every pass."""
        if not self._apart:
            return ""
        most = sorted(self._apart, key=lambda owner: -(self._apart[owner].size or sys.maxsize))
        names = few([owner.decode("utf-8", "replace") for owner in most])
        return (
            f"the requests of jobs of {names} are too long to be read in every pass (-hold_jid, -l, -q): they "
            "are read in turns, so that the jobs of others do not wait; `qstat -r -u OWNER` shows them"
        )

    # -- put together --------------------------------------------------------------------------------------------

    def _put_together(self, runner: Runner, timeout: float) -> bytes:
        brief = _ask(runner, BRIEF, timeout)
        jobs = _owners(brief)
        self._apart = {owner: apart for owner, apart in self._apart.items() if owner in jobs}
        read, left = self._read_others(runner, [owner for owner in jobs if owner not in self._apart], jobs)
        read |= self._take_turn(runner)
        for apart in self._apart.values():
            read |= apart.elements
        self._too_long = bool(left)
        if len(jobs) == 1 and all(apart.size is not None for apart in self._apart.values()):
            self._apart = {}
        return _ELEMENT.sub(lambda found: _with_request(found[0], read), brief)

    def _read_others(
        self, runner: Runner, owners: list[bytes], jobs: Mapping[bytes, int]
    ) -> tuple[dict[Key, bytes], list[bytes]]:
        """The elements of these owners' jobs with requests, and the owners for whom there was no time. Those whose
        requests are found to be long are set apart.
        """
        read: dict[Key, bytes] = {}

        def ask(group: tuple[bytes, ...], patience: float) -> bool:
            began = self.stopwatch()
            data = _requests(runner, group, patience)
            if data is None:
                return False
            read.update((_key(element), element) for element in _elements(data))
            self._set_apart(_longest(data), data, self.stopwatch() - began)
            return True

        named = [owner for owner in owners if _USER.fullmatch(owner)]
        groups = [tuple(named[at : at + TOGETHER]) for at in range(0, len(named), TOGETHER)]
        found = read_within(
            groups,
            ask,
            patience=lambda group: PATIENCE + PER_JOB * sum(jobs[owner] for owner in group),
            budget=BUDGET + PER_JOB * sum(jobs.values()),
            stopwatch=self.stopwatch,
        )
        for owner, seconds in found.too_long.items():
            self._apart[owner] = _Apart(self.stopwatch() + REST * seconds)
        return read, list(found.left)

    def _take_turn(self, runner: Runner) -> dict[Key, bytes]:
        """The elements of the owner set apart whose turn it is, if it is one's; {} if they did not come in time."""
        owner, apart = min(self._apart.items(), key=lambda item: item[1].due, default=(b"", None))
        began = self.stopwatch()
        if apart is None or apart.due > began:
            return {}
        data = _requests(runner, (owner,), TURN)
        due = self.stopwatch() + REST * (self.stopwatch() - began)
        if data is None:
            self._apart[owner] = _Apart(due)
            return {}
        elements = {_key(element): element for element in _elements(data)}
        if _longest(data):
            self._apart[owner] = _Apart(due, len(data), elements)
        else:
            del self._apart[owner]
        return elements

    def _set_apart(self, owners: Iterable[bytes], data: bytes, seconds: float) -> None:
        due = self.stopwatch() + REST * seconds
        for owner in owners:
            own = {_key(each): each for each in _elements(data) if _owner(each) == owner}
            self._apart[owner] = _Apart(due, sum(map(len, own.values())), own)


def _ask(runner: Runner, argv: tuple[str, ...], timeout: float) -> bytes:
    done = run(runner, argv, timeout)
    require_success(done)
    return done.stdout


def _within(runner: Runner, argv: tuple[str, ...], timeout: float) -> bytes | None:
    """What a command printed; None: it did not end in time."""
    try:
        return _ask(runner, argv, timeout)
    except GridEngineNotObservable as error:
        if isinstance(error.__cause__, CommandTimedOut):
            return None
        raise


def _requests(runner: Runner, owners: Iterable[bytes], timeout: float) -> bytes | None:
    """The jobs of these owners with what they request; None: they did not come in time. A part of them is no answer:
    the jobs that it lacks would not count.
    """
    command = _of(owners)
    data = _within(runner, command, timeout)
    return None if data is None else document_in(data, b"job_info", shlex.join(command))


def _of(owners: Iterable[bytes]) -> tuple[str, ...]:
    """The command that lists the jobs of these owners with all that they request."""
    names = ",".join(owner.decode() for owner in owners)
    return tuple(names if word == "*" else word for word in COMMAND)


def _elements(data: bytes) -> Iterator[bytes]:
    return (found[0] for found in _ELEMENT.finditer(data))


def _owner(element: bytes) -> bytes:
    found = _OWNER.search(element)
    return b"" if found is None else found[1]


def _owners(data: bytes) -> Counter[bytes]:
    """How many elements each owner has."""
    return Counter(map(_owner, _elements(data)))


def _key(element: bytes) -> Key:
    """What both listings show of some tasks of a job in one state."""
    found = (pattern.search(element) for pattern in _KEY)
    return (_owner(element), *(None if each is None else each[1] for each in found))


def _longest(data: bytes) -> tuple[bytes, ...]:
    """The owners without whose jobs the rest of a listing would not be too long; () if it is not."""
    if len(data) - USUAL * data.count(b"<job_list") <= EXTRA:
        return ()
    extra: Counter[bytes] = Counter()
    for element in _elements(data):
        extra[_owner(element)] += len(element) - USUAL
    left = sum(amount for amount in extra.values() if amount > 0)
    found: list[bytes] = []
    for owner, amount in extra.most_common():
        if left <= EXTRA:
            break
        found.append(owner)
        left -= amount
    return tuple(found)


def _with_request(element: bytes, read: Mapping[Key, bytes]) -> bytes:
    """The element of a listing without requests as one with them, or marked as one that was not read."""
    whole = read.get(_key(element))
    if whole is None:
        return _PENDING.sub(lambda found: found[0] + _UNREAD, element, count=1)
    now = _PRIORITY.search(element)
    return whole if now is None else _PRIORITY.sub(lambda _: now[0], whole, count=1)
