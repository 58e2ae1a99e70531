"""Created nodes and operations on them in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.store.nodes import NodeRow, Operation
from autoscaler.store.store import Store

GONE = because(Code.GONE)


@pytest.fixture
def store() -> Store:
    return Store.open(None)


def node(node_id: str = "n1", name: str = "execute-1", **known: object) -> NodeRow:
    return NodeRow(CreatedNode(node_id, name, "execute", 100.0, **known), {"KeepAlive": True})  # type: ignore[arg-type]


def test_a_created_node_is_live_with_all_requested_attributes(store: Store) -> None:
    store.nodes.create([node(machine_type="c5.large", placement_group="pg0", request_id="r")])
    assert store.nodes.live() == (node(machine_type="c5.large", placement_group="pg0", request_id="r").node,)


def test_a_request_id_begins_only_one_operation(store: Store) -> None:
    first = store.nodes.begin(Operation("o1", "create", 1.0, "anna", ("n1",), "r"))
    second = store.nodes.begin(Operation("o2", "create", 2.0, "anna", ("n2",), "r"))
    assert (first, second, store.nodes.operation_of("r")) == (
        True,
        False,
        Operation("o1", "create", 1.0, "anna", ("n1",), "r"),
    )


def test_operations_without_a_request_id_do_not_conflict(store: Store) -> None:
    assert all(store.nodes.begin(Operation(f"o{number}", "create", 1.0, "anna")) for number in range(3))


def test_a_request_id_is_known_after_a_restart(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").nodes.begin(Operation("o1", "create", 1.0, "anna", (), "r"))
    assert not Store.open(tmp_path / "s").nodes.begin(Operation("o2", "create", 2.0, "anna", (), "r"))


def test_a_worker_serves_one_node_and_a_node_has_one_worker(store: Store) -> None:
    store.nodes.create([node(), node("n2", "execute-2")])
    results = [store.nodes.bind(*pair) for pair in (("n1", "w1"), ("n1", "w2"), ("n2", "w1"), ("n2", "w2"))]
    assert (results, [each.worker_id for each in store.nodes.live()]) == ([True, False, False, True], ["w1", "w2"])


def test_an_ended_node_is_no_longer_live_and_ends_once(store: Store) -> None:
    store.nodes.create([node()])
    results = [store.nodes.end("n1", at=200.0, by="anna"), store.nodes.end("n1", at=300.0, by="ben")]
    row = store.nodes.row("n1")
    assert row is not None
    assert (results, store.nodes.live(), row.ended_at, row.ended_by) == ([True, False], (), 200.0, "anna")


def test_a_name_is_free_once_its_node_has_ended(store: Store) -> None:
    store.nodes.create([node()])
    store.nodes.end("n1", at=200.0, by="anna")
    store.nodes.create([node("n2")])
    assert [each.id for each in store.nodes.live()] == ["n2"]


@pytest.mark.parametrize("failed", (None, GONE), ids=["as requested", "by a failure"])
def test_a_node_whose_machine_ended_is_no_longer_live(store: Store, failed: Reason | None) -> None:
    store.nodes.create([node(), node("n2", "execute-2")])
    store.nodes.bind("n1", "w1")
    store.nodes.lose({"w1": failed, "w9": failed}, at=200.0)
    assert [each.id for each in store.nodes.live()] == ["n2"]


def test_a_failed_node_is_listed_until_it_is_ended(store: Store) -> None:
    store.nodes.create([node()])
    store.nodes.bind("n1", "w1")
    store.nodes.lose({"w1": GONE}, at=200.0)
    (listed,) = store.nodes.listed(())
    store.nodes.end("n1", at=300.0, by="anna")
    assert (listed.failed, store.nodes.listed(())) == (GONE, ())


def test_a_retried_node_is_never_served_by_the_worker_that_failed_it(store: Store) -> None:
    store.nodes.create([node(), node("n2", "execute-2")])
    store.nodes.bind("n1", "w1")
    store.nodes.lose({"w1": GONE}, at=200.0)
    tried, again = store.nodes.retry(), store.nodes.retry()
    bound = [store.nodes.bind("n1", "w1"), store.nodes.bind("n1", "w3")]
    (first, _) = store.nodes.live()
    assert (tried, again, bound, first.worker_id, first.lost) == (
        ("execute-1",), (), [False, True], "w3", ("w1",),
    )  # fmt: skip


def test_a_failed_node_that_nobody_ends_is_forgotten_in_time(store: Store) -> None:
    store.nodes.create([node()])
    store.nodes.bind("n1", "w1")
    store.nodes.lose({"w1": GONE}, at=200.0)
    assert store.nodes.row("n1") is not None
    store.nodes.forget(300.0)
    assert store.nodes.row("n1") is None


def test_old_ended_nodes_are_forgotten_and_live_ones_are_not(store: Store) -> None:
    for number in (1, 2):
        store.nodes.begin(Operation(f"o{number}", "create", 100.0, "anna", (f"n{number}",), f"r{number}"))
        store.nodes.create([node(f"n{number}", f"execute-{number}")])
    store.nodes.end("n1", at=200.0, by="anna")
    store.nodes.forget(300.0)
    assert ([each.id for each in store.nodes.operations()], store.nodes.row("n1")) == (["o2"], None)
