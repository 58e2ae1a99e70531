"""What a plan asks the engine to do: small frozen values, each with its reason.

An action is one class. `kind` is its name in the journal, in JSON and in the log, `order` its place among the actions
of a pass, `verb` the word for it in the pass's sentence, and `calls_provider` says on which threads it may run. A class
without one of these fails the type check and the import. Its fields give its JSON form (`report.document`,
`report.schema`) and its row in the journal. One function of `engine.executors` carries it out. If that function is
missing for a kind of the unions below, the type check fails.

Actions name machines by worker id and hosts by host name, so that the engine needs nothing but the action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.fleet import Assignment, Bucket, FailureKind, InstanceType, OrderedFor
from autoscaler.core.model.reasons import Reason


class ActionKind:
    """Base of every action. Subclasses are dataclasses without slots: one with slots is made twice, the second time
    without these arguments.
    """

    kind: ClassVar[str]
    """Stable: older journals and readers of JSON know it."""
    order: ClassVar[int]
    """Actions that bring capacity have a low number and go first; those that take it away go last."""
    verb: ClassVar[str]
    """In the pass's sentence, before the hosts or jobs: `enabling`."""

    calls_provider: ClassVar[bool]
    """Whether its executor calls the provider, which may hang: the engine then runs it off the loop's thread."""

    def __init_subclass__(cls, *, kind: str, order: int, verb: str, calls_provider: bool) -> None:
        cls.kind, cls.order, cls.verb, cls.calls_provider = kind, order, verb, calls_provider


@dataclass(frozen=True, slots=True)
class InJson:
    """How JSON shows a field, if its type and value do not say it."""

    description: str = ""
    shown: bool = True
    """False: it is for the engine only."""
    null_if_empty: bool = False


ENGINE_ONLY = InJson(shown=False)
Getter = TypeVar("Getter", bound=Callable[..., object])


def also_in_json(getter: Getter) -> Getter:
    """Mark the getter of a property that JSON shows besides the fields."""
    getter.__dict__["in_json"] = True
    return getter


def in_json(member: property) -> bool:
    """Whether a property is marked by `also_in_json`."""
    return bool(getattr(member.fget, "in_json", False))


Price = Annotated[float | None, InJson("Of one worker; null: unknown.")]


@dataclass(frozen=True, slots=True)
class Offer:
    """A number of workers of one instance type and price type."""

    buckets: Annotated[tuple[Bucket, ...], ENGINE_ONLY]
    """Buckets of one type and price type, in order of preference; workers may come from any of them."""
    count: int

    @property
    def type(self) -> InstanceType:
        return self.buckets[0].type

    @property
    @also_in_json
    def instance_type(self) -> str:
        return self.type.name

    @property
    @also_in_json
    def price_per_hour(self) -> Price:
        """At the preferred bucket."""
        return self.buckets[0].price_per_hour

    @property
    @also_in_json
    def price_type(self) -> str:
        return self.buckets[0].key.price_type.value

    @property
    @also_in_json
    def zones(self) -> Annotated[tuple[str, ...], InJson("Zones tried, in order; empty: whichever.")]:
        return tuple(bucket.key.zone for bucket in self.buckets if bucket.key.zone)


@dataclass(frozen=True, slots=True)
class LaunchSet(Offer):
    """A set of offers that meets a launch's demand. The sets are tried in order until one gives a worker."""

    besides: Annotated[
        tuple[Offer, ...], InJson("Further offers of the set, ordered together with this one; empty: it is the set.")
    ] = ()

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The whole set, in the order in which it is ordered."""
        return (Offer(self.buckets, self.count), *self.besides)

    @property
    def workers(self) -> int:
        """Number of workers of the whole set."""
        return sum(offer.count for offer in self.offers)


@dataclass(frozen=True)
class _OnHost:
    """The fields of actions on one host."""

    worker_id: str
    host: str
    reason: Reason


Jobs = Annotated[tuple[str, ...], InJson('Job numbers, of array jobs with the tasks meant: "12", "12.3-9:2".')]


@dataclass(frozen=True)
class _OnJobs:
    """The first fields of actions on jobs."""

    jobs: Jobs
    reason: Reason


@dataclass(frozen=True)
class Launch(ActionKind, kind="launch", order=50, verb="launching", calls_provider=True):
    """Order workers. `instance_type`, `count` and `price_per_hour` are the first candidate's."""

    node_array: str
    candidates: tuple[LaunchSet, ...]
    """Sets of offers, each sized for the same demand. The engine orders all of one set, and the next set only if that
    gave no worker at all.
    """
    reason: Reason
    group_id: Annotated[str, InJson("The group that they are (the rest of); null: of none.", null_if_empty=True)] = ""
    """If set, the workers carry it as a tag."""
    nodes: Annotated[
        tuple[str, ...],
        InJson("Ids of the created nodes that they serve, one each, in this order; empty: of none."),
    ] = ()
    for_requests: Annotated[bool, ENGINE_ONLY] = False
    """Whether they are for the shortfall of request sets, not for the queues' demand."""
    assignment: Annotated[Assignment, ENGINE_ONLY] = ()
    """The job categories whose tasks the first set would serve; empty if no job needs the workers."""
    ordered_for: Annotated[tuple[OrderedFor, ...], ENGINE_ONLY] = ()
    """The owners of these tasks."""

    @property
    @also_in_json
    def instance_type(self) -> str:
        return self.candidates[0].type.name

    @property
    @also_in_json
    def count(self) -> int:
        return self.candidates[0].count

    @property
    @also_in_json
    def price_per_hour(self) -> Price:
        return self.candidates[0].price_per_hour


