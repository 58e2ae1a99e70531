"""Where each worker stands, derived from provider × Grid Engine × what we remember; stored nowhere.

`look` first brings the memory of every worker up to date with what is seen now, then `life` reads its state off.
Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.core.capacity import slots_of
from autoscaler.core.cluster import Cluster, ExecutionHost
from autoscaler.core.fleet import Fleet, MachineState, Worker
from autoscaler.core.memory import Disabling, Memory, WorkerNote
from autoscaler.core.placement import SLOTS
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.resources import amount


class Life(StrEnum):
    """A worker's state. "Host" is its execution host in Grid Engine."""

    BOOTING = "booting"
    """The machine is not up yet, or has no name; or it will enrol itself."""
    ENROLLABLE = "enrollable"
    """Up and named, no (complete) execution host yet."""
    JOINING = "joining"
    """An execution host, disabled by us until its execd is heard."""
    READY = "ready"
    """Heard, and still disabled by us since it was enrolled."""
    IN_SERVICE = "in service"
    UNHEARD = "unheard"
    """Was in service; Grid Engine hears nothing of it. Silence is not death."""
    DRAINING = "draining"
    """Disabled by us to leave."""
    REMOVING = "removing"
    """Its removal was planned; it still is an execution host."""
    RETIRED = "retired"
    """No execution host any more: only the machine is left."""
    DISABLED_BY_HAND = "disabled by hand"
    NAME_TAKEN = "name taken"
    """A newer machine stands in Grid Engine under its name."""
    UNKNOWN_ARRAY = "unknown array"
    ENDING = "ending"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Machine:
    """A worker with all that is known of it."""

    worker: Worker
    host: ExecutionHost | None
    note: WorkerNote
    """Brought up to date by this look."""
    before: WorkerNote | None
    """As the last pass left it; None at the first look."""
    array: NodeArrayPolicy | None
    life: Life
    enabled_by_hand: bool = False
    """This look found it enabled though we had disabled it."""

    @property
    def name(self) -> str:
        return self.host.name if self.host else self.worker.name or self.note.host or self.worker.id

    @property
    def empty(self) -> bool:
        return self.host is None or not self.host.busy

    @property
    def coming(self) -> bool:
        return self.life in (Life.BOOTING, Life.ENROLLABLE, Life.JOINING, Life.READY)


@dataclass(frozen=True, slots=True)
class Sight:
    """All machines of ours, the hosts that are nobody's of ours, and the notes of workers the listing leaves out."""

    machines: tuple[Machine, ...]
    others: tuple[ExecutionHost, ...]
    """Persistent hosts."""
    missing: Mapping[str, WorkerNote]
    missing_hosts: Mapping[str, ExecutionHost]
    """By worker id: hosts of workers that the listing leaves out. They run on, but are not ours to judge now."""


def look(cluster: Cluster, fleet: Fleet, memory: Memory, policy: Policy, now: float) -> Sight:
    """Match machines with hosts and derive every state."""
    hosts = _Hosts(cluster)
    listed = {worker.id for worker in fleet.workers}
    missing = {
        worker_id: note if note.missing_since is not None else replace(note, missing_since=now)
        for worker_id, note in memory.workers.items()
        if worker_id not in listed and (note.missing_since is None or now - note.missing_since < policy.order_grace)
    }
    machines: list[Machine] = []
    claimed: dict[str, str] = {}
    for worker in sorted(fleet.workers, key=_claim_order(memory.workers)):
        before = memory.workers.get(worker.id)
        host = hosts.named(worker.name or (before.host if before else None))
        taken = host is not None and claimed.setdefault(host.name, worker.id) != worker.id
        machines.append(_machine(worker, None if taken else host, before, fleet, policy, now, taken=taken))
    missing_hosts = {
        worker_id: host
        for worker_id, note in missing.items()
        if (host := hosts.named(note.host)) is not None and host.name not in claimed
    }
    named = claimed.keys() | {host.name for host in missing_hosts.values()}
    return Sight(
        machines=tuple(sorted(machines, key=lambda machine: (machine.worker.created_at, machine.worker.id))),
        others=tuple(host for host in cluster.hosts if host.name not in named),
        missing=missing,
        missing_hosts=missing_hosts,
    )


def disabled(host: ExecutionHost) -> bool:
    """Whether no job can enter any queue instance because each is disabled by hand (`d`), ours or another."""
    return all("d" in instance.states for instance in host.instances)


def _claim_order(notes: Mapping[str, WorkerNote]) -> Callable[[Worker], tuple[bool, bool, float, str]]:
    """Of several machines of one name the host belongs to the newest that exists and was not retired."""

    def key(worker: Worker) -> tuple[bool, bool, float, str]:
        note = notes.get(worker.id)
        return not worker.exists, note is not None and note.terminated_at is not None, -worker.created_at, worker.id

    return key


