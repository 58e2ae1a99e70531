"""A store of the last version before the table of phases is read, and its workers keep their phases."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from autoscaler.core.workers.observed import observe_workers
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.worker_state import WorkerState
from autoscaler.errors import SettingsError
from autoscaler.store.store import Store
from tests.store.older_world import MARKS, older_world

WRITTEN = Path(__file__).parent / "older_store.sql"


@pytest.fixture
def older(tmp_path: Path) -> Store:
    path = tmp_path / "cell.sqlite"
    file = sqlite3.connect(path)
    file.executescript(WRITTEN.read_text())
    file.close()
    return Store.open(path)


def workers(store: Store) -> dict[str, WorkerState]:
    """By id: the workers of that world, with what the store remembers."""
    seen = older_world(store.memory.load())
    observed = observe_workers(seen.cluster, seen.fleet, seen.memory, seen.policy, seen.now)
    return {worker.worker.id: worker for worker in observed.known}


def test_the_memory_of_an_older_store_equals_that_of_its_world(older: Store) -> None:
    memory = older.memory.load()
    assert memory == older_world().memory
    assert {note.disabling for note in memory.workers.values()} == {None, *MARKS}


def test_the_last_observation_of_an_older_store_shows_the_phases_of_its_workers(older: Store) -> None:
    observation = older.looks.load()
    assert observation is not None
    now = workers(older)
    result = {seen.worker.id: (seen.phase, seen.decisive) for seen in observation.workers}
    expected = {key: (worker.phase, worker.decisive) for key, worker in now.items() if key in result}
    assert result == expected
    assert len(result) == len(now) - 2  # neither the one that is gone nor the one that is not listed


def test_the_sample_of_the_older_store_has_its_sixteen_states(older: Store) -> None:
    row = older.database.row("SELECT look FROM looks")
    assert row is not None
    lives = {seen["life"] for seen in json.loads(row["look"])["workers"]}
    assert len(lives) == 16


@pytest.mark.parametrize(
    ("worker", "phase", "condition"),
    (
        ("i-w-enrol", Phase.JOINING, Condition.JOINED),
        ("i-w-idle", Phase.DRAINING, Condition.EMPTY),
        ("i-w-broken", Phase.DRAINING, Condition.QUARANTINED),
        ("i-w-group", Phase.DRAINING, Condition.FOR_GOOD),
        ("i-w-lost", Phase.READY, Condition.CORDONED),
        ("i-w-idle-long", Phase.READY, Condition.IDLE),
        ("i-w-fenced", Phase.ENDING, Condition.FENCED),
        ("i-w-left-out", Phase.READY, Condition.UNLISTED),
    ),
)
def test_a_mark_or_time_of_an_older_store_gives_phase_and_condition(
    older: Store, worker: str, phase: Phase, condition: Condition
) -> None:
    seen = workers(older)[worker]
    assert (seen.phase, condition in seen.conditions) == (phase, True)


def test_a_store_of_an_earlier_version_is_not_migrated_while_its_autoscaler_runs(tmp_path: Path) -> None:
    path = tmp_path / "cell.sqlite"
    with sqlite3.connect(path) as file:
        file.executescript(WRITTEN.read_text())
    before = list(file.iterdump())
    with pytest.raises(SettingsError, match="of an earlier version, and the autoscaler that writes it still runs"):
        Store.open(path, migrate=False)
    assert list(file.iterdump()) == before
    file.close()


def test_a_store_of_this_version_opens_beside_its_autoscaler(tmp_path: Path) -> None:
    Store.open(tmp_path / "cell.sqlite").close()
    Store.open(tmp_path / "cell.sqlite", migrate=False).close()