@dataclass(frozen=True)
class Enrol(ActionKind, kind="enrol", order=20, verb="enrolling", calls_provider=False):
    """Make a machine an execution host, disabled at first: `qconf -Ae`, queue slots, host group, `qmod -d`."""

    worker_id: str
    host: str
    node_array: str
    queue: str
    host_group: str
    slots: int
    complex_values: tuple[tuple[str, str], ...]
    """In Grid Engine's notation, `("h_vmem", "32G")`; without slots."""
    reason: Reason
    group_id: Annotated[str, InJson("The group that it is one of; null: of none.", null_if_empty=True)] = ""
    group_pes: Annotated[tuple[str, ...], ENGINE_ONLY] = ()
    """Parallel environments of which each group has one of its own."""
    joined: Annotated[bool, InJson("Whether its own image made it one: it gets these values besides what it has.")] = (
        False
    )
    """Whether its image made the machine an execution host: it is disabled, and gets only the missing
    values.
    """
    seq_no: Annotated[
        int | None, InJson("Its sequence number in the queue; null: it gets none, and has that of the queue.")
    ] = None


@dataclass(frozen=True)
class Enable(_OnHost, ActionKind, kind="enable", order=10, verb="enabling", calls_provider=False):
    """Enable a host: `qmod -e '*@host'`. Only ever one that we disabled (rule 4)."""

    queues: Annotated[
        tuple[str, ...],
        InJson("The only queues that are enabled there, as a person had disabled others before; empty: all."),
    ] = ()


@dataclass(frozen=True)
class Disable(_OnHost, ActionKind, kind="disable", order=110, verb="disabling", calls_provider=False):
    """Disable a host, so that no further job starts there: `qmod -d '*@host'`."""


@dataclass(frozen=True)
class Remove(_OnHost, ActionKind, kind="remove", order=100, verb="removing", calls_provider=False):
    """Take an empty, disabled host out of Grid Engine by the guarded sequence. If Grid Engine refuses, the host is put
    back and its machine kept.
    """


@dataclass(frozen=True)
class Terminate(ActionKind, kind="terminate", order=90, verb="terminating", calls_provider=True):
    """End a machine that is no execution host (any more)."""

    worker_id: str
    host: str | None
    reason: Reason
    failure: Annotated[FailureKind | None, InJson("`boot`: it never joined, which is held against its type.")] = None
    """Kind of failure to note against its bucket; its console goes to the report."""


@dataclass(frozen=True)
class Restart(_OnHost, ActionKind, kind="restart", order=84, verb="restarting", calls_provider=True):
    """Have the provider restart a machine. Only ever one that a person has disabled and that is empty."""


@dataclass(frozen=True)
class Reimage(_OnHost, ActionKind, kind="reimage", order=86, verb="reimaging", calls_provider=True):
    """Have the provider set up a machine anew from its image. Only ever one that a person has disabled and that is
    empty.
    """


PROBE_HOST_PREFIX = "sge-autoscaler-probe-"
"""Names of probe hosts begin so, and no other host's does. Such a host is never counted and never listed, and any
autoscaler of the cell removes it.
"""


@dataclass(frozen=True, slots=True)
class ProbeHost:
    """A host without a machine that Grid Engine is asked about; disabled, and removed again at once."""

    queue: str
    """The queue whose slots it would give. It is attached to the queue directly, to no host group."""
    slots: int
    complex_values: tuple[tuple[str, str], ...]
    """In Grid Engine's notation; load values that a machine of its kind would report included."""


