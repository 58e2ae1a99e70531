"""What a campaign on a real cell found, decided by traces, accounting, the journal and what the campaign did.

Everything here is a function of what was written down. A finding is the autoscaler's; what Grid Engine or the campaign
itself did to a job is reported as a note, and only where something that was written down explains it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.soak.traces import Trace, by_task

LATE = 60.0
"""Seconds after a restart of the qmaster in which execds may not have reported again (31 were seen)."""
UNSAVED = 10.0
"""Seconds before a kill of the qmaster of which it may have written nothing down."""
FORGOTTEN = 10.0
"""Seconds in which an execd ends a job that a new qmaster does not know of."""
SETTLED = 2.0
"""Seconds by which accounting's whole seconds, and the records of machines, may miss a process's own times."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """One job as it was submitted."""

    rerun: bool | None = None
    """`-r`; None: as its queue has it, which is no."""
    at: float = 0.0
    unsatisfiable: bool = False
    """Nothing allowed could run it."""


@dataclass(frozen=True, slots=True)
class JournalAction:
    """An action of the journal, from when its plan was made."""

    at: float
    kind: str
    host: str | None
    worker_id: str | None
    jobs: tuple[str, ...]
    code: str
    result: str | None
    message: str = ""

    def names(self, trace: Trace) -> bool:
        """Whether it is about this task, or its whole job."""
        return trace.name in self.jobs or trace.job in self.jobs

    def __str__(self) -> str:
        jobs = f" of {', '.join(self.jobs)}" if self.jobs else ""
        return f"{self.kind}{jobs} ({self.host or '-'}, {self.code}, {self.result}) at {self.at:.1f}"


@dataclass(frozen=True, slots=True)
class End:
    """An end as accounting has it, times in whole Unix seconds. Written down twice it is still one."""

    job: str
    task: str
    host: str
    start: float
    end: float
    failed: int


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A machine by its provider's records."""

    id: str
    name: str
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Records:
    """All that was written down until now."""

    jobs: Mapping[str, Submitted]
    traces: Sequence[Trace]
    actions: Sequence[JournalAction] = ()
    ends: Sequence[End] = ()
    places: Sequence[RunPlace] = ()
    disturbed: Mapping[str, float] = field(default_factory=dict)
    """Machine → when the campaign did something to it besides giving it work."""
    silent: Mapping[str, float] = field(default_factory=dict)
    """Machine → since when its host last was in state u, as the campaign itself observed it."""
    deleted: frozenset[str] = frozenset()
    """Jobs that the campaign deleted."""
    restarts: Sequence[float] = ()
    """When the qmaster was killed."""

    def place(self, host: str, at: float) -> RunPlace | None:
        """The machine of this name at that time; None for a persistent host."""
        there = [p for p in self.places if p.name == host and p.began <= at + SETTLED]
        there = [p for p in there if p.ended is None or at - SETTLED <= p.ended]
        return max(there, key=lambda place: place.began, default=None)

    def restarted(self, since: float, until: float) -> float | None:
        """When the qmaster was killed in that time; None where it was not."""
        return next((at for at in self.restarts if since <= at <= until), None)


@dataclass(frozen=True, slots=True)
class Findings:
    """`broken`: rules of the autoscaler. `notes`: what else came to pass, and what explains it."""

    broken: tuple[str, ...]
    notes: tuple[str, ...]


Judgements = Iterator[tuple[bool, str]]
"""Whether it breaks a rule, and what it is."""


def at_any_time(records: Records) -> Findings:
    """What can be judged while things go on."""
    return _judged(records, (_at_once, _second_runs, _wrongly_killed))


def at_the_end(records: Records) -> Findings:
    """What can be judged only when everything has converged, and what can be judged before."""
    return _judged(
        records, (_at_once, _second_runs, _after_its_end, _wrongly_killed, _cut_short, _never_ran, _beyond_traces)
    )


def _judged(records: Records, judges: Iterable[Callable[[Records], Judgements]]) -> Findings:
    found_all = [found for judge in judges for found in judge(records)]
    broken, notes = (tuple(what for breaks, what in found_all if breaks is as_broken) for as_broken in (True, False))
    return Findings(broken, notes)


def _at_once(records: Records) -> Judgements:
    """Rule 7: two processes of one task live at the same time."""
    for runs in by_task(records.traces).values():
        for earlier, later in itertools.combinations(runs, 2):
            if later.began < earlier.last:
                actions = _actions_on(records, later, earlier.began, later.began)
                yield True, f"rule 7: at once {earlier}; {later}; we did: {actions or 'nothing with it'}"


def _second_runs(records: Records) -> Judgements:
    """Rule 7: what may not start again starts again because of us."""
    for runs in by_task(records.traces).values():
        if runs[0].job not in records.jobs or records.jobs[runs[0].job].rerun is True:
            continue
        for earlier, later in itertools.pairwise(runs):
            what = f"{earlier}; again {later}"
            actions = _actions_on(records, later, earlier.began, later.began, ("reschedule",))
            restart = records.restarted(earlier.began - UNSAVED, later.began)
            if actions:
                yield True, f"rule 7: not rerunnable, and started again by us: {what}; we did: {actions}"
            elif restart is not None:
                yield False, f"started again by Grid Engine, whose qmaster was killed at {restart:.1f}: {what}"
            else:
                yield True, f"rule 7: not rerunnable, and started again, nobody knows why: {what}"


