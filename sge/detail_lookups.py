"""`qstat -j` of many jobs, so that the jobs of an owner with huge environments or contexts do not keep others unread.

How much `qstat -j` prints of a job its owner decides: a context or an environment may have many megabytes. Where one
answer takes too long, owners are asked about apart, and who alone takes too long in turns of their own, which take a
small share of the time. A job of which nothing was read does not count, and says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.errors import CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Runner
from autoscaler.sge.configuration import require_success, run
from autoscaler.sge.within_time import few, read_within

PATIENCE = 3.0
"""Seconds that one command may take."""
BUDGET = 8.0
"""Seconds that finding out whose jobs take too long may take in one reading."""
REST = 40.0
"""The time from one such reading of an owner to the next, in times its seconds."""
_NO_JOBS = re.compile(rb"jobs? do(es)? not exist", re.IGNORECASE)


@dataclass(slots=True)
class _Apart:
    """An owner who is asked about in turns of their own."""

    due: float
    most: int
    """About how many jobs at a time."""


@dataclass(slots=True)
class DetailLookups:
    """One for the life of a process. Not for use by two threads."""

    stopwatch: Callable[[], float] = time.monotonic
    unanswered: frozenset[int] = field(default=frozenset(), init=False)
    """Jobs of the last reading that qstat was not asked about in the end, or did not tell about in time."""
    _apart: dict[str, _Apart] = field(default_factory=dict, init=False)

    def read(self, runner: Runner, ids: Sequence[int], owners: Mapping[int, str], timeout: float) -> bytes | None:
        """The answers for these jobs. If some jobs ended meanwhile, qstat fails, but that is no failure. `owners`: of
        these jobs, as far as they are known. Raises GridEngineNotObservable.
        """
        jobs: dict[str, list[int]] = {}
        for number in ids:
            jobs.setdefault(owners.get(number, ""), []).append(number)
        answers: list[bytes] = []
        self.unanswered = frozenset(ids)

        def ask(group: tuple[str, ...], patience: float) -> bool:
            asked = {number for owner in group for number in jobs[owner]}
            answer = _details(runner, [number for number in ids if number in asked], patience)
            if answer is not None:
                answers.append(answer)
                self.unanswered -= asked
            return answer is not None

        found = read_within(
            [tuple(owner for owner in jobs if owner not in self._apart)],
            ask,
            patience=lambda _: min(PATIENCE, timeout),
            budget=BUDGET,
            stopwatch=self.stopwatch,
        )
        answers += self._take_turn(runner, jobs)
        for owner, seconds in found.too_long.items():
            self._apart[owner] = _Apart(self.stopwatch() + REST * seconds, max(len(jobs[owner]) // 2, 1))
        return b"".join(answers) if answers else None

    def _take_turn(self, runner: Runner, jobs: Mapping[str, Sequence[int]]) -> list[bytes]:
        """The answer about some jobs of the owner whose turn it is, if it is one's."""
        began = self.stopwatch()
        owner, apart = min(self._apart.items(), key=lambda item: item[1].due, default=("", None))
        if apart is None or apart.due > began:
            return []
        asked = jobs.get(owner, ())[: apart.most]
        answer = _details(runner, asked, PATIENCE) if asked else b""
        seconds = self.stopwatch() - began
        if answer is not None:
            self.unanswered -= frozenset(asked)
        if answer is not None and apart.most >= len(jobs.get(owner, ())):
            del self._apart[owner]
        else:
            most = max(apart.most // 2, 1) if answer is None else 2 * apart.most
            self._apart[owner] = _Apart(self.stopwatch() + REST * seconds, most)
        return [answer] if answer else []

    @property
    def trouble(self) -> str:
        """Whose jobs are asked about more rarely, and what to do; '' if there are none."""
        if not self._apart:
            return ""
        return (
            f"environments (-v, -V) or contexts (-ac) of jobs of {few(sorted(self._apart))} are huge: these jobs are "
            "looked up in turns, so that the jobs of others do not wait; see `qstat -j`"
        )


def _details(runner: Runner, ids: Sequence[int], timeout: float) -> bytes | None:
    """The answer for all ids in one call; None: it did not come in time."""
    try:
        done = run(runner, ("qstat", "-j", ",".join(str(number) for number in ids), "-xml"), timeout)
    except GridEngineNotObservable as error:
        if isinstance(error.__cause__, CommandTimedOut):
            return None
        raise
    if b"<detailed_job_info" in done.stdout or b"<unknown_jobs" in done.stdout:
        return done.stdout
    if _NO_JOBS.search(done.stderr + done.stdout):
        return done.stdout
    require_success(done)
    return done.stdout
