"""Where the processes of jobs really are, whatever Grid Engine believes.

A job that is rescheduled or deleted by force is off Grid Engine's books at once; its processes live on until their
machine's execd reports the next time, or until the machine ends. Rule 7 is checked here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.soak.jobs import Job, Run

REPORT_INTERVAL = 4.0


@dataclass(slots=True, eq=False)
class Process:
    """One part of a run on one machine. `place`: the machine's id, or the name of a persistent host."""

    job: int
    task: int
    run: Run
    place: str


@dataclass
class Processes:
    """`answering(host)`: the place whose execd answers under this name; `lives(place)`: whether it still exists."""

    answering: Callable[[str], str | None]
    lives: Callable[[str], bool]
    living: list[Process] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    """Whenever a task had processes of two runs."""
    _reports_at: dict[str, float] = field(default_factory=dict)

    def pass_by(self, runs: Sequence[tuple[Job, Run]], hosts: Sequence[str], now: float) -> None:
        """Machines end, execds report what runs and learn what should not, and get what is new."""
        self.living = [one for one in self.living if self.lives(one.place)]
        current = {id(run) for _, run in runs}
        for host in hosts:
            place = self.answering(host)
            if place is not None and now >= self._reports_at.get(place, 0.0):
                self._reports_at[place] = now + REPORT_INTERVAL
                self.living = [one for one in self.living if one.place != place or id(one.run) in current]
        for job, run in runs:
            for host in sorted(run.hosts - run.delivered.keys()):
                place = self.answering(host)
                if place is not None:
                    self._deliver(job, run, host, place)

    def _deliver(self, job: Job, run: Run, host: str, place: str) -> None:
        others = [one for one in self.living if (one.job, one.task) == (job.number, run.task) and one.run is not run]
        if others:
            places = ", ".join(one.place for one in others)
            self.twice.append(f"job {job.number}.{run.task} runs on {place}, and still on {places}")
        run.delivered[host] = place
        self.living.append(Process(job.number, run.task, run, place))

    def complete(self, run: Run) -> bool:
        """Whether every part of it was delivered and is alive."""
        alive = {one.place for one in self.living if one.run is run}
        return run.hosts <= run.delivered.keys() and set(run.delivered.values()) <= alive

    def reachable(self, run: Run) -> bool:
        """Whether the execds of all its parts answer, so that its end can show."""
        return all(self.answering(host) == place for host, place in run.delivered.items())

    def end(self, run: Run) -> None:
        self.living = [one for one in self.living if one.run is not run]

    def lost(self, run: Run) -> bool:
        """Whether a machine that a part of it was started on is gone."""
        return any(not self.lives(place) for place in run.delivered.values())
