"""Created nodes and operations on them in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.store.nodes import NodeRow, Operation
from autoscaler.store.store import Store

GONE = because(Code.GONE)


def node(node_id: str = "n1", name: str = "execute-1", **known: object) -> NodeRow:
    return NodeRow(CreatedNode(node_id, name, "execute", 100.0, **known), {"KeepAlive": True})  # type: ignore[arg-type]


def test_a_created_node_is_live_with_all_requested_attributes(empty_store: Store) -> None:
    empty_store.nodes.create([node(machine_type="c5.large", placement_group="pg0", request_id="r")])
    assert empty_store.nodes.live() == (node(machine_type="c5.large", placement_group="pg0", request_id="r").node,)


def test_a_request_id_begins_only_one_operation(empty_store: Store) -> None:
    first = empty_store.nodes.begin(Operation("o1", "create", 1.0, "anna", ("n1",), "r"))
    second = empty_store.nodes.begin(Operation("o2", "create", 2.0, "anna", ("n2",), "r"))
    assert (first, second, empty_store.nodes.operation_of("r")) == (
        True,
        False,
        Operation("o1", "create", 1.0, "anna", ("n1",), "r"),
    )


def test_operations_without_a_request_id_do_not_conflict(empty_store: Store) -> None:
    assert all(empty_store.nodes.begin(Operation(f"o{number}", "create", 1.0, "anna")) for number in range(3))


def test_a_request_id_is_known_after_a_restart(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").nodes.begin(Operation("o1", "create", 1.0, "anna", (), "r"))
    assert not Store.open(tmp_path / "s").nodes.begin(Operation("o2", "create", 2.0, "anna", (), "r"))


def test_a_worker_serves_one_node_and_a_node_has_one_worker(empty_store: Store) -> None:
    empty_store.nodes.create([node(), node("n2", "execute-2")])
    results = [empty_store.nodes.bind(*pair) for pair in (("n1", "w1"), ("n1", "w2"), ("n2", "w1"), ("n2", "w2"))]
    assert (results, [each.worker_id for each in empty_store.nodes.live()]) == (
        [True, False, False, True],
        ["w1", "w2"],
    )


def test_an_ended_node_is_no_longer_live_and_ends_once(empty_store: Store) -> None:
    empty_store.nodes.create([node()])
    results = [empty_store.nodes.end("n1", at=200.0, by="anna"), empty_store.nodes.end("n1", at=300.0, by="ben")]
    row = empty_store.nodes.row("n1")
    assert row is not None
    assert (results, empty_store.nodes.live(), row.ended_at, row.ended_by) == ([True, False], (), 200.0, "anna")


def test_a_name_is_free_once_its_node_has_ended(empty_store: Store) -> None:
    empty_store.nodes.create([node()])
    empty_store.nodes.end("n1", at=200.0, by="anna")
    empty_store.nodes.create([node("n2")])
    assert [each.id for each in empty_store.nodes.live()] == ["n2"]


@pytest.mark.parametrize("failed", (None, GONE), ids=["as requested", "by a failure"])
def test_a_node_whose_machine_ended_is_no_longer_live(empty_store: Store, failed: Reason | None) -> None:
    empty_store.nodes.create([node(), node("n2", "execute-2")])
    empty_store.nodes.bind("n1", "w1")
    empty_store.nodes.lose({"w1": failed, "w9": failed}, at=200.0)
    assert [each.id for each in empty_store.nodes.live()] == ["n2"]


def test_a_failed_node_is_listed_until_it_is_ended(empty_store: Store) -> None:
    empty_store.nodes.create([node()])
    empty_store.nodes.bind("n1", "w1")
    empty_store.nodes.lose({"w1": GONE}, at=200.0)
    (listed,) = empty_store.nodes.listed(())
    empty_store.nodes.end("n1", at=300.0, by="anna")
    assert (listed.failed, empty_store.nodes.listed(())) == (GONE, ())


def test_a_retried_node_is_never_served_by_the_worker_that_failed_it(empty_store: Store) -> None:
    empty_store.nodes.create([node(), node("n2", "execute-2")])
    empty_store.nodes.bind("n1", "w1")
    empty_store.nodes.lose({"w1": GONE}, at=200.0)
    tried, again = empty_store.nodes.retry(), empty_store.nodes.retry()
    bound = [empty_store.nodes.bind("n1", "w1"), empty_store.nodes.bind("n1", "w3")]
    (first, _) = empty_store.nodes.live()
    assert (tried, again, bound, first.worker_id, first.lost) == (
        ("execute-1",), (), [False, True], "w3", ("w1",),
    )  # fmt: skip


def test_a_failed_node_that_nobody_ends_is_forgotten_in_time(empty_store: Store) -> None:
    empty_store.nodes.create([node()])
    empty_store.nodes.bind("n1", "w1")
    empty_store.nodes.lose({"w1": GONE}, at=200.0)
    assert empty_store.nodes.row("n1") is not None
    empty_store.nodes.forget(300.0)
    assert empty_store.nodes.row("n1") is None


def test_old_ended_nodes_are_forgotten_and_live_ones_are_not(empty_store: Store) -> None:
    for number in (1, 2):
        empty_store.nodes.begin(Operation(f"o{number}", "create", 100.0, "anna", (f"n{number}",), f"r{number}"))
        empty_store.nodes.create([node(f"n{number}", f"execute-{number}")])
    empty_store.nodes.end("n1", at=200.0, by="anna")
    empty_store.nodes.forget(300.0)
    assert ([each.id for each in empty_store.nodes.operations()], empty_store.nodes.row("n1")) == (["o2"], None)
