"""Random cells and jobs on a real scheduler against our core: one private cell, made into another world each round.

The scheduler runs only on command, so that jobs wait while both are asked about them. Of every world the answer
about one job is tried: all others are deleted, and the scheduler runs once.
"""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path
from random import Random

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.evidence import Answer as Spoken
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.sge.cluster import cluster_from, read_outputs
from autoscaler.sge.probe_hosts import verdicts
from tests.deadlines import Deadline
from tests.differential.answers import Answer, Said, ours
from tests.differential.worlds import FIRST, HOSTS, USERS, World, a_request, a_world

PATIENCE = 20.0
STOPPED = {"schedule_interval": "1:0:0", "flush_submit_sec": "0", "flush_finish_sec": "0"}
"""The scheduler then runs only by `qconf -tsm`."""
ORDERS = 0.3
"""Seconds until the qmaster has done what a run of the scheduler ordered."""
AT_ONCE = 25
Job = tuple[str, tuple[str, ...]]
"""Its user, and its options of `qsub`."""
JOBS = 100
"""Jobs of one world."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdicts of both on one job."""

    world: str
    """Seed and number, from which it is made again."""
    request: str
    theirs: Said
    ours: Said
    dispatched: bool | None = None
    """Whether the scheduler started it, where that was tried."""

    @property
    def unknown(self) -> bool:
        return Answer.UNKNOWN in (self.theirs[0], self.ours[0])

    @property
    def differ(self) -> bool:
        return not self.unknown and self.theirs[0] is not self.ours[0]

    @property
    def differs_from_dispatch(self) -> bool:
        """Whether our core is wrong: the scheduler decides, if it was tried."""
        if self.unknown or self.dispatched is None:
            return self.differ
        return self.dispatched is not (self.ours[0] is Answer.FITS)

    @property
    def not_as_said(self) -> bool:
        """Whether the scheduler contradicted `qalter`."""
        return self.dispatched is not None and self.dispatched is not (self.theirs[0] is Answer.FITS)

    @property
    def of_a_host_under_quota(self) -> bool:
        """A parallel job that names a host under a quota: whether it starts depends on which host is tried first."""
        return "-pe " in self.request and "h=" in self.request and "exceeds limit" in self.theirs[1]

    @property
    def starves(self) -> bool:
        """Whether such a job would wait behind hosts on which it seems to fit."""
        return self.differs_from_dispatch and self.ours[0] is Answer.FITS

    def __str__(self) -> str:
        did = {True: "starts", False: "waits", None: "not tried"}[self.dispatched]
        return (
            f"world {self.world}: qsub {self.request}\n  scheduler: {did}\n"
            f"  qalter: {self.theirs[0]}: {self.theirs[1]}\n  core: {self.ours[0]}: {self.ours[1]}"
        )


@dataclass(slots=True)
class Tally:
    """The result of all rounds."""

    jobs: int = 0
    unknown: int = 0
    fit: int = 0
    """Of those that agree, how many fit."""
    tried: int = 0
    qalter_wrong: int = 0
    """Jobs of those tried on which the scheduler contradicted `qalter`."""
    differences: list[Compared] = field(default_factory=list)
    why_unknown: Counter[str] = field(default_factory=Counter)

    @property
    def agree(self) -> int:
        return self.jobs - self.unknown - len(self.differences)

    def count(self, each: Compared) -> None:
        self.jobs += 1
        self.tried += each.dispatched is not None
        self.qalter_wrong += each.not_as_said
        if each.unknown:
            self.unknown += 1
            self.why_unknown[each.ours[1].split(" ")[0] if each.ours[0] is Answer.UNKNOWN else "qalter"] += 1
        elif each.differs_from_dispatch:
            self.differences.append(each)
        else:
            self.fit += each.ours[0] is Answer.FITS

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs: {self.agree} agree ({self.fit} of them fit), {len(self.differences)} differ, "
            f"{sum(each.starves for each in self.differences)} of them seem to fit and wait, {self.unknown} unknown "
            f"({100 * self.unknown / max(self.jobs, 1):.1f} %); {self.tried} tried on the scheduler, "
            f"{self.qalter_wrong} of them not as qalter had said"
        )


@contextmanager
def differential_cell() -> Iterator[Cell]:
    """A cell with the hosts that worlds need, its scheduler stopped."""
    hosts = [ExecHost(name, slots) for name, slots in HOSTS.items()]
    with Cell.up(hosts=hosts, scheduler=STOPPED) as cell:
        _configure(cell, a_world(Random("first")), FIRST)
        yield cell


def compare(cell: Cell, seed: str, jobs: int, report: Callable[[str], None] = lambda line: None) -> Tally:
    """This many jobs in worlds of this seed. `report` is given a line a world, and one for every difference."""
    tally, number = Tally(), 0
    while tally.jobs < jobs:
        one_world(cell, f"{seed}/{number}", min(JOBS, jobs - tally.jobs), tally, report)
        number += 1
        report(f"{number} worlds, {tally}")
    return tally


def one_world(cell: Cell, name: str, count: int, tally: Tally, report: Callable[[str], None]) -> None:
    """Ask about this many jobs in the world of this name."""
    random = Random(name)
    world = a_world(random)
    jobs = [(random.choice(USERS), a_request(random)) for _ in range(count)]
    for each in in_world(cell, world, jobs, name=name, sample=random):
        tally.count(each)
        if each.differs_from_dispatch:
            report(str(each))


