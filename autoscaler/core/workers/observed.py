"""All workers in one observation, and what several decisions ask about all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.workers.idle import removal_order
from autoscaler.core.workers.phases import Condition, Procedure
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True)
class ObservedWorkers:
    """All our workers, the hosts that belong to none of them, and the notes of workers that the listing leaves out.

    What several decisions ask of it is worked out once. None of that depends on the time, so it lasts as long as this
    object: until something changes.
    """

    workers: tuple[WorkerState, ...]
    others: tuple[ExecutionHost, ...]
    """Persistent hosts."""
    missing: Mapping[str, WorkerNote]
    missing_hosts: Mapping[str, ExecutionHost]
    """By worker id: hosts of workers that the listing leaves out and whose end is not confirmed. They may still run."""
    unlisted: tuple[WorkerState, ...] = ()
    """Workers that the listing leaves out and whose execution hosts exist; gone if their end is certain."""

    @property
    def known(self) -> tuple[WorkerState, ...]:
        """All of them, listed or not."""
        return (*self.workers, *self.unlisted)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all listed workers."""
        return frozenset([worker.name for worker in self.workers])

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """By name of each worker, its group; '' if it is in none."""
        return {worker.name: worker.worker.group_id or "" for worker in self.workers if worker.name}

    @cached_property
    def coming(self) -> tuple[WorkerState, ...]:
        return tuple([worker for worker in self.workers if worker.coming])

    @cached_property
    def in_service(self) -> tuple[WorkerState, ...]:
        return tuple([worker for worker in self.workers if worker.in_service])

    @cached_property
    def in_removal_order(self) -> tuple[WorkerState, ...]:
        """Those in service, the one that leaves first at the beginning; those that ask to stop leave before."""
        return tuple(sorted(self.in_service, key=lambda worker: removal_order(worker, frozenset())))

    @cached_property
    def in_error(self) -> tuple[WorkerState, ...]:
        """Those on whose hosts a job start failed."""
        return tuple([worker for worker in self.workers if worker.host is not None and worker.host.in_error])

    @cached_property
    def leaving(self) -> tuple[WorkerState, ...]:
        """Those on their way out."""
        return tuple([worker for worker in self.workers if worker.procedure is Procedure.LEAVING])

    @cached_property
    def set_aside(self) -> tuple[WorkerState, ...]:
        """Those that are only reported."""
        return tuple([worker for worker in self.workers if worker.procedure is Procedure.SET_ASIDE])

    @cached_property
    def serving_in(self) -> Mapping[str, int]:
        """By name of the node array, how many of its workers are in service."""
        return Counter([worker.array.name for worker in self.in_service if worker.array is not None])

    @cached_property
    def last_joined(self) -> float:
        """When the last of them joined; -inf: none did."""
        return max([w.note.joined_at for w in self.workers if w.note.joined_at is not None], default=-inf)

    @cached_property
    def gone(self) -> tuple[WorkerState, ...]:
        """Those whose machines are gone for good, or whose notes say so."""
        return tuple([worker for worker in self.workers if worker.gone or worker.note.gone])

    @cached_property
    def failed(self) -> tuple[WorkerState, ...]:
        """Those whose launch failed late."""
        return tuple([worker for worker in self.workers if worker.note.failed])

    @cached_property
    def silent(self) -> tuple[WorkerState, ...]:
        """Those that do not report, listed or not."""
        return tuple([worker for worker in self.known if worker.note.silent_s is not None])

    @cached_property
    def watched(self) -> tuple[WorkerState, ...]:
        """Those that do not report or have an interruption notice, listed or not."""
        return tuple([w for w in self.known if w.note.silent_s is not None or w.notice is not None])

    @cached_property
    def noticed(self) -> tuple[WorkerState, ...]:
        """Those with a condition that outweighs their phase, listed or not."""
        return tuple([worker for worker in self.known if worker.decisive is not None])

    @cached_property
    def departing(self) -> tuple[WorkerState, ...]:
        """Those that leave, as far as it depends on no decision of this pass."""
        return tuple([w for w in self.workers if w.draining or w.going or w.decisive is Condition.INTERRUPTED])

    @cached_property
    def uncertain(self) -> tuple[WorkerState, ...]:
        """Those with jobs that are left alone although perhaps no process of theirs lives any more."""
        return tuple([worker for worker in self.workers if worker.note.uncertain_jobs])

    @cached_property
    def tried(self) -> tuple[WorkerState, ...]:
        """Those that we tried to disable, and whose hosts are not seen disabled."""
        return tuple([worker for worker in self.workers if worker.draining or worker.note.tried_at is not None])

    @cached_property
    def draining(self) -> tuple[WorkerState, ...]:
        """Those that we disabled to leave."""
        return tuple([worker for worker in self.workers if worker.draining])

    @cached_property
    def in_recovery(self) -> tuple[WorkerState, ...]:
        """Those that are silent, interrupted or gone, listed or not."""
        return tuple([worker for worker in self.known if worker.procedure is Procedure.RECOVERY])

    @cached_property
    def by_queue(self) -> Mapping[str, Sequence[WorkerState]]:
        """By queue of their node array, the workers in service."""
        found: dict[str, list[WorkerState]] = {}
        for worker in self.in_service:
            if worker.array is not None:
                found.setdefault(worker.array.queue, []).append(worker)
        return found

    @cached_property
    def arrays(self) -> Mapping[str, NodeArrayPolicy]:
        """By name, the node arrays that workers belong to."""
        return {worker.array.name: worker.array for worker in self.workers if worker.array is not None}

    @cached_property
    def by_array(self) -> Mapping[str, Sequence[WorkerState]]:
        """By name of the node array, its workers."""
        found: dict[str, list[WorkerState]] = {}
        for worker in self.workers:
            if worker.array is not None:
                found.setdefault(worker.array.name, []).append(worker)
        return found

    @cached_property
    def by_order(self) -> Mapping[str, Sequence[WorkerState]]:
        """By order, the workers that it brought, listed or not; those of no known order under ''."""
        found: dict[str, list[WorkerState]] = {}
        for worker in self.known:
            found.setdefault(worker.worker.order_id or "", []).append(worker)
        return found

    @cached_property
    def hosts(self) -> tuple[ExecutionHost, ...]:
        """Persistent hosts, and those of workers that the listing shows."""
        return (*self.others, *[worker.host for worker in self.workers if worker.host is not None])
