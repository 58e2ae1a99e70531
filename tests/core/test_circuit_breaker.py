"""The circuit breaker stops runaways: launches within limits wait for its window, and go on when that allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from autoscaler.core import plan as planning
from autoscaler.core.actions import Launch
from autoscaler.core.facts.facts import Facts, facts_of
from autoscaler.core.facts.prospects import prospects
from autoscaler.core.limits.circuit_breaker import tripped
from autoscaler.core.model.fleet import InstanceType, MachineState, OrderState
from autoscaler.core.model.memory import Event, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import LARGEST, CircuitBreaker, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    GIB,
    M5,
    MAIN,
    NOW,
    a_bucket,
    a_snapshot,
    acts,
    an_order,
    codes,
    jobs,
    launched,
    note_codes,
)
from tests.properties.unhelpful_launches import Cause, UnhelpfulLaunches

PLENTY = Limits(max_workers=1000)
FOUR = CircuitBreaker(window=600.0, max_launches=4)


def capped_by_window(made: Plan) -> bool:
    launches = (action for action in made.actions if isinstance(action, Launch))
    return any(Code.LAUNCH_RATE_LIMIT in codes(launch.reason) for launch in launches)


def launches_at(*counts: int, age: float = 60.0) -> tuple[Event, ...]:
    return tuple(Event(NOW - age, count, "execute") for count in counts)


def test_fallback_candidates_do_not_count_for_the_circuit_breaker() -> None:
    huge = InstanceType("m5.24xlarge", "m5", 96, 384 * GIB)
    buckets = [a_bucket(type_) for type_ in (*M5, huge)]
    made = plan(a_snapshot(jobs(672), *buckets, limits=PLENTY, scale_up_batch=1000, hybrid=True, hybrid_size=LARGEST))
    assert (launched(made), made.memory.circuit_breaker, capped_by_window(made)) == ({"m5.24xlarge": 7}, None, False)


def test_a_launch_is_capped_to_the_circuit_breakers_window_and_reports_it() -> None:
    made = plan(a_snapshot(jobs(20), circuit_breaker=FOUR))
    assert (launched(made), capped_by_window(made), made.memory.circuit_breaker) == ({"m5.large": 4}, True, None)


def test_with_a_full_window_nothing_is_launched_and_the_next_pass_is_due_when_it_clears() -> None:
    made = plan(a_snapshot(jobs(20), circuit_breaker=FOUR, launches=launches_at(1, 3)))
    assert (acts(made), note_codes(made), made.memory.circuit_breaker, made.due) == (
        [],
        [Code.LAUNCH_RATE_LIMIT],
        None,
        NOW + 540,
    )


def test_launches_older_than_the_window_do_not_count() -> None:
    events = (*launches_at(3, age=600), *launches_at(1))
    assert launched(plan(a_snapshot(jobs(20), circuit_breaker=FOUR, launches=events))) == {"m5.large": 3}


def test_launches_before_a_resume_do_not_count_for_the_window() -> None:
    made = plan(a_snapshot(jobs(20), Overrides(resumed_at=NOW - 30), circuit_breaker=FOUR, launches=launches_at(4)))
    assert launched(made) == {"m5.large": 4}


def test_without_a_maximum_launches_are_not_capped_by_the_window() -> None:
    assert launched(plan(a_snapshot(jobs(20), circuit_breaker=CircuitBreaker(max_launches=None)))) == {"m5.large": 10}


@pytest.mark.parametrize(
    ("ids", "state", "room"),
    (
        (("i-1",), OrderState.ACCEPTED, 3),
        ((), OrderState.FAILED, 4),
        ((), OrderState.SENT, 0),
    ),
)
def test_a_launch_counts_for_the_window_with_the_workers_its_order_brought(
    ids: tuple[str, ...], state: OrderState, room: int
) -> None:
    (event,) = launches_at(4)
    order = replace(an_order(ids=ids, state=state, age=50), planned_at=event.at)
    waiting = jobs(20 + 2 * (state is not OrderState.FAILED))  # the order's worker is supply
    made = plan(a_snapshot(waiting, order, circuit_breaker=FOUR, launches=(event,)))
    assert sum(launched(made).values()) == room


def test_the_workers_an_order_brought_count_after_the_order_is_forgotten() -> None:
    (event,) = launches_at(4)
    order = replace(an_order(ids=("i-1",), state=OrderState.ACCEPTED, age=50), planned_at=event.at)
    kept = plan(a_snapshot(order, circuit_breaker=FOUR, launches=(event,))).memory
    assert launched(plan(a_snapshot(jobs(20), kept, circuit_breaker=FOUR))) == {"m5.large": 3}


def test_the_launches_an_hour_count_the_workers_their_orders_brought() -> None:
    (event,) = launches_at(10)
    order = replace(an_order(ids=("i-1",), state=OrderState.ACCEPTED, age=50), planned_at=event.at)
    limits = Limits(max_workers=20, max_launches_per_hour=10)
    assert launched(plan(a_snapshot(jobs(40), order, limits=limits, launches=(event,)))) == {"m5.large": 9}


def test_prospects_are_capped_by_the_circuit_breakers_window() -> None:
    (most,) = prospects(a_snapshot(a_bucket(), circuit_breaker=FOUR, launches=launches_at(3)))
    (none,) = prospects(a_snapshot(a_bucket(), circuit_breaker=FOUR, launches=launches_at(4)))
    assert (most.count, none.refusal and none.refusal.code) == (1, Code.LAUNCH_RATE_LIMIT)


def test_node_arrays_share_the_circuit_breakers_window() -> None:
    queues = {name: replace(MAIN, name=name) for name in ("a.q", "b.q")}
    policy = Policy(
        queues=tuple(QueuePolicy(name, name) for name in queues),
        node_arrays=tuple(
            NodeArrayPolicy(name, name, f"@{name}", "m5.large", limits=PLENTY, scale_up_batch=10) for name in queues
        ),
        master="master",
        circuit_breaker=FOUR,
    )
    waiting = [jobs(6, first, queues=(name,)) for first, name in ((1, "a.q"), (7, "b.q"))]
    made = plan(a_snapshot(*waiting, queues=queues, policy=policy))
    counts = [action.candidates[0].count for action in made.actions if isinstance(action, Launch)]
    assert (counts, capped_by_window(made)) == ([3, 1], True)


def test_launches_that_helped_no_job_trip_the_circuit_breaker() -> None:
    reason = tripped(FOUR, (), NOW, helped_no_job=launches_at(2, 3))
    assert reason is not None
    assert (reason.code, dict(reason.facts)["what"]) == (Code.CIRCUIT_BREAKER, "launches that helped no job")


@dataclass
class SmallWindow(UnhelpfulLaunches):
    """One whose circuit breaker allows few launches that help no job."""

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        return replace(seen, policy=replace(seen.policy, circuit_breaker=CircuitBreaker(window=60.0, max_launches=1)))


def test_workers_that_helped_no_job_trip_the_circuit_breaker_when_found() -> None:
    world = SmallWindow(cause=Cause.CALENDAR)
    for slots in (1, 2):
        world.ask(slots)
        while len(world.launched) < slots and world.now < NOW + 600.0:
            world.step()
    assert (len(world.launched), world.memory.circuit_breaker) == (2, None)
    world.machines = {name: replace(machine, state=MachineState.TERMINATED) for name, machine in world.machines.items()}
    world.go_on(300.0, until=lambda: world.memory.circuit_breaker is not None)
    assert world.memory.circuit_breaker is not None
    assert (world.memory.circuit_breaker["what"], world.memory.circuit_breaker["count"]) == (
        "launches that helped no job",
        2,
    )
    world.go_on(3600.0)
    assert len(world.launched) == 2


def test_a_circuit_breaker_tripped_by_an_older_version_still_stops_launches() -> None:
    stopped = Memory(circuit_breaker=tripped(FOUR, (), NOW, helped_no_job=launches_at(9)))
    assert [bool(acts(plan(a_snapshot(jobs(4), memory)))) for memory in (Memory(), stopped)] == [True, False]


def tripping() -> Snapshot:
    """Jobs that need workers, and more removals than are allowed."""
    memory = Memory(removals=(Event(NOW - 60, 9, "execute"),))
    return a_snapshot(jobs(20), memory, circuit_breaker=replace(FOUR, max_removals=3))


def test_a_pass_that_trips_the_circuit_breaker_reads_its_facts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Snapshot] = []

    def counted(snapshot: Snapshot) -> Facts:
        read.append(snapshot)
        return facts_of(snapshot)

    monkeypatch.setattr(planning, "facts_of", counted)
    assert plan(tripping()).memory.circuit_breaker is not None
    assert len(read) == 1


def test_a_pass_that_trips_the_circuit_breaker_decides_as_with_it_already_on() -> None:
    made, snapshot = plan(tripping()), tripping()
    on = plan(replace(snapshot, memory=replace(snapshot.memory, circuit_breaker=made.memory.circuit_breaker)))
    assert made.memory.circuit_breaker is not None
    assert (made.actions, made.workers, made.job_categories, made.notes) == (
        on.actions,
        on.workers,
        on.job_categories,
        on.notes,
    )
