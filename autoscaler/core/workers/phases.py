"""The state of a worker: one phase, and the conditions that hold besides. Tables give both, in each pass anew.

A phase says how far the worker is from order to end. A condition says what else holds, and since when. They are derived
from the observation and from the few times and marks of the worker's `WorkerNote`. Another table
(core/workers/marks.py) gives the meaning of marks. If the store is lost, the same phase follows within two observations
(safety rule 8).

`DECIDING` says which condition outweighs the phase, and which procedure then takes the worker's next step.
core/transitions.py lists every step of these procedures; docs/worker-phases.md is generated from all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from autoscaler.core.hosts.host_owners import made_at
from autoscaler.core.hosts.missing_values import Values, half_enrolled, has_slots
from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import ADVICE, Interruption, MachineState, Worker
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.workers.marks import CORDONS, FOR_GOOD


class Phase(StrEnum):
    """How far a worker is, from its order to its end."""

    ORDERED = "ordered"
    BOOTING = "booting"
    JOINING = "joining"
    READY = "ready"
    DRAINING = "draining"
    LEAVING = "leaving"
    ENDING = "ending"
    GONE = "gone"


class Condition(StrEnum):
    """The conditions of a worker besides its phase."""

    UNLISTED = "unlisted"
    UNKNOWN_ARRAY = "unknown array"
    NAME_TAKEN = "name taken"
    NAME_AWAITED = "name awaited"
    FENCED = "fenced"
    DISABLED_BY_HAND = "disabled by hand"
    INTERRUPTED = "interrupted"
    ADVISED = "advised"
    CORDONED = "cordoned"
    SILENT = "silent"
    SILENT_TOO_LONG = "silent too long"
    CUT_OFF = "cut off"
    QUARANTINED = "quarantined"
    FOR_GOOD = "for good"
    INCOMPLETE = "incomplete"
    JOINED = "joined"
    FAILED = "failed"
    OVERDUE = "overdue"
    IDLE = "idle"
    IN_ALARM = "in alarm"
    EMPTY = "empty"
    DRAINED = "drained"


Conditions = Mapping[Condition, float | None]
"""The conditions that hold, with since when; None: that is unknown, or only this observation shows it."""


class Procedure(StrEnum):
    """The procedure that takes a worker's next step."""

    JOINING = "joining"
    SCALE_DOWN = "scale down"
    LEAVING = "leaving"
    RECOVERY = "recovery"
    SET_ASIDE = "set aside"


# -- what is known of one worker ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """All facts that give the phase and the conditions of one worker."""

    worker: Worker
    host: ExecutionHost | None
    note: WorkerNote
    """Brought up to date by this observation."""
    array: NodeArrayPolicy | None
    now: float
    before: WorkerNote | None = None
    """As the last pass left it."""
    notice: Interruption | None = None
    enrols_itself: bool = False
    """Its image makes it an execution host."""
    missing_values: Values = ()
    """Values that its image did not give it."""
    name_held: Condition | None = None
    """NAME_TAKEN or NAME_AWAITED, if another machine has the execution host of its name."""
    listed: bool = True
    any_reporting: bool = True
    """Whether qmaster has load reports from any execution host at all."""
    silence_timeout: float = float("inf")
    schedule_interval: float = 0.0

    @property
    def marked(self) -> Disabling | None:
        """Why we disabled its execution host; None: we did not, or it has none."""
        return self.note.disabling if self.host is not None else None

    @property
    def provider_ends_it(self) -> bool:
        return self.worker.state in (MachineState.STOPPING, MachineState.TERMINATED)

    @property
    def taken_by_cloud(self) -> bool:
        return self.notice is not None and takes(self.notice)


ALARM = frozenset("aA")
"""State letters of a load above a threshold of the queue: nothing starts there until the load falls."""


def disabled(host: ExecutionHost) -> bool:
    """Whether all its queue instances are disabled (`d`), by us or by a person, so that no job can start."""
    return all("d" in instance.states for instance in host.instances)


def queue_disabled(host: ExecutionHost, queue: str) -> bool:
    """Whether its instance of this queue is there and disabled."""
    own = [instance for instance in host.instances if instance.queue == queue]
    return bool(own) and all("d" in instance.states for instance in own)


