"""Whatever odd value one job, host, queue, worker, bucket or request has, the pass goes on without it, and names it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import UTC
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.actions import Launch, Remove, Terminate
from autoscaler.core.model.cluster import Queue, QuotaRule
from autoscaler.core.model.evidence import Evidence, Health, JobFailure, JobSuccess
from autoscaler.core.model.fleet import BucketKey, FailureKind, Interruption, MachineState
from autoscaler.core.model.memory import Backoff, Disabling, Event, HeldJob, Memory, SwapNote, UnsatisfiableNote
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.core.outcome.sample import running, sample_of
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.readable.screening import readable
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.engine.event_keeper import EventKeeper
from autoscaler.engine.loop import Loop
from autoscaler.engine.meter import Meter
from autoscaler.engine.monitor import Monitor
from autoscaler.engine.observe import Observation
from autoscaler.report.document import document
from autoscaler.report.explain import explain_host, explain_job
from autoscaler.store.store import Store
from tests.core.building import (
    M5,
    MAIN,
    NOW,
    X2LARGE,
    a_bucket,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_quota,
    a_snapshot,
    a_worker,
    an_order,
    details_of,
    jobs,
)
from tests.properties.poison import Path, leaves, planted, poisons_for
from tests.samples import examples

ORDINARY = 1
"""The job that is unrelated to all of it."""
BUSY = "busy"


def world() -> Snapshot:
    """A cell in the middle of its day: a little of everything that a pass reads."""
    event = (Event(NOW - 500, 1, "execute"),)
    memory = Memory(
        passes=7,
        able_since={3: NOW - 40},
        unable=(4,),
        backoffs=(Backoff(BucketKey("m5.8xlarge"), NOW + 60, 1, FailureKind.CAPACITY, "none left"),),
        failures_seen=NOW - 900,
        launches=event,
        removals=event,
        quarantines=event,
        silent_since={"h1": None, "silent": NOW - 100, BUSY: None},
        observed_at=NOW - 5,
        unsatisfiable_jobs={5: UnsatisfiableNote("print", NOW - 90, NOW - 60, 1)},
        swaps={"execute": SwapNote(since=NOW - 30, ended_at=NOW - 900)},
        held_back={"12": HeldJob(("h1",), NOW - 30)},
        queues_empty_since=NOW - 10,
    )
    gpu = {"h_vmem": "1G", "arch": "lx-*", "h_rt": "1:0:0"}
    queue = replace(MAIN, complex_values={"scratch": "10G"}, limits={"h_rt": "24:0:0"}, slots_by_host={"h1": 2})
    snapshot = a_snapshot(
        a_job(ORDINARY, slots=4, pe="mpi"),
        a_job(2, hard=gpu),
        a_job(3, tasks="1-9:2", count=5, owner="bob"),
        a_job(4, state="hqw"),
        jobs(2, 5, hard={"lic": "1"}, queues=("main.q",)),
        a_host("h1", used=2, load={"num_proc": "2", "arch": "lx-amd64", "mem_free": "1G"}, hard={"h_vmem": "1G"}),
        a_host("odd", consumables={"h_vmem": "4G", "slots": "2"}, fixed={"arch": "lx-amd64"}, used=2),
        a_worker(BUSY, used=1, zone="a", price_per_hour=0.1, order_id="order-0"),
        a_worker("idle", idle=3600.0),
        a_worker("leaving", mark=Disabling.IDLE, empty=90.0),
        a_worker("silent", heard=False, states="u", used=1),
        a_machine("booting", state=MachineState.PENDING, age=30.0),
        a_machine("ended", state=MachineState.TERMINATED),
        an_order(1),
        *(a_bucket(type_, available=50) for type_ in M5),
        a_bucket(X2LARGE, node_array="spare"),
        a_failure(X2LARGE, zone="b"),
        a_quota(QuotaRule({"slots": "500"}, users=("bob",), each=frozenset({"users"}))),
        details_of(3, concurrency=4),
        memory,
        queues={"main.q": queue, "other.q": Queue("other.q", ("h1",), 2)},
        global_consumables={"lic": "9"},
        limits=Limits(max_workers=40, min_workers=1, max_cores=400, max_launches_per_hour=300),
        hybrid=True,
    )
    requests = Requests(
        sets=(RequestSet("nightly", "ann", NOW - 30, NOW + 900, (Target("execute", count=2),), ("execute",)),),
        arrays=(ArrayDefinition("execute", max_count=30),),
        nodes=(CreatedNode("n1", "execute-1", "execute", NOW - 20, "r1", "m5.xlarge"),),
        auto_stops=frozenset({"i-idle"}),
    )
    evidence = Evidence(
        failures=(JobFailure(BUSY, 7, NOW - 50, "21 : in recognizing job", "bob"),),
        successes=(JobSuccess("h1", "ann", NOW - 60),),
        health={"i-idle": Health("i-idle", NOW - 9, False, "disk full", NOW - 99)},
    )
    fleet = replace(snapshot.fleet, interruptions=(Interruption("i-silent", NOW + 90, "rebalance"),))
    return replace(snapshot, fleet=fleet, requests=requests, evidence=evidence)


WORLD = world()
READINGS = ("cluster", "fleet", "requests", "memory", "evidence")
# Lists of tasks, their count and numbers of jobs are made by their reader alone: tests/sge/test_poison.py plants those.
LEAVES = [
    (path, value)
    for reading in READINGS
    for path, value in leaves(getattr(WORLD, reading), (reading,))
    if path[1] != "job_categories" or not ({"tasks", "jobs"} & set(path[:-1]) or path[-1] == "count")
    if path[1] != "unable"
]


@st.composite
def odd_values(draw: st.DrawFn) -> tuple[Path, object]:
    """The path of the poison, and its value."""
    path, value = draw(st.sampled_from(LEAVES))
    return path, draw(st.sampled_from(poisons_for(value)))


def remember(snapshot: Snapshot, made: Plan) -> None:
    """As the service does after a pass, twice; what is odd must not end the pass after it has acted."""
    provider = SimpleNamespace(name="fake")
    observer = SimpleNamespace(provider=provider, policy=snapshot.policy, clock=lambda: snapshot.now)
    with contextlib.closing(Store.open(None)) as store:
        meter = Meter(store.measures)
        loop = Loop(
            observer=cast("Any", observer),
            decide=plan,
            actor=cast("Any", None),
            store=store,
            poll=10.0,
        )
        events = EventKeeper(store.events, FilePath("/nonexistent/accounting"))
        for listener in (Monitor(store.samples, meter.sampled), meter, events):
            loop.attach(listener)
        store.accept(made, pass_number=1, at=snapshot.now)
        for _ in range(2):
            done = loop._done(Observation(snapshot, cast("Any", {}), {}), made, (), {})
            loop.listeners.passed(done)
            loop._remember(done)
            assert loop.listeners.troubles == ()


def reported(snapshot: Snapshot, made: Plan) -> str:
    """All that the service and its commands report of a plan: none of it may fail, all of it is JSON."""
    remember(snapshot, made)
    snapshot = readable(snapshot)
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    parts: list[object] = [document(snapshot, made, {}, by_job=by_job, zone=UTC) for by_job in (False, True)]
    parts += [explain_job(snapshot, made, verdict.jobs[0], UTC) for verdict in made.job_categories]
    parts += [explain_host(snapshot, made, verdict.name, UTC) for verdict in made.workers]
    sample_of(snapshot, made, observed, running(snapshot.cluster))
    return json.dumps(parts, allow_nan=False)


def test_the_example_snapshot_launches_and_can_be_reported() -> None:
    made = plan(WORLD)
    assert any(isinstance(action, Launch) for action in made.actions)
    assert reported(WORLD, made)


BEFORE = plan(WORLD)
BUSY_WORKERS = {"i-busy", "i-silent"}


def is_unreadable(value: object, poison: object) -> bool:
    """Whether this can be no number of that field's. Texts are judged where they are used."""
    return isinstance(poison, int | float) and not 0 <= poison <= 10**19 and poison != value


