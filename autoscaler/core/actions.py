"""What a plan can ask the shell to do. Small frozen values; each carries its reason. Act matches over them and ends
in `assert_never`.

Actions name machines by worker id and hosts by host name, so that act needs nothing but the action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from autoscaler.core.cluster import Ask
from autoscaler.core.fleet import Bucket, InstanceType
from autoscaler.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to meet a launch's demand: `count` workers out of any of `buckets` (same type and price type, in order of
    preference).
    """

    buckets: tuple[Bucket, ...]
    count: int

    @property
    def type(self) -> InstanceType:
        return self.buckets[0].type

    @property
    def price_per_hour(self) -> float | None:
        """Of one worker, at the preferred bucket."""
        return self.buckets[0].price_per_hour


@dataclass(frozen=True, slots=True)
class Launch:
    """Order workers for a node array. Candidates are sized for the same demand; act walks them until one gives at least
    one worker.
    """

    node_array: str
    candidates: tuple[Candidate, ...]
    reason: Reason
    group_id: str = ""
    """Set: all these workers make (the rest of) one group; they carry it as a tag."""
    nodes: tuple[str, ...] = ()
    """Ids of created nodes that these workers serve, one each, in this order."""
    asked: bool = False
    """Whether they are for what request sets lack, and not for the queues' demand."""


@dataclass(frozen=True, slots=True)
class Enrol:
    """Make a machine an execution host, disabled: `qconf -Ae`, queue slots, host group, `qmod -d`."""

    worker_id: str
    host: str
    node_array: str
    queue: str
    host_group: str
    slots: int
    complex_values: tuple[tuple[str, str], ...]
    """In Grid Engine's notation, `("h_vmem", "32G")`; without slots."""
    reason: Reason
    group_id: str = ""
    """The group of workers that it is one of."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments that each group has one of its own of."""
    joined: bool = False
    """Its own image made it an execution host: it gets these values and its group besides what it has, closed to jobs
    meanwhile.
    """


@dataclass(frozen=True, slots=True)
class Enable:
    """Let jobs in: `qmod -e '*@host'`. Only ever for a host that we disabled (rule 4)."""

    worker_id: str
    host: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Disable:
    """Let no further job in: `qmod -d '*@host'`."""

    worker_id: str
    host: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Remove:
    """Take an empty, disabled host out of Grid Engine by the guarded sequence. Refused means put back and keep the
    machine.
    """

    worker_id: str
    host: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Terminate:
    """End a machine that is no execution host (any more)."""

    worker_id: str
    host: str | None
    reason: Reason
    failure: str | None = None
    """Kind of failure to note against its bucket (`boot`), for a machine that never joined; its console goes to the
    report.
    """


PHANTOM_PREFIX = "sge-autoscaler-phantom-"
"""Names of phantoms begin so, and no other host's does: whatever carries it is never counted, never listed, and swept
away by whoever serves the cell.
"""


@dataclass(frozen=True, slots=True)
class Phantom:
    """An execution host without a machine: what Grid Engine is asked about. Disabled; no job can ever start on one."""

    queue: str
    """The queue whose slots it would give; it is attached to that directly, to no host group."""
    slots: int
    complex_values: tuple[tuple[str, str], ...]
    """In Grid Engine's notation; load values that a machine of its kind would report included."""


@dataclass(frozen=True, slots=True)
class Question:
    """One job that Grid Engine is asked about."""

    job: int
    fingerprint: str
    """Of all the answer rests on: what the job asks for, PEs, queues, policy, phantoms. An answer to another question
    is none.
    """


@dataclass(frozen=True, slots=True)
class AskGridEngine:
    """Could these jobs ever run on such hosts? Phantoms are put up, every job is asked about, phantoms are removed.

    At most one a pass. Its answers are evidence for a later plan.
    """

    questions: tuple[Question, ...]
    phantoms: tuple[Phantom, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class Annotate:
    """Leave the reason where the owner looks: in the job's context (`qstat -j`)."""

    jobs: tuple[str, ...]
    """`12` or `12.3-9:2`."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold waiting jobs as operator, the reason in their context."""

    jobs: tuple[str, ...]
    reason: Reason
    asks: tuple[Ask, ...] = ()
    """What each was judged by: one that asks for something else by then is left alone. None for jobs that run."""


@dataclass(frozen=True, slots=True)
class Release:
    """Lift the hold that Hold set; the owner's own holds stay."""

    jobs: tuple[str, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class Kill:
    """Delete jobs, the reason in their context first. `lost`: their machine is gone, which needs force."""

    jobs: tuple[str, ...]
    reason: Reason
    lost: bool = False
    asks: tuple[Ask, ...] = ()
    """As of Hold; none for lost jobs."""


@dataclass(frozen=True, slots=True)
class PushBack:
    """Put running jobs back among the waiting (rule 7: only when their machine is surely gone, or still ours to stop).

    `forced`: also those that may not be started again, because the operator wishes it so.
    """

    jobs: tuple[str, ...]
    worker_id: str
    host: str
    reason: Reason
    forced: bool = False


WorkerAction = Enrol | Enable | Disable | Remove | Terminate
"""What is done with one worker; each has `worker_id` and `host`."""
JobAction = Annotate | Hold | Release | Kill | PushBack
"""What is done with jobs; each has `jobs`."""
Action = Launch | WorkerAction | AskGridEngine | JobAction

_KINDS: Mapping[type[Action], str] = MappingProxyType(
    {
        Launch: "launch",
        Enrol: "enrol",
        Enable: "enable",
        Disable: "disable",
        Remove: "remove",
        Terminate: "terminate",
        AskGridEngine: "ask",
        Annotate: "annotate",
        Hold: "hold",
        Release: "release",
        Kill: "kill",
        PushBack: "push_back",
    }
)


def kind_of(action: Action) -> str:
    """Its stable name, in the journal, in JSON and in the log."""
    return _KINDS[type(action)]


def subject_of(action: Action) -> str:
    """What it is done with, in a word or two: a node array, a host, jobs."""
    match action:
        case Launch():
            return action.node_array
        case AskGridEngine():
            return _some([str(question.job) for question in action.questions])
        case Annotate() | Hold() | Release() | Kill() | PushBack():
            return _some(action.jobs)
        case Enrol() | Enable() | Disable() | Remove() | Terminate():
            return action.host or action.worker_id


def _some(jobs: Sequence[str]) -> str:
    """`12, 13, 14`, or of many `12, 13, 14 and 97 more`: a line stays a line."""
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return ", ".join(jobs[:3]) + more
