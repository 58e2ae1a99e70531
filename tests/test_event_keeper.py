"""Events across processes and full disks: each is stored once, and one that could not be written is stored by the next
pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.events.event import EventKind
from autoscaler.core.model.cluster import ExecutionHost, HostJob, QueueInstance
from autoscaler.core.plan import plan
from autoscaler.engine.event_keeper import EventKeeper
from autoscaler.errors import StateNotKept
from autoscaler.store.store import Store
from tests.core.building import NOW, Thing, a_host, a_job, a_snapshot, jobs

LINE = (
    "main.q:h1:users:ann:sleep:{job}:sge:0:1000000000:{began}:1000000009:{failed}:{status}:9:0:0:0.0:0:0:0:0:0:0:0:0.0:0:"
    "0:0:0:0:0:wind:defaultdepartment:NONE:1:{task}:0:0.0:0.0:-U:0.0:NONE:0.0:0:0\n"
)


def an_end(job: int = 1, task: int = 0, *, failed: int = 0, status: int = 0) -> str:
    return LINE.format(job=job, task=task, failed=failed, status=status, began=1000000004)


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    file = tmp_path / "accounting"
    file.write_text(an_end(99))
    return file


def passed(keeper: EventKeeper, *things: Thing, after: float = 0.0) -> list[tuple[str, str]]:
    """The events of one pass."""
    before = max((one.id for one in keeper.table.read()), default=0)
    snapshot = a_snapshot(*things, now=NOW + after)
    keeper.note(snapshot, plan(snapshot))
    return [(one.event.kind.value, one.event.jobs) for one in keeper.table.read(after=before)]


def running(*numbers: int) -> ExecutionHost:
    runs = tuple(HostJob(number, "", "r", 1, "ann", NOW - 3) for number in numbers)
    return ExecutionHost("h1", (QueueInstance("main.q", "h1", 9, len(runs), 0, "", runs),))


def test_only_ends_written_to_accounting_later_become_events(empty_store: Store, accounting: Path) -> None:
    keeper = EventKeeper(empty_store.events, accounting)
    assert passed(keeper, running(1)) == [("started", "1")]
    with accounting.open("a") as file:
        file.write(an_end(1, status=3))
    assert passed(keeper, a_host()) == [("ended", "1")]
    (ended,) = (one.event for one in empty_store.events.read() if one.event.kind is EventKind.ENDED)
    assert (ended.at, ended.message, ended.project, ended.hosts) == (1000000009.0, "exit status 3", "wind", ("h1",))
    assert passed(keeper, a_host()) == []


def test_another_process_continues_the_events(empty_store: Store, accounting: Path) -> None:
    waiting = (jobs(3), a_job(9, state="hqw"))
    assert len(passed(EventKeeper(empty_store.events, accounting), *waiting, running(20, 21))) == 4
    with accounting.open("a") as file:  # while no process runs
        file.write(an_end(20) + an_end(3))
    second = EventKeeper(empty_store.events, accounting)
    assert passed(second, jobs(2), a_job(9, state="hqw"), running(21), after=60) == [
        ("started", "3"),
        ("ended", "3,20"),
    ]
    assert (
        passed(EventKeeper(empty_store.events, accounting), jobs(2), a_job(9, state="hqw"), running(21), after=90) == []
    )


def test_after_a_lost_store_present_jobs_become_events_and_old_ends_do_not(tmp_path: Path, accounting: Path) -> None:
    new = Store.open(tmp_path / "new.sqlite")
    found = passed(EventKeeper(new.events, accounting), jobs(2), running(20))
    assert found == [("submitted", "1-2"), ("counted", "1-2"), ("started", "20")]
    new.close()


def test_events_that_could_not_be_written_are_reported_by_the_next_pass(
    empty_store: Store, accounting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = EventKeeper(empty_store.events, accounting)
    passed(keeper, running(1))
    with accounting.open("a") as file:
        file.write(an_end(1))

    def full(*_: object) -> None:
        raise StateNotKept("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(empty_store.events, "keep", full)
        with pytest.raises(StateNotKept):
            passed(keeper, a_job(5))
    assert passed(keeper, a_job(5)) == [("submitted", "5"), ("counted", "5"), ("ended", "1")]


def test_an_unchanged_pass_writes_nothing(empty_store: Store, accounting: Path) -> None:
    keeper = EventKeeper(empty_store.events, accounting)
    things = (jobs(3), running(20))
    passed(keeper, *things)
    writes: list[str] = []
    empty_store.database._connection.set_trace_callback(writes.append)
    snapshot = a_snapshot(*things, now=NOW + 10)
    keeper.note(snapshot, plan(snapshot))
    assert writes == []


def test_in_a_new_cell_the_first_line_of_accounting_becomes_an_event(empty_store: Store, tmp_path: Path) -> None:
    file = tmp_path / "common" / "accounting"
    keeper = EventKeeper(empty_store.events, file)
    assert passed(keeper, a_host()) == []
    file.parent.mkdir()
    file.write_text(an_end(1, task=4))
    assert [kind for kind, _ in passed(keeper, a_host())] == ["submitted", "started", "ended"]
    assert empty_store.events.read()[-1].event.tasks == "4"


def test_unreadable_accounting_is_logged_once_and_ends_are_reported_late(
    empty_store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "directory"
    file.mkdir()
    keeper = EventKeeper(empty_store.events, file)
    passed(keeper, running(1))
    passed(keeper, a_host(), after=10)
    assert passed(keeper, a_host(), after=200) == [("ended", "1")]
    assert sum("events do not say how jobs ended" in message for message in caplog.messages) == 1
