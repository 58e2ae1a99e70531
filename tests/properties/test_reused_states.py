"""A pass that uses states, hosts and steps of the one before decides as one that makes all of them anew."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobCategory, ParallelEnvironment
from autoscaler.core.model.evidence import KeptBy, SchedulerSays
from autoscaler.core.model.fleet import (
    BucketKey,
    FailureKind,
    Interruption,
    LaunchFailure,
    MachineState,
    Order,
    OrderedFor,
    OrderState,
    Worker,
)
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.placement import kinds, placed
from autoscaler.core.plan import plan
from autoscaler.core.readable.remembered import LastEqual, LastObjects, LastValue, PerArguments, PerCategory, PerObject
from autoscaler.core.scale_down import scale_down
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.settled import SettledObservation
from autoscaler.core.workers.worker_observation import observe_workers
from bench.plans import snapshot
from tests.samples import examples

WORKERS, CATEGORIES = 6, 8
CHANGES = (
    "nothing",
    "silent",
    "alarm",
    "disabled",
    "job",
    "ended",
    "transfer",
    "stopping",
    "gone",
    "noticed",
    "marked",
    "kept",
    "drained",
    "swapped name",
    "lost memory",
    "asks to stop",
    "older",
    "order",
    "settings",
    "category",
    "full",
    "bucket",
    "failed",
    "paused",
    "impossible",
    "spread",
    "more tasks",
    "said",
    "grouped",
    "billing",
)
"""What may happen between two passes; "nothing" is drawn as often as all of it."""


ELSEWHERE = ("kept", "drained", "asks to stop", "bucket", "failed", "paused", "said")
"""Of these, what no listing of workers shows."""
OF_JOBS = ("category", "impossible", "spread", "more tasks")
REMEMBERING = (
    PerCategory,
    PerObject,
    PerArguments,
    LastEqual,
    LastObjects,
    LastValue,
    placed.LastValues,
    SettledObservation,
    scale_down._StayingWorkers,
)
"""The classes of what one pass keeps for the next."""


def anew(seen: Snapshot) -> Plan:
    """The plan without anything of an earlier pass."""
    kept_kinds, kept_rooms = dict(kinds._KINDS), dict(kinds._ROOMS)
    kinds._KINDS.clear()
    kinds._ROOMS.clear()
    with pytest.MonkeyPatch.context() as patched:
        for module, name in remembered():
            patched.setattr(module, name, type(getattr(module, name))())
        try:
            return plan(seen)
        finally:
            kinds._KINDS.clear()
            kinds._KINDS.update(kept_kinds)
            kinds._ROOMS.clear()
            kinds._ROOMS.update(kept_rooms)


def remembered() -> list[tuple[ModuleType, str]]:
    """Where the core keeps something for the next pass."""
    core = [module for name, module in sys.modules.items() if name.startswith("autoscaler.core.")]
    return [(each, name) for each in core for name, value in vars(each).items() if isinstance(value, REMEMBERING)]


def changed(seen: Snapshot, made: Plan, change: str, at: int, passed: float) -> Snapshot:
    """The next snapshot, in which this happened to one worker."""
    hosts, workers, fleet = list(seen.cluster.hosts), list(seen.fleet.workers), seen.fleet
    memory, overrides, policy, requests = made.memory, seen.overrides, seen.policy, seen.requests
    evidence = replace(seen.evidence, scheduler={})
    job_categories = list(seen.cluster.job_categories)
    host, worker = hosts[at], workers[at]
    instance = host.instances[0]
    match change:
        case "silent":
            host = replace(host, heard=not host.heard)
        case "alarm" | "disabled":
            state = {"alarm": "a", "disabled": "d"}[change]
            host = _with(host, states="" if state in instance.states else state)
        case "job" | "transfer":
            job = HostJob(500 + int(seen.now) % 1000, "", "t" if change == "transfer" else "r", 1, "ann", seen.now)
            host = _with(host, jobs=(*instance.jobs, job), used=instance.used + 1)
        case "ended":
            host = _with(host, jobs=(), used=0)
        case "stopping":
            worker = replace(worker, state=MachineState.STOPPING)
        case "gone":
            worker = replace(worker, state=MachineState.TERMINATED)
        case "noticed":
            fleet = replace(fleet, interruptions=(Interruption(worker.id, seen.now + 90, "terminate"),))
        case "marked":
            note = memory.workers.get(worker.id)
            if note is not None:
                marked = replace(note, disabling=Disabling.COMMAND, disabled_at=seen.now)
                memory = replace(memory, workers={**memory.workers, worker.id: marked})
        case "kept":
            overrides = Overrides(keep=frozenset({worker.name or ""}))
        case "drained":
            overrides = Overrides(drain=frozenset({worker.name or ""}))
        case "swapped name":
            worker = replace(worker, id=f"{worker.id}x", created_at=seen.now - 30)
        case "lost memory":
            memory = Memory()
        case "asks to stop":
            requests = replace(requests, auto_stops=requests.auto_stops ^ {worker.id})
        case "older":
            worker = replace(worker, created_at=worker.created_at - 1, order_id="o1")
        case "order":
            fleet = replace(fleet, orders=() if fleet.orders else (_order(worker, seen.now),))
        case "settings":
            (array,) = policy.node_arrays
            array = replace(array, idle_timeout=300.0 if array.idle_timeout > 300.0 else 600.0)
            policy = replace(policy, node_arrays=(array,))
        case "category":
            job_categories[at] = replace(job_categories[at], jobs=(1_500 + at, *job_categories[at].jobs[1:]))
        case "full":
            (array,) = policy.node_arrays
            most = WORKERS if array.limits.max_workers > WORKERS else WORKERS + 1_000
            policy = replace(policy, node_arrays=(replace(array, limits=replace(array.limits, max_workers=most)),))
        case "grouped":
            worker = replace(worker, group_id="" if worker.group_id else "g1")
        case "billing":
            (array,) = policy.node_arrays
            policy = replace(
                policy, node_arrays=(replace(array, billing_step=3_600.0 if array.billing_step < 600.0 else 1.0),)
            )
        case "bucket":
            first, *others = fleet.buckets
            fleet = replace(fleet, buckets=(*others, replace(first, available=None if first.available == 0 else 0)))
        case "failed":
            key = fleet.buckets[at % len(fleet.buckets)].key
            failure = LaunchFailure(key, seen.now, FailureKind.CAPACITY, "none left", f"o{seen.now}")
            fleet = replace(fleet, failures=(*fleet.failures, failure))
        case "paused":
            overrides = replace(overrides, paused=not overrides.paused)
        case "impossible" | "spread" | "more tasks":
            category = job_categories[at]
            jobs = tuple(2_000 + int(seen.now) % 1_000 * 10 + job % 10 for job in category.jobs)
            asks = {
                "impossible": replace(category.ask, hard=(("mem_total", "10T"),)),
                "spread": replace(category.ask, hard=(), pe="mpi", slots_min=24, slots_max=24),
                "more tasks": category.ask,
            }
            jobs = (*jobs, jobs[-1] + 10_000) if change == "more tasks" else jobs
            job_categories[at] = JobCategory(
                asks[change], jobs, ("",) * len(jobs), (seen.now - 400,) * len(jobs), len(jobs)
            )
        case "said":
            said = {
                job: SchedulerSays(job, seen.now, KeptBy.HOSTS if at % 2 else KeptBy.ALL, "no")
                for job in memory.unstarted
            }
            evidence = replace(evidence, scheduler=said)
        case _:
            pass
    hosts[at], workers[at] = host, worker
    return replace(
        seen,
        cluster=replace(seen.cluster, hosts=tuple(hosts), job_categories=tuple(job_categories)),
        fleet=replace(fleet, workers=tuple(workers)),
        memory=memory,
        overrides=overrides,
        policy=policy,
        requests=requests,
        evidence=evidence,
        now=seen.now + passed,
    )


def _order(worker: Worker, now: float) -> Order:
    """One that is known to have brought this worker, or will."""
    key = BucketKey(worker.type.name, "execute")
    for_ann = OrderedFor("ann", slots=1)
    return Order("o1", "execute", worker.type, 1, now, OrderState.ACCEPTED, key, ordered_for=(for_ann,))


def _with(host: ExecutionHost, **instance: object) -> ExecutionHost:
    return replace(host, instances=(replace(host.instances[0], **instance), *host.instances[1:]))  # type: ignore[arg-type]


@settings(max_examples=examples(400))
@given(
    st.lists(
        st.tuples(
            st.just("nothing") | st.sampled_from(CHANGES),
            st.integers(0, WORKERS - 1),
            st.sampled_from((0.0, 1.0, 15.0, 700.0)),
        ),
        max_size=12,
    )
)
def test_passes_one_after_the_other_decide_as_each_alone(changes: list[tuple[str, int, float]]) -> None:
    seen = with_pe(snapshot(WORKERS, CATEGORIES))
    made = plan(seen)
    for change, at, passed in changes:
        seen = changed(seen, made, change, at, passed)
        alone = anew(seen)
        made = plan(seen)
        assert made == alone


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("full", (False, True))
def test_after_each_kind_of_change_a_pass_decides_as_one_alone(change: str, full: bool) -> None:
    seen = with_pe(snapshot(WORKERS, CATEGORIES))
    made = plan(seen)
    if full:
        for before in ("full", "spread", "impossible"):
            seen = changed(seen, made, before, 2, 15.0)
            made = plan(seen)
    for then, at in (("nothing", 0), ("nothing", 0), (change, 3), ("nothing", 0), (change, 3), ("nothing", 0)):
        seen = changed(seen, made, then, at, 15.0)
        alone = anew(seen)
        made = plan(seen)
        assert made == alone


def with_pe(seen: Snapshot) -> Snapshot:
    """The same, where jobs may spread over hosts."""
    queues = {name: replace(queue, pe_list=("mpi",)) for name, queue in seen.cluster.queues.items()}
    pes = {"mpi": ParallelEnvironment("mpi", 10_000, "$fill_up")}
    return replace(seen, cluster=replace(seen.cluster, queues=queues, pes=pes))


def test_the_state_of_a_worker_that_did_not_change_is_the_same_object() -> None:
    seen = snapshot(WORKERS, CATEGORIES)
    states = []
    for _ in range(4):
        made = plan(seen)
        states.append(observe_workers(seen.cluster, seen.fleet, made.memory, seen.policy, seen.now + 15).workers)
        seen = replace(seen, memory=made.memory, now=seen.now + 15)
    assert [one is other for one, other in zip(states[2], states[3], strict=True)] == [True] * WORKERS


def test_an_observation_in_which_nothing_changed_is_the_same_object() -> None:
    seen = snapshot(WORKERS, CATEGORIES)
    observations = []
    for _ in range(4):
        made = plan(seen)
        seen = replace(seen, memory=made.memory, now=seen.now + 15)
        observations.append(_observed(seen))
    assert observations[2] is observations[3]


@pytest.mark.parametrize("change", [each for each in CHANGES if each not in ("nothing", *OF_JOBS, *ELSEWHERE)])
def test_after_any_change_of_a_worker_it_is_another_one(change: str) -> None:
    seen = snapshot(WORKERS, CATEGORIES)
    for _ in range(3):
        made = plan(seen)
        seen = changed(seen, made, "nothing", 0, 15.0)
    before = _observed(seen)
    assert _observed(replace(seen, now=seen.now + 15)) is before
    assert _observed(changed(seen, made, change, 1, 15.0)) is not before


def _observed(seen: Snapshot) -> ObservedWorkers:
    return observe_workers(seen.cluster, seen.fleet, seen.memory, seen.policy, seen.now)