def in_world(
    cell: Cell, world: World, jobs: Sequence[Job], *, name: str = "", sample: Random | None = None
) -> list[Compared]:
    """The verdicts of both on these jobs, each alone. The scheduler runs those that differ and one of `sample`."""
    _configure(cell, world, world.script)
    _submit(cell, [("root", options) for options in world.running], "sleep")
    dispatch(cell)
    requests = _submit(cell, jobs, "sleep")
    said = _asked(cell, sorted(requests))
    mine = ours(_read(cell, sorted(requests)), time.time())
    _delete(cell, *map(str, requests))
    compared = {
        job: Compared(name, f"{shlex.join(options)} (by {user})", said[job], mine.get(job, (Answer.UNKNOWN, "unseen")))
        for job, (user, options) in requests.items()
    }
    tried = {job for job, each in compared.items() if each.differ}
    answered = [job for job in sorted(compared) if said[job][0] is not Answer.UNKNOWN]
    tried |= {sample.choice(answered)} if sample is not None and answered else set()
    for job in sorted(tried):
        compared[job] = replace(compared[job], dispatched=_try(cell, requests[job]))
    _delete(cell, "-u", "*")
    return [compared[job] for job in sorted(compared)]


def _configure(cell: Cell, world: World, script: str) -> None:
    folder = cell.directory / "world"
    folder.mkdir(exist_ok=True)
    for name, text in world.files.items():
        (folder / name).write_text(text)
    said = _shell(cell, f"cd {folder}; {script}")
    refused = [line for line in said.splitlines() if not _FINE.search(line)]
    assert not refused, f"a world is not as it should be: {refused}"


_FINE = re.compile(r"added|modified|removed|changed|already exists|does not exist|No modification|not changed")
"""What Grid Engine says where it does as it is told, or where there is nothing to do."""


def _shell(cell: Cell, script: str) -> str:
    ended = cell.runner(("sh", "-c", script), timeout=120)
    return (ended.stdout + ended.stderr).decode("utf-8", "replace")


def _submit(cell: Cell, jobs: Sequence[Job], command: str) -> dict[int, Job]:
    """New jobs by number, each with its user and options; without those that Grid Engine refused."""
    lines = [
        f"echo job:$(setpriv --reuid={user} --regid={user} --clear-groups "
        + shlex.join(("qsub", "-terse", "-b", "y", "-o", "/dev/null", "-j", "y", *options, command, "600"))
        + " 2>&1)"
        for user, options in jobs
    ]
    said = [line for line in _shell(cell, "cd /\n" + "\n".join(lines)).splitlines() if line.startswith("job:")]
    assert len(said) == len(jobs), f"not every submission was answered: {said[:3]}"
    made = {}
    for line, job in zip(said, jobs, strict=True):
        number = re.fullmatch(r"job:(\d+)(?:\.\S+)?", line)
        if number is not None:
            made[int(number[1])] = job
        else:
            assert "rejected" in line or "denied" in line, line
    return made


def _asked(cell: Cell, jobs: Sequence[int]) -> dict[int, Said]:
    """What Grid Engine says of each job by itself, as the cell is now."""
    found: dict[int, Said] = {}
    for at in range(0, len(jobs), AT_ONCE):
        some = jobs[at : at + AT_ONCE]
        spoken = verdicts(some, _shell(cell, f"qalter -w p {','.join(map(str, some))}"))
        for job, (answer, words) in spoken.items():
            found[job] = _TOLD[answer], words
    return found


_TOLD = {Spoken.SATISFIABLE: Answer.FITS, Spoken.UNSATISFIABLE: Answer.NOT, Spoken.NONE: Answer.UNKNOWN}


def _read(cell: Cell, details: Sequence[int]) -> Cluster:
    outputs, _ = read_outputs(cell.runner, wanted=lambda job_categories, needs: details, zone=UTC)
    return cluster_from(outputs, zone=UTC, now=time.time())


def _try(cell: Cell, job: Job) -> bool:
    """Whether the scheduler starts such a job where no other waits."""
    (number,) = _submit(cell, [job], "sleep")
    started = any(other == number and "qw" not in state for other, state in dispatch(cell))
    _delete(cell, str(number))
    _until(lambda: number not in [other for other, _ in _states(cell)])
    return started


def dispatch(cell: Cell) -> list[tuple[int, str]]:
    """Let the scheduler run once; then all jobs with their states."""
    log = cell.root / "default" / "common" / "schedd_runlog"
    before, limit = _runs(log), Deadline(5 * PATIENCE)
    while _runs(log) <= before:
        assert not limit.over(), "the scheduler did not run"
        # One that is just reading a changed configuration anew does not notice the order.
        cell.out("qconf", "-tsm")
        patience = Deadline(PATIENCE / 4)
        while _runs(log) <= before and not patience.over():
            time.sleep(0.05)
    time.sleep(ORDERS)
    _until(lambda: not any("t" in state for _, state in _states(cell)))
    return _states(cell)


def _runs(log: Path) -> int:
    return log.read_text(errors="replace").count("STOP-SCHEDULER-RUN") if log.exists() else 0


def _states(cell: Cell) -> list[tuple[int, str]]:
    lines = [line.split() for line in cell.out("qstat", "-u", "*").splitlines()[2:]]
    return [(int(words[0]), words[4]) for words in lines if words]


def _delete(cell: Cell, *which: str) -> None:
    _shell(cell, f"qdel {shlex.join(which)}")
    if which[0] == "-u":
        _until(lambda: not _states(cell))


def _until(reached: Callable[[], bool]) -> None:
    limit = Deadline(PATIENCE)
    while not reached():
        assert not limit.over(), "the cell did not come to rest"
        time.sleep(0.05)
