"""Requests of callers on a real cell: workers are launched for request sets, leave when a set lapses, and a created
node keeps its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.lab.cell import Cell
from autoscaler.store.nodes import NodeRow
from autoscaler.store.store import Store
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until

LIMITED = {"CP_CAP_AUTOSCALE_WORKERS": "3"}
BURST = ArrayDefinition("burst", dynamic=True, extends="execute", machine_types=("m5.xlarge",))


@contextmanager
def written(autoscaling: Autoscaling) -> Iterator[Store]:
    """The autoscaler's store, as any caller's process writes it."""
    (file,) = autoscaling.state.glob("*.sqlite")
    store = Store.open(file)
    try:
        yield store
    finally:
        store.close()


def ask(autoscaling: Autoscaling, name: str, *targets: Target, expires: float | None = None) -> None:
    with written(autoscaling) as store:
        now = time.time()
        definitions = [BURST] if any(target.node_array == "burst" for target in targets) else []
        store.requests.update(name, "ann", now, None if expires is None else now + expires, targets, definitions)


def serving(autoscaling: Autoscaling) -> dict[str, int]:
    """Host → slots of every queue instance that takes jobs."""
    return {each.host: each.slots for each in autoscaling.instances().values() if not each.states}


def nodes(autoscaling: Autoscaling) -> dict[str, str | None]:
    with written(autoscaling) as store:
        return {node.name: node.worker_id for node in store.nodes.live()}


def arrays(autoscaling: Autoscaling) -> list[str]:
    with written(autoscaling) as store:
        return [array.name for array in store.requests.load(time.time()).arrays]


def test_workers_are_launched_for_two_sets_and_leave_only_when_their_set_lapses(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, LIMITED)
    show_on_failure["autoscaler"] = autoscaling.log_text

    with autoscaling.running():
        until(lambda: list(autoscaling.state.glob("*.sqlite")), 15, "the autoscaler did not start")
        ask(autoscaling, "standard", Target("execute", count=1))
        ask(autoscaling, "night", Target("burst", cores=3))
        until(lambda: sorted(serving(autoscaling).values()) == [2, 4], 30, "two sets did not get a worker each")
        kept = {each.name for each in autoscaling.lifetimes() if each.instance_type == "m5.large"}
        ask(autoscaling, "night", Target("burst", cores=3), expires=0.5)
        until(lambda: set(serving(autoscaling)) == kept, 30, "the lapsed set's worker did not leave alone")
        until(lambda: arrays(autoscaling) == [], 30, "the empty array was not forgotten")

    ended = {each.name: each.ended_at is not None for each in autoscaling.lifetimes()}
    assert ended == {name: name not in kept for name in ended}


@pytest.mark.thorough
def test_a_created_node_keeps_its_worker_until_somebody_drains_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, LIMITED)
    show_on_failure["autoscaler"] = autoscaling.log_text

    with autoscaling.running():
        until(lambda: list(autoscaling.state.glob("*.sqlite")), 15, "the autoscaler did not start")
        with written(autoscaling) as store:
            store.nodes.create([NodeRow(CreatedNode("n-1", "execute-1", "execute", time.time()))])
        (host,) = until(lambda: serving(autoscaling), 30, "the node got no worker")
        (worker,) = until(lambda: [each for each in autoscaling.lifetimes() if each.name == host])
        assert nodes(autoscaling) == {"execute-1": worker.worker_id}
        until(
            lambda: f"keeping {host} (created node)" in autoscaling.log_text(),
            15,
            "the reason that keeps it is not logged",
        )
        autoscaling.command("drain", host)
        until(autoscaling.all_gone, 30, "the drained worker did not leave")
        until(lambda: nodes(autoscaling) == {}, 15, "the node outlived its machine")


@pytest.mark.thorough
def test_idle_workers_stay_for_a_set_with_keep_alive_and_leave_when_it_ends(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, LIMITED)
    show_on_failure["autoscaler"] = autoscaling.log_text
    kept = [ArrayDefinition("execute", keep_alive=(("standard", True),))]

    with autoscaling.running():
        until(lambda: list(autoscaling.state.glob("*.sqlite")), 15, "the autoscaler did not start")
        with written(autoscaling) as store:
            store.requests.update("standard", "ann", time.time(), None, [Target("execute", count=1)], kept)
        (host,) = until(lambda: serving(autoscaling), 30, "no worker was launched")
        with written(autoscaling) as store:
            store.requests.update("standard", "ann", time.time(), None, [], kept)
        until(
            lambda: f"keeping {host} (kept for standard)" in autoscaling.log_text(),
            15,
            "the reason that keeps it is not logged",
        )
        ask(autoscaling, "other", Target("execute", count=0))
        autoscaling.command("requests", "--end", "standard")
        until(autoscaling.all_gone, 30, "the worker stayed for a set that ended")

    assert f"disabling {host} (idle" in autoscaling.log_text()


@pytest.mark.thorough
def test_groups_by_vcpus_and_by_workers_of_one_size_stay_separate_over_a_restart(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "3"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    of_two = ArrayDefinition("execute:2", dynamic=True, extends="execute", group_cores=2, group_count=2)
    both = [Target("execute:2", groups=1, group_count=2), Target("execute:2", groups=1, group_cores=2)]

    with autoscaling.running():
        until(lambda: list(autoscaling.state.glob("*.sqlite")), 15, "the autoscaler did not start")
        with written(autoscaling) as store:
            store.requests.update("standard", "ann", time.time(), None, both, [of_two])
        until(lambda: len(serving(autoscaling)) == 3, 40, "the groups did not come")
    first = {each.worker_id for each in autoscaling.lifetimes()}
    with autoscaling.running():
        again = "nothing to do; keeping ip"
        until(lambda: again in autoscaling.log_text().rpartition("serving cell")[2], 20, "the next run does something")

    groups = empty_cell.out("qconf", "-shgrpl").split()
    assert {each.worker_id for each in autoscaling.lifetimes()} == first
    assert {name for name in groups if "execute" in name} == {
        "@sge-autoscaler-execute_2-1",
        "@sge-autoscaler-execute_2-w1",
    }
