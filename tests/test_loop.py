"""The loop: what wakes it, what it logs, and how it ends."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Action, Disable, Enable, Launch, LaunchSet, Remove, Terminate
from autoscaler.core.limits.backoff import without_retried_failures
from autoscaler.core.model.fleet import BucketKey, FailureKind, MachineState, Worker
from autoscaler.core.model.memory import Backoff, Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.core.plan import plan
from autoscaler.core.policy import Policy
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan, Snapshot, WorkerVerdict
from autoscaler.engine.last_decision import LastDecision
from autoscaler.engine.loop import COMMANDS_SLOW, IDLE, LONG_PAUSE, MOST_WORDS, Loop, remaining
from autoscaler.engine.observe import Observation, Observer
from autoscaler.engine.operator_commands import OperatorCommand, carry_out
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.engine.systemd import Notifier
from autoscaler.engine.wakeup import Wakeup
from autoscaler.errors import GridEngineNotObservable, ProviderNotObservable, SettingsError, StateNotKept
from autoscaler.garbage import LEFT
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.store.database import Database, Role
from autoscaler.store.journal import Outcome, Result
from autoscaler.store.nodes import NodeRow
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.simulated.autoscaler import POLICY, TAG, World, start

PATIENCE = 200.0
Decide = Callable[[Snapshot], Plan]


def nothing(snapshot: Snapshot) -> Plan:
    return Plan((), replace(snapshot.memory, passes=snapshot.memory.passes + 1))


def launching(snapshot: Snapshot) -> Plan:
    """Two workers, once."""
    memory = replace(snapshot.memory, passes=snapshot.memory.passes + 1)
    bucket = next(bucket for bucket in snapshot.fleet.buckets if bucket.type.name == "m5.large")
    order = Launch("execute", (LaunchSet((bucket,), 2),), because(Code.DEMAND))
    return Plan((order,) if not snapshot.fleet.orders else (), memory)


@pytest.fixture
def one_host(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite", persistent={"w1": 2}, boot_delay=0.0)


def counting(until: int, loop_of: Callable[[], Loop], decide: Decide) -> Decide:
    """Decide as given, and stop the loop in pass `until`."""

    def decided(snapshot: Snapshot) -> Plan:
        plan = decide(snapshot)
        if plan.memory.passes >= until:
            loop_of().stop("test")
        return plan

    return decided


def looping(world: World, until: int = 3, decide: Decide = nothing) -> Loop:
    """A loop on real time that ends itself in pass `until`."""
    made: list[Loop] = []
    made.append(start(world, decide=counting(until, lambda: made[0], decide)))
    made[0].stopwatch = time.monotonic
    made[0].poll = 0.01
    return made[0]


def test_memory_passes_from_pass_to_pass(one_host: World) -> None:
    loop = looping(one_host, until=3)
    loop.run()
    assert loop.store.memory.load().passes == 2  # the third was stopped by a signal before it acted


def test_after_each_pass_it_drops_what_callers_left(one_host: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr("gc.get_count", lambda: (LEFT, 0, 0))
    monkeypatch.setattr("gc.collect", looked.append)
    looping(one_host, until=3).run()
    assert looked == [0, 0, 0]


def test_if_costs_cannot_be_stored_the_observation_is_not_either(one_host: World) -> None:
    loop = looping(one_host, until=9)

    class Refusing(PassListener):
        def keep(self, done: Pass) -> None:
            raise StateNotKept("the disk is full")

    loop.attach(Refusing())
    with pytest.raises(StateNotKept):
        loop.pass_once()
    assert loop.store.observations.load() is None


def test_a_pass_stopped_by_a_signal_begins_no_action(one_host: World) -> None:
    loop = looping(one_host, until=1, decide=launching)
    loop.run()
    assert (one_host.cloud.machines, loop.store.journal.orders(0)) == ({}, ())


def test_at_its_end_the_loop_leaves_workers_running_and_reports_their_cost(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop = looping(one_host, until=2, decide=launching)
    loop.run()
    assert (len(one_host.cloud.living("this-cell")), caplog.messages[-1]) == (
        2,
        "test: stopping; 2 workers stay, 0.192 USD an hour: fake-1, fake-2",
    )


def test_a_machine_that_was_just_terminated_is_not_counted_as_staying(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def ending(snapshot: Snapshot) -> Plan:
        plan = launching(snapshot)
        ends = tuple(Terminate(worker.id, worker.name, because(Code.IDLE)) for worker in snapshot.fleet.workers[:1])
        return replace(plan, actions=(*plan.actions, *ends))

    loop = start(one_host, decide=ending)
    loop.pass_once()
    loop.pass_once()
    loop.stop("SIGTERM")
    loop.run()
    assert caplog.messages[-1] == "SIGTERM: stopping; 1 worker stays, 0.096 USD an hour: fake-2; 1 is ending"


def test_outstanding_orders_are_reported_at_the_end(one_host: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loop = start(one_host, decide=launching)
    loop.pass_once()
    loop.stop("SIGTERM")
    loop.run()
    assert caplog.messages[-1] == "SIGTERM: stopping; no worker stays; 2 more were ordered and may come"


def test_a_process_without_an_observation_reports_the_workers_of_the_last_one_at_its_end(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = start(one_host, decide=launching)
    first.pass_once()
    first.pass_once()
    first.store.close()
    loop = start(one_host)
    loop.stop("SIGTERM")
    loop.run()
    assert caplog.messages[-1].startswith("SIGTERM: stopping; 2 workers stay, 0.192 USD an hour: ")


def test_with_a_clock_set_back_terminated_machines_are_not_supply_again(one_host: World) -> None:
    loop = start(one_host, decide=launching)
    loop.pass_once()
    loop.pass_once()
    provider = one_host.provider()
    provider.terminate([worker.id for worker in provider.workers()])
    loop.decide = lambda snapshot: Plan((), snapshot.memory)
    one_host.cloud.machines.clear()  # no listing has them any more
    one_host.clock.now += 900.0
    loop.pass_once()
    one_host.clock.now -= 880.0
    snapshot = loop.observer.observe().snapshot
    assert snapshot.fleet.orders != ()
    assert outstanding(snapshot.fleet, snapshot.policy, one_host.clock.now) == ()


def test_staying_workers_are_summed_with_known_and_unknown_prices(one_host: World) -> None:
    start(one_host, decide=launching).pass_once()
    one, two = one_host.provider().workers()
    assert remaining([one, replace(two, price_per_hour=None)], "USD") == (
        "2 workers stay, 0.096 USD an hour and 1 of unknown price: fake-1, fake-2"
    )


def test_without_an_observation_nothing_is_launched(one_host: World, caplog: pytest.LogCaptureFixture) -> None:
    one_host.cluster.unobservable = 3
    loop = looping(one_host, until=1, decide=launching)
    loop.poll = 0.02
    loop.run()
    logged = [message for message in caplog.messages if message.startswith("cannot observe")]
    assert (len(logged), one_host.cluster.unobservable, one_host.cloud.calls.count("launch")) == (1, 0, 0)


def test_on_a_full_disk_nothing_is_launched_and_one_error_is_logged(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    def filled(snapshot: Snapshot) -> Plan:
        plan = launching(snapshot)
        if plan.actions:
            attempts.append(plan)
            if len(attempts) == 3:
                loop.stop("test")
        return replace(plan, memory=replace(plan.memory, stopped={"execute": "x" * 100_000}))

    attempts: list[Plan] = []
    loop = looping(one_host, until=10, decide=filled)
    (pages,) = loop.store.database.rows("PRAGMA page_count")[0]
    loop.store.database.rows(f"PRAGMA max_page_count={pages}")
    loop.run()
    logged = [record.levelname for record in caplog.records if "disk is full" in record.message]
    assert (one_host.cloud.calls.count("launch"), len(attempts), logged) == (0, 3, ["ERROR"])


def test_an_outage_is_logged_once_and_again_when_its_kind_changes(
    one_host: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter(
        (
            GridEngineNotObservable("qstat timed out"),
            GridEngineNotObservable("qstat failed"),
            ProviderNotObservable("no answer"),
        )
    )

    def blind(_: Observer) -> Observation:
        raise next(errors)

    loop = start(one_host, decide=nothing)
    monkeypatch.setattr(Observer, "observe", blind)
    for _ in range(3):
        loop._guarded_pass()
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["qstat timed out", "no answer"]


def test_an_outage_that_goes_on_writes_the_same_words_once_at_any_level(
    one_host: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (f"{words} in {number} ms" for number in range(50) for words in ("refused", "timed out"))
    odd = (chr(ord("a") + number // 26) + chr(ord("a") + number % 26) for number in range(100))

    given = iter((*said, *odd))

    def blind(_: Observer) -> Observation:
        raise GridEngineNotObservable(next(given))

    loop = start(one_host, decide=nothing)
    monkeypatch.setattr(Observer, "observe", blind)
    caplog.set_level("DEBUG", "autoscaler.engine.loop")
    for most in (2, MOST_WORDS):
        caplog.clear()
        for _ in range(100):
            loop._guarded_pass()
        told = [record for record in caplog.records if record.message.startswith("cannot observe")]
        assert len(told) <= most


def test_a_pass_without_an_observation_keeps_the_memory(one_host: World) -> None:
    loop = start(one_host, decide=nothing)
    loop.store.memory.save(Memory(passes=5), one_host.clock.now)
    one_host.cluster.unobservable = 1
    assert (loop._guarded_pass() > 0, loop.store.memory.load().passes) == (True, 5)


def test_attempts_to_observe_again_become_rarer_up_to_the_poll(one_host: World) -> None:
    one_host.cluster.unobservable = 9
    loop = start(one_host, decide=nothing)
    assert [loop._guarded_pass() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_defect_in_one_pass_does_not_end_the_loop(one_host: World, caplog: pytest.LogCaptureFixture) -> None:
    faults = iter((ZeroDivisionError("a defect"),))

    def defective(snapshot: Snapshot) -> Plan:
        for error in faults:
            raise error
        return nothing(snapshot)

    looping(one_host, until=1, decide=defective).run()
    assert "a defect ended this pass; the next pass starts anew" in caplog.messages


def test_a_full_disk_is_logged_once_and_is_no_defect(one_host: World, caplog: pytest.LogCaptureFixture) -> None:
    def full(_: Snapshot) -> Plan:
        raise OSError(errno.ENOSPC, "No space left on device", "/etc/hosts")

    loop = start(one_host, decide=full)
    loop.attach(last := LastDecision())
    pauses = [loop._guarded_pass() for _ in range(3)]
    logged = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (len(logged), "the disk is full" in caplog.text, "Traceback" in caplog.text) == (1, True, False)
    assert (pauses[0] < pauses[2], last.unobserved.startswith("the disk is full")) == (True, True)


@pytest.mark.parametrize("error", (StateNotKept("disk I/O error"), OSError(errno.EIO, "Input/output error")))
def test_a_state_that_cannot_be_read_while_the_loop_waits_does_not_end_it(
    one_host: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    reads = iter([None, error, error])

    def changes(_: Database) -> int:
        if (failed := next(reads, None)) is not None:
            raise failed
        return 1

    monkeypatch.setattr(Database, "changes_by_others", property(changes))
    loop = looping(one_host, until=4)
    loop.run()
    assert (loop.store.memory.load().passes, next(reads, "all read")) == (3, "all read")


def test_a_state_that_was_removed_under_the_loop_is_written_anew_and_still_wakes_it(
    one_host: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def remove_once(snapshot: Snapshot) -> Plan:
        if snapshot.memory.passes == 1:
            for file in tmp_path.glob("store.sqlite*"):
                file.unlink()
        return nothing(snapshot)

    loop = looping(one_host, until=4, decide=remove_once)
    loop.store.database.role = Role.OWNER
    loop.run()
    assert [message for message in caplog.messages if "it was written anew" in message] != []
    assert loop.store.memory.load().passes == 3
    other = Store.open(tmp_path / "store.sqlite")
    loop.wakeup.wait(0.0)
    other.overrides.ask(Verb.PAUSE, who="anna", at=1.0)
    other.close()
    began = time.monotonic()
    loop.wakeup.wait(60.0)
    assert time.monotonic() - began < 50
    assert loop._others_wrote()


def test_a_command_takes_effect_by_its_number_and_not_by_the_time_it_was_given(one_host: World) -> None:
    """Its time is taken before it is stored, and the pass that holds the store meanwhile has a later one."""
    bucket = BucketKey("m5.large")
    backoff = Backoff(bucket, one_host.clock.now + 9999, 5, FailureKind.CAPACITY, "none left", one_host.clock.now)
    tripped = because(Code.CIRCUIT_BREAKER, what="removals", count=9, most=5, window_s=600.0)
    loop = start(one_host, decide=nothing)
    store, given_at = loop.store, one_host.clock.now - 30

    def remembered(**changed: object) -> None:
        memory = store.memory.load()
        store.memory.save(replace(memory, observed_at=one_host.clock.now, **changed), one_host.clock.now)  # type: ignore[arg-type]

    remembered(backoffs=(backoff,), circuit_breaker=tripped)
    carry_out(store, OperatorCommand(Verb.RETRY), who="anna", at=given_at)
    carry_out(store, OperatorCommand(Verb.RESUME), who="anna", at=given_at)
    seen = loop.observer.observe().snapshot
    assert (without_retried_failures(seen).memory.backoffs, seen.memory.circuit_breaker) == ((), None)

    one_host.clock.now += 10
    loop.pass_once()
    one_host.clock.now += 10
    remembered(backoffs=(replace(backoff, failed_at=one_host.clock.now),), circuit_breaker=tripped)
    one_host.clock.now += 10
    seen = loop.observer.observe().snapshot
    assert (len(without_retried_failures(seen).memory.backoffs), seen.memory.circuit_breaker) == (1, tripped)


def test_a_command_is_carried_out_again_if_the_pass_that_had_it_was_not_accepted(one_host: World) -> None:
    loop = start(one_host, decide=nothing)
    carry_out(loop.store, OperatorCommand(Verb.RETRY), who="anna", at=one_host.clock.now - 30)
    first = loop.observer.observe().snapshot.overrides.retried_at
    one_host.clock.now += 60
    second = loop.observer.observe().snapshot.overrides.retried_at
    assert first is not None
    assert second == first + 60
    loop.pass_once()
    one_host.clock.now += 60
    assert loop.observer.observe().snapshot.overrides.retried_at == second


def test_a_stop_that_was_resumed_meanwhile_does_not_end_the_loop(one_host: World) -> None:
    loop = start(one_host, decide=nothing)
    loop.store.overrides.ask(Verb.STOP_NOW, who="anna", at=1.0)
    loop.pass_once()
    loop.store.overrides.resume(who="anna", at=2.0)
    assert not loop._released()


def test_a_failed_thread_of_the_service_is_in_status(one_host: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "autoscaler.engine.loop.failed_threads", lambda: ("the thread lease failed and began again: x",)
    )
    loop = looping(one_host, until=2)
    loop.run()
    assert loop.store.observations.troubles() == ("the thread lease failed and began again: x",)


def test_the_last_plan_and_the_reason_for_no_newer_one_are_available(one_host: World) -> None:
    failing: list[bool] = []

    def deciding(snapshot: Snapshot) -> Plan:
        if failing:
            raise GridEngineNotObservable("qstat hangs")
        return nothing(snapshot)

    loop = start(one_host, decide=deciding)
    now = [0.0]
    loop.attach(last := LastDecision(lambda: now[0]))
    before = last.seen
    now[0] = 500.0
    assert last.quiet_s == 500.0
    loop._guarded_pass()
    assert last.quiet_s == 0.0
    first = last.seen
    assert first is not None
    assert (before, first[1], first[0].plan.memory.passes, last.unobserved) == (None, 1, 1, "")
    failing.append(True)
    now[0] = 900.0
    loop._guarded_pass()
    assert (last.seen is first, "qstat hangs" in last.unobserved, last.quiet_s) == (True, True, 0.0)
    failing.clear()
    loop._guarded_pass()
    assert (last.seen is first, last.unobserved) == (False, "")


def test_a_pass_that_acted_is_followed_soon(one_host: World) -> None:
    loop = start(one_host, decide=launching)
    assert [loop._guarded_pass(), loop._guarded_pass()] == [1.0, 10.0]


def test_a_booting_worker_is_observed_long_before_the_poll(one_host: World) -> None:
    one_host.cloud.boot_delay = 60.0
    one_host.cluster.submit(9)
    loop = start(one_host)
    loop.pass_once()
    one_host.clock.now += 1.0
    assert loop._guarded_pass() <= 1.0


def test_an_action_that_was_only_refused_is_not_repeated_at_once(one_host: World) -> None:
    def enabling(snapshot: Snapshot) -> Plan:
        return replace(nothing(snapshot), actions=(Enable("i-1", "nowhere", because(Code.JOINED)),))

    assert start(one_host, decide=enabling)._guarded_pass() == 10.0


def test_a_failing_action_is_logged_once(one_host: World, caplog: pytest.LogCaptureFixture) -> None:
    def enabling(snapshot: Snapshot) -> Plan:
        plan = nothing(snapshot)
        return replace(plan, actions=(Enable("i-1", "nowhere", because(Code.JOINED)),))

    loop = start(one_host, decide=enabling)
    for _ in range(3):
        loop.pass_once()
    assert [message.split(":")[0] for message in caplog.messages] == ["enable nowhere"]


def test_the_last_console_output_of_a_machine_that_never_joined_is_logged(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    def giving_up(snapshot: Snapshot) -> Plan:
        plan = launching(snapshot)
        lost = snapshot.fleet.workers[:1]
        ends = tuple(Terminate(worker.id, worker.name, because(Code.BOOT_TIMEOUT), FailureKind.BOOT) for worker in lost)
        return replace(plan, actions=(*plan.actions, *ends))

    loop = start(one_host, decide=giving_up)
    loop.pass_once()
    loop.pass_once()
    assert "done: never joined; it printed last: " in caplog.text


def test_a_machine_that_never_joined_is_warned_of_once_while_a_late_listing_shows_it(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    def giving_up(snapshot: Snapshot) -> Plan:
        plan = launching(snapshot)
        lost = [worker for worker in snapshot.fleet.workers[:1] if worker.exists and plan.memory.passes % 2 == 0]
        ends = tuple(Terminate(worker.id, worker.name, because(Code.BOOT_TIMEOUT), FailureKind.BOOT) for worker in lost)
        return replace(plan, actions=(*plan.actions, *ends))

    loop = start(one_host, decide=giving_up)
    loop.pass_once()
    one_host.clock.now += 101.0
    one_host.cloud.faults.listing_lag = 100.0
    for _ in range(5):
        loop.pass_once()
    assert len([message for message in caplog.messages if "never joined" in message]) == 1


def test_a_dry_run_decides_and_changes_nothing(one_host: World) -> None:
    def decide(snapshot: Snapshot) -> Plan:
        plan = launching(snapshot)
        return replace(plan, actions=(*plan.actions, Disable("i-1", "w1", because(Code.IDLE))))

    loop = start(one_host, decide=decide)
    loop.dry_run = True
    done = loop.pass_once()
    assert (
        len(done.plan.actions),
        one_host.cloud.machines,
        one_host.cluster.disabled,
        loop.store.journal.orders(0),
    ) == (
        2,
        {},
        set(),
        (),
    )


def test_an_override_wakes_the_loop(one_host: World) -> None:
    loop = looping(one_host, until=2)
    loop.poll = PATIENCE
    other = one_host.open_store()
    person = threading.Timer(0.2, lambda: other.overrides.ask(Verb.PAUSE, who="ann", at=1.0))
    person.start()
    began = time.monotonic()
    loop.run()
    person.join()
    assert time.monotonic() - began < PATIENCE / 2


class News:
    """Events arrive, or do not for this reason."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble

    @property
    def alive(self) -> bool:
        return not self.trouble


