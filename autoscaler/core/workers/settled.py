"""Workers that an observation shows as the last one did: their states are used again.

Most workers of a large cell run the same jobs, or none, in one pass and the next. Such a state depends neither on the
time nor on anything but the values that are compared here, so the one of the last observation is the one of this. It is
the same object: what is made of it may be kept as long, too. If all workers are settled and nothing at all has
changed, the whole observation is the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model.cluster import Cluster, ExecutionHost
from autoscaler.core.model.fleet import Fleet, MachineState, OrderedFor, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import same_objects
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import in_alarm
from autoscaler.core.workers.worker_state import WorkerState


class SettledWorkers:
    """States of the last observation that change only if what they were made of does, by worker id."""

    def __init__(self) -> None:
        self._shared: object = None
        self._states: dict[str, WorkerState] = {}

    def begin(self, shared: object) -> None:
        """`shared`: all that states of workers depend on besides the worker itself."""
        if self._shared != shared:
            self._shared, self._states = shared, {}

    def known(
        self,
        worker: Worker,
        host: ExecutionHost,
        before: WorkerNote,
        array: NodeArrayPolicy,
        ordered_for: tuple[OrderedFor, ...],
    ) -> WorkerState | None:
        """The state of this worker, if the last observation showed it so; None: it has to be made."""
        last = self._states.get(worker.id)
        if last is None or (ordered_for and not before.ordered_for):
            return None
        # Nearly always they are the same objects, of which a tuple is compared without a look at their fields.
        if (last.worker, last.host, last.array, last.note) != (worker, host, array, before):
            return None
        if last.before is not last.note:
            last = self._states[worker.id] = replace(last, before=last.note)
        return last

    def keep(self, state: WorkerState) -> None:
        """Use it again as long as nothing changes, if it is of that kind."""
        if settled(state):
            self._states[state.worker.id] = state
        else:
            self._states.pop(state.worker.id, None)

    def only(self, ids: frozenset[str]) -> None:
        """Forget all workers but these."""
        if len(self._states) > len(ids):
            self._states = {worker_id: state for worker_id, state in self._states.items() if worker_id in ids}

    def are_all(self, states: Sequence[WorkerState]) -> bool:
        """Whether all of these are of that kind, and their notes are as the last pass left them."""
        known = self._states
        return not [each for each in states if each.before is not each.note or known.get(each.worker.id) is not each]


def settled(state: WorkerState) -> bool:
    """Whether a state holds as long as machine, host and note stay as they are: a worker that joined, reports, has no
    mark of ours and no notice, and is neither in alarm nor getting a job.
    """
    worker, host, note, array = state.worker, state.host, state.note, state.array
    if host is None or array is None or not host.heard or state.notice is not None or state.successor is not None:
        return False
    if worker.state is not MachineState.RUNNING or worker.failure is not None or state.enabled_by_hand:
        return False
    if note.tried is not None or note.disabling is not None or note.joined_at is None or note.alarm_since is not None:
        return False
    if note.on_their_way or note.uncertain_jobs or in_alarm(host, array.queue):
        return False
    return any(instance.queue == array.queue for instance in host.instances)


@dataclass(frozen=True, slots=True)
class Sources:
    """All that an observation of settled workers is made of."""

    remembered: Sequence[str]
    """Ids of the workers with a note."""
    objects: tuple[Sequence[object], ...]
    """Compared by identity."""
    values: tuple[object, ...]

    def are(self, others: Sources) -> bool:
        """Whether an observation made of the others would be the same."""
        same = self.remembered == others.remembered and self.values == others.values
        return same and all(map(same_objects, self.objects, others.objects))


def sources_of(cluster: Cluster, fleet: Fleet, memory: Memory, policy: Policy) -> Sources:
    """Of the next observation."""
    notes, complexes, interval = memory.workers, cluster.complexes, cluster.schedule_interval
    return Sources(
        [*notes],
        (cluster.hosts, fleet.workers, [*notes.values()], policy.node_arrays, fleet.orders, fleet.interruptions),
        (cluster.execution_hosts, complexes, interval, fleet.enrols_itself, policy.silence_timeout),
    )


class SettledObservation:
    """What the next observation of one caller may use again: states of workers, or all of it."""

    def __init__(self) -> None:
        self.states = SettledWorkers()
        self._whole: tuple[Sources, ObservedWorkers] | None = None

    def of(self, sources: Sources) -> ObservedWorkers | None:
        """The last observation itself, if it was made of the same and nothing in it depends on the time."""
        return self._whole[1] if self._whole is not None and self._whole[0].are(sources) else None

    def keep(self, sources: Sources, observed: ObservedWorkers) -> None:
        """Use it again as long as nothing changes, if all its workers are settled and no others are remembered."""
        lasting = len(sources.remembered) == len(observed.workers) and self.states.are_all(observed.workers)
        self._whole = (sources, observed) if lasting else None
