"""A worker as one observation shows it: provider × Grid Engine × memory, with phase and conditions (`phases.py`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.hosts.host_owners import made_at
from autoscaler.core.hosts.missing_values import Values
from autoscaler.core.model.cluster import ExecutionHost, QueueInstance
from autoscaler.core.model.fleet import Interruption, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.workers.phases import BY_PHASE, Condition, Conditions, Phase, Procedure, deciding, disabled


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker with all that is known of it."""

    worker: Worker
    host: ExecutionHost | None
    note: WorkerNote
    """Updated by this observation."""
    before: WorkerNote | None
    """As the last pass left it; None at the first observation."""
    array: NodeArrayPolicy | None
    phase: Phase
    conditions: Conditions = field(default_factory=lambda: MappingProxyType({}))
    enabled_by_hand: bool = False
    """This observation shows it enabled although we had disabled it."""
    notice: Interruption | None = None
    """Its interruption notice, if its cloud gave one."""
    successor: Worker | None = None
    """A newer machine of its name, which waits until this one's execution host is removed."""
    missing_values: Values = ()
    """Values that its own image, which enrolled it, did not give it: the worker stays disabled until it has them."""
    decisive: Condition | None = field(init=False)
    """The condition that outweighs its phase; None: the phase alone decides."""
    procedure: Procedure = field(init=False)
    """The procedure that takes its next step."""
    # Asked dozens of times a pass, and most states are used for many passes: worked out once.
    name: str = field(init=False, repr=False, compare=False)
    empty: bool = field(init=False, repr=False, compare=False)
    coming: bool = field(init=False, repr=False, compare=False)
    """Whether it is on its way into service, and no condition outweighs that."""
    in_service: bool = field(init=False, repr=False, compare=False)
    unheard: bool = field(init=False, repr=False, compare=False)
    """Whether it would be in service if qmaster had a load report from it."""
    draining: bool = field(init=False, repr=False, compare=False)
    """Whether we disabled it to leave."""
    going: bool = field(init=False, repr=False, compare=False)
    """Whether it is leaving, even if something still runs there; most of these steps cannot be undone."""
    gone: bool = field(init=False, repr=False, compare=False)
    advised: bool = field(init=False, repr=False, compare=False)
    """Whether its cloud only advises to move away: nothing ends yet."""

    def __post_init__(self) -> None:
        row, host = deciding(self.phase, self.conditions), self.host
        procedure = BY_PHASE[self.phase] if row is None else row.procedure
        name = host.name if host is not None else self.worker.name or self.note.host or self.worker.id
        object.__setattr__(self, "decisive", None if row is None else row.condition)
        object.__setattr__(self, "procedure", procedure)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "empty", host is None or not host.busy)
        object.__setattr__(self, "coming", procedure is Procedure.JOINING)
        object.__setattr__(self, "in_service", procedure is Procedure.SCALE_DOWN)
        object.__setattr__(self, "unheard", self.decisive is Condition.SILENT)
        draining = self.phase is Phase.DRAINING and self.decisive in (None, Condition.CUT_OFF)
        object.__setattr__(self, "draining", draining)
        going = self.phase in (Phase.LEAVING, Phase.ENDING) and self.decisive in (None, Condition.FENCED)
        object.__setattr__(self, "going", going)
        object.__setattr__(self, "gone", self.phase is Phase.GONE)
        object.__setattr__(self, "advised", Condition.ADVISED in self.conditions)

    @property
    def made_at(self) -> float:
        """When its machine was made, by our own clock."""
        return made_at(self.worker, self.note)

    @property
    def enabled(self) -> bool:
        """Whether it is an execution host where further jobs may start, as far as `d` says."""
        return self.host is not None and not disabled(self.host)

    @property
    def to_enable(self) -> tuple[QueueInstance, ...]:
        """The queue instances that enabling it enables: all but those that a person had disabled before we disabled the
        host.
        """
        instances = self.host.instances if self.host is not None else ()
        return tuple(each for each in instances if each.queue not in self.note.left_disabled)

    @property
    def stays_disabled(self) -> bool:
        """Whether a person had disabled all of it before we did: only a person enables it again."""
        return bool(self.note.left_disabled) and not self.to_enable

    @property
    def joined(self) -> bool:
        """Whether it is complete and only has to be enabled."""
        return self.coming and Condition.JOINED in self.conditions


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one host: they are equal, or one has no domain and the short names are equal. Case does
    not count.
    """
    left, right = one.lower(), other.lower()
    if "." in left and "." in right:
        return left == right
    return left.partition(".")[0] == right.partition(".")[0]


def named_in(names: Collection[str], worker: WorkerState) -> bool:
    """Whether an operator override names this worker, by host name or id."""
    return bool(names) and any(name == worker.worker.id or same_host(name, worker.name) for name in names)