def is_whole(host: ExecutionHost | None, array: NodeArrayPolicy | None) -> bool:
    """Whether it is an execution host with slots, in its node array's queue."""
    if host is None or not has_slots(host):
        return False
    return any(array is None or instance.queue == array.queue for instance in host.instances)


def in_alarm(host: ExecutionHost, queue: str) -> bool:
    """Whether its load keeps jobs of this queue from starting there."""
    return any(ALARM & set(instance.states) for instance in host.instances if instance.queue == queue)


def down(worker: Worker) -> bool:
    """Whether it is a stopped machine, or one that failed."""
    return worker.state is MachineState.PENDING and worker.stays_down


def takes(notice: Interruption) -> bool:
    """Whether a notice says that the machine ends, and does not only advise to leave it."""
    return notice.kind not in ADVICE


# -- predicates of the tables ------------------------------------------------------------------------------------------


def _gone(seen: WorkerFacts) -> bool:
    return seen.worker.state is MachineState.TERMINATED


def _stopping(seen: WorkerFacts) -> bool:
    return seen.worker.state is MachineState.STOPPING


def _waits_for_name(seen: WorkerFacts) -> bool:
    return seen.name_held is Condition.NAME_AWAITED or _on_older_host(seen)


def _on_older_host(seen: WorkerFacts) -> bool:
    """Whether the silent host of its name may belong to an older machine, as after a lost store: as far as known the
    machine never reported, and it is young or not even up.
    """
    note, array, host = seen.note, seen.array, seen.host
    if host is None or host.heard or _disabled_by_hand(seen) or seen.taken_by_cloud:
        return False
    if note.disabling is not None or note.fenced_at is not None or note.retired_at is not None:
        return False
    if array is None or note.joined_at is not None or not seen.worker.exists or seen.worker.stays_down:
        return False
    return seen.worker.state is MachineState.PENDING or seen.now - made_at(seen.worker, note) < array.boot_timeout


def _name_taken(seen: WorkerFacts) -> bool:
    return seen.name_held is Condition.NAME_TAKEN


def _fenced(seen: WorkerFacts) -> bool:
    return seen.host is not None and seen.note.fenced_at is not None and not seen.provider_ends_it


def _removed(seen: WorkerFacts) -> bool:
    """Whether its removal was planned and has begun, as far as this observation shows: a host that still has all that
    it needs was not removed, or got everything back.
    """
    return seen.note.retired_at is not None and not is_whole(seen.host, seen.array)


def _down(seen: WorkerFacts) -> bool:
    """Whether the machine is down for good but still an execution host: its jobs have ended, and nothing more may
    start.
    """
    return seen.host is not None and down(seen.worker) and not _disabled_by_hand(seen)


def _not_up(seen: WorkerFacts) -> bool:
    if seen.host is not None:
        return False
    return seen.worker.state is MachineState.PENDING or not seen.worker.name or seen.enrols_itself


def _no_host_yet(seen: WorkerFacts) -> bool:
    return seen.host is None


def _enrolling(seen: WorkerFacts) -> bool:
    return seen.marked is Disabling.ENROL


def _to_leave(seen: WorkerFacts) -> bool:
    return seen.marked is not None and seen.marked not in CORDONS


def _in_service(seen: WorkerFacts) -> bool:
    return seen.host is not None


def _unlisted(seen: WorkerFacts) -> bool:
    return not seen.listed


def _unknown_array(seen: WorkerFacts) -> bool:
    return seen.array is None and not seen.provider_ends_it


def _disabled_by_hand(seen: WorkerFacts) -> bool:
    """Whether a person disabled its own queue there, or all queues. If only another queue, it serves on."""
    host, array = seen.host, seen.array
    if host is None or not host.instances or seen.marked is not None:
        return False
    own = [each for each in host.instances if array is None or each.queue == array.queue]
    if not own and seen.before is not None and seen.note.joined_at is None:
        return False  # it never was in service, so nobody can have taken it out
    return disabled(host) or any("d" in each.states for each in own)


def _interrupted(seen: WorkerFacts) -> bool:
    return seen.taken_by_cloud or seen.marked is Disabling.INTERRUPTED


