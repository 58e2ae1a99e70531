"""Machines with our tag that no pass will ever manage; and those that are not orphans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import MachineState, OrderState
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.recovery.orphans import Orphan, find_orphans
from tests.core.building import NOW, Thing, a_host, a_machine, a_snapshot, a_worker, an_order


def found(*things: Thing) -> list[tuple[str, Code]]:
    return [(orphan.worker.id, orphan.reason.code) for orphan in find_orphans(a_snapshot(*things))]


def the_orphan(*things: Thing) -> Orphan:
    (orphan,) = find_orphans(a_snapshot(*things))
    return orphan


def test_a_machine_of_an_unknown_node_array_is_an_orphan() -> None:
    assert found(a_worker(node_array="former")) == [("i-w1", Code.UNKNOWN_NODE_ARRAY)]


def test_a_machine_whose_name_a_newer_one_has_taken_is_an_orphan() -> None:
    old = a_machine("w1", id="i-old", age=900, note=WorkerNote(first_seen=NOW - 900))
    assert found(old, a_worker("w1", age=300)) == [("i-old", Code.NAME_TAKEN)]


def test_a_machine_that_was_never_observed_is_an_orphan() -> None:
    assert found(a_worker(known=False)) == [("i-w1", Code.UNKNOWN_WORKER)]


def test_a_machine_that_was_observed_is_not_an_orphan() -> None:
    world = a_snapshot(a_worker(known=False))
    later = replace(world, memory=plan(world).memory)
    assert find_orphans(later) == ()


@pytest.mark.parametrize(
    "things",
    (
        (a_worker(),),
        (a_machine("w1", note=WorkerNote(first_seen=NOW - 5)),),
        (a_machine("w1", order_id="order-1"), an_order(state=OrderState.ACCEPTED, ids=("i-w1",))),
        (a_worker(known=False, state=MachineState.STOPPING),),
        (a_worker(known=False, state=MachineState.TERMINATED),),
        (a_host("h1"),),
        (Memory(workers={"i-gone": WorkerNote(first_seen=NOW)}),),
    ),
    ids=("worker", "boots", "just ordered", "ending", "ended", "persistent host", "only remembered"),
)
def test_known_ordered_ending_and_persistent_machines_are_not_orphans(things: tuple[Thing, ...]) -> None:
    assert found(*things) == []


@pytest.mark.parametrize(("used", "states"), ((0, ""), (1, ""), (0, "d")))
def test_an_orphan_reports_whether_its_host_is_busy_or_disabled(used: int, states: str) -> None:
    orphan = the_orphan(a_worker(node_array="former", used=used, states=states))
    assert (orphan.host, orphan.busy, orphan.enabled) == ("w1", used > 0, () if states == "d" else ("main.q",))


def test_an_orphan_without_an_execution_host_is_not_busy() -> None:
    orphan = the_orphan(a_machine("w1", node_array="former"))
    assert (orphan.host, orphan.busy, orphan.enabled) == (None, False, ())
