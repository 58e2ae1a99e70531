"""Builds snapshots from the objects in them: `a_snapshot(a_job(slots=4), a_worker("w1", idle=60))`.

The cell has one queue `main.q` with node array `execute` of m5.large (2 cores, 8 GiB) unless given otherwise, at NOW.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoscaler.core.actions import Action, Launch, subject_of
from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    HostJob,
    JobCategory,
    JobDetail,
    JobRequest,
    ParallelEnvironment,
    Queue,
    QueueInstance,
    QuotaRule,
    QuotaSet,
)
from autoscaler.core.model.fleet import (
    Bucket,
    BucketKey,
    FailureKind,
    Fleet,
    InstanceType,
    LaunchFailure,
    MachineState,
    Order,
    OrderState,
    Worker,
)
from autoscaler.core.model.memory import Disabling, Event, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.policy import CircuitBreaker, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.requests.group_names import pe_of
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot, WorkerVerdict

NOW = 1_800_000_000.0
GIB = 1024**3
LONG_AGO = NOW - 3600

LARGE = InstanceType("m5.large", "m5", 2, 8 * GIB)
XLARGE = InstanceType("m5.xlarge", "m5", 4, 16 * GIB)
X2LARGE = InstanceType("m5.2xlarge", "m5", 8, 32 * GIB)
X4LARGE = InstanceType("m5.4xlarge", "m5", 16, 64 * GIB)
X8LARGE = InstanceType("m5.8xlarge", "m5", 32, 128 * GIB)
M5 = (LARGE, XLARGE, X2LARGE, X4LARGE, X8LARGE)

COMPLEXES = {
    name: Complex(name, shortcut, kind, relop, "YES", consumable, default)
    for name, shortcut, kind, relop, consumable, default in (
        ("arch", "a", "STRING", "==", Consumable.NO, "NONE"),
        ("num_proc", "p", "INT", "==", Consumable.NO, "0"),
        ("mem_total", "mt", "MEMORY", "<=", Consumable.NO, "0"),
        ("mem_free", "mf", "MEMORY", "<=", Consumable.NO, "0"),
        ("m_topology", "topo", "STRING", "==", Consumable.NO, "NONE"),
        ("h_rt", "h_rt", "TIME", "<=", Consumable.NO, "0:0:0"),
        ("h_vmem", "h_vmem", "MEMORY", "<=", Consumable.PER_SLOT, "0"),
        ("scratch", "scr", "MEMORY", "<=", Consumable.PER_JOB, "0"),
        ("gpus", "gpu", "INT", "<=", Consumable.PER_SLOT, "0"),
        ("exclusive", "excl", "BOOL", "EXCL", Consumable.PER_SLOT, "0"),
        ("lic", "lic", "INT", "<=", Consumable.PER_SLOT, "0"),
        ("hostname", "h", "HOST", "==", Consumable.NO, "NONE"),
        ("qname", "q", "STRING", "==", Consumable.NO, "NONE"),
        ("slots", "s", "INT", "<=", Consumable.PER_SLOT, "1"),
    )
}
PES = {
    "local": ParallelEnvironment("local", 999999, "$pe_slots"),
    "mpi": ParallelEnvironment("mpi", 999999, "$fill_up"),
    "mpi4": ParallelEnvironment("mpi4", 999999, "4"),
}
MAIN = Queue("main.q", ("@allhosts",), 1, pe_list=tuple(PES))


@dataclass(frozen=True)
class AWorker:
    """A machine with what Grid Engine shows of it and what we remember."""

    worker: Worker
    host: ExecutionHost | None = None
    note: WorkerNote | None = None


@dataclass(frozen=True)
class Details:
    """What `qstat -j` printed."""

    details: tuple[JobDetail, ...]


Thing = JobCategory | AWorker | ExecutionHost | Order | Bucket | LaunchFailure | Overrides | QuotaSet | Details | Memory


def a_job(
    number: int = 1,
    *,
    slots: int | tuple[int, int] = 1,
    pe: str | None = None,
    state: str = "qw",
    waited: float = 60.0,
    tasks: str = "",
    count: int = 1,
    hard: Mapping[str, str] | None = None,
    **ask: Any,
) -> JobCategory:
    """One waiting job (an array with `tasks`, of which there are `count`). Several slots mean PE `local`."""
    least, most = slots if isinstance(slots, tuple) else (slots, slots)
    return JobCategory(
        JobRequest(
            state=state,
            slots_min=least,
            slots_max=most,
            pe=pe or ("local" if most > 1 else None),
            hard=tuple(sorted((hard or {}).items())),
            array=bool(tasks),
            **ask,
        ),
        jobs=(number,),
        tasks=(tasks,),
        submitted=(NOW - waited,),
        count=count,
    )


def jobs(count: int, first: int = 1, **kwargs: Any) -> JobCategory:
    """Many jobs of one category."""
    one = a_job(first, **kwargs)
    return replace(
        one, jobs=tuple(range(first, first + count)), tasks=("",) * count, submitted=one.submitted * count, count=count
    )


def a_host(
    name: str = "h1",
    *,
    slots: int = 2,
    used: int = 0,
    reserved: int = 0,
    states: str = "",
    job_state: str = "r",
    queue: str = "main.q",
    heard: bool = True,
    more: Sequence[QueueInstance] = (),
    hard: Mapping[str, str] | None = None,
    **values: Any,
) -> ExecutionHost:
    """An execution host; `used` slots are one job each."""
    running = tuple(HostJob(9000 + n, "", job_state, 1, "ann", hard=tuple((hard or {}).items())) for n in range(used))
    instance = QueueInstance(queue, name, slots, used, reserved, states, running)
    return ExecutionHost(name, (instance, *more), heard=heard, **values)


def a_machine(
    name: str | None = "w1",
    *,
    type_: InstanceType = LARGE,
    state: MachineState = MachineState.RUNNING,
    age: float = 300.0,
    note: WorkerNote | None = None,
    **worker: Any,
) -> AWorker:
    """A machine that is not an execution host (yet, or any more). Nobody saw it before it was made."""
    if note is not None and note.first_seen < NOW - age:
        note = replace(note, first_seen=NOW - age)
    worker_id = worker.pop("id", f"i-{name or 'new'}")
    array = worker.pop("node_array", "execute")
    return AWorker(Worker(worker_id, type_, array, state, NOW - age, name, **worker), None, note)


def a_worker(
    name: str = "w1",
    *,
    idle: float | None = None,
    used: int = 0,
    mark: Disabling | None = None,
    disabled: float = 60.0,
    empty: float | None = None,
    states: str | None = None,
    type_: InstanceType = LARGE,
    heard: bool = True,
    known: bool = True,
    host: ExecutionHost | None = None,
    **worker: Any,
) -> AWorker:
    """A worker of ours that is an execution host: in service, or with a `mark` disabled by us this many seconds ago.

    `idle`, `empty`: seconds for which earlier observations showed it so. `known=False`: memory has no note of it.
    """
    if states is None:
        states = "d" if mark else ""
    age = worker.pop("age", 1800.0)
    shown = host or a_host(name, slots=type_.vcpus, used=used, states=states, heard=heard)
    note = WorkerNote(
        first_seen=max(LONG_AGO, NOW - age),
        idle_since=None if idle is None else NOW - idle,
        disabled_at=None if mark is None else NOW - disabled,
        disabling=mark,
        seen_disabled=empty is not None,
        joined_at=None if mark is Disabling.ENROL and not heard else LONG_AGO,
        opened=mark is not Disabling.ENROL,
        host=name,
        empty_since=None if empty is None else NOW - empty,
    )
    made = a_machine(name, type_=type_, age=age, **worker)
    return replace(made, host=shown, note=note if known else None)


def an_order(
    count: int = 1,
    *,
    state: OrderState = OrderState.SENT,
    age: float = 20.0,
    type_: InstanceType = LARGE,
    ids: tuple[str, ...] = (),
    **order: Any,
) -> Order:
    return Order("order-1", "execute", type_, count, NOW - age, state, BucketKey(type_.name), ids=ids, **order)


def a_bucket(
    type_: InstanceType = LARGE,
    *,
    price: float | None = None,
    available: int | None = None,
    problem: str | None = None,
    **key: Any,
) -> Bucket:
    price = type_.vcpus * 0.05 if price is None else price
    return Bucket(BucketKey(type_.name, **key), type_, None if price < 0 else price, available, problem)


def a_failure(
    type_: InstanceType = LARGE, *, age: float = 60.0, kind: FailureKind = FailureKind.CAPACITY, **key: Any
) -> LaunchFailure:
    return LaunchFailure(BucketKey(type_.name, **key), NOW - age, kind, "Insufficient instance capacity.")


def a_quota(*rules: QuotaRule, enabled: bool = True) -> QuotaSet:
    return QuotaSet("set", enabled, rules)


def details_of(*numbers: int, **detail: Any) -> Details:
    return Details(tuple(JobDetail(number, read_at=NOW - 10, **detail) for number in numbers))


def with_pes_of_groups(snapshot: Snapshot, base: str = "mpi") -> Snapshot:
    """The same where each group of workers has its own parallel environment of `base`, as those that join get."""
    groups = {worker.group_id for worker in snapshot.fleet.workers if worker.group_id}
    own = {pe_of(base, group): replace(PES[base], name=pe_of(base, group)) for group in groups}
    return replace(snapshot, cluster=replace(snapshot.cluster, pes={**snapshot.cluster.pes, **own}))


def a_snapshot(
    *things: Thing,
    limits: Limits | None = None,
    circuit_breaker: CircuitBreaker | None = None,
    queue: Mapping[str, Any] | None = None,
    queues: Mapping[str, Queue] | None = None,
    policy: Policy | None = None,
    global_consumables: Mapping[str, str] | None = None,
    global_values: Mapping[str, str] | None = None,
    launches: tuple[Event, ...] = (),
    enrols_itself: bool = False,
    now: float = NOW,
    complexes: Mapping[str, Complex] | None = None,
    **array: Any,
) -> Snapshot:
    """A snapshot of these things. `array` are fields of the node array's policy, `queue` of the queue's."""
    workers = [thing for thing in things if isinstance(thing, AWorker)]
    hosts = [thing for thing in things if isinstance(thing, ExecutionHost)]
    hosts += [worker.host for worker in workers if worker.host is not None]
    buckets = tuple(thing for thing in things if isinstance(thing, Bucket)) or tuple(a_bucket(type_) for type_ in M5)
    memory = next((thing for thing in things if isinstance(thing, Memory)), Memory(passes=7))
    details = [detail for thing in things if isinstance(thing, Details) for detail in thing.details]
    notes = {worker.worker.id: worker.note for worker in workers if worker.note is not None}
    array = {"instance_type": "m5.large", "limits": limits or Limits(max_workers=10), "scale_up_batch": 10, **array}
    return Snapshot(
        cluster=Cluster(
            hosts=tuple(hosts),
            job_categories=tuple(thing for thing in things if isinstance(thing, JobCategory)),
            queues=queues or {"main.q": MAIN},
            pes=PES,
            complexes=complexes or COMPLEXES,
            host_groups={"@allhosts": tuple(host.name for host in hosts)},
            execution_hosts=frozenset(host.name for host in hosts),
            global_consumables=global_consumables or global_values or {},
            global_values=global_values or {},
            quotas=tuple(thing for thing in things if isinstance(thing, QuotaSet)),
        ),
        fleet=Fleet(
            workers=tuple(worker.worker for worker in workers),
            buckets=buckets,
            orders=tuple(thing for thing in things if isinstance(thing, Order)),
            failures=tuple(thing for thing in things if isinstance(thing, LaunchFailure)),
            enrols_itself=enrols_itself,
        ),
        overrides=next((thing for thing in things if isinstance(thing, Overrides)), Overrides()),
        memory=replace(
            memory,
            workers={**memory.workers, **notes},
            launches=memory.launches + launches,
            details={**memory.details, **{detail.job: detail for detail in details}},
        ),
        policy=policy
        or Policy(
            queues=(QueuePolicy("main.q", "execute", **(queue or {})),),
            node_arrays=(NodeArrayPolicy("execute", "main.q", "@allhosts", **array),),
            master="master",
            circuit_breaker=circuit_breaker or CircuitBreaker(),
        ),
        now=now,
    )


def acts(plan: Plan) -> list[tuple[str, object]]:
    """A plan's actions in short: `("launch", {"m5.large": 2})`, `("disable", "w1")`."""
    return [(action.kind, _subject(action)) for action in plan.actions]