def _advised(seen: WorkerFacts) -> bool:
    return seen.notice is not None and not takes(seen.notice)


def _cordoned(seen: WorkerFacts) -> bool:
    return seen.marked in CORDONS


def _silent(seen: WorkerFacts) -> bool:
    return seen.host is not None and not seen.host.heard


def _silent_too_long(seen: WorkerFacts) -> bool:
    """Silence does not count while no host at all reports: then the cause is qmaster's network, not this host."""
    silent = seen.note.silent_s
    return silent is not None and silent >= seen.silence_timeout and seen.any_reporting


def _cut_off(seen: WorkerFacts) -> bool:
    return _to_leave(seen) and seen.host is not None and seen.host.busy and _silent_too_long(seen)


def _quarantined(seen: WorkerFacts) -> bool:
    return seen.marked is Disabling.BROKEN


def _for_good(seen: WorkerFacts) -> bool:
    return seen.marked in FOR_GOOD


def _incomplete(seen: WorkerFacts) -> bool:
    host, array = seen.host, seen.array
    if not _enrolling(seen) or host is None or array is None:
        return False
    if seen.missing_values and seen.worker.ready:
        return True
    if seen.enrols_itself:
        return False
    unqueued = not any(instance.queue == array.queue for instance in host.instances)
    return unqueued or half_enrolled(seen.worker, host, seen.note, array, enrols_itself=False)


def _joined(seen: WorkerFacts) -> bool:
    host, array = seen.host, seen.array
    if not _enrolling(seen) or host is None or array is None or _incomplete(seen):
        return False
    return host.heard and seen.worker.ready and queue_disabled(host, array.queue)


def _failed(seen: WorkerFacts) -> bool:
    return (seen.worker.failure is not None or seen.worker.stopped) and seen.host is None


def _overdue(seen: WorkerFacts) -> bool:
    array, begun = seen.array, _way_in_began(seen)
    if array is None or _joined(seen) or not (_waits_for_name(seen) or seen.host is None or _enrolling(seen)):
        return False
    return seen.now - begun >= array.boot_timeout


def _way_in_began(seen: WorkerFacts) -> float:
    """Since when it counts as on its way in: since an observation first showed it, by our own clock. After the loss of
    the store its time begins anew: nothing ends at the first observation (rule 8). If it joined before and a person
    took it out of Grid Engine, its time begins anew too.
    """
    note = seen.note
    if note.joined_at is not None:
        begun = note.disabled_at if note.enrolling_since is None else note.enrolling_since
        return begun if begun is not None else seen.now
    return note.first_seen


def _idle(seen: WorkerFacts) -> bool:
    return seen.note.idle_since is not None


def _alarmed(seen: WorkerFacts) -> bool:
    return seen.note.alarm_since is not None


def _empty(seen: WorkerFacts) -> bool:
    return seen.note.empty_since is not None


def _drained(seen: WorkerFacts) -> bool:
    """Whether two observations, a scheduler interval apart, showed it empty: a job dispatched before the first shows in
    the second.
    """
    before, since = seen.before, seen.note.empty_since
    if before is None or before.empty_since is None or since is None or not seen.note.seen_disabled:
        return False
    return seen.now - since >= seen.schedule_interval


# -- the tables --------------------------------------------------------------------------------------------------------

