"""A pass that uses states, hosts and steps of the one before decides as one that makes all of them anew."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.capacity import max_capacity, supply
from autoscaler.core.demand import demand
from autoscaler.core.model.cluster import ExecutionHost, HostJob
from autoscaler.core.model.fleet import Interruption, MachineState
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.outcome import own_growth
from autoscaler.core.placement import kinds, placed
from autoscaler.core.plan import plan
from autoscaler.core.readable import bare_cluster, screening
from autoscaler.core.readable.remembered import LastValue, PerObject
from autoscaler.core.replace import swap_context
from autoscaler.core.scale_down import scale_down
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers import observed
from autoscaler.core.workers.settled import SettledWorkers
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
)


def anew(seen: Snapshot) -> Plan:
    """The plan without anything of an earlier pass."""
    kept = (observed._SETTLED, scale_down._BUSY, supply._FREE, swap_context._EMPTIED, bare_cluster._WITHOUT_LOADS)
    observed._SETTLED, scale_down._BUSY = SettledWorkers(), scale_down._BusyWorkers()
    supply._FREE, swap_context._EMPTIED, bare_cluster._WITHOUT_LOADS = PerObject(), PerObject(), PerObject()
    lasts = (swap_context, "_BOOT_TIMES"), (demand, "_READER"), (max_capacity, "_LAST"), (own_growth, "_LAST")
    kept_lasts = [getattr(module, name) for module, name in lasts]
    for module, name in lasts:
        setattr(module, name, LastValue())
    fine = screening._FINE_HOSTS, screening._FINE_WORKERS, screening._SOUND_HOSTS, screening._FINE_NOTES
    screening._FINE_HOSTS, screening._FINE_WORKERS = PerObject(), PerObject()
    screening._SOUND_HOSTS, screening._FINE_NOTES = PerObject(), PerObject()
    kept_kinds, kept_rooms = dict(kinds._KINDS), dict(kinds._ROOMS)
    kinds._KINDS.clear()
    kinds._ROOMS.clear()
    kept_places = placed._STATES, placed._SUPPLIES
    placed._STATES, placed._SUPPLIES = placed.LastValues(), placed.LastValues()
    try:
        return plan(seen)
    finally:
        observed._SETTLED, scale_down._BUSY, supply._FREE, swap_context._EMPTIED, bare_cluster._WITHOUT_LOADS = kept
        screening._FINE_HOSTS, screening._FINE_WORKERS, screening._SOUND_HOSTS, screening._FINE_NOTES = fine
        kinds._KINDS.clear()
        kinds._KINDS.update(kept_kinds)
        kinds._ROOMS.clear()
        kinds._ROOMS.update(kept_rooms)
        placed._STATES, placed._SUPPLIES = kept_places
        for (module, name), kept_last in zip(lasts, kept_lasts, strict=True):
            setattr(module, name, kept_last)


def changed(seen: Snapshot, made: Plan, change: str, at: int, passed: float) -> Snapshot:
    """The next snapshot, in which this happened to one worker."""
    hosts, workers, fleet = list(seen.cluster.hosts), list(seen.fleet.workers), seen.fleet
    memory, overrides = made.memory, seen.overrides
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
        case _:
            pass
    hosts[at], workers[at] = host, worker
    return replace(
        seen,
        cluster=replace(seen.cluster, hosts=tuple(hosts)),
        fleet=replace(fleet, workers=tuple(workers)),
        memory=memory,
        overrides=overrides,
        now=seen.now + passed,
    )


def _with(host: ExecutionHost, **instance: object) -> ExecutionHost:
    return replace(host, instances=(replace(host.instances[0], **instance), *host.instances[1:]))  # type: ignore[arg-type]


@settings(max_examples=examples(400))
@given(
    st.lists(
        st.tuples(st.sampled_from(CHANGES), st.integers(0, WORKERS - 1), st.sampled_from((0.0, 1.0, 15.0, 700.0))),
        max_size=12,
    )
)
def test_passes_one_after_the_other_decide_as_each_alone(changes: list[tuple[str, int, float]]) -> None:
    seen = snapshot(WORKERS, CATEGORIES)
    made = plan(seen)
    for change, at, passed in changes:
        seen = changed(seen, made, change, at, passed)
        alone = anew(seen)
        made = plan(seen)
        assert made == alone


def test_the_state_of_a_worker_that_did_not_change_is_the_same_object() -> None:
    seen = snapshot(WORKERS, CATEGORIES)
    states = []
    for _ in range(4):
        made = plan(seen)
        states.append(
            observed.observe_workers(seen.cluster, seen.fleet, made.memory, seen.policy, seen.now + 15).workers
        )
        seen = replace(seen, memory=made.memory, now=seen.now + 15)
    assert [one is other for one, other in zip(states[2], states[3], strict=True)] == [True] * WORKERS
