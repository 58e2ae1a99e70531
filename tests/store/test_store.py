"""The store: what is durable together, what survives a crash, and that nothing is lost or doubled."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Disable, Launch, LaunchSet
from autoscaler.core.model.cluster import JobDetail, JobRequest
from autoscaler.core.model.fleet import (
    Bucket,
    BucketKey,
    FailureKind,
    InstanceType,
    LaunchFailure,
    MachineState,
    OrderState,
    Worker,
)
from autoscaler.core.model.memory import Backoff, Disabling, Event, Memory, WorkerNote
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import JobCategoryVerdict, Plan
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.providers.interface import LaunchOrder
from autoscaler.store import encoding
from autoscaler.store.database import Database, Migration
from autoscaler.store.journal import Result
from autoscaler.store.overrides import Verb
from autoscaler.store.store import MIGRATIONS, Store
from tests.store.test_nodes import node

LARGE = InstanceType("m5.large", "m5", 2, 8 << 30)
XLARGE = InstanceType("m5.xlarge", "m5", 4, 16 << 30)


def candidate(kind: InstanceType, count: int = 1) -> LaunchSet:
    return LaunchSet((Bucket(BucketKey(kind.name), kind, price_per_hour=0.1),), count)


LAUNCH = Launch("execute", (candidate(LARGE, 2), candidate(XLARGE)), because(Code.DEMAND, jobs=3))
DISABLE = Disable("i-1", "w1", because(Code.IDLE, idle_s=660))
MEMORY = Memory(
    passes=7,
    workers={"i-1": WorkerNote(1.0, disabled_at=2.5, disabling=Disabling.IDLE, host="w1")},
    able_since={12: 3.0},
    unable=(13, 14),
    details={12: JobDetail(12, 4.0, concurrency=3, context={"a": "b"})},
    backoffs=(Backoff(BucketKey("m5.large"), 99.0, 5, FailureKind.CAPACITY, "none left"),),
    launches=(Event(1.0, 2, "execute"),),
    circuit_breaker=because(Code.CIRCUIT_BREAKER, launches=9, hosts=("w1", "w2")).then(because(Code.CAPPED)),
)


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "cell.sqlite"


@pytest.fixture
def numbered_store(store_file: Path) -> Store:
    """Its orders are called order0, order1, …"""
    ids = iter(f"order{number}" for number in range(100))
    store = Store.open(store_file)
    store._new_id = lambda: next(ids)
    return store


def order_for(number: int, token: str = "order0-0") -> LaunchOrder:
    chosen = LAUNCH.candidates[number]
    return LaunchOrder(token, "order0", "tag", "execute", chosen.buckets, chosen.count, "#!/bin/sh\n", {"a": "b"})


def test_memory_reads_back_as_written() -> None:
    assert encoding.read(encoding.write(MEMORY), Memory) == MEMORY


def test_the_file_is_readable_by_its_owner_only(numbered_store: Store, store_file: Path) -> None:
    assert stat.S_IMODE(store_file.stat().st_mode) == 0o600


LATER: tuple[Migration, ...] = (*MIGRATIONS, ("ALTER TABLE plans ADD COLUMN note TEXT NOT NULL DEFAULT ''",))
"""Those of a later version."""


def test_a_later_version_migrates_the_file_once_and_keeps_what_it_holds(
    numbered_store: Store, store_file: Path
) -> None:
    numbered_store.memory.save(Memory(passes=7), 1.0)
    numbered_store.close()
    for _ in range(2):
        later = Store(Database.open(store_file, LATER))
        assert (later.memory.load().passes, later.database.rows("SELECT note FROM plans")) == (7, [])
        later.close()


def test_a_file_is_not_migrated_while_the_autoscaler_that_writes_it_runs(
    numbered_store: Store, store_file: Path
) -> None:
    with pytest.raises(SettingsError, match="of an earlier version, and the autoscaler that writes it still runs"):
        Database.open(store_file, LATER, migrate=False)
    Store.open(store_file, migrate=False).close()
    assert "note" not in [row["name"] for row in numbered_store.database.rows("PRAGMA table_info(plans)")]


def test_a_newer_file_version_is_refused(numbered_store: Store, store_file: Path) -> None:
    numbered_store.database.execute("PRAGMA user_version=99")
    numbered_store.close()
    with pytest.raises(SettingsError, match="newer sge-autoscaler"):
        Store.open(store_file)


def fill_disk(store: Store) -> None:
    """From now on the file may not grow, as on a full disk."""
    (pages,) = store.database.rows("PRAGMA page_count")[0]
    store.database.rows(f"PRAGMA max_page_count={pages}")


def test_a_full_disk_is_reported_in_a_sentence(numbered_store: Store, store_file: Path) -> None:
    fill_disk(numbered_store)
    with pytest.raises(StateNotKept, match=f"{store_file}.*disk is full; no action begins.*make room"):
        numbered_store.history.add_pass(1, 0.0, "x" * 100_000, {})


def test_after_a_full_disk_the_store_continues(numbered_store: Store) -> None:
    fill_disk(numbered_store)
    with pytest.raises(StateNotKept):
        numbered_store.history.add_pass(1, 0.0, "x" * 100_000, {})
    numbered_store.database.rows("PRAGMA max_page_count=1000000")
    numbered_store.history.add_pass(2, 0.0, "y" * 100_000, {})
    assert [result.number for result in numbered_store.history.passes()] == [2]


def test_memory_and_journal_of_a_plan_are_stored_together(numbered_store: Store, store_file: Path) -> None:
    numbered_store.accept(Plan((LAUNCH, DISABLE), MEMORY), pass_number=7, at=100.0)
    numbered_store.close()
    again = Store.open(store_file)
    assert (again.memory.load(), [record.id for record in again.journal.orders(0)]) == (MEMORY, ["order0"])


def test_a_plan_that_cannot_be_journalled_leaves_the_old_memory(numbered_store: Store) -> None:
    numbered_store.accept(Plan((), MEMORY), pass_number=7, at=100.0)

    def broken() -> str:
        raise KeyboardInterrupt

    numbered_store._new_id = broken
    with pytest.raises(KeyboardInterrupt):
        numbered_store.accept(Plan((LAUNCH,), replace(MEMORY, passes=8)), pass_number=8, at=110.0)
    assert numbered_store.memory.load() == MEMORY


def test_unreadable_memory_counts_as_lost(numbered_store: Store) -> None:
    numbered_store.memory.save(MEMORY, 1.0)
    numbered_store.database.execute("UPDATE memory SET memory = '{'")
    assert numbered_store.memory.load() == Memory()


def test_an_unanswered_order_is_in_the_state_sent(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    order = numbered_store.journal.orders(0)[0].as_orders()[0]
    assert (order.state, order.count, order.type, order.ordered_at) == (OrderState.SENT, 2, LARGE, 100.0)


def test_an_attempt_keeps_its_first_order(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(order_for(0), 0, 101.0)
    numbered_store.journal.send(replace(order_for(0), boot_script="another"), 0, 102.0)
    assert [attempt.launch_order for attempt in numbered_store.journal.orders(0)[0].attempts] == [order_for(0)]


LONG = "#!/bin/sh\n" + "# the same on every machine\n" * 400


def test_an_answered_attempt_keeps_no_boot_script_and_no_secret(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(replace(order_for(0), boot_script=LONG, key="secret"), 0, 101.0)
    numbered_store.journal.answer("order0-0", ids=["i-1"], failures=(), message="", at=150.0)
    (kept,) = numbered_store.database.rows("SELECT launch_order FROM attempts")
    assert (len(kept["launch_order"]) < 300, "secret" in kept["launch_order"]) == (True, False)
    (attempt,) = numbered_store.journal.orders(0)[0].attempts
    assert attempt.launch_order == replace(order_for(0), boot_script="", buckets=())


def test_an_abandoned_attempt_keeps_no_boot_script_either(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(replace(order_for(0), boot_script=LONG), 0, 101.0)
    numbered_store.journal.close_order("order0", "the provider gave no answer", 900.0)
    (kept,) = numbered_store.database.rows("SELECT launch_order FROM attempts")
    assert len(kept["launch_order"]) < 300


def test_an_accepted_order_counts_its_workers_from_the_answer_on(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(order_for(0), 0, 101.0)
    numbered_store.journal.answer("order0-0", ids=["i-1"], failures=(), message="", at=150.0)
    order = numbered_store.journal.orders(0)[0].as_orders()[0]
    assert (order.state, order.count, order.ids, order.ordered_at) == (OrderState.ACCEPTED, 1, ("i-1",), 150.0)


def test_after_a_refused_candidate_the_next_one_is_due(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(order_for(0), 0, 101.0)
    failure = LaunchFailure(BucketKey("m5.large"), 102.0, FailureKind.CAPACITY, "none left", "order0")
    numbered_store.journal.answer("order0-0", ids=[], failures=[failure], message="none left", at=102.0)
    record = numbered_store.journal.orders(0)[0]
    assert (record.due, record.as_orders()[0].type, numbered_store.journal.failures(0)) == (1, XLARGE, (failure,))


def test_a_closed_order_without_ids_has_failed(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.close_order("order0", "nothing to be had", 102.0)
    assert numbered_store.journal.orders(0)[0].as_orders()[0].state is OrderState.FAILED


def test_an_open_order_is_listed_however_old(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    assert len(numbered_store.journal.orders(1e9)) == 1


def test_an_unknown_kind_of_failure_counts_as_boot(numbered_store: Store) -> None:
    numbered_store.journal.fail(LaunchFailure(BucketKey("m5.large"), 102.0, FailureKind.QUOTA, "no more"))
    numbered_store.accept(Plan((), MEMORY), pass_number=7, at=100.0)
    numbered_store.database.execute("UPDATE failures SET kind = 'of a later version'")
    numbered_store.database.execute(
        "UPDATE memory SET memory = json_set(memory, '$.backoffs[0].kind', 'of a later version')"
    )
    (failure,), (backoff,) = numbered_store.journal.failures(0), numbered_store.memory.load().backoffs
    assert (failure.kind, backoff.kind) == (FailureKind.BOOT, FailureKind.BOOT)


def test_a_failed_boot_of_a_worker_is_stored_once(numbered_store: Store) -> None:
    failure = LaunchFailure(BucketKey("m5.large"), 102.0, FailureKind.BOOT, "never joined")
    numbered_store.journal.fail(failure, worker_id="i-1")
    numbered_store.journal.fail(replace(failure, at=103.0), worker_id="i-1")
    assert numbered_store.journal.failures(0) == (replace(failure, worker_id="i-1"),)


def test_an_action_left_without_an_outcome_counts_as_interrupted(numbered_store: Store) -> None:
    numbered_store.accept(Plan((DISABLE,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.sweep(200.0)
    assert numbered_store.journal.outcomes_of("w1")[0]["result"] == Result.INTERRUPTED


def test_an_open_launch_does_not_count_as_interrupted(numbered_store: Store) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    assert numbered_store.journal.sweep(200.0) == 0


@pytest.mark.parametrize(("ids", "result"), ((["i-1"], Result.DONE), ([], Result.FAILED)))
def test_a_launch_cut_short_after_its_order_closed_gets_the_result_of_the_order(
    numbered_store: Store, ids: list[str], result: Result
) -> None:
    numbered_store.accept(Plan((LAUNCH,), MEMORY), pass_number=7, at=100.0)
    numbered_store.journal.send(order_for(0), 0, 101.0)
    numbered_store.journal.answer("order0-0", ids=ids, failures=(), message="", at=102.0)
    numbered_store.journal.close_order("order0", "", 102.0)
    numbered_store.journal.sweep(200.0)
    assert [row["result"] for row in numbered_store.database.rows("SELECT result FROM actions")] == [result]


def test_an_override_is_in_force_once_and_until_it_ends(numbered_store: Store) -> None:
    asked = [numbered_store.overrides.ask(Verb.KEEP, who="ann", at=1.0, host="w1") for _ in range(2)]
    ended = [numbered_store.overrides.end(Verb.KEEP, who="bob", at=2.0, host="w1") for _ in range(2)]
    assert (asked, ended, numbered_store.overrides.load().keep) == ([True, False], [True, False], frozenset())


def test_overrides_are_merged_into_what_a_plan_reads(numbered_store: Store) -> None:
    numbered_store.overrides.ask(Verb.PAUSE, who="ann", at=1.0)
    numbered_store.overrides.ask(Verb.STOP_DRAIN, who="ann", at=2.0)
    assert numbered_store.overrides.load().stopped_by == "ann"
    numbered_store.overrides.ask(Verb.STOP_NOW, who="bob", at=3.0)
    numbered_store.overrides.ask(Verb.DRAIN, who="ann", at=4.0, host="w2")
    overrides = numbered_store.overrides.load()
    assert (overrides.paused, overrides.paused_by, overrides.stop, overrides.drain) == (
        True,
        "ann",
        "now",
        frozenset({"w2"}),
    )
    numbered_store.overrides.ask(Verb.KEEP, who="bob", at=5.0, host="w2")
    numbered_store.overrides.ask(Verb.KEEP, who="bob", at=6.0, host="w3")
    assert (overrides.asked_by, overrides.stopped_by) == ({"w2": "ann"}, "bob")
    assert numbered_store.overrides.load().asked_by == {"w2": "bob", "w3": "bob"}  # who is kept is not drained


def test_a_commit_of_another_process_is_noticed(numbered_store: Store, store_file: Path) -> None:
    before = numbered_store.database.changes_by_others
    other = Store.open(store_file)
    other.overrides.ask(Verb.PAUSE, who="ann", at=1.0)
    assert numbered_store.database.changes_by_others != before


def verdict(*jobs: int, code: Code = Code.HELD, waited: float = 5.0) -> JobCategoryVerdict:
    return JobCategoryVerdict(jobs, ("",) * len(jobs), JobRequest("qw"), len(jobs), False, waited, because(code))


def test_a_second_connection_in_the_process_hides_no_write_from_others(numbered_store: Store, store_file: Path) -> None:
    """The loop has one connection and the REST API another; a command that reads and ends must not delete the log of
    SQLite.
    """
    second = Store.open(store_file)
    imports = "import sys; from pathlib import Path; from autoscaler.store.store import Store"
    argv = (sys.executable, "-c", f"{imports}; s = Store.open(Path(sys.argv[1])); print(s.memory.saved_at); s.close()")
    seen = []
    for number in range(1, 4):
        numbered_store.memory.save(MEMORY, float(number))
        seen.append(
            float(subprocess.run((*argv, str(store_file)), capture_output=True, check=True, timeout=120).stdout)
        )
    second.close()
    assert seen == [1.0, 2.0, 3.0]


def test_an_ended_job_is_still_explained(numbered_store: Store) -> None:
    numbered_store.history.explain([verdict(1, 2)], 10.0)
    numbered_store.history.explain([verdict(2)], 20.0)
    explanation = numbered_store.history.explanation(1)
    assert explanation is not None
    assert (explanation.at, explanation.verdict.reason.code) == (10.0, Code.HELD)
    assert (explanation.verdict.jobs, explanation.verdict.tasks) == ((), ()), "thousands of jobs may share it"


def test_an_unchanged_explanation_is_not_written_again(numbered_store: Store) -> None:
    numbered_store.history.explain([verdict(1, 2)], 10.0)
    numbered_store.history.explain([verdict(1, 2, waited=15.0)], 20.0)
    assert len(numbered_store.database.rows("SELECT * FROM explanations")) == 1


def test_a_new_explanation_replaces_the_last_one(numbered_store: Store) -> None:
    numbered_store.history.explain([verdict(1)], 10.0)
    numbered_store.history.explain([verdict(1, code=Code.EXPIRED)], 20.0)
    explanation = numbered_store.history.explanation(1)
    assert explanation is not None
    assert explanation.verdict.reason.code is Code.EXPIRED


WORKER = Worker("i-1", LARGE, "execute", MachineState.RUNNING, 0.0, name="w1", price_per_hour=3.6)


def test_existing_machines_are_counted_by_node_array(numbered_store: Store) -> None:
    numbered_store.history.note_workers(
        [WORKER, replace(WORKER, id="i-2"), replace(WORKER, id="i-3", node_array="big")], [], 10.0
    )
    numbered_store.history.note_workers([WORKER, replace(WORKER, id="i-2", state=MachineState.TERMINATED)], [], 100.0)
    assert numbered_store.history.living()["execute"] == 1


def test_a_worker_costs_from_creation_to_end(numbered_store: Store) -> None:
    numbered_store.history.note_workers([WORKER], ["i-1"], 10.0)
    numbered_store.history.note_workers([replace(WORKER, state=MachineState.TERMINATED)], [], 100.0)
    lifetime = numbered_store.history.lifetimes()[0]
    assert (lifetime.joined_at, lifetime.seconds(500.0), round(lifetime.cost(500.0) or 0.0, 9)) == (10.0, 100.0, 0.1)


def test_a_worker_that_ended_before_the_first_listing_costs_nothing(numbered_store: Store) -> None:
    ended = replace(WORKER, state=MachineState.TERMINATED, created_at=100.0)
    for at in (5_000.0, 5_010.0):
        numbered_store.history.note_workers([ended, replace(WORKER, id="i-2")], [], at)
    costs = {life.worker_id: round(life.cost(5_010.0) or 0.0, 9) for life in numbered_store.history.lifetimes()}
    assert costs == {"i-1": 0.0, "i-2": 5.01}


def test_a_worker_missing_from_one_listing_is_alive_when_it_is_back(numbered_store: Store) -> None:
    ends = []
    for listing, at in (([WORKER], 10.0), ([], 20.0), ([WORKER], 30.0)):
        numbered_store.history.note_workers(listing, [], at)
        ends.append(numbered_store.history.lifetimes()[0].ended_at)
    assert ends == [None, 20.0, None]


@pytest.mark.parametrize("ended", (True, False), ids=("listed as ended", "no longer listed"))
def test_a_worker_ended_when_that_was_first_observed(numbered_store: Store, ended: bool) -> None:
    gone = [replace(WORKER, state=MachineState.TERMINATED)] if ended else []
    for listing, at in (([WORKER], 10.0), (gone, 20.0), (gone, 30.0)):
        numbered_store.history.note_workers(listing, [], at)
    assert numbered_store.history.lifetimes()[0].ended_at == 20.0
    assert (numbered_store.history.ended_after(19.0), numbered_store.history.ended_after(20.0)) == (
        frozenset({"i-1"}),
        frozenset(),
    )


def test_hosts_of_workers_that_have_left_are_known_by_name_unless_a_living_worker_has_it(numbered_store: Store) -> None:
    gone = [replace(WORKER, id=f"i-{name}", name=name) for name in ("w1", "w2.example.org", "w3")]
    numbered_store.history.note_workers(gone, [], 10.0)
    numbered_store.history.note_workers([replace(WORKER, id="i-new", name="w3")], [], 20.0)
    assert numbered_store.history.left(["W1.example.org", "w2", "w3", "w4"]) == ("W1.example.org", "w2")


def test_a_worker_has_the_last_listed_name(numbered_store: Store) -> None:
    for name, at in ((None, 10.0), ("w1", 20.0), (None, 30.0)):
        numbered_store.history.note_workers([replace(WORKER, name=name)], [], at)
    assert numbered_store.history.lifetimes()[0].name == "w1"


def test_passes_older_than_thirty_days_are_forgotten(numbered_store: Store) -> None:
    numbered_store.history.add_pass(1, 0.0, "pass 1", {"a": 1})
    numbered_store.history.add_pass(2, 31 * 86_400.0, "pass 2", {})
    numbered_store.forget_old(31 * 86_400.0)
    assert [found.number for found in numbered_store.history.passes()] == [2]


DAYS = 86_400.0


def override_rows(store: Store) -> list[tuple[str, float]]:
    return [(row["verb"], row["at"]) for row in store.database.rows("SELECT verb, at FROM overrides ORDER BY id")]


def test_old_ended_overrides_are_forgotten_except_those_that_still_count(numbered_store: Store) -> None:
    numbered_store.nodes.create([node()])
    numbered_store.nodes.bind("n1", "i-served")
    for verb, host in ((Verb.PAUSE, ""), (Verb.KEEP, "w1"), (Verb.DRAIN, "i-served"), (Verb.DRAIN, "i-gone")):
        numbered_store.overrides.ask(verb, who="ann", at=1.0, host=host)
        numbered_store.overrides.end(verb, who="ann", at=2.0, host=host)
    for at in (3.0, 4.0):
        numbered_store.retry(who="ann", at=at)
    numbered_store.overrides.ask(Verb.PAUSE, who="ann", at=5.0)
    numbered_store.overrides.ask(Verb.KEEP, who="ann", at=6.0, host="w2")
    numbered_store.overrides.ask(Verb.DRAIN, who="ann", at=7.0, host="w3")
    before = numbered_store.overrides.load()
    numbered_store.forget_old(40 * DAYS)
    assert override_rows(numbered_store) == [
        ("drain", 1.0),
        ("retry", 4.0),
        ("pause", 5.0),
        ("keep", 6.0),
        ("drain", 7.0),
    ]
    assert numbered_store.overrides.load() == before
    assert (
        numbered_store.overrides.ever(Verb.DRAIN, "i-served"),
        numbered_store.overrides.ever(Verb.DRAIN, "i-gone"),
    ) == (True, False)


def test_a_bounded_number_of_ended_overrides_is_kept(numbered_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.store.overrides.MOST", 10)
    for at in range(50):
        numbered_store.retry(who="a script", at=float(at))
    numbered_store.forget_old(100.0)
    assert override_rows(numbered_store) == [("retry", float(at)) for at in range(40, 50)]


def test_plans_of_actions_of_one_kind_say_how_long_they_took(numbered_store: Store) -> None:
    other = replace(DISABLE, host="w2")
    for at, actions, results in (
        (10.0, (DISABLE,), (Result.DONE,)),  # too long ago
        (100.0, (DISABLE, other), (Result.DONE, Result.DONE)),
        (200.0, (DISABLE, LAUNCH), (Result.DONE, Result.DONE)),  # of two kinds
        (300.0, (DISABLE, other), (Result.DONE, Result.FAILED)),
        (400.0, (DISABLE,), ()),  # goes on
        (500.0, (LAUNCH,), (Result.DONE,)),
    ):
        journalled = numbered_store.accept(Plan(actions, MEMORY), pass_number=7, at=at)
        for number, (each, result) in enumerate(zip(journalled, results, strict=False), start=1):
            numbered_store.journal.end(each.id, result, "", at + number * 1.5)
    assert numbered_store.journal.plans_of_one_kind(50.0) == [("disable", 2, 3.0), ("launch", 1, 1.5)]
