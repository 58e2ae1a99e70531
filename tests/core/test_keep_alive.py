"""`KeepAlive` of a request: the array's workers stay as long as a live set names it, and leave like others later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import ArrayDefinition, AutoStopAnswer, CreatedNode, Requests
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    AWorker,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    verdict_and_code,
    verdict_of,
)

YES, NO = (("standard", True),), (("standard", False),)
KEEP_ALIVE = {None: (), True: YES, False: NO}
KEPT = ArrayDefinition("execute", keep_alive=YES)
BIG = ArrayDefinition("big", dynamic=True, extends="execute")
GROUPS = ArrayDefinition("execute:4", dynamic=True, extends="execute", group_cores=4, keep_alive=YES)


def seen(*things: Any, arrays: tuple[ArrayDefinition, ...] = (KEPT,), **more: Any) -> Snapshot:
    requests = Requests(arrays=arrays, nodes=more.pop("nodes", ()), auto_stops=frozenset(more.pop("auto_stops", ())))
    found = a_snapshot(*things, **more)
    return replace(found, requests=requests, policy=in_force(found.policy, requests, buckets=found.fleet.buckets))


def planned(*things: Any, **more: Any) -> Plan:
    return plan(seen(*things, **more))


def idle(name: str = "w1", **more: Any) -> AWorker:
    return a_worker(name, **{"idle": 9000, **more})


def test_an_idle_worker_of_a_keep_alive_array_stays() -> None:
    assert verdict_and_code(planned(idle()), "w1") == ("keep", Code.KEPT_BY_REQUEST)


@pytest.mark.parametrize("definition", (replace(KEPT, requested=False), replace(KEPT, keep_alive=NO)))
def test_an_idle_worker_leaves_if_no_live_set_keeps_the_array_alive(definition: ArrayDefinition) -> None:
    assert verdict_and_code(planned(idle(), arrays=(definition,)), "w1") == ("disable", Code.IDLE)


@pytest.mark.parametrize(
    ("execute", "big", "expected"),
    (
        (None, True, Code.KEPT_BY_REQUEST),
        (True, None, Code.KEPT_BY_REQUEST),
        (True, False, Code.IDLE),
        (None, None, Code.IDLE),
    ),
)
def test_a_dynamic_array_inherits_keep_alive_unless_it_sets_its_own(
    execute: bool | None, big: bool | None, expected: Code
) -> None:
    arrays = (replace(KEPT, keep_alive=KEEP_ALIVE[execute]), replace(BIG, keep_alive=KEEP_ALIVE[big]))
    assert verdict_and_code(planned(idle(node_array="big"), arrays=arrays), "w1")[1] is expected


def test_a_dynamic_array_that_no_set_names_keeps_no_worker_alive() -> None:
    arrays = (KEPT, replace(BIG, keep_alive=YES, requested=False))
    assert verdict_and_code(planned(idle(node_array="big"), arrays=arrays), "w1") == ("disable", Code.IDLE)


def test_a_dynamic_array_kept_for_a_created_node_keeps_only_that_worker() -> None:
    node = CreatedNode("n-1", "node-1", "big", NOW - 60, worker_id="i-w2")
    lapsed = (replace(BIG, keep_alive=YES, requested=False),)
    made = planned(idle("w1", node_array="big"), idle("w2", node_array="big"), arrays=lapsed, nodes=(node,))
    assert (verdict_and_code(made, "w1"), verdict_and_code(made, "w2")) == (
        ("disable", Code.IDLE),
        ("keep", Code.CREATED_NODE),
    )


def test_keep_alive_does_not_apply_to_workers_of_other_arrays() -> None:
    arrays = (ArrayDefinition("execute"), replace(BIG, keep_alive=YES))
    assert verdict_and_code(planned(idle(), arrays=arrays), "w1") == ("disable", Code.IDLE)


def test_a_kept_alive_worker_that_asks_to_stop_stays() -> None:
    made = planned(idle(), auto_stops=("i-w1",))
    answer, reason = made.auto_stops["i-w1"]
    assert (answer, reason.code) == (AutoStopAnswer.STAYS, Code.KEPT_BY_REQUEST)


def test_a_kept_alive_worker_is_not_swapped() -> None:
    """The same without KeepAlive begins a swap at once: w1 has been idle for an interval."""
    things = (a_job(slots=16), idle("w1"), idle("w2"))
    full: dict[str, Any] = {"limits": Limits(max_workers=2), "hybrid": True}
    swapped, kept = planned(*things, arrays=(), **full), planned(*things, **full)
    assert ([kind for kind, _ in acts(swapped)], acts(kept)) == (["disable"], [])


def test_a_worker_draining_for_idleness_is_enabled_again() -> None:
    assert verdict_and_code(planned(a_worker("w1", mark=Disabling.IDLE, empty=60)), "w1") == (
        "enable",
        Code.KEPT_BY_REQUEST,
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    (
        (Overrides(stop="now"), Code.STOPPING),
        (Overrides(stop="drain"), Code.STOPPING),
        (Overrides(drain=frozenset({"w1"})), Code.DRAINED_BY_COMMAND),
    ),
)
def test_operator_overrides_win_over_keep_alive(overrides: Overrides, expected: Code) -> None:
    assert verdict_and_code(planned(idle(), overrides), "w1") == ("disable", expected)


def test_a_machine_that_never_comes_up_is_terminated_despite_keep_alive() -> None:
    made = planned(a_machine(None, age=2000, note=WorkerNote(NOW - 2000)))
    assert verdict_of(made, "i-new").verdict == "terminate"


def test_an_idle_kept_alive_group_stays_as_a_whole() -> None:
    made = planned(*members(idle=9000), arrays=(GROUPS,))
    assert [verdict_and_code(made, name) for name in ("w1", "w2")] == [("keep", Code.KEPT_BY_REQUEST)] * 2


def test_a_group_whose_set_expired_leaves_as_a_whole() -> None:
    made = planned(*members(idle=9000), arrays=(replace(GROUPS, requested=False),))
    assert [verdict_and_code(made, name)[0] for name in ("w1", "w2")] == ["disable"] * 2


def test_a_group_that_already_leaves_is_still_removed() -> None:
    """Nothing enables it again, and disabled workers that stay would only cost."""
    before = planned(*members(mark=Disabling.GROUP, empty=60), arrays=(GROUPS,))
    assert acts(before) == [("remove", "w1"), ("remove", "w2")]


def members(**more: Any) -> tuple[AWorker, AWorker]:
    """Both workers of a group of 4 cores."""
    one, two = (a_worker(name, node_array="execute:4", group_id="execute:4-1", **more) for name in ("w1", "w2"))
    return one, two
