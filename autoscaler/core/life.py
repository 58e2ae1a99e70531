"""Where a worker stands: derived from provider × Grid Engine × what we remember, stored nowhere. Nothing is decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.capacity import slots_of
from autoscaler.core.cluster import ExecutionHost
from autoscaler.core.fleet import Interruption, MachineState, Worker
from autoscaler.core.lacking import Values
from autoscaler.core.memory import Disabling, WorkerNote
from autoscaler.core.placement import SLOTS
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.resources import amount


class Life(StrEnum):
    """A worker's state. "Host" is its execution host in Grid Engine."""

    BOOTING = "booting"
    """The machine is not up yet, or has no name; or it will enrol itself."""
    ENROLLABLE = "enrollable"
    """Up and named, no (complete) execution host yet; or its own image made it one, and not all that it is to be."""
    JOINING = "joining"
    """An execution host, disabled by us until its execd is heard."""
    READY = "ready"
    """Heard, and still disabled by us since it was enrolled."""
    IN_SERVICE = "in service"
    UNHEARD = "unheard"
    """Was in service; Grid Engine hears nothing of it. Silence is not death."""
    SILENT = "silent"
    """Disabled by us because nothing is heard of it, or because its machine was ending."""
    INTERRUPTED = "interrupted"
    """Its cloud gave notice that it takes it."""
    FENCED = "fenced"
    """Its end was asked for although it is an execution host: it was silent for too long."""
    DRAINING = "draining"
    """Disabled by us to leave."""
    REMOVING = "removing"
    """Its removal was planned; it still is an execution host."""
    RETIRED = "retired"
    """No execution host any more: only the machine is left."""
    DISABLED_BY_HAND = "disabled by hand"
    NAME_TAKEN = "name taken"
    """A newer machine stands in Grid Engine under its name."""
    NAME_AWAITED = "name awaited"
    """The execution host of its name is still that of an older machine, with what ran there."""
    UNLISTED = "unlisted"
    """Its provider's listing leaves it out, and its execution host is there. It is not thereby gone."""
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
    notice: Interruption | None = None
    """What its cloud gave notice of."""
    heir: Worker | None = None
    """A newer machine of its name, which waits for its execution host to be removed."""
    lacks: Values = ()
    """What its own image, which made it an execution host, did not give it: it is closed to jobs until it has it."""

    @property
    def name(self) -> str:
        return self.host.name if self.host else self.worker.name or self.note.host or self.worker.id

    @property
    def empty(self) -> bool:
        return self.host is None or not self.host.busy

    @property
    def coming(self) -> bool:
        return self.life in (Life.BOOTING, Life.ENROLLABLE, Life.JOINING, Life.READY, Life.NAME_AWAITED)

    @property
    def advised(self) -> bool:
        """Whether its cloud only advises to move away: nothing ends yet."""
        return self.notice is not None and not takes(self.notice)


def life(
    worker: Worker,
    host: ExecutionHost | None,
    note: WorkerNote,
    array: NodeArrayPolicy | None,
    *,
    enrols_itself: bool = False,
    taken: Life | None = None,
    notice: Interruption | None = None,
) -> Life:
    """The one derivation of a worker's state. `taken`: another machine has the execution host of its name."""
    leaves = notice is not None and takes(notice)
    if worker.state is MachineState.STOPPING:
        return Life.ENDING
    if worker.state is MachineState.TERMINATED:
        return Life.GONE
    if array is None:
        return Life.UNKNOWN_ARRAY
    if taken is not None:
        return taken
    if host is None:
        alone = _life_without_host(worker, note, enrols_itself=enrols_itself)
        return Life.INTERRUPTED if leaves and alone is not Life.RETIRED else alone
    if note.fenced_at is not None:
        return Life.FENCED
    if note.retired_at is not None:
        return Life.REMOVING
    if note.disabling is None and any("d" in instance.states for instance in host.instances):
        return Life.DISABLED_BY_HAND
    if leaves or note.disabling is Disabling.INTERRUPTED:
        return Life.INTERRUPTED
    if note.disabling in (Disabling.SILENT, Disabling.LOST):
        return Life.SILENT
    if note.disabling is Disabling.ENROL:
        if not any(instance.queue == array.queue for instance in host.instances):
            return Life.JOINING if enrols_itself else Life.ENROLLABLE
        if half_enrolled(worker, host, note, array, enrols_itself=enrols_itself):
            return Life.ENROLLABLE
        return Life.READY if host.heard and worker.ready and disabled(host) else Life.JOINING
    if note.disabling is not None:
        return Life.DRAINING
    return Life.IN_SERVICE if host.heard else Life.UNHEARD


def _life_without_host(worker: Worker, note: WorkerNote, *, enrols_itself: bool) -> Life:
    if note.retired_at is not None:
        return Life.RETIRED
    if worker.state is MachineState.PENDING or not worker.name or enrols_itself:
        return Life.BOOTING
    return Life.ENROLLABLE


def half_enrolled(
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


def barely_made(host: ExecutionHost) -> bool:
    """Whether it is as the first command of an enrolment leaves it: in no queue, and without slots. A store that was
    lost since then cannot tell of that.
    """
    return not host.instances and not host.busy and amount(host.consumables.get(SLOTS, "1"), "INT") == 0


def disabled(host: ExecutionHost) -> bool:
    """Whether no job can enter any queue instance because each is disabled by hand (`d`), ours or another."""
    return all("d" in instance.states for instance in host.instances)


def takes(notice: Interruption) -> bool:
    """Whether a notice says that the machine ends, rather than advises to leave it."""
    return notice.kind != "rebalance"


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one host: equal, or equal short names where one has no domain. Case does not count."""
    left, right = one.lower(), other.lower()
    if "." in left and "." in right:
        return left == right
    return left.partition(".")[0] == right.partition(".")[0]


def named_in(names: Iterable[str], machine: Machine) -> bool:
    """Whether a person's wish names this machine, by host name or id."""
    return any(name == machine.worker.id or same_host(name, machine.name) for name in names)