def _subject(action: Action) -> object:
    if isinstance(action, Launch):
        return {candidate.type.name: candidate.count for candidate in action.candidates}
    return subject_of(action)


def launched(plan: Plan) -> dict[str, int]:
    """What is launched, if all goes well: type → count."""
    return {
        action.candidates[0].type.name: action.candidates[0].count
        for action in plan.actions
        if isinstance(action, Launch)
    }


def verdict_of(plan: Plan, name: str) -> WorkerVerdict:
    return next(verdict for verdict in plan.workers if verdict.name == name)


def verdict_and_code(plan: Plan, name: str) -> tuple[str, Code]:
    """A worker's verdict and its reason's code."""
    verdict = verdict_of(plan, name)
    return verdict.verdict, verdict.reason.code


def category_of(plan: Plan, job: int = 1) -> JobCategoryVerdict:
    return next(verdict for verdict in plan.job_categories if job in verdict.jobs)


def reason_code(plan: Plan, job: int = 1) -> Code:
    return category_of(plan, job).reason.code


def codes(reason: Reason) -> list[Code]:
    """A reason's code and those of its trail."""
    return [reason.code, *(code for link in reason.trail for code in codes(link))]


def note_codes(plan: Plan) -> list[Code]:
    return [code for note in plan.notes for code in codes(note)]