def affected_by(path: Path) -> tuple[set[int], set[str]]:
    """Jobs and hosts that a poison at this path belongs to."""
    if path[:2] == ("cluster", "job_categories"):
        return set(WORLD.cluster.job_categories[int(str(path[2]))].jobs), set()
    if path[:2] == ("cluster", "hosts"):
        return set(), {WORLD.cluster.hosts[int(str(path[2]))].name}
    return set(), set()


MATTERS_TO_ALL = (
    ("cluster", "queues"),
    ("cluster", "pes"),
    ("cluster", "complexes"),
    ("cluster", "host_groups"),
    ("memory", "launches"),
    ("memory", "removals"),
    ("memory", "circuit_breaker"),
    ("memory", "backoffs"),
    ("fleet", "orders"),
)
"""Queue and PE of the ordinary job itself, what the circuit breaker counts, backoffs, what is coming."""


@settings(max_examples=examples(60))
@given(odd_values())
def test_one_odd_value_affects_nothing_else(odd: tuple[Path, object]) -> None:
    path, poison = odd
    snapshot = planted(WORLD, path, poison)
    judge(path, poison, snapshot, plan(snapshot))


@pytest.mark.parametrize(
    ("last", "poison"),
    (
        ("name", "-INFINITY"),
        ("submitted", 10**400),
        ("count", 2**31),
        ("vcpus", -(10**18)),
        ("zone", "\ud800"),
        ("task", "²"),
    ),
    ids=("complex", "time", "order", "a type's size", "half a character", "a digit that is none"),
)
def test_an_odd_value_found_before_affects_nothing_else(last: str, poison: object) -> None:
    places = {
        "name": ("cluster", "complexes"),
        "submitted": ("cluster", "job_categories"),
        "count": ("fleet", "orders"),
        "vcpus": ("fleet", "workers"),
        "zone": ("fleet", "workers"),
        "task": ("cluster", "hosts"),
    }
    path = next(path for path, _ in LEAVES if path[:2] == places[last] and last in path[2:])
    snapshot = planted(WORLD, path, poison)
    judge(path, poison, snapshot, plan(snapshot))


def judge(path: Path, poison: object, snapshot: Snapshot, made: Plan) -> None:
    value = next(value for one, value in LEAVES if one == path)
    jobs_of_it, hosts_of_it = affected_by(path)
    report = reported(snapshot, made)
    others = {job for category in WORLD.cluster.job_categories for job in category.jobs} - jobs_of_it
    assert others <= {job for verdict in made.job_categories for job in verdict.jobs}
    removed = {action.worker_id for action in made.actions if isinstance(action, Remove | Terminate)}
    if path[0] != "fleet":
        assert not removed & BUSY_WORKERS, removed
    if is_unreadable(value, poison):
        assert not {worker.removeprefix("i-") for worker in removed} & hosts_of_it
        assert "cannot read" in report, "not reported"
    # A worker of a million cores is beyond every limit: nothing may be launched beside it.
    if ORDINARY in others and path[:2] not in MATTERS_TO_ALL and path[-1] != "vcpus":
        assert any(isinstance(action, Launch) for action in made.actions), "no launch"
