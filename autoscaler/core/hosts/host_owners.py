"""Which machine an execution host belongs to. Several machines may have the same name, one after the other.

An execution host in Grid Engine outlives its machine, and clouds reuse names. Jobs of the older machine must not be
taken for the newer one's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import WorkerNote


class Hosts:
    """Execution hosts by name. If one of two names has no domain, the domain is ignored."""

    def __init__(self, cluster: Cluster) -> None:
        self.full = {host.name.lower(): host for host in cluster.hosts}
        unheard = {name.lower() for name in cluster.execution_hosts} - self.full.keys()
        self.full.update((name, ExecutionHost(name, heard=False)) for name in sorted(unheard))

    @cached_property
    def _short(self) -> Mapping[str, Sequence[ExecutionHost]]:
        found: dict[str, list[ExecutionHost]] = {}
        for name, host in self.full.items():
            found.setdefault(name.partition(".")[0], []).append(host)
        return found

    def named(self, name: str | None) -> ExecutionHost | None:
        if not name:
            return None
        lowered = name.lower()
        if lowered in self.full:
            return self.full[lowered]
        alike = self._short.get(lowered.partition(".")[0], ())
        alike = [host for host in alike if "." not in lowered or "." not in host.name]
        return alike[0] if len(alike) == 1 else None


def made_at(worker: Worker, note: WorkerNote | None) -> float:
    """When a machine was made, by our own clock; by its cloud's if no observation has noted it."""
    return worker.created_at if note is None or note.made_at is None else note.made_at


def older_jobs(
    host: ExecutionHost, worker: Worker, note: WorkerNote | None, on_their_way: Collection[str] = ()
) -> list[HostJob]:
    """Jobs on a host that began before this machine existed: those of another machine of the same name. A job that
    began in the second in which the machine was made is not its own either, because the machine had yet to boot. They
    began before it by its cloud's clock and by ours: a job must not count as lost because one of them was set.

    Jobs that are in transfer, or are named in `on_their_way`, are left out: the newer machine gets them, although they
    began before.
    """
    began_at = min(worker.created_at, made_at(worker, note))
    return [
        job
        for job in host.jobs
        if job.started is not None and job.started <= began_at
        if not job.on_its_way and job.name not in on_their_way
    ]


