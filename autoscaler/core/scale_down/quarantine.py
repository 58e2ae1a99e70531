"""Which workers seem broken, and which of them are quarantined: jobs fail on them in a row, the health check says so,
or Grid Engine put a queue instance into the error state.

Jobs may be at fault themselves, and one cause may affect all hosts, so few workers are quarantined at a time; the
others are only reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.hosts.job_faults import Fault, fault_of
from autoscaler.core.model.evidence import Evidence, Health, JobFailure
from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.worker_state import WorkerState, same_host

WINDOW = 1800.0
"""Seconds for which a failure counts, and the window for the share of workers that may be quarantined."""
SHARE = 0.2
"""The share of the workers in service that may be quarantined within the window, at least one."""
JOBS = 2
"""The least number of different failed jobs: one job that always fails is no evidence against a host."""
STALE = 3.0
"""A health check that is older than this many of its intervals no longer counts."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A worker that seems broken. `acts`: it is quarantined; else it is only reported, with the reason."""

    reason: Reason
    acts: bool


def find_suspects(
    observed: ObservedWorkers, evidence: Evidence, quarantines: Sequence[Event], policy: Policy, now: float
) -> dict[str, Suspect]:
    """By worker id, all in service that seem broken. `quarantines`: earlier quarantines."""
    serving = observed.in_service
    in_error = [worker for worker in observed.in_error if worker.in_service]
    found: dict[str, tuple[Reason, Reason | None]] = {}
    for worker in serving if evidence.failures or evidence.health else in_error:
        what = _broken(worker, evidence, policy, now)
        if what is not None:
            found[worker.worker.id] = what
    recent = sum(event.count for event in quarantines if now - event.at < WINDOW)
    most = max(1, int(SHARE * (len(serving) + recent)))
    full = because(Code.QUARANTINE_LIMIT, most=most, window_s=WINDOW, count=len(found) + recent)
    suspects: dict[str, Suspect] = {}
    for worker_id, (why, uncertain) in sorted(found.items(), key=_gravest_first):
        if uncertain is None and recent >= most:
            uncertain = full
        recent += uncertain is None
        suspects[worker_id] = Suspect(why, True) if uncertain is None else Suspect(_report_only(why, uncertain), False)
    return suspects


def _report_only(why: Reason, uncertain: Reason) -> Reason:
    return because(Code.SUSPECT).then(why).then(uncertain)


def quarantine_notes(observed: ObservedWorkers, suspects: Mapping[str, Suspect]) -> tuple[Reason, ...]:
    """The pass's notes on suspects that are left alone: one for each cause."""
    if not suspects:
        return ()
    names = {worker.worker.id: worker.name for worker in observed.workers}
    by_cause: dict[tuple[Code, ...], list[str]] = {}
    first: dict[tuple[Code, ...], Reason] = {}
    for worker_id, suspect in suspects.items():
        if not suspect.acts:
            cause = tuple(link.code for link in suspect.reason.trail)
            by_cause.setdefault(cause, []).append(names[worker_id])
            first.setdefault(cause, suspect.reason)
    return tuple(
        replace(because(Code.SUSPECT, workers=tuple(sorted(by_cause[cause]))), trail=reason.trail)
        for cause, reason in first.items()
    )


_GRAVITY = (Code.BLACK_HOLE, Code.UNHEALTHY, Code.INSTANCE_IN_ERROR)
"""A black hole makes jobs fail; no job enters a queue instance in error."""


def _gravest_first(item: tuple[str, tuple[Reason, Reason | None]]) -> tuple[int, str]:
    worker_id, (why, _) = item
    return _GRAVITY.index(why.code), worker_id