@contextmanager
def storm(loop: Loop) -> Iterator[None]:
    """Events all the time."""
    ended = threading.Event()

    def ring() -> None:
        while not ended.wait(0.05):
            loop.wakeup.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class FixedGuard:
    """A guard with fixed answers."""

    def __init__(self, pause_s: float = 0.0, times: float = 1.0, trouble: str = "") -> None:
        self.pause_s, self.times, self.reason = pause_s, times, trouble

    def pause(self, poll: float) -> float:
        return self.pause_s

    def slowed(self, poll: float) -> float:
        return poll * self.times

    def trouble(self, poll: float) -> str:
        return self.reason


def test_a_burst_of_events_waits_for_the_pause_of_qmaster(one_host: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a person's command cuts the wait short, an event does not."""
    monkeypatch.setattr("autoscaler.engine.pass_timing.PERSONS_WAIT", 0.0)
    loop = looping(one_host, until=2)
    loop.guard, loop.poll = FixedGuard(pause_s=1.5), PATIENCE
    began = time.monotonic()
    with storm(loop):
        loop.run()
    assert 1.5 <= time.monotonic() - began < PATIENCE


def test_a_command_of_a_person_hardly_waits_for_the_pause_of_qmaster(
    one_host: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.engine.pass_timing.PERSONS_WAIT", 0.0)
    loop = looping(one_host, until=2)
    loop.guard, loop.poll = FixedGuard(pause_s=PATIENCE), PATIENCE

    def pause() -> None:
        while loop._last is None:
            time.sleep(0.01)
        one_host.open_store().overrides.ask(Verb.PAUSE, who="ann", at=1.0)

    person = threading.Thread(target=pause)
    person.start()
    began = time.monotonic()
    loop.run()
    person.join()
    assert time.monotonic() - began < PATIENCE / 2


def waits_hardly_after(outcome: Outcome, one_host: World, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the pass after one with this outcome comes long before qmaster's pause is over."""
    monkeypatch.setattr("autoscaler.engine.pass_timing.PERSONS_WAIT", 0.0)
    loop = start(one_host, decide=nothing)
    loop.guard, loop.stopwatch = FixedGuard(pause_s=PATIENCE), time.monotonic
    done = loop.pass_once()
    monkeypatch.setattr(Loop, "pass_once", lambda _: replace(done, outcomes=(outcome,)))
    loop._guarded_pass()
    began = time.monotonic()
    loop._wait(0.0, at_least=0.0)
    return time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize(
    "action",
    (Disable("i-1", "w1", because(Code.IDLE)), Remove("i-1", "w1", because(Code.IDLE))),
    ids=["disabled", "removed"],
)
def test_a_worker_that_leaves_hardly_waits_for_the_pause_of_qmaster(
    one_host: World, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    """Its machine costs until a later pass terminates it."""
    assert waits_hardly_after(Outcome(action, Result.DONE), one_host, monkeypatch)


@pytest.mark.parametrize("result", (Result.DONE, Result.UNDER_WAY))
def test_a_worker_that_was_just_ordered_hardly_waits_for_the_pause_of_qmaster(
    one_host: World, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    """No pass has listed it yet, so nothing else says that it is on its way: it may be up before the pause is over."""
    order = Launch("execute", (LaunchSet((one_host.provider().buckets()[0],), 1),), because(Code.DEMAND))
    assert waits_hardly_after(Outcome(order, result), one_host, monkeypatch)


@pytest.mark.parametrize("code", (Code.BOOTING, Code.BOOTED, Code.JOINING, Code.SECOND_OBSERVATION))
def test_a_worker_on_its_way_hardly_waits_for_the_pause_of_qmaster(
    one_host: World, monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    monkeypatch.setattr("autoscaler.engine.pass_timing.PERSONS_WAIT", 0.0)
    loop = start(one_host, decide=nothing)
    loop.guard, loop.stopwatch = FixedGuard(pause_s=PATIENCE), time.monotonic
    on_its_way = [WorkerVerdict("w", "w", "wait", because(code))]
    loop._timing.pause_after(
        on_its_way, now=one_host.clock.now, took=0.01, delay=PATIENCE, due=None, acted=False, continues=False
    )
    began = time.monotonic()
    loop._wait(0.0, at_least=0.0)
    assert time.monotonic() - began < PATIENCE / 2


def test_a_long_pause_for_qmaster_is_logged_once_until_it_is_over(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    loop, guard = start(one_host, decide=nothing), FixedGuard(pause_s=3 * LONG_PAUSE)
    loop.guard = guard
    loop._report_troubles()
    loop._report_troubles()
    assert (loop._troubles, caplog.messages.count(COMMANDS_SLOW)) == ((COMMANDS_SLOW,), 1)
    loop.guard = FixedGuard()
    loop._report_troubles()
    assert loop._troubles == ()


def test_a_slow_qmaster_is_polled_less_often(one_host: World) -> None:
    loop = looping(one_host)
    loop.guard, loop.poll = FixedGuard(times=4.0), 10.0
    assert loop._guarded_pass() == 40.0


def test_with_nothing_to_scale_passes_are_rarer_while_events_arrive(one_host: World) -> None:
    loop, events = start(one_host), News()
    alone = loop._guarded_pass()
    loop.listen(events)
    with_events = loop._guarded_pass()
    events.trouble = "qevent: it fell silent"
    lost = loop._guarded_pass()
    events.trouble, loop.asks_policies = "", True
    asked = loop._guarded_pass()
    loop.asks_policies = False
    one_host.cluster.submit(slots=1)
    pending = loop._guarded_pass()
    assert ((alone, with_events, lost, asked), pending <= loop.poll) == ((10.0, IDLE * 10.0, 10.0, 10.0), True)


def test_the_reason_for_polling_is_logged_once_and_in_status_until_it_is_over(
    one_host: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop = looping(one_host, until=99)
    guard, events = FixedGuard(trouble="qmaster is slow"), News("MAX_DYN_EC is reached")
    loop.guard = guard
    loop.listen(events)
    for _ in range(2):
        loop.pass_once()
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    shown = loop.store.observations.troubles()
    guard.reason = events.trouble = ""
    loop.pass_once()
    assert (logged, shown, loop.store.observations.troubles()) == (
        ["no events of Grid Engine (MAX_DYN_EC is reached): it is polled every 0.01 s", "qmaster is slow"],
        ("no events of Grid Engine (MAX_DYN_EC is reached): it is polled every 0.01 s", "qmaster is slow"),
        (),
    )
    assert "Grid Engine is observed as usual again" in caplog.text


def test_events_wake_the_loop(one_host: World) -> None:
    loop = looping(one_host, until=3)
    loop.poll = PATIENCE
    began = time.monotonic()
    with storm(loop):
        loop.run()
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_a_signal_ends_the_loop_while_it_waits(one_host: World, number: signal.Signals) -> None:
    loop = looping(one_host, until=99)
    loop.poll = PATIENCE
    sender = threading.Timer(0.2, lambda: os.kill(os.getpid(), number))
    with loop.signals():
        sender.start()
        loop.run()
    sender.join()
    assert loop.stopped_by == number.name


@pytest.mark.parametrize(
    ("before", "sent"),
    ((signal.SIG_DFL, (signal.SIGHUP,)), (signal.SIG_IGN, (signal.SIGHUP, signal.SIGTERM))),
    ids=("as usual", "ignored"),
)
def test_a_loop_that_does_not_reload_ends_with_its_terminal_unless_it_ignores_that(
    one_host: World, before: signal.Handlers, sent: Sequence[signal.Signals]
) -> None:
    def hang_up() -> None:
        for number in sent:
            os.kill(os.getpid(), number)

    loop = looping(one_host, until=99)
    loop.poll = PATIENCE
    usual = signal.signal(signal.SIGHUP, before)
    try:
        with loop.signals(reloads=False):
            sender = threading.Timer(0.2, hang_up)
            sender.start()
            loop.run()
            sender.join()
        assert signal.getsignal(signal.SIGHUP) == before
    finally:
        signal.signal(signal.SIGHUP, usual)
    assert loop.stopped_by == sent[-1].name


def test_a_hangup_reloads_the_settings(one_host: World) -> None:
    changed = replace(POLICY, master="another")

    def reload() -> tuple[Policy, float]:
        loop.stop("test")
        return changed, 3.0

    loop = looping(one_host, until=99)
    loop.reload, loop.poll = reload, PATIENCE
    sender = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGHUP))
    with loop.signals():
        sender.start()
        loop.run()
    sender.join()
    assert (loop.observer.policy, loop.poll) == (changed, 3.0)


def test_wrong_settings_at_a_reload_keep_the_old_ones(one_host: World) -> None:
    def reload() -> tuple[Policy, float]:
        raise SettingsError("wrong")

    loop = start(one_host, decide=nothing)
    loop.reload = reload
    loop._reload()
    assert (loop.observer.policy, loop.poll) == (POLICY, 10.0)


def test_refused_settings_are_in_status_until_the_next_reload(one_host: World) -> None:
    answers = iter((SettingsError("CP_CAP_X is unknown"), None))

    def reload() -> tuple[Policy, float]:
        if (error := next(answers)) is not None:
            raise error
        return POLICY, 10.0

    loop = start(one_host, decide=nothing)
    loop.reload = reload
    loop._reload()
    loop.pass_once()
    (trouble,) = loop.store.observations.troubles()
    assert "the former ones stay in force: CP_CAP_X is unknown" in trouble
    loop._reload()
    loop.pass_once()
    assert loop.store.observations.troubles() == ()


def test_a_stop_is_fulfilled_once_no_worker_is_left(one_host: World) -> None:
    loop = looping(one_host, until=99)
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=1.0)
    loop.run()
    assert (loop.store.overrides.in_force(), loop.store.overrides.fulfilled(Verb.STOP_NOW)) == ((), True)


def test_a_stop_waits_for_an_order_that_may_have_machines(one_host: World) -> None:
    loop = looping(one_host, until=4, decide=launching)
    one_host.cloud.faults.lost_answers, one_host.cloud.faults.listing_lag = 1, 60.0
    loop.pass_once()
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=1.0)
    loop.run()
    assert loop.stopped_by == "test"


def test_an_override_for_a_host_that_is_gone_ends(one_host: World) -> None:
    loop = start(one_host, decide=nothing)
    loop.store.overrides.ask(Verb.KEEP, who="ann", at=1.0, host="w9")
    loop.store.overrides.ask(Verb.KEEP, who="ann", at=1.0, host="w1.example.org")
    loop.pass_once()
    assert loop.store.overrides.load().keep == {"w1.example.org"}


def test_systemd_is_notified_of_ready_status_and_stopping(one_host: World, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(5)
        loop = looping(one_host, until=1)
        loop.notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        loop.run()
        results = [systemd.recv(1000).decode().partition("=")[0] for _ in range(3)]
    assert results == ["READY", "STATUS", "STOPPING"]


def test_several_rings_wake_the_loop_once() -> None:
    wakeup = Wakeup()
    for _ in range(5):
        wakeup.ring()
    assert [wakeup.wait(0), wakeup.wait(0)] == [True, False]


def test_a_wakeup_works_with_many_open_files() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(min(1100, limit - 100))]
    try:
        wakeup = Wakeup()
        wakeup.ring()
        assert wakeup.wait(0)
    finally:
        for file in files:
            os.close(file)


def test_a_machine_that_failed_before_it_was_up_counts_once_against_its_bucket(one_host: World) -> None:
    class Failing(FakeProvider):
        """Its cloud accepts the launch and then fails to start the machine."""

        def workers(self) -> Sequence[Worker]:
            return [
                replace(
                    worker, state=MachineState.TERMINATED, failure=FailureKind.CAPACITY, message="no machine was left"
                )
                for worker in super().workers()
            ]

    def decide(snapshot: Snapshot) -> Plan:
        return plan(snapshot) if snapshot.fleet.orders else launching(snapshot)

    loop = start(one_host, provider=Failing(FakeSettings(), cell=TAG, cloud=one_host.cloud), decide=decide)
    for _ in range(3):
        loop.pass_once()
    failures = loop.store.journal.failures(0)
    assert [(failure.kind, failure.message) for failure in failures] == [("capacity", "no machine was left")] * 2


def test_a_machine_that_failed_after_it_was_up_counts_against_no_bucket(one_host: World) -> None:
    lost: set[str] = set()

    class Losing(FakeProvider):
        """Its cloud reports every machine that is gone as failed."""

        def workers(self) -> Sequence[Worker]:
            return [
                replace(worker, state=MachineState.TERMINATED, failure=FailureKind.CAPACITY)
                if worker.id in lost
                else worker
                for worker in super().workers()
            ]

    loop = start(one_host, provider=Losing(FakeSettings(), cell=TAG, cloud=one_host.cloud))
    loop.store.nodes.create([NodeRow(CreatedNode("n1", "execute-1", "execute", one_host.clock()))])
    for _ in range(40):
        loop.pass_once()
        one_host.cluster.advance(5.0)
        notes = loop.store.memory.load().workers
        lost |= {worker_id for worker_id, note in notes.items() if note.joined_at is not None}
    assert lost
    assert loop.store.journal.failures(0) == ()


class _Forgetting(FakeProvider):
    """A provider that is told when its notices are kept."""

    kept = 0

    def notices_kept(self) -> None:
        self.kept += 1


def test_a_provider_may_forget_its_notices_only_once_a_plan_that_has_them_is_kept(
    one_host: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = _Forgetting(FakeSettings(), cell=TAG, cloud=one_host.cloud)
    loop = start(one_host, provider=provider)
    loop.pass_once()
    assert provider.kept == 1

    def full(*_: object, **__: object) -> None:
        raise StateNotKept("the disk is full")

    monkeypatch.setattr(loop.store, "accept", full)
    with contextlib.suppress(StateNotKept):
        loop.pass_once()
    assert provider.kept == 1