Predicate = Callable[[WorkerFacts], bool]
Since = Callable[[WorkerFacts], float | None]


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase, and the predicate that shows it."""

    phase: Phase
    holds: Predicate
    sentence: str


PHASES: tuple[PhaseRow, ...] = (
    PhaseRow(Phase.GONE, _gone, "Its provider says that the machine has ended."),
    PhaseRow(Phase.ENDING, _stopping, "Its provider says that the machine is stopping."),
    PhaseRow(Phase.BOOTING, _waits_for_name, "The execution host of its name still belongs to an older machine."),
    PhaseRow(Phase.LEAVING, _name_taken, "The execution host of its name belongs to a newer machine."),
    PhaseRow(Phase.ENDING, _fenced, "Its end was planned although it is an execution host."),
    PhaseRow(Phase.LEAVING, _removed, "Its removal from Grid Engine, or its end, was planned and has begun."),
    PhaseRow(Phase.ENDING, _down, "Its provider says that the machine is down for good, and it is still there."),
    PhaseRow(Phase.BOOTING, _not_up, "It is no execution host and not up, has no name yet, or its image enrols it."),
    PhaseRow(Phase.JOINING, _no_host_yet, "It is up and named, and no execution host yet."),
    PhaseRow(Phase.JOINING, _enrolling, "It is an execution host and has been disabled by us since it was enrolled."),
    PhaseRow(Phase.DRAINING, _to_leave, "It is an execution host that we disabled so that it leaves."),
    PhaseRow(Phase.READY, _in_service, "It is an execution host."),
)
"""Read from the top; the first row that holds gives the phase. One always holds: a machine that is no execution host
and not booting is joining, and any other execution host is ready.
"""
ORDERED_SENTENCE = (
    "Its provider accepted the order, and no listing shows the machine yet (`requests.orders.outstanding`)."
)


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition, and the predicate that shows it."""

    condition: Condition
    holds: Predicate
    since: Since
    sentence: str


def _never(_: WorkerFacts) -> float | None:
    return None


def _marked_at(seen: WorkerFacts) -> float | None:
    return seen.note.disabled_at


def _silent_since(seen: WorkerFacts) -> float | None:
    return None if seen.note.silent_s is None else seen.now - seen.note.silent_s


CONDITIONS: tuple[ConditionRow, ...] = (
    ConditionRow(
        Condition.UNLISTED,
        _unlisted,
        lambda seen: seen.note.missing_since,
        "Its provider's listing leaves it out, and its execution host is there. It may run on.",
    ),
    ConditionRow(Condition.UNKNOWN_ARRAY, _unknown_array, _never, "The settings do not know its node array."),
    ConditionRow(
        Condition.NAME_TAKEN,
        _name_taken,
        _never,
        "The execution host of its name is not its own: a newer machine has it, or none that is known.",
    ),
    ConditionRow(
        Condition.NAME_AWAITED,
        _waits_for_name,
        _never,
        "It waits until the execution host that an older machine of its name left is removed.",
    ),
    ConditionRow(
        Condition.FENCED,
        _fenced,
        lambda seen: seen.note.fenced_at,
        "The autoscaler asked for its end while it was an execution host: it was silent for too long, or its cloud "
        "takes it.",
    ),
    ConditionRow(
        Condition.DISABLED_BY_HAND,
        _disabled_by_hand,
        _never,
        "A person disabled it: its own queue there, or all (`d` without our mark).",
    ),
    ConditionRow(
        Condition.INTERRUPTED,
        _interrupted,
        lambda seen: seen.note.disabled_at if seen.marked is Disabling.INTERRUPTED else None,
        "Its cloud gave notice that it takes the machine.",
    ),
    ConditionRow(Condition.ADVISED, _advised, _never, "Its cloud advises to move away; nothing ends yet."),
    ConditionRow(
        Condition.CORDONED,
        _cordoned,
        _marked_at,
        "We disabled it because it was silent, interrupted or ending; it is enabled again when that has passed.",
    ),
    ConditionRow(Condition.SILENT, _silent, _silent_since, "qmaster has no load report from it. It may still run."),
    ConditionRow(
        Condition.SILENT_TOO_LONG,
        _silent_too_long,
        _silent_since,
        "It has been silent for `silence_timeout` or longer.",
    ),
    ConditionRow(
        Condition.CUT_OFF,
        _cut_off,
        _silent_since,
        "It drains, is busy and silent for too long: it would never be seen empty.",
    ),
    ConditionRow(Condition.QUARANTINED, _quarantined, _marked_at, "We disabled it because it seems broken."),
    ConditionRow(Condition.FOR_GOOD, _for_good, _marked_at, "It drains, and nothing but a person enables it again."),
    ConditionRow(
        Condition.INCOMPLETE,
        _incomplete,
        lambda seen: seen.note.enrolling_since,
        "It is an execution host, but some of these are missing: its queue, slots, values of complexes.",
    ),
    ConditionRow(
        Condition.JOINED,
        _joined,
        lambda seen: seen.note.joined_at,
        "It is complete, up and reports, but still disabled.",
    ),
    ConditionRow(Condition.FAILED, _failed, _never, "Its provider says that it never comes up, or was stopped."),
    ConditionRow(Condition.OVERDUE, _overdue, _way_in_began, "It has been on its way in for `boot_timeout` or longer."),
    ConditionRow(
        Condition.IDLE,
        _idle,
        lambda seen: seen.note.idle_since,
        "Every observation since then showed it ready and empty.",
    ),
    ConditionRow(
        Condition.IN_ALARM,
        _alarmed,
        lambda seen: seen.note.alarm_since,
        "Every observation since then showed it ready, empty, and in alarm (`a`, `A`) in its queue.",
    ),
    ConditionRow(
        Condition.EMPTY,
        _empty,
        lambda seen: seen.note.empty_since,
        "Every observation since then showed it disabled by us, and empty.",
    ),
    ConditionRow(
        Condition.DRAINED,
        _drained,
        lambda seen: seen.note.empty_since,
        "Two observations, a scheduler interval apart, showed it disabled by us and empty (rule 1).",
    ),
)


