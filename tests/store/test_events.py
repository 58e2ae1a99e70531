"""The table of events: reading, what another process learns from it, and that its size is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import KnownEvents, Run
from autoscaler.errors import StateNotKept
from autoscaler.store import events
from autoscaler.store.database import Database
from autoscaler.store.events import KEPT_FOR, EventTable
from autoscaler.store.store import Store

NOW = 10_000.0
SUBMITTED, COUNTED, NOT_COUNTED, ORDERED, FAILED, JOINED, DISABLED, ENABLED, GONE, STARTED, ENDED = EventKind


@pytest.fixture
def table(empty_store: Store) -> EventTable:
    return empty_store.events


def an_event(kind: EventKind, jobs: str = "", at: float = NOW, **given: object) -> JobEvent:
    return JobEvent(kind, at, at, at, jobs, **given)  # type: ignore[arg-type]


def keep(table: EventTable, *found: JobEvent, started: tuple[Run, ...] = (), ended: tuple[Run, ...] = ()) -> None:
    table.keep(PassEvents(KnownEvents(), found, started, ended))


def shown(table: EventTable, **asked: object) -> list[tuple[EventKind, str]]:
    return [(one.event.kind, one.event.jobs) for one in table.read(**asked)]  # type: ignore[arg-type]


def test_an_event_reads_back_as_stored(table: EventTable) -> None:
    event = JobEvent(
        ENDED, 1.0, 2.0, 3.0, "4", "1-3", 3, "ann", "wind", ("h1", "h2"), "q", "i-1", "o-1", "ended", "well"
    )
    keep(table, event)
    (kept,) = table.read()
    assert kept.event == event


def test_a_job_is_found_in_the_ranges_of_many_jobs(table: EventTable) -> None:
    keep(table, an_event(SUBMITTED, "1-50000"), an_event(SUBMITTED, "50001,50007"), an_event(COUNTED, "3-9,12"))
    assert shown(table, job=12) == [(SUBMITTED, "1-50000"), (COUNTED, "3-9,12")]
    assert shown(table, job=10) == [(SUBMITTED, "1-50000")]
    assert shown(table, job=50_003) == []


def test_a_task_has_its_own_events_and_those_of_the_whole_array(table: EventTable) -> None:
    keep(
        table,
        an_event(SUBMITTED, "4"),
        an_event(STARTED, "4", tasks="1-3"),
        an_event(STARTED, "4", tasks="4-9", hosts=("h2",)),
    )
    assert [one.event.tasks for one in table.read(job=4, task=5)] == ["", "4-9"]


def test_a_job_has_the_workers_of_its_orders_and_of_its_start(table: EventTable) -> None:
    keep(
        table,
        an_event(JOINED, at=1, hosts=("w0",), worker_id="i-0"),
        an_event(JOINED, at=2, hosts=("w0",), worker_id="i-00"),
        an_event(ORDERED, "1-3", at=3, order_id="o-1"),
        an_event(ORDERED, "9", at=3, order_id="o-2"),
        an_event(JOINED, at=4, hosts=("w1",), worker_id="i-1", order_id="o-1"),
        an_event(JOINED, at=4, hosts=("w2",), worker_id="i-2", order_id="o-2"),
        an_event(STARTED, "2", at=5, hosts=("w0",)),
        an_event(JOINED, at=6, hosts=("w0",), worker_id="i-000"),
    )
    workers = [one.event.worker_id for one in table.read(job=2) if one.event.kind is JOINED]
    assert workers == ["i-00", "i-1"]


def test_a_job_has_the_events_of_its_workers_while_it_ran_and_its_failed_launches(table: EventTable) -> None:
    keep(
        table,
        an_event(ORDERED, "1", at=1, order_id="o-1"),
        an_event(FAILED, at=2, order_id="o-1", message="no m5.large is left"),
        an_event(FAILED, at=2, order_id="o-2", message="of another launch"),
        an_event(JOINED, at=3, hosts=("w1",), worker_id="i-1", order_id="o-1"),
        an_event(DISABLED, at=4, hosts=("w1",), worker_id="i-1", code="before its start"),
        an_event(STARTED, "1", at=5, hosts=("w1",)),
        an_event(DISABLED, at=6, hosts=("w1",), worker_id="i-1"),
        an_event(DISABLED, at=6, hosts=("w2",), worker_id="i-2", code="of another host"),
        an_event(GONE, at=7, hosts=("w1",), worker_id="i-1"),
    )
    running = [ORDERED, FAILED, JOINED, STARTED, DISABLED, GONE]
    assert [kind for kind, _ in shown(table, job=1)] == running
    keep(table, an_event(ENDED, "1", at=8, hosts=("w1",)), an_event(ENABLED, at=9, worker_id="i-1", code="later"))
    assert [kind for kind, _ in shown(table, job=1)] == [*running, ENDED]
    assert [one.event.kind for one in table.of_order("o-1")] == [ORDERED, FAILED, JOINED]


def test_a_host_is_found_by_short_or_long_name_and_a_worker_by_id(table: EventTable) -> None:
    keep(table, an_event(STARTED, "1", hosts=("w1.site.org",)), an_event(STARTED, "2", hosts=("w11",)))
    keep(table, an_event(JOINED, hosts=("w1",), worker_id="i-1"))
    assert shown(table, host="W1") == [(STARTED, "1"), (JOINED, "")]
    assert shown(table, host="w1.site.org") == [(STARTED, "1"), (JOINED, "")]
    assert shown(table, host="i-1") == [(JOINED, "")]


def test_events_after_an_id_or_the_newest_ones_are_returned(table: EventTable) -> None:
    keep(table, an_event(SUBMITTED, "1"), an_event(SUBMITTED, "2"))
    last = table.read()[-1].id
    keep(table, an_event(SUBMITTED, "3"))
    assert shown(table, after=last) == [(SUBMITTED, "3")]
    assert shown(table, last=2) == [(SUBMITTED, "2"), (SUBMITTED, "3")]


def test_another_process_knows_the_reported_events(table: EventTable) -> None:
    run, over = Run(3, "1", "ann", ("w1", "w2"), "main.q", 5.0, "wind"), Run(4, "", "ann", ("w1",), "main.q", None)
    keep(
        table,
        an_event(SUBMITTED, "1-9"),
        an_event(NOT_COUNTED, "1-4"),
        an_event(COUNTED, "3-9"),
        an_event(NOT_COUNTED, "9"),
        started=(run, over),
    )
    keep(table, an_event(JOINED, worker_id="i-1"), an_event(ORDERED, "2", order_id="o-1"), ended=(over,))
    known = table.known({2, 3, 9, 77})
    assert [sorted(result) for result in (known.submitted, known.counted, known.uncounted)] == [[2, 3, 9], [3], [2, 9]]
    assert (dict(known.runs), set(known.joined), set(known.orders)) == ({(3, "1"): run}, {"i-1"}, {"o-1"})
    assert known.since == float("-inf")


def test_the_position_in_accounting_is_stored(table: EventTable) -> None:
    assert table.place() == (None, None)
    table.keep(PassEvents(KnownEvents()), ("/cell/accounting", 70))
    assert table.place() == ("/cell/accounting", 70)


def test_news_that_cannot_be_kept_whole_are_not_kept_in_part(
    table: EventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Run(4, "", "ann", ("h1",), "main.q", NOW)
    keep(table, an_event(STARTED, "4"), started=(running,))
    monkeypatch.setattr(events, "_INSERT", "INSERT INTO no_such_table VALUES (1)")
    with pytest.raises(Exception, match="no_such_table"):
        keep(table, an_event(ENDED, "4"), ended=(running,))
    assert running in table.known([4]).runs.values()


def test_a_pass_without_events_writes_nothing(empty_store: Store) -> None:
    writes: list[str] = []
    empty_store.database._connection.set_trace_callback(writes.append)
    empty_store.events.keep(PassEvents(KnownEvents()))
    assert writes == []
    keep(empty_store.events, an_event(SUBMITTED, "1"))
    assert writes


def test_events_older_than_30_days_are_forgotten(table: EventTable) -> None:
    keep(table, an_event(SUBMITTED, "1", at=NOW), an_event(SUBMITTED, "2", at=NOW + 10))
    table.forget(NOW + KEPT_FOR + 5)
    assert shown(table) == [(SUBMITTED, "2")]
    assert table.known({1, 2}).since == NOW


def test_the_number_of_events_and_their_text_are_bounded(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_ROWS", 5)
    keep(table, *(an_event(SUBMITTED, str(job), at=NOW + job) for job in range(1, 9)))
    table.forget(NOW)
    assert [jobs for _, jobs in shown(table)] == ["4", "5", "6", "7", "8"]
    assert table.known({1}).since == NOW + 3
    monkeypatch.setattr(events, "MOST_TEXT", 2)
    table.forget(NOW)
    assert [jobs for _, jobs in shown(table)] == ["7", "8"]
    table.forget(NOW)
    assert len(table.read()) == 2


def test_many_events_of_one_owner_push_out_no_event_of_another(
    table: EventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_ROWS", 20)
    keep(table, an_event(JOINED, worker_id="i-1"), *(an_event(SUBMITTED, str(job), owner="ann") for job in (1, 2, 3)))
    keep(table, *(an_event(SUBMITTED, str(job), owner="eve") for job in range(10, 200)))
    table.forget(NOW)
    kept = [one.event for one in table.read()]
    assert [event.jobs for event in kept if event.owner == "ann"] == ["1", "2", "3"]
    assert [event.kind for event in kept if not event.owner] == [JOINED]
    assert [event.jobs for event in kept if event.owner == "eve"] == [str(job) for job in range(184, 200)]


@pytest.mark.parametrize(
    ("amounts", "most", "expected"), (((3, 4), 7, None), ((3, 4), 6, 3), ((1, 50, 50), 21, 10), ((0, 9), 5, 5))
)
def test_who_has_less_than_an_equal_part_leaves_the_rest_to_others(
    amounts: tuple[int, ...], most: int, expected: int | None
) -> None:
    assert events.share(amounts, most) == expected


@pytest.mark.parametrize("field", ("tasks", "owner", "project", "queue", "message"))
def test_text_that_users_can_make_long_is_bounded(
    table: EventTable, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.setattr(events, "MOST_TEXT", 2500)
    long = ",".join(str(task) for task in range(1, 400, 2))
    keep(
        table,
        *(
            replace(an_event(SUBMITTED, str(job), at=NOW + job), **{field: long})  # type: ignore[arg-type]
            for job in range(1, 9)
        ),
    )
    table.forget(NOW)
    assert [jobs for _, jobs in shown(table)] == ["6", "7", "8"]


def test_the_store_forgets_events_with_the_rest(empty_store: Store) -> None:
    keep(empty_store.events, an_event(SUBMITTED, "1"))
    assert empty_store.events.read()
    empty_store.forget_old(NOW + KEPT_FOR + 5)
    assert not empty_store.events.read()


def test_the_news_of_a_pass_are_kept_whole_or_not_at_all(
    table: EventTable, empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(7, "", "ann", ("h1",), "main.q", NOW)
    keep(table, an_event(STARTED, "7"), started=(run,))
    real, made = Database.execute_many, []

    def third_fails(self: Database, sql: str, rows: object) -> None:
        made.append(sql)
        if len(made) == 3:
            raise StateNotKept("the disk is full")
        real(self, sql, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "execute_many", third_fails)
    with pytest.raises(StateNotKept):
        keep(table, an_event(ENDED, "7"), ended=(run,))
    monkeypatch.undo()
    assert empty_store.database.rows("SELECT job FROM event_runs")[0]["job"] == 7
    assert shown(table) == [(STARTED, "7")]