def _after_its_end(records: Records) -> Judgements:
    """Rule 7: what ran to its end is started again by us, though accounting had that end."""
    for runs in by_task(records.traces).values():
        for earlier, later in itertools.pairwise(runs):
            actions = _actions_on(records, later, earlier.began, later.began, ("reschedule",))
            if earlier.ended and actions:
                what = f"{earlier}; again {later}; we did: {actions}"
                known = any(_is_end_of(end, earlier) for end in records.ends)
                yield known, f"rule 7: its end was known: {what}" if known else f"nobody had heard of its end: {what}"


def _is_end_of(end: End, trace: Trace) -> bool:
    """Whether accounting has the good end of this process."""
    return (
        end.failed == 0
        and (_name(end), end.host) == (trace.name, trace.host)
        and (abs(end.start - trace.began) <= SETTLED)
    )


def _wrongly_killed(records: Records) -> Judgements:
    """Rule 6: a job that could run is deleted by us."""
    able = {job for job, submitted in records.jobs.items() if not submitted.unsatisfiable} - records.deleted
    for action in records.actions:
        wrong = sorted(able & {name.split(".")[0] for name in action.jobs})
        if action.kind in ("kill", "hold") and action.code != "PARTLY_ALIVE" and wrong:
            yield True, f"rule 6: jobs {', '.join(wrong)} could run: {action}"


def _cut_short(records: Records) -> Judgements:
    """Rule 1: a process ends before its work is done, and neither the campaign nor Grid Engine did that."""
    for trace in records.traces:
        place = records.place(trace.host, trace.began)
        disturbed = place is not None and place.id in records.disturbed
        if trace.ended or trace.job in records.deleted or disturbed or _rescheduled(records, trace):
            continue
        actions = _actions_on(records, trace, trace.began, trace.last + LATE, place=place)
        silent = place is not None and records.silent.get(place.id, trace.last) < trace.last
        restart = records.restarted(trace.began - UNSAVED, trace.last + FORGOTTEN)
        if silent and any(word in actions for word in ("FENCED", "UNLISTED_AND_SILENT", "UNLISTED_AND_REPLACED")):
            yield False, f"fenced, because Grid Engine did not hear of its machine: {trace}; we did: {actions}"
        elif restart is not None and not actions:
            yield False, f"cut short by Grid Engine, whose qmaster was killed at {restart:.1f}: {trace}"
        else:
            yield True, f"rule 1: cut short: {trace}; we did: {actions or 'nothing with it or its host'}"


def _rescheduled(records: Records, trace: Trace) -> bool:
    """Whether it may start again, and was made to because another of its machines was gone."""
    submitted, ended = records.jobs.get(trace.job), {place.id: place.ended for place in records.places}
    if submitted is None or submitted.rerun is not True:
        return False
    return any(
        action.kind == "reschedule"
        and action.names(trace)
        and (ended.get(action.worker_id or "") or action.at) < action.at
        for action in records.actions
    )


def _never_ran(records: Records) -> Judgements:
    """Jobs that could run, are gone, and never did."""
    begun = {trace.job for trace in records.traces}
    for job, submitted in records.jobs.items():
        if submitted.unsatisfiable or job in begun or job in records.deleted:
            if submitted.unsatisfiable and job in begun:
                yield True, f"the cell ran job {job}, which it cannot"
            continue
        actions = [str(action) for action in records.actions if job in {name.split(".")[0] for name in action.jobs}]
        ends = [end for end in records.ends if end.job == job]
        restart = records.restarted(submitted.at - SETTLED, submitted.at + UNSAVED)
        if ends and not actions and all(_on_struck(end, records) for end in ends):
            yield False, f"job {job} was lost with the machine it was sent to: {ends}"
        elif restart is not None and not actions:
            yield False, f"job {job} was lost with the qmaster that took it, killed at {restart:.1f}"
        else:
            yield True, f"job {job} could run, is gone and never ran; accounting: {ends}; we did: {actions}"


def _beyond_traces(records: Records) -> Judgements:
    """Accounting has more good ends of a task than processes began: only a note, as the processes decide."""
    runs = by_task(records.traces)
    good = {end for end in records.ends if end.failed == 0}
    for name, ends in itertools.groupby(sorted(good, key=_name), _name):
        shown = sorted((end.start, end.end, end.host) for end in ends)
        processes = len(runs.get(name, ()))
        if len(shown) > max(processes, 1):
            yield False, f"accounting has {len(shown)} ends of {name}, of {processes} processes: {shown}"


def _name(end: End) -> str:
    return end.job if end.task == "undefined" else f"{end.job}.{end.task}"


def _on_struck(end: End, records: Records) -> bool:
    disturbed = {place.name for place in records.places if place.id in records.disturbed}
    return end.failed != 0 and end.host in disturbed


def _actions_on(
    records: Records,
    trace: Trace,
    since: float,
    until: float,
    kinds: Sequence[str] = (),
    place: RunPlace | None = None,
) -> str:
    """What we set out to do in that time with this task, or with the machine it was on."""
    return "; ".join(
        str(action)
        for action in records.actions
        if since <= action.at <= until
        and (not kinds or action.kind in kinds)
        and action.result not in ("refused", "not begun")
        and (action.names(trace) or (place is not None and action.worker_id == place.id and action.kind == "terminate"))
    )