@dataclass(frozen=True, slots=True)
class DecidingRow:
    """A condition that outweighs these phases, and the procedure that then takes the next step."""

    condition: Condition
    phases: frozenset[Phase]
    procedure: Procedure


_ALL = frozenset(Phase) - {Phase.ORDERED, Phase.GONE}
_BEFORE_ITS_END = frozenset({Phase.BOOTING, Phase.JOINING, Phase.READY, Phase.DRAINING})
_READY = frozenset({Phase.READY})

DECIDING: tuple[DecidingRow, ...] = (
    # It is not known whether it lives: its end is made certain before anything else.
    DecidingRow(Condition.UNLISTED, _ALL, Procedure.RECOVERY),
    # Without its node array its purpose is not known. Only a person removes it.
    DecidingRow(Condition.UNKNOWN_ARRAY, _ALL, Procedure.SET_ASIDE),
    DecidingRow(Condition.NAME_TAKEN, frozenset({Phase.LEAVING}), Procedure.SET_ASIDE),
    DecidingRow(Condition.NAME_AWAITED, frozenset({Phase.BOOTING}), Procedure.JOINING),
    DecidingRow(Condition.FENCED, frozenset({Phase.ENDING}), Procedure.RECOVERY),
    # A worker that a person disabled is left alone, even if its cloud is about to take it.
    DecidingRow(Condition.DISABLED_BY_HAND, _READY, Procedure.SET_ASIDE),
    DecidingRow(Condition.INTERRUPTED, _BEFORE_ITS_END, Procedure.RECOVERY),
    DecidingRow(Condition.CUT_OFF, frozenset({Phase.DRAINING}), Procedure.RECOVERY),
    DecidingRow(Condition.CORDONED, _READY, Procedure.RECOVERY),
    DecidingRow(Condition.SILENT, _READY, Procedure.RECOVERY),
)
"""Read from the top; the first row whose condition holds in one of its phases decides. If none does, the phase decides.
"""

BY_PHASE: Mapping[Phase, Procedure] = MappingProxyType(
    {
        Phase.BOOTING: Procedure.JOINING,
        Phase.JOINING: Procedure.JOINING,
        Phase.READY: Procedure.SCALE_DOWN,
        Phase.DRAINING: Procedure.LEAVING,
        Phase.LEAVING: Procedure.LEAVING,
        Phase.ENDING: Procedure.RECOVERY,
        Phase.GONE: Procedure.RECOVERY,
    }
)
"""The procedure that takes the next step if no condition decides. An ordered worker has none."""


def phase_of(seen: WorkerFacts) -> Phase:
    """The phase of an observed worker."""
    return next(row.phase for row in PHASES if row.holds(seen))


def conditions_of(seen: WorkerFacts) -> Conditions:
    """All conditions that hold, with since when."""
    return MappingProxyType({row.condition: row.since(seen) for row in CONDITIONS if row.holds(seen)})


def deciding(phase: Phase, conditions: Conditions) -> DecidingRow | None:
    """The row of the condition that outweighs the phase; None: the phase alone decides."""
    return next((row for row in DECIDING if phase in row.phases and row.condition in conditions), None)