@dataclass(frozen=True, slots=True)
class Claims:
    """Which machine claims which execution host."""

    hosts: Hosts
    workers: Sequence[Worker]
    """All listed machines."""
    notes: Mapping[str, WorkerNote]
    """What is remembered of workers, by id."""
    settled: float
    """A machine that was missing from listings at this time is listed by now if it lives."""
    named: Sequence[ExecutionHost | None] = field(init=False)
    """Parallel to `workers`: the host that has the name of each, whoever owns it."""
    _newest: dict[str, Worker] = field(init=False, default_factory=dict)
    """By host name: the newest machine of that name that exists."""
    _handed: dict[str, list[tuple[str, WorkerNote]]] = field(init=False, default_factory=dict)
    """By host name: ids and notes of machines to which jobs were in transfer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", [self._named(worker) for worker in self.workers])
        for worker, host in zip(self.workers, self.named, strict=True):
            if host is None or not worker.name or not worker.exists:
                continue
            known = self._newest.get(host.name)
            if known is None or worker.created_at > known.created_at:
                self._newest[host.name] = worker
        for worker_id, note in self.notes.items():
            if note.on_their_way and note.host is not None:
                self._handed.setdefault(note.host, []).append((worker_id, note))

    def _named(self, worker: Worker) -> ExecutionHost | None:
        """By its own name, else by the one that it had."""
        note = None if worker.name else self.notes.get(worker.id)
        return self.hosts.named(worker.name or (note.host if note else None))

    def owners(self, unlisted: Mapping[str, WorkerNote]) -> dict[str, str]:
        """Host name → id of the worker whose execution host it is.

        Of several machines of one name it is the newest that exists and was not terminated. But if the host was made
        for an older one, or has jobs that began before the newest existed, it is the older one's. A machine that the
        listing leaves out comes before one that is known to have ended, because it may run on.
        """
        claims: dict[str, list[Worker]] = {}
        for worker, host in zip(self.workers, self.named, strict=True):
            if host is not None and (worker.exists or self._was_of(host, self.notes.get(worker.id))):
                claims.setdefault(host.name, []).append(worker)
        surest_last = sorted(unlisted.items(), key=lambda item: (not item[1].gone, item[1].first_seen))
        absent = {
            host.name: key
            for key, note in surest_last
            if (host := self.hosts.named(note.host)) is not None and self._was_of(host, note)
        }
        owners = dict(absent)
        order = _claim_order(self.notes)
        for name, workers in claims.items():
            if len(workers) == 1 and name not in absent:
                owners[name] = workers[0].id
                continue
            workers.sort(key=order)
            if name in absent and not workers[0].exists and not unlisted[absent[name]].gone:
                continue
            older_workers = [*(worker.id for worker in workers[1:]), *([absent[name]] if name in absent else [])]
            owners[name] = self._owner(self.hosts.full[name.lower()], workers[0], older_workers)
        return owners

    def _was_of(self, host: ExecutionHost, note: WorkerNote | None) -> bool:
        """Whether a host may have been left by an ended machine, rather than belong to a living one of the same name.

        If the machine was only ever seen ended, as after a lost store, its name alone proves nothing. As long as the
        host reports, or a listing may still be incomplete, the host does not count as left by it (rule 7).
        """
        if note is None or note.left:
            return False
        return not note.only_ended or (not host.heard and note.first_seen <= self.settled)

    def _owner(self, host: ExecutionHost, newest: Worker, older_workers: Sequence[str]) -> str:
        note = self.notes.get(newest.id)
        if not older_workers or (note is not None and note.host is not None) or not newest.exists:
            return newest.id
        handed = {
            job
            for older_worker in older_workers
            if (known := self.notes.get(older_worker))
            for job in known.on_their_way
        }
        if older_jobs(host, newest, note, handed):
            return older_workers[0]
        if host.jobs:  # a reserved slot alone does not show whose the host is
            return newest.id
        made_for = [
            older_worker
            for older_worker in older_workers
            if (known := self.notes.get(older_worker)) and known.host is not None and not known.left
        ]
        return made_for[0] if made_for else newest.id

    def uncertain_jobs(self, worker: Worker, host: ExecutionHost) -> set[str]:
        """Jobs on its host that an older machine of its name may have begun: it is not known whether they still run."""
        older_workers = (note for worker_id, note in self._handed.get(host.name, ()) if worker_id != worker.id)
        known = self.notes.get(worker.id)
        perhaps = {
            *(known.uncertain_jobs if known else ()),
            *(job for note in older_workers for job in note.on_their_way),
        }
        return perhaps & {job.name for job in host.jobs} if perhaps else set()

    def handed(self, host: ExecutionHost) -> bool:
        """Whether jobs were in transfer to a machine of its name."""
        return host.name in self._handed

    def successor(self, worker: Worker, host: ExecutionHost) -> Worker | None:
        """A newer machine of this name; None: there is none."""
        newest = self._newest.get(host.name)
        return newest if newest is not None and newest.created_at > worker.created_at else None

    def successor_of_unlisted(self, note: WorkerNote, host: ExecutionHost) -> Worker | None:
        """The same of a machine that no listing shows. Its cloud's time of its creation is not known any more: then the
        newer one is the one that was first seen later.
        """
        newest = self._newest.get(host.name)
        known = None if newest is None else self.notes.get(newest.id)
        return newest if known is None or known.first_seen > note.first_seen else None


def _claim_order(notes: Mapping[str, WorkerNote]) -> Callable[[Worker], tuple[bool, bool, float, str]]:
    """Sorting key: of several machines of one name the newest that exists and was not terminated owns the host."""

    def key(worker: Worker) -> tuple[bool, bool, float, str]:
        note = notes.get(worker.id)
        return not worker.exists, note is not None and note.terminated_at is not None, -worker.created_at, worker.id

    return key