def _broken(worker: WorkerState, evidence: Evidence, policy: Policy, now: float) -> tuple[Reason, Reason | None] | None:
    """Why a worker seems broken, and why that is not certain; None: it does not."""
    host, note = worker.host, worker.note
    if host is None:
        return None
    trusted = note.trusted_at is not None and now - note.trusted_at < WINDOW
    if not trusted and host.in_error:
        return because(Code.INSTANCE_IN_ERROR), None
    health = evidence.health.get(worker.worker.id)
    if health is not None and _unhealthy(worker, health, now):
        return because(Code.UNHEALTHY, since_at=health.sick_since, message=health.message), None
    return _black_hole(worker, evidence, policy, now) if evidence.failures else None


def _unhealthy(worker: WorkerState, health: Health, now: float) -> bool:
    """Whether at least two checks in a row, the last one recent, found it unhealthy since a person last enabled it."""
    since, array = health.sick_since, worker.array
    if health.healthy or since is None or array is None or not array.health_check:
        return False
    trusted = worker.note.trusted_at or 0.0
    return health.at > since > trusted and now - health.at <= STALE * array.health_interval


def _black_hole(
    worker: WorkerState, evidence: Evidence, policy: Policy, now: float
) -> tuple[Reason, Reason | None] | None:
    """Why it seems a black hole, as jobs fail on it in a row, and why that is uncertain, if it is. Failures of an
    earlier machine of its name do not count.
    """
    name, least = worker.name, policy.black_hole_failures
    ran = [success.at for success in evidence.successes if same_host(success.host, name)]
    since = max(worker.note.joined_at or worker.made_at, worker.note.trusted_at or 0.0, now - WINDOW, *ran)
    failures = [
        failure
        for failure in evidence.failures
        if failure.at >= since and same_host(failure.host, name) and fault_of(failure.failed) is not None
    ]
    if not least or not _enough(failures, least):
        return None
    jobs = tuple(dict.fromkeys(str(failure.job) for failure in failures))
    why = because(Code.BLACK_HOLE, failures=len(failures), jobs=jobs, said=failures[-1].failed)
    return why, _why_uncertain(failures, worker, evidence, least, now)


_HOSTS = frozenset({Fault.HOST})


def _enough(failures: Sequence[JobFailure], least: int) -> bool:
    return len(failures) >= least and len({failure.job for failure in failures}) >= JOBS


def _why_uncertain(
    failures: Sequence[JobFailure], worker: WorkerState, evidence: Evidence, least: int, now: float
) -> Reason | None:
    """Why the jobs themselves may be at fault. They are not if Grid Engine's failure codes show that the host is, or if
    jobs of another owner failed too. If jobs of other owners run well on the host, failures of one owner prove nothing.
    Else they do if the same job fails again before it starts: only a shepherd that cannot be started puts it back. They
    also do if that owner's jobs ran on another host meanwhile, unless they had run on this one, too: in a cell with
    other owners the jobs that failed may be those with a mistake.
    """

    def enough(faults: frozenset[Fault]) -> bool:
        return _enough([failure for failure in failures if fault_of(failure.failed) in faults], least)

    owner, host = failures[0].owner, worker.name
    if enough(_HOSTS) or any(failure.owner != owner for failure in failures):
        return None
    only_owner = because(Code.ONE_OWNER, owner=owner)
    ran = {each.owner for each in evidence.successes if same_host(each.host, host) and now - each.at < WINDOW}
    run = {job.owner for job in worker.host.jobs if "E" not in job.state} if worker.host is not None else set()
    if not (ran | run) <= {owner, ""}:
        return only_owner
    starts = Counter((failure.job, failure.task) for failure in failures if fault_of(failure.failed) is Fault.AGAIN)
    if any(count > 1 for count in starts.values()) and enough(_HOSTS | {Fault.AGAIN}):
        return None
    if owner in ran and any(each.owner not in {owner, ""} for each in evidence.successes if now - each.at < WINDOW):
        return only_owner
    ran_elsewhere = any(
        success.owner == owner and success.at >= failures[0].at and not same_host(success.host, host)
        for success in evidence.successes
    )
    return None if ran_elsewhere else only_owner