@dataclass(frozen=True, slots=True)
class Question:
    """One job that Grid Engine is asked about."""

    job: int
    fingerprint: str
    """Hash of all that the answer rests on: what the job asks for, PEs, queues, policy, probe hosts. An answer to
    another question does not count.
    """


@dataclass(frozen=True)
class AskGridEngine(ActionKind, kind="ask", order=120, verb="asking Grid Engine about", calls_provider=False):
    """Ask Grid Engine whether these jobs could ever run on such hosts. Nothing else is decided before it answers.

    A few a pass, each about jobs of another owner; one, if all jobs are of one owner. Its answers are evidence for a
    later plan.
    """

    questions: Annotated[tuple[Question, ...], ENGINE_ONLY]
    probe_hosts: tuple[ProbeHost, ...]
    reason: Reason

    @property
    @also_in_json
    def jobs(self) -> tuple[str, ...]:
        return tuple(str(question.job) for question in self.questions)


@dataclass(frozen=True)
class Annotate(_OnJobs, ActionKind, kind="annotate", order=60, verb="notifying the owner of", calls_provider=False):
    """Write the reason into the jobs' context, which `qstat -j` shows to the owner."""


@dataclass(frozen=True)
class TellWaiting(
    _OnJobs,
    ActionKind,
    kind="tell_waiting",
    order=130,
    verb="noting why it waits in the context of",
    calls_provider=False,
):
    """Write why jobs wait into the context of those that have waited long, all of them by one command."""

    over: Annotated[bool, InJson("It is taken away again: they wait no more.")] = False


@dataclass(frozen=True)
class Hold(_OnJobs, ActionKind, kind="hold", order=70, verb="holding", calls_provider=False):
    """Hold waiting jobs as operator, the reason in their context."""

    asks: Annotated[tuple[JobRequest, ...], ENGINE_ONLY] = ()
    """The requests that they were judged by. A job that asks for something else by then is left alone. Empty for
    running jobs.
    """


@dataclass(frozen=True)
class Release(_OnJobs, ActionKind, kind="release", order=30, verb="releasing", calls_provider=False):
    """Lift the hold that Hold set; the owner's own holds stay."""


@dataclass(frozen=True)
class Kill(_OnJobs, ActionKind, kind="kill", order=80, verb="killing", calls_provider=False):
    """Delete jobs, the reason in their context first."""

    lost: Annotated[bool, InJson("Their machine is gone, so Grid Engine has to be forced.")] = False
    asks: Annotated[tuple[JobRequest, ...], ENGINE_ONLY] = ()
    """As in Hold; empty for lost jobs."""


@dataclass(frozen=True)
class Reschedule(ActionKind, kind="reschedule", order=40, verb="rescheduling", calls_provider=False):
    """Put running jobs back among the waiting.

    Only when their machine is surely gone, or still ours to stop (rule 7).
    """

    jobs: Jobs
    worker_id: str
    host: str
    reason: Reason
    forced: Annotated[bool, InJson("Also those that may not be started again.")] = False


@dataclass(frozen=True, slots=True)
class Numbered:
    """A worker with the sequence number that it gets."""

    host: str
    seq_no: int


@dataclass(frozen=True)
class Renumber(ActionKind, kind="renumber", order=140, verb="ordering the hosts of", calls_provider=False):
    """Give workers other sequence numbers in a queue, all by one command: the scheduler fills hosts in this order."""

    queue: str
    workers: tuple[Numbered, ...]
    reason: Reason


WorkerAction = Enrol | Enable | Disable | Remove | Terminate | Restart | Reimage
"""Actions on one worker; each has `worker_id` and `host`. In the order of the pass's sentence."""
JobAction = Reschedule | Kill | Hold | Release | Annotate | TellWaiting
"""Actions on jobs; each has `jobs`. In the order of the pass's sentence."""
Action = Launch | WorkerAction | AskGridEngine | JobAction | Renumber
"""All of them: code that handles an action by its class is checked against this."""


def subject_of(action: Action) -> str:
    """The object of an action in a word or two: a node array, a host, jobs."""
    if isinstance(action, Launch):
        return action.node_array
    if isinstance(action, AskGridEngine):
        return _some([str(question.job) for question in action.questions])
    if isinstance(action, JobAction):
        return _some(action.jobs)
    if isinstance(action, Renumber):
        return action.queue
    return action.host or action.worker_id


def _some(jobs: Sequence[str]) -> str:
    """`12, 13, 14`, or for many `12, 13, 14 and 97 more`, so that it fits on one line."""
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return ", ".join(jobs[:3]) + more
