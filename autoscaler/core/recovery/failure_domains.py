"""Whether a worker's silence shows that its machine is lost, or perhaps only that its network is.

A failure domain is what fails together, as far as known: the workers of one zone or subnet, or all workers if their
provider names none. Within it another worker that reports vouches for the network. If several fall silent together, or
none reports, nobody does (decision 61). Silence from such a time does not count later either: links come back one by
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.worker_state import WorkerState


def unvouched(workers: Sequence[WorkerState], within: float) -> Mapping[str, Reason]:
    """By id of each silent worker whose silence proves nothing: why. `within`: seconds between the beginnings of two
    silences that may have one cause.
    """
    if not [worker for worker in workers if worker.note.silent_s is not None]:
        return {}
    domains: dict[str, list[WorkerState]] = {}
    for worker in workers:
        if worker.host is not None and worker.worker.exists:
            domains.setdefault(worker.worker.zone, []).append(worker)
    return {
        worker.worker.id: reason
        for domain in domains.values()
        for worker in domain
        if worker.note.silent_s is not None and (reason := _why_unvouched(worker, domain, within)) is not None
    }


def vouched_s(note: WorkerNote) -> float:
    """Seconds of its silence since the last observation in which nobody vouched for its network."""
    return max((note.silent_s or 0.0) - note.unvouched_s, 0.0)


def noted(note: WorkerNote, *, vouched: bool) -> WorkerNote:
    """The note for the next pass, with the part of its silence that proves nothing."""
    silent = note.silent_s or 0.0
    return replace(note, unvouched_s=min(note.unvouched_s, silent) if vouched else silent)


def _why_unvouched(worker: WorkerState, domain: Sequence[WorkerState], within: float) -> Reason | None:
    together = sorted(other.name for other in domain if _began_together(worker, other, within))
    where = worker.worker.zone or None
    if len(together) > 1:
        return because(Code.SILENT_TOGETHER, hosts=tuple(together), count=len(together), where=where)
    if not any(other.host is not None and other.host.heard for other in domain):
        return because(Code.NOBODY_VOUCHES, where=where)
    return None


def _began_together(one: WorkerState, other: WorkerState, within: float) -> bool:
    mine, theirs = one.note.silent_s, other.note.silent_s
    return mine is not None and theirs is not None and abs(mine - theirs) <= within
