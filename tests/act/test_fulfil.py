"""The store records how requests go: which worker serves a node, whose machine ended, which arrays are empty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.fleet import Ending, MachineState, OrderState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.core.requests.arrays import in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.fulfil import Fulfilment
from autoscaler.store.nodes import NodeRow
from autoscaler.store.store import Store
from tests.core.building import LARGE, NOW, a_bucket, a_machine, a_snapshot, an_order

BURST = ArrayDefinition("burst", dynamic=True)
ANSWERED = an_order(2, state=OrderState.ACCEPTED, ids=("i-w1", "i-w2"), nodes=("n1", "n2"))


def create(store: Store, *ids: str) -> None:
    store.nodes.create(NodeRow(CreatedNode(node, f"name-{node}", "execute", NOW)) for node in ids)


def ask(store: Store, *targets: Target, expires: float | None = None) -> None:
    definitions = [BURST] if any(target.node_array == "burst" for target in targets) else []
    store.requests.update("standard", "ann", NOW, expires, targets, definitions)


def an_observation(store: Store, *things: Any) -> Snapshot:
    seen = a_snapshot(*things)
    requests = store.requests.load(NOW)
    return replace(seen, requests=requests, policy=in_force(seen.policy, requests))


def serving(store: Store) -> dict[str, str | None]:
    return {node.id: node.worker_id for node in store.nodes.live()}


def failed(store: Store) -> dict[str, Code]:
    return {row.node.id: row.failed.code for row in store.nodes.listed(()) if row.failed is not None}


def arrays(store: Store) -> list[str]:
    return [array.name for array in store.requests.load(NOW).arrays]


def test_a_node_is_served_by_the_worker_of_its_order(empty_store: Store) -> None:
    create(empty_store, "n1", "n2")
    Fulfilment(empty_store).note(an_observation(empty_store, ANSWERED))
    assert serving(empty_store) == {"n1": "i-w1", "n2": "i-w2"}


def test_a_node_terminated_while_it_was_ordered_gets_its_worker_id(empty_store: Store) -> None:
    create(empty_store, "n1", "n2")
    empty_store.nodes.end("n1", at=NOW, by="ann")
    Fulfilment(empty_store).note(an_observation(empty_store, ANSWERED))
    row = empty_store.nodes.row("n1")
    assert row is not None
    assert row.node.worker_id == "i-w1"


def test_a_node_fails_with_its_machine(empty_store: Store) -> None:
    create(empty_store, "n1")
    empty_store.nodes.bind("n1", "i-w1")
    Fulfilment(empty_store).note(an_observation(empty_store, a_machine("w1", state=MachineState.TERMINATED)))
    assert (serving(empty_store), failed(empty_store)) == ({}, {"n1": Code.GONE})


@pytest.mark.parametrize(
    ("note", "machine", "why"),
    (
        (WorkerNote(NOW, terminated_at=NOW), {}, Code.BOOT_TIMEOUT),
        (WorkerNote(NOW, terminated_at=NOW, stopped=True), {}, Code.STOPPED_FROM_OUTSIDE),
        (WorkerNote(NOW, disabling=Disabling.ENROL, disabled_at=NOW, terminated_at=NOW), {}, Code.JOIN_TIMEOUT),
        (WorkerNote(NOW), {"failure": "capacity"}, Code.BOOT_FAILED),
        (WorkerNote(NOW, joined_at=NOW), {"failure": "capacity"}, Code.GONE),
        (WorkerNote(NOW, joined_at=NOW), {"ending": Ending.INTERRUPTED}, Code.GONE),
        (WorkerNote(NOW), {"ending": Ending.RELEASED}, Code.GONE),
        (WorkerNote(NOW, disabling=Disabling.SILENT, joined_at=NOW, terminated_at=NOW), {}, Code.GONE),
        (
            WorkerNote(NOW, disabling=Disabling.BROKEN, quarantined=because(Code.BLACK_HOLE), joined_at=NOW),
            {},
            Code.BLACK_HOLE,
        ),
    ),
    ids=[
        "never up",
        "stopped",
        "never heard",
        "no capacity",
        "lost",
        "interrupted",
        "gave up by itself",
        "silent",
        "quarantined",
    ],
)
def test_a_failed_node_has_the_cause_of_its_failure(
    empty_store: Store, note: WorkerNote, machine: dict[str, Any], why: Code
) -> None:
    create(empty_store, "n1")
    empty_store.nodes.bind("n1", "i-w1")
    ended = a_machine("w1", state=MachineState.TERMINATED, note=note, **machine)
    Fulfilment(empty_store).note(an_observation(empty_store, ended))
    assert failed(empty_store) == {"n1": why}


@pytest.mark.parametrize(
    ("drained", "note", "ending"),
    (
        ((), WorkerNote(NOW, disabling=Disabling.COMMAND, joined_at=NOW), Ending.UNKNOWN),
        ((), WorkerNote(NOW, disabling=Disabling.AUTO_STOP, joined_at=NOW), Ending.UNKNOWN),
        (("i-w1",), WorkerNote(NOW, terminated_at=NOW), Ending.UNKNOWN),
        (("w1",), WorkerNote(NOW, terminated_at=NOW), Ending.UNKNOWN),
        ((), WorkerNote(NOW, joined_at=NOW), Ending.RELEASED),
    ),
    ids=["drained", "asked to stop", "drained while it booted", "drained by its host's name", "shut itself down"],
)
def test_a_node_whose_machine_was_drained_or_released_ends_without_failure(
    empty_store: Store, drained: tuple[str, ...], note: WorkerNote, ending: Ending
) -> None:
    create(empty_store, "n1")
    empty_store.nodes.bind("n1", "i-w1")
    ended = a_machine("w1", state=MachineState.TERMINATED, note=note, ending=ending)
    Fulfilment(empty_store).note(an_observation(empty_store, ended, Overrides(drain=frozenset(drained))))
    assert (serving(empty_store), failed(empty_store)) == ({}, {})


def test_a_retried_node_is_served_by_the_worker_of_its_next_order(empty_store: Store) -> None:
    create(empty_store, "n1", "n2")
    fulfilment, lost = Fulfilment(empty_store), a_machine("w1", state=MachineState.TERMINATED)
    fulfilment.note(an_observation(empty_store, ANSWERED, lost, a_machine("w2")))
    fulfilment.note(an_observation(empty_store, ANSWERED, lost, a_machine("w2")))
    tried = empty_store.nodes.retry()
    fulfilment.note(an_observation(empty_store, ANSWERED, lost, a_machine("w2")))
    before = serving(empty_store)
    again = replace(an_order(1, state=OrderState.ACCEPTED, age=10, ids=("i-w3",), nodes=("n1",)), id="order-2")
    fulfilment.note(an_observation(empty_store, ANSWERED, again, lost, a_machine("w2"), a_machine("w3")))
    assert (tried, before, serving(empty_store)) == (
        ("name-n1",),
        {"n1": None, "n2": "i-w2"},
        {"n1": "i-w3", "n2": "i-w2"},
    )


def test_a_node_terminated_after_its_retry_gets_the_worker_id_of_its_next_order(empty_store: Store) -> None:
    create(empty_store, "n1")
    empty_store.nodes.bind("n1", "i-w1")
    fulfilment = Fulfilment(empty_store)
    fulfilment.note(an_observation(empty_store, a_machine("w1", state=MachineState.TERMINATED)))
    empty_store.nodes.retry()
    empty_store.nodes.end("n1", at=NOW, by="ann")
    first = an_order(1, state=OrderState.ACCEPTED, ids=("i-w1",), nodes=("n1",))
    again = replace(an_order(1, state=OrderState.ACCEPTED, age=10, ids=("i-w2",), nodes=("n1",)), id="order-2")
    fulfilment.note(an_observation(empty_store, first, again, a_machine("w2")))
    row = empty_store.nodes.row("n1")
    assert row is not None
    assert row.node.worker_id == "i-w2"


def test_failed_nodes_end_with_their_node_array(empty_store: Store) -> None:
    ask(empty_store, Target("burst", count=1), expires=NOW - 1)
    empty_store.nodes.create([NodeRow(CreatedNode("n1", "burst-1", "burst", NOW))])
    empty_store.nodes.bind("n1", "i-w1")
    fulfilment = Fulfilment(empty_store)
    fulfilment.note(an_observation(empty_store, a_machine("w1", state=MachineState.TERMINATED)))
    kept = failed(empty_store)
    fulfilment.note(an_observation(empty_store))
    assert (kept, failed(empty_store), arrays(empty_store)) == ({"n1": Code.GONE}, {}, [])


def test_a_node_whose_machine_is_missing_from_a_listing_stays(empty_store: Store) -> None:
    create(empty_store, "n1")
    empty_store.nodes.bind("n1", "i-w1")
    Fulfilment(empty_store).note(an_observation(empty_store, Memory(workers={"i-w1": WorkerNote(NOW)})))
    assert serving(empty_store) == {"n1": "i-w1"}


def test_a_node_whose_machine_is_not_listed_yet_stays(empty_store: Store) -> None:
    create(empty_store, "n1", "n2")
    fulfilment = Fulfilment(empty_store)
    for _ in range(2):
        fulfilment.note(an_observation(empty_store, ANSWERED))
    assert serving(empty_store) == {"n1": "i-w1", "n2": "i-w2"}


def test_a_dynamic_array_that_a_request_set_names_stays(empty_store: Store) -> None:
    ask(empty_store, Target("burst", count=0))
    Fulfilment(empty_store).note(an_observation(empty_store))
    assert arrays(empty_store) == ["burst"]


@pytest.mark.parametrize(
    "thing",
    (
        a_machine("w1", node_array="burst"),
        replace(an_order(), node_array="burst"),
        Memory(workers={"i-w1": WorkerNote(NOW, bucket=a_bucket(LARGE, node_array="burst").key)}),
    ),
)
def test_a_dynamic_array_stays_while_anything_is_in_it(empty_store: Store, thing: Any) -> None:
    ask(empty_store, Target("burst", count=1))
    ask(empty_store)
    Fulfilment(empty_store).note(an_observation(empty_store, thing))
    assert arrays(empty_store) == ["burst"]


@pytest.mark.parametrize("thing", (a_machine("w1", node_array="burst", state=MachineState.TERMINATED), a_machine("w1")))
def test_a_dynamic_array_is_removed_with_its_last_worker(empty_store: Store, thing: Any) -> None:
    ask(empty_store, Target("burst", count=1))
    ask(empty_store)
    before = arrays(empty_store)
    Fulfilment(empty_store).note(an_observation(empty_store, thing))
    assert (before, arrays(empty_store)) == (["burst"], [])


def test_a_dynamic_array_is_removed_when_the_last_request_set_that_names_it_lapses(empty_store: Store) -> None:
    ask(empty_store, Target("burst", count=1), expires=NOW)
    before = [array.name for array in empty_store.requests.load(NOW - 1).arrays]
    Fulfilment(empty_store).note(an_observation(empty_store))
    assert (before, arrays(empty_store)) == (["burst"], [])


def test_an_array_that_an_array_in_use_extends_stays(empty_store: Store) -> None:
    empty_store.requests.update("standard", "ann", NOW, None, (), [BURST, replace(BURST, name="more", extends="burst")])
    ask(empty_store)
    Fulfilment(empty_store).note(an_observation(empty_store, a_machine("w1", node_array="more")))
    assert arrays(empty_store) == ["burst", "more"]


def test_ending_all_requests_removes_sets_arrays_and_nodes(empty_store: Store) -> None:
    create(empty_store, "n1")
    ask(empty_store, Target("burst", count=1))
    assert (len(empty_store.requests.load(NOW).sets), arrays(empty_store), [*serving(empty_store)]) == (
        1,
        ["burst"],
        ["n1"],
    )
    Fulfilment(empty_store).end_all(NOW, "stop")
    assert (empty_store.requests.load(NOW).sets, arrays(empty_store), serving(empty_store)) == ((), [], {})


def lapses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "lapsed" in record.getMessage()]


def test_a_lapsed_request_set_is_reported_once(empty_store: Store, caplog: pytest.LogCaptureFixture) -> None:
    fulfilment = Fulfilment(empty_store)
    ask(empty_store, Target("burst", count=1), expires=NOW + 60)
    with caplog.at_level("INFO", logger="autoscaler.requests"):
        fulfilment.note(an_observation(empty_store))
        later = replace(an_observation(empty_store), now=NOW + 60, requests=empty_store.requests.load(NOW + 60))
        fulfilment.note(later)
        fulfilment.note(later)
    assert lapses(caplog) == ["request set standard of ann for burst has lapsed"]


@pytest.mark.parametrize("targets", ([], [Target("burst", count=1)]))
def test_a_withdrawn_or_empty_request_set_is_not_reported_as_lapsed(
    empty_store: Store, caplog: pytest.LogCaptureFixture, targets: list[Target]
) -> None:
    fulfilment = Fulfilment(empty_store)
    ask(empty_store, *targets, expires=NOW + 60)
    with caplog.at_level("INFO", logger="autoscaler.requests"):
        fulfilment.note(an_observation(empty_store))
        empty_store.requests.end("standard")
        fulfilment.note(replace(an_observation(empty_store), now=NOW + (30 if targets else 60)))
    assert lapses(caplog) == []
