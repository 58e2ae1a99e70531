"""`convert` takes over what commit 3486b244 left: `pilot_store.sql` is a store that it wrote."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.commands._conversion import KEPT, PILOT_VERSION, Renamed, converted_settings
from autoscaler.commands.main import main
from autoscaler.core.model.evidence import Answer
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.workers.phases import Phase
from autoscaler.engine.record import read_record
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.cases.whole import whole
from tests.core.building import NOW

PILOT = Path(__file__).parent / "pilot_store.sql"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "default-master-6444-abc.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(PILOT.read_text())
    path.chmod(0o600)
    return path


@pytest.fixture
def converted_store(state: Path) -> Store:
    assert main(["convert", str(state)]) == 0
    return Store.open(state)


def test_no_worker_is_lost_and_each_keeps_its_mark_and_times(converted_store: Store) -> None:
    notes = converted_store.memory.load().workers
    marks = {worker_id: note.disabling for worker_id, note in notes.items()}
    assert marks == {
        "i-w1": None,
        "i-w2": None,
        "i-w3": Disabling.IDLE,
        "i-w4": Disabling.ENROL,
        "i-w5": None,
    }
    assert (notes["i-w1"].joined_at, notes["i-w4"].joined_at) == (NOW - 3600, None)
    assert all(note.host for note in notes.values())


def test_the_rest_of_the_memory_is_there_under_its_new_names(converted_store: Store) -> None:
    memory = converted_store.memory.load()
    assert memory.circuit_breaker is not None
    assert memory.circuit_breaker.code is Code.CIRCUIT_BREAKER
    assert [backoff.message for backoff in memory.backoffs] == ["none left"]
    assert memory.unsatisfiable_jobs[5].annotated == because(Code.NO_SUCH_RESOURCE, resource="lic", requested="1")
    assert (memory.lookups, memory.held_back["12"].rescheduled_at, memory.silent_since["w1"]) == ((11,), NOW - 5, None)
    assert (memory.waiting_written_at, memory.queues_empty_since, memory.observed_at) == (NOW - 99, NOW - 5, NOW)


def test_orders_and_what_persons_and_callers_want_go_on(converted_store: Store) -> None:
    (order,) = converted_store.journal.orders(0)
    assert (order.for_requests, order.assignment, [each.token for each in order.attempts]) == (
        True,
        (("k", 2),),
        ["t-0"],
    )
    assert {(each.verb, each.host) for each in converted_store.overrides.in_force()} == {
        (Verb.KEEP, "w2"),
        (Verb.DRAIN, "w1"),
    }
    requests = converted_store.requests.load(NOW)
    assert ([each.name for each in requests.sets], requests.arrays[0].requested) == (["standard"], True)
    assert requests.arrays[0].defined_by == (("max_count", "standard"),)
    assert converted_store.findings(NOW).answers[5].answer is Answer.UNSATISFIABLE
    assert [each.operation for each in converted_store.node_operations.open()] == ["restart"]
    actions = converted_store.database.rows("SELECT kind FROM actions ORDER BY id")
    assert {row["kind"] for row in actions} == {"launch", "reschedule"}


def test_what_is_shown_elsewhere_is_converted_too(converted_store: Store) -> None:
    observation = converted_store.observations.load()
    assert observation is not None
    assert {each.worker.id: each.phase for each in observation.workers}["i-w1"] is Phase.READY
    assert {each.kind for each in converted_store.notifications.known().watched.values()} == {"circuit_breaker"}
    assert [message.kind for _, message in converted_store.notifications.waiting()] == ["circuit_breaker"]
    (passed,) = converted_store.history.passes()
    assert [row["jobs"] for row in passed.document["job_categories"]] == [["1", "2", "3"], ["5"]]
    assert "shapes" not in passed.document
    assert converted_store.history.explanation(5) is not None


def test_the_old_state_is_kept_and_no_second_conversion_replaces_it(converted_store: Store, state: Path) -> None:
    kept = state.with_name(state.name + KEPT)
    with closing(sqlite3.connect(kept)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (PILOT_VERSION,)
    assert (oct(state.stat().st_mode & 0o777), main(["convert", str(state)])) == ("0o600", 2)


def test_state_that_is_in_use_is_left_as_it_is(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(state)) as used:
        used.execute("PRAGMA journal_mode=WAL").fetchall()
        used.execute("SELECT count(*) FROM memory").fetchall()
        assert main(["convert", str(state)]) == 2
        assert used.execute("PRAGMA user_version").fetchone() == (PILOT_VERSION,)
    assert "stop the autoscaler" in capsys.readouterr().err
    assert sorted(file.name for file in state.parent.glob("*.before*")) == []


def test_a_converted_record_decides_as_it_did(tmp_path: Path) -> None:
    record = tmp_path / "record"
    shutil.copytree(whole("deadlock/a-job-that-we-hold-is-released-when-it-requests-less"), record)
    before = plan(read_record(record))
    renamed = Renamed.load()
    memory = (record / "memory.json").read_text()
    for old, new in (("suspicions", "unsatisfiable_jobs"), ("told", "annotated")):
        assert f'"{new}"' in memory
        memory = memory.replace(f'"{new}"', f'"{old}"')
    (record / "memory.json").write_text(memory)
    (record / "wishes.json").write_text('{"keep": ["w1"]}')
    (record / "settings.toml").write_text((record / "settings.toml").read_text() + "CP_CAP_AUTOSCALE_BRAKE_KILLS = 9\n")
    assert main(["convert", str(record)]) == 0
    again = read_record(record)
    assert (again.overrides.keep, again.policy.circuit_breaker.max_kills) == (frozenset({"w1"}), 9)
    assert plan(again).actions == before.actions
    assert renamed["files"] == {"wishes.json": "overrides.json"}


def test_settings_are_renamed_with_their_suffix_and_nothing_else(tmp_path: Path) -> None:
    text = "# CP_CAP_AUTOSCALE_BRAKE_WINDOW: 10 min\nCP_CAP_AUTOSCALE_BRAKE_KILLS_1 = 5\nCP_CAP_AUTOSCALE_BRAKES = 1\n"
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert main(["convert", str(file)]) == 0
    assert file.read_text() == (
        "# CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_WINDOW: 10 min\nCP_CAP_AUTOSCALE_CIRCUIT_BREAKER_KILLS_1 = 5\n"
        "CP_CAP_AUTOSCALE_BRAKES = 1\n"
    )
    assert file.with_name(f"settings.toml{KEPT}").read_text() == text
    assert converted_settings(file.read_text(), Renamed.load()) == file.read_text()


def test_a_missing_file_and_a_folder_that_is_no_record_are_reported(tmp_path: Path) -> None:
    assert [main(["convert", str(path)]) for path in (tmp_path / "none", tmp_path)] == [3, 2]
