"""Events of jobs that run and end: from what the hosts show, and from Grid Engine's accounting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autoscaler.core.events.event import ENDED, FAILED, UNKNOWN, EventKind, JobEvent, ranges
from autoscaler.core.events.known import Accounted, Key, KnownEvents, Run
from autoscaler.core.events.projects import Projects
from autoscaler.core.model.cluster import ExecutionHost, HostJob

LATE = 120.0
"""Seconds after which a job that no host shows any more has ended, even if accounting does not say how. By default Grid
Engine writes accounting every 15 s.
"""
Instances = Mapping[tuple[str, str], tuple[HostJob, ...]]


@dataclass(frozen=True, slots=True)
class Moved:
    """The changes of jobs on hosts in one pass."""

    known: KnownEvents
    started: tuple[Run, ...] = ()
    ended: tuple[Run, ...] = ()
    """Runs reported as ended: they are forgotten."""
    events: tuple[JobEvent, ...] = ()


class _Alike(NamedTuple):
    """What ended runs have in common that are reported as one event."""

    host: str
    queue: str
    owner: str
    project: str
    code: str
    how: str
    array: int
    """Number of their array job; 0: they are of none."""


def runs_and_ends(
    known: KnownEvents,
    hosts: Sequence[ExecutionHost],
    accounted: Sequence[Accounted],
    projects: Projects,
    now: float,
) -> Moved:
    """The runs that began, by hosts and accounting, and those that ended."""
    instances = {(one.queue, one.host): one.jobs for host in hosts for one in host.instances if one.jobs}
    if instances == known.instances and not accounted and not known.gone and not known.moved:
        return Moved(known)
    listed = _there(instances)
    still = {key: run for key, run in known.still.items() if _is_same(run, listed.get(key))}
    there = {key: run for key, run in listed.items() if key not in still}
    runs, moved = dict(known.runs), [*known.moved]
    new = (run for key, run in there.items() if key not in runs or _is_another(run, runs[key]))
    started = [_named(run, projects) for run in new]
    over = [runs[run.key] for run in started if run.key in runs]
    moved += ((run, now) for run in over)
    runs |= {run.key: run for run in started}
    ended, ends, starts = _accounted(runs, [run for run, _ in moved], accounted, now)
    over += (runs.pop(run.key) for run in ended if runs.get(run.key) is run)
    moved = [each for each in moved if each[0] not in ended]
    still |= {run.key: run for run in ended if _is_same(run, there.get(run.key))}
    again = {key: _named(run, projects) for key, run in there.items() if key not in runs and key not in still}
    runs |= again
    gone = {key: known.gone.get(key, now) for key in runs if key not in listed}
    late = [(runs[key], since) for key, since in gone.items() if now - since >= LATE]
    for run, _ in late:
        over.append(runs.pop(run.key))
        del gone[run.key]
    late += (each for each in moved if now - each[1] >= LATE)
    moved = [each for each in moved if each not in late]
    known = replace(known, runs=runs, gone=gone, moved=tuple(moved), still=still, instances=instances)
    started += again.values()
    events = (*_started(started, now), *starts, *ends, *_ended_unseen(late, now))
    return Moved(known, tuple(run for run in started if runs.get(run.key) is run), tuple(over), events)


def _there(instances: Instances) -> dict[Key, Run]:
    """All present runs with all their hosts; their project is not known."""
    found: dict[Key, Run] = {}
    for (queue, host), jobs in instances.items():
        for job in jobs:
            key = job.number, job.task
            before = found.get(key)
            if before is None:
                found[key] = Run(job.number, job.task, job.owner, (host,), queue, job.started)
            elif host not in before.hosts:
                in_one = before.queue if queue == before.queue else ""
                found[key] = replace(before, hosts=(*before.hosts, host), queue=in_one)
    found.pop((0, ""), None)  # stands for one that cannot be read
    return found


def _is_another(run: Run, before: Run) -> bool:
    """Whether it is a new run: the job began again elsewhere between two passes."""
    return set(run.hosts).isdisjoint(before.hosts)


def _is_same(run: Run, there: Run | None) -> bool:
    """Whether a run that accounting says is over is the one that hosts show: the listing is older than the accounting,
    and Grid Engine shows a job on a host that is gone until that knows of it.
    """
    return there is not None and there.started == run.started and not _is_another(run, there)


def _accounted(
    runs: Mapping[Key, Run], moved: Sequence[Run], accounted: Sequence[Accounted], now: float
) -> tuple[list[Run], list[JobEvent], list[JobEvent]]:
    """Runs that are over, the events of all ends, and those of starts that no pass saw."""
    over: list[Run] = []
    unseen: list[Run] = []
    groups: dict[_Alike, list[Accounted]] = {}
    taken: set[Key] = set()
    for line in accounted:
        key = line.job, line.task
        run = runs.get(key) if key not in taken else None
        if run is not None and line.host in run.hosts:
            taken.add(key)
            over.append(run)
        elif (run := _of_line(line, moved)) is not None:
            over.append(run)
        elif line.started is not None:
            unseen.append(Run(line.job, line.task, line.owner, (line.host,), line.queue, line.started, line.project))
        code = FAILED if line.failed else ENDED
        project = line.project or (run.project if run else "")
        array = line.job if line.task else 0
        alike = _Alike(line.host, line.queue, line.owner, project, code, line.how, array)
        groups.setdefault(alike, []).append(line)
    return over, [_ended(lines, alike, now) for alike, lines in groups.items()], _started(unseen, now)


def _of_line(line: Accounted, moved: Iterable[Run]) -> Run | None:
    """The earlier run of a job that began again elsewhere."""
    return next((run for run in moved if run.key == (line.job, line.task) and line.host in run.hosts), None)


def _ended(lines: Sequence[Accounted], alike: _Alike, now: float) -> JobEvent:
    times = [line.ended or now for line in lines]
    return JobEvent(
        EventKind.ENDED,
        min(times),
        max(times),
        now,
        ranges(line.job for line in lines),
        _tasks(line.task for line in lines),
        len(lines),
        alike.owner,
        alike.project,
        (alike.host,),
        alike.queue,
        code=alike.code,
        message=alike.how,
    )


def _started(runs: Iterable[Run], now: float) -> list[JobEvent]:
    return [_of_runs(EventKind.STARTED, alike, now) for alike in _alike(runs)]


def _ended_unseen(late: Iterable[tuple[Run, float]], now: float) -> list[JobEvent]:
    """Events of ended runs of which accounting has no line, with since when no host shows them."""
    message = "accounting does not say how"
    runs = [replace(run, started=since) for run, since in late]
    return [replace(_of_runs(EventKind.ENDED, alike, now), code=UNKNOWN, message=message) for alike in _alike(runs)]


def _named(run: Run, projects: Projects) -> Run:
    return replace(run, project=projects.of(run.job))


def _alike(runs: Iterable[Run]) -> Iterable[list[Run]]:
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        array = run.job if run.task else 0
        groups.setdefault((run.hosts, run.queue, run.owner, run.project, array), []).append(run)
    return groups.values()


def _of_runs(kind: EventKind, runs: Sequence[Run], now: float) -> JobEvent:
    times = [run.started or now for run in runs]
    first = runs[0]
    return JobEvent(
        kind,
        min(times),
        max(times),
        now,
        ranges(run.job for run in runs),
        _tasks(run.task for run in runs),
        len(runs),
        first.owner,
        first.project,
        first.hosts,
        first.queue,
    )


def _tasks(tasks: Iterable[str]) -> str:
    """The tasks of one array as ranges; '': the jobs are no arrays."""
    return ranges(int(task) for task in tasks if task.isdecimal() and len(task) < 19)
