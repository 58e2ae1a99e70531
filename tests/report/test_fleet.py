"""Workers as rows: slots as available to jobs."""

from __future__ import annotations

import pytest

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.report.fleet import worker_rows
from tests.core.building import a_host, a_snapshot, a_worker

OTHER = QueueInstance("other.q", "w1", 2, 0, 0, "", ())


@pytest.mark.parametrize(
    ("used", "consumables", "slots"),
    ((0, {"slots": "2"}, 2), (1, {"slots": "1"}, 2), (0, {}, 4), (0, {"slots": "INFINITY"}, 4)),
)
def test_queues_on_one_machine_share_the_slots_of_its_host(used: int, consumables: dict[str, str], slots: int) -> None:
    host = a_host("w1", slots=2, used=used, more=(OTHER,), consumables=consumables)
    rows = worker_rows(a_snapshot(a_worker("w1", host=host)), [{"id": "i-w1", "name": "w1"}], None)
    assert [(row["used"], row["slots"]) for row in rows] == [(used, slots)]


@pytest.mark.parametrize(("reported", "load"), (("0.27", 0.27), ("", None), ("nan", None), ("heavy", None)))
def test_a_worker_row_has_phase_conditions_and_load(reported: str, load: float | None) -> None:
    host = a_host("w1", load={"load_avg": reported})
    snapshot = a_snapshot(a_worker("w1", host=host))
    (row,) = worker_rows(snapshot, [{"id": "i-w1", "name": "w1"}], None)
    (state,) = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now).workers
    assert (row["phase"], row["load"]) == (state.phase.value, load)
    assert {one["name"] for one in row["conditions"]} == {name.value for name in state.conditions}
    assert row["conditions"]


def test_a_persistent_host_has_no_phase() -> None:
    snapshot = a_snapshot(a_worker("w1", host=a_host("w1")))
    (row,) = worker_rows(snapshot, [{"id": None, "name": "master"}], None)
    assert (row["phase"], row["conditions"], row["load"]) == (None, [], None)