class _Hosts:
    """Execution hosts by name, with or without domain where one side has none."""

    def __init__(self, cluster: Cluster) -> None:
        self._full = {host.name.lower(): host for host in cluster.hosts}
        for name in cluster.execution_hosts:
            self._full.setdefault(name.lower(), ExecutionHost(name.lower(), heard=False))
        self._short: dict[str, list[ExecutionHost]] = {}
        for name, host in self._full.items():
            self._short.setdefault(name.partition(".")[0], []).append(host)

    def named(self, name: str | None) -> ExecutionHost | None:
        if not name:
            return None
        wanted = name.lower()
        if wanted in self._full:
            return self._full[wanted]
        alike = self._short.get(wanted.partition(".")[0], [])
        alike = [host for host in alike if "." not in wanted or "." not in host.name]
        return alike[0] if len(alike) == 1 else None


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one host: equal, or equal short names where one has no domain. Case does not count."""
    left, right = one.lower(), other.lower()
    if "." in left and "." in right:
        return left == right
    return left.partition(".")[0] == right.partition(".")[0]


def named_in(names: Iterable[str], machine: Machine) -> bool:
    """Whether a person's wish names this machine, by host name or id."""
    return any(name == machine.worker.id or same_host(name, machine.name) for name in names)


def _machine(
    worker: Worker,
    host: ExecutionHost | None,
    before: WorkerNote | None,
    fleet: Fleet,
    policy: Policy,
    now: float,
    *,
    taken: bool,
) -> Machine:
    array = policy.node_array(worker.node_array)
    seen = replace(
        before or WorkerNote(first_seen=now),
        missing_since=None,
        bucket=worker.bucket if worker.exists else None,
        order_id=worker.order_id,
        vcpus=worker.type.vcpus,
        price_per_hour=worker.price_per_hour,
    )
    if host is None:
        note = replace(seen, idle_since=None, empty_since=None)
    else:
        half = _half_enrolled(worker, host, seen, array, enrols_itself=fleet.enrols_itself)
        note = _seen_host(replace(seen, host=host.name), host, fleet, now, half_enrolled=half)
    by_hand = seen.disabling is not None and note.disabling is None and note.enabled_at is None
    by_hand = by_hand and seen.seen_disabled and seen.enabled_at is None
    state = life(worker, host, note, array, enrols_itself=fleet.enrols_itself, taken=taken)
    if state is Life.IN_SERVICE and host is not None and not host.busy:
        note = replace(note, idle_since=note.idle_since if note.idle_since is not None else now)
    else:
        note = replace(note, idle_since=None)
    return Machine(worker, host, note, before, array, state, enabled_by_hand=by_hand)


def _half_enrolled(
    worker: Worker, host: ExecutionHost, note: WorkerNote, array: NodeArrayPolicy | None, *, enrols_itself: bool
) -> bool:
    """Whether an enrolment of ours was cut short between two of its commands: the host is there, but not in its queue,
    or without the slots that it gets last. It may then be enabled though no person enabled it.
    """
    if enrols_itself or array is None or note.disabling is not Disabling.ENROL or host.busy:
        return False
    slots = [instance.slots for instance in host.instances if instance.queue == array.queue]
    closed = amount(host.consumables.get(SLOTS, "1"), "INT") == 0
    return closed or slots != [slots_of(worker.type, array)]


def _seen_host(
    note: WorkerNote, host: ExecutionHost, fleet: Fleet, now: float, *, half_enrolled: bool = False
) -> WorkerNote:
    """The note after a look at its execution host."""
    if fleet.enrols_itself and disabled(host) and note.disabling is None and note.heard_at is None:
        note = replace(note, disabled_at=now, disabling=Disabling.ENROL)
    if host.heard and note.heard_at is None:
        note = replace(note, heard_at=now)
    if note.disabling is None:
        return replace(note, retired_at=None, empty_since=None)
    if disabled(host):
        since = None if host.busy else note.empty_since if note.empty_since is not None else now
        retired = None if host.busy else note.retired_at
        return replace(note, seen_disabled=True, empty_since=since, retired_at=retired)
    note = replace(note, empty_since=None, retired_at=None)
    if half_enrolled:
        return note
    joined = note.disabling is Disabling.ENROL and host.heard
    if note.enabled_at is not None or note.seen_disabled or joined:
        return replace(note, disabled_at=None, disabling=None, seen_disabled=False, enabled_at=None)
    return note


def life(
    worker: Worker,
    host: ExecutionHost | None,
    note: WorkerNote,
    array: NodeArrayPolicy | None,
    *,
    enrols_itself: bool = False,
    taken: bool = False,
) -> Life:
    """The one derivation of a worker's state. `taken`: another machine has the execution host of its name."""
    if worker.state is MachineState.STOPPING:
        return Life.ENDING
    if worker.state is MachineState.TERMINATED:
        return Life.GONE
    if array is None:
        return Life.UNKNOWN_ARRAY
    if taken:
        return Life.NAME_TAKEN
    if host is None:
        return _life_without_host(worker, note, enrols_itself=enrols_itself)
    if note.retired_at is not None:
        return Life.REMOVING
    if note.disabling is Disabling.ENROL:
        if not any(instance.queue == array.queue for instance in host.instances):
            return Life.JOINING if enrols_itself else Life.ENROLLABLE
        if _half_enrolled(worker, host, note, array, enrols_itself=enrols_itself):
            return Life.ENROLLABLE
        return Life.READY if host.heard and worker.ready and disabled(host) else Life.JOINING
    if note.disabling is not None:
        return Life.DRAINING
    if any("d" in instance.states for instance in host.instances):
        return Life.DISABLED_BY_HAND
    return Life.IN_SERVICE if host.heard else Life.UNHEARD


def _life_without_host(worker: Worker, note: WorkerNote, *, enrols_itself: bool) -> Life:
    if note.retired_at is not None:
        return Life.RETIRED
    if worker.state is MachineState.PENDING or not worker.name or enrols_itself:
        return Life.BOOTING
    return Life.ENROLLABLE
