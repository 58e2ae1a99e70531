"""Workers that ask to stop: exactly the surplus workers may, drained first, and for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import AutoStopAnswer, CreatedNode, NodeOperation, Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    codes,
    jobs,
    launched,
    verdict_and_code,
    verdict_of,
)

STOPS, STAYS = AutoStopAnswer.STOPS, AutoStopAnswer.STAYS


def asked_by(
    *names: str,
    things: tuple[Any, ...],
    sets: tuple[RequestSet, ...] = (),
    nodes: tuple[CreatedNode, ...] = (),
    **more: Any,
) -> Snapshot:
    """A snapshot in which these workers ask to stop."""
    seen = a_snapshot(*things, **more)
    requests = Requests(sets, nodes=nodes, auto_stops=frozenset(f"i-{name}" for name in names))
    return replace(seen, requests=requests, policy=in_force(seen.policy, requests))


def answers(made: Plan) -> dict[str, tuple[AutoStopAnswer, Code]]:
    return {worker_id: (answer, reason.code) for worker_id, (answer, reason) in made.auto_stops.items()}


def stops(made: Plan) -> int:
    return sum(answer is STOPS for answer, _ in made.auto_stops.values())


def wanting(count: int) -> RequestSet:
    return RequestSet("standard", "ann", NOW, None, (Target("execute", count=count),))


def test_an_unneeded_worker_that_asks_stops_at_once() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=0),)))
    assert (answers(made), acts(made)) == ({"i-w1": (STOPS, Code.ASKED_TO_STOP)}, [("disable", "w1")])


def test_a_worker_that_stops_is_marked_as_disabled_for_auto_stop() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=0),)))
    assert made.memory.workers["i-w1"].disabling is Disabling.AUTO_STOP


@pytest.mark.parametrize(
    ("worker", "why"),
    (
        (a_worker("w1", used=1), Code.RUNS_JOBS),
        (a_worker("w1", host=a_host("w1", reserved=1)), Code.RESERVED),
        (a_machine("w1"), Code.BOOTED),
        (a_worker("w1", states="d"), Code.DISABLED_BY_HAND),
        (a_worker("w1", idle=1, node_array="gone"), Code.UNKNOWN_NODE_ARRAY),
    ),
)
def test_a_worker_that_is_not_idle_in_service_stays(worker: Any, why: Code) -> None:
    assert answers(plan(asked_by("w1", things=(worker,)))) == {"i-w1": (STAYS, why)}


def test_a_worker_that_a_waiting_job_would_use_stays() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99), a_job())))
    assert answers(made) == {"i-w1": (STAYS, Code.NEEDED)}


def test_a_requested_worker_stays() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99),), sets=(wanting(1),)))
    assert answers(made) == {"i-w1": (STAYS, Code.REQUESTED)}


def test_a_worker_needed_for_min_workers_stays() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99),), limits=Limits(min_workers=1)))
    assert answers(made) == {"i-w1": (STAYS, Code.MIN_WORKERS)}


def test_a_worker_that_a_person_keeps_stays() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99), Overrides(keep=frozenset({"w1"})))))
    assert answers(made) == {"i-w1": (STAYS, Code.KEPT_BY_COMMAND)}


def test_the_worker_of_a_created_node_stays() -> None:
    node = CreatedNode("n1", "execute-1", "execute", NOW, worker_id="i-w1")
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99),), nodes=(node,)))
    assert answers(made) == {"i-w1": (STAYS, Code.CREATED_NODE)}


def test_no_worker_stops_while_paused() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", idle=99), Overrides(paused=True))))
    assert (answers(made), made.actions) == ({"i-w1": (STAYS, Code.PAUSED)}, ())


def test_an_unknown_worker_gets_no_answer() -> None:
    assert answers(plan(asked_by("w9", things=(a_worker("w1", idle=99),)))) == {}


@pytest.mark.parametrize("wanted", (0, 1, 4, 10))
def test_exactly_the_surplus_workers_may_stop(wanted: int) -> None:
    names = [f"w{n}" for n in range(10)]
    things = tuple(a_worker(name, idle=1) for name in names)
    made = plan(asked_by(*names, things=things, sets=(wanting(wanted),), scale_down_batch=1))
    assert stops(made) == 10 - wanted


def test_exactly_the_workers_that_waiting_jobs_do_not_need_may_stop() -> None:
    names = [f"w{n}" for n in range(6)]
    made = plan(asked_by(*names, things=(jobs(5), *(a_worker(name, idle=1) for name in names))))
    assert stops(made) == 3


def test_min_workers_stay_however_many_ask_to_stop_at_once() -> None:
    names = [f"w{n}" for n in range(6)]
    things = tuple(a_worker(name, idle=1) for name in names)
    assert stops(plan(asked_by(*names, things=things, limits=Limits(max_workers=10, min_workers=4)))) == 2


def test_a_worker_that_asks_to_stop_leaves_before_one_idle_for_longer() -> None:
    things = (a_worker("w1", idle=9999), a_worker("w2", idle=1))
    made = plan(asked_by("w2", things=things, sets=(wanting(1),)))
    assert (answers(made)["i-w2"][0], acts(made)) == (STOPS, [("disable", "w2")])


def test_workers_that_ask_to_stop_are_not_limited_by_the_batch() -> None:
    things = (a_worker("w1", idle=9999), a_worker("w2", idle=1), a_worker("w3", idle=1))
    made = plan(asked_by("w2", "w3", things=things, scale_down_batch=1))
    assert acts(made) == [("disable", "w2"), ("disable", "w3"), ("disable", "w1")]


def test_a_stopping_worker_is_not_enabled_again_for_a_job() -> None:
    worker = a_worker("w1", mark=Disabling.AUTO_STOP, empty=1)
    made = plan(asked_by("w1", things=(worker, a_job())))
    assert (answers(made)["i-w1"], launched(made)) == ((STOPS, Code.ASKED_TO_STOP), {"m5.large": 1})


def test_a_stopping_worker_leaves_only_when_it_is_empty() -> None:
    worker = a_worker("w1", mark=Disabling.AUTO_STOP, used=1)
    assert verdict_and_code(plan(asked_by("w1", things=(worker,))), "w1") == ("wait", Code.RUNS_JOBS)


def test_an_empty_stopping_worker_is_removed() -> None:
    worker = a_worker("w1", mark=Disabling.AUTO_STOP, empty=60)
    assert acts(plan(asked_by("w1", things=(worker,)))) == [("remove", "w1")]


def test_a_worker_draining_for_idleness_that_asks_stops_for_good() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", mark=Disabling.IDLE, empty=1),)))
    assert (answers(made)["i-w1"][0], made.memory.workers["i-w1"].disabling) == (STOPS, Disabling.AUTO_STOP)


def test_a_draining_worker_that_is_needed_again_stays() -> None:
    made = plan(asked_by("w1", things=(a_worker("w1", mark=Disabling.IDLE, empty=1), a_job())))
    assert (answers(made)["i-w1"][0], acts(made)) == (STAYS, [("enable", "w1")])


def test_a_worker_being_enabled_again_stays_until_that_is_observed() -> None:
    draining = a_worker("w1", mark=Disabling.IDLE, empty=5)
    assert draining.note is not None
    enabled = replace(draining, note=replace(draining.note, enabled_at=NOW - 1))
    made = plan(asked_by("w1", things=(a_job(), enabled)))
    assert answers(made) == {"i-w1": (STAYS, Code.NEEDED_AGAIN)}
    assert made.memory.workers["i-w1"].disabling is Disabling.IDLE


def test_a_stopping_worker_that_a_person_enables_stays() -> None:
    worker = a_worker("w1", mark=Disabling.AUTO_STOP, empty=1, states="")
    seen = asked_by("w1", things=(worker,))
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory, now=NOW + 5))
    busy = plan(replace(asked_by("w1", things=(a_worker("w1", used=1),)), memory=again.memory, now=NOW + 10))
    assert (acts(made), acts(again), acts(busy)) == ([], [], [])
    assert {answers(each)["i-w1"] for each in (made, again, busy)} == {(STAYS, Code.ENABLED_BY_HAND)}


@pytest.mark.parametrize("mark", (Disabling.ENROL, Disabling.IDLE, Disabling.AUTO_STOP))
def test_a_worker_that_a_person_enables_while_it_asks_stays_in_the_next_pass_too(mark: Disabling) -> None:
    seen = asked_by("w1", things=(a_worker("w1", mark=mark, empty=1, states=""),))
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory))
    assert (acts(made), acts(again), answers(made)["i-w1"]) == ([], [], (STAYS, Code.ENABLED_BY_HAND))


def test_a_worker_that_asks_while_joining_a_hand_disabled_queue_stops_at_once() -> None:
    worker = a_worker(mark=Disabling.ENROL, disabled=60, empty=60)
    seen = asked_by("w1", things=(a_job(), a_host("h1", states="d"), worker), idle_timeout=30.0)
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory))
    assert (acts(made), acts(again), answers(made)["i-w1"][0]) == ([("disable", "w1")], [], STOPS)
    assert again.memory.workers == made.memory.workers


def test_a_second_pass_over_an_unchanged_snapshot_changes_nothing() -> None:
    names = [f"w{n}" for n in range(4)]
    things = tuple(a_worker(name, mark=Disabling.AUTO_STOP, empty=1, disabled=1) for name in names[:2])
    seen = asked_by(*names, things=(*things, *(a_worker(name, used=1) for name in names[2:])))
    made = plan(seen)
    again = plan(replace(seen, memory=made.memory))
    assert (again.actions, replace(again.memory, passes=0)) == ((), replace(made.memory, passes=0))


def test_workers_after_one_of_an_unknown_array_count_towards_a_target() -> None:
    things = (a_worker("w1", idle=1, node_array="gone"), a_worker("w2", idle=1), a_worker("w3", idle=1))
    assert launched(plan(asked_by(things=things, sets=(wanting(2),)))) == {}


def test_the_reason_of_a_worker_to_restart_names_the_awaited_second_observation() -> None:
    world = a_snapshot(a_worker("w1", states="d", idle=60))
    asked = Requests(operations=(NodeOperation(1, "restart", "i-w1", "ann"),))
    made = plan(replace(world, requests=asked))
    assert verdict_and_code(made, "w1") == ("wait", Code.NODE_OPERATION)
    assert codes(verdict_of(made, "w1").reason) == [Code.NODE_OPERATION, Code.SECOND_OBSERVATION]
