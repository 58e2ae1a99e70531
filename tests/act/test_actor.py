"""Actions are carried out in order, each with its own outcome; a failure does not prevent the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from autoscaler.background import on_thread
from autoscaler.core.actions import Disable, Enable, Enrol, Numbered, Remove, Renumber, Terminate
from autoscaler.core.model.fleet import FailureKind, InstanceType, MachineState, OrderState, Worker
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.workers.phases import Phase
from autoscaler.engine.actor import LATER, REMOVING_FOR, Actor
from autoscaler.engine.cell_lease import LeaseNotHeld
from autoscaler.engine.executors import together
from autoscaler.errors import CommandTimedOut, LockHeld
from autoscaler.providers.interface import Launched, LaunchOrder, Refused, Unreachable
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.store.journal import Result
from autoscaler.store.observations import LastObservation, SeenWorker
from tests.act.test_launch import Bench, launch
from tests.sge.grid_engine_model import Killed
from tests.simulated.executor import Value, at_once

REASON = because(Code.IDLE)


def enrol(worker: str, host: str) -> Enrol:
    return Enrol(worker, host, "execute", "main.q", "@allhosts", 2, (), REASON)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two workers, `fake-1` enrolled and `fake-2` not."""
    bench = Bench(tmp_path)
    bench.act(launch("m5.large"))
    bench.act(enrol("fake-000001", "fake-1"))
    return bench


def results(bench: Bench, *actions: object) -> list[tuple[str, Result]]:
    outcomes = bench.act(*actions)  # type: ignore[arg-type]
    return [(type(outcome.action).__name__, outcome.result) for outcome in outcomes]


def test_an_enrolled_host_is_disabled(bench: Bench) -> None:
    assert (bench.grid_engine.slots, bench.grid_engine.disabled) == ({"fake-1": 2}, {"fake-1"})


def test_enabling_and_disabling_are_done_in_grid_engine(bench: Bench) -> None:
    bench.act(Enable("fake-000001", "fake-1", REASON))
    enabled = bench.grid_engine.can_start_jobs("fake-1")
    bench.act(Disable("fake-000001", "fake-1", REASON))
    assert (enabled, bench.grid_engine.can_start_jobs("fake-1")) == (True, False)


def test_only_the_queues_of_an_enabling_are_enabled_also_beside_another_one(bench: Bench) -> None:
    asked: list[str] = []

    def answer(argv: Sequence[str]) -> tuple[int, str]:
        asked.extend(argv[2:] if argv[:2] == ("qmod", "-e") else ())
        return 0, ""

    bench.grid_engine.answer = answer  # type: ignore[method-assign]
    some = Enable("fake-000001", "fake-1", REASON, ("main.q", "more.q"))
    bench.act(some, Enable("fake-000002", "fake-2", REASON))
    assert asked == ["main.q@fake-1", "more.q@fake-1", "*@fake-2"]


NUMBERED = Renumber("main.q", (Numbered("fake-1", 20_001), Numbered("fake-2", 20_000)), REASON)


def edits_of_numbers(bench: Bench) -> list[tuple[str, ...]]:
    return [call for call in bench.grid_engine.calls if call[:4] == ("qconf", "-rattr", "queue", "seq_no")]


def test_workers_get_other_sequence_numbers_by_one_edit_which_can_be_repeated(bench: Bench) -> None:
    done = results(bench, NUMBERED, NUMBERED)
    assert (done, bench.grid_engine.seq_nos) == (
        [("Renumber", Result.DONE)] * 2,
        {"fake-1": 20_001, "fake-2": 20_000},
    )
    assert (
        edits_of_numbers(bench)
        == [("qconf", "-rattr", "queue", "seq_no", "[fake-1=20001],[fake-2=20000]", "main.q")] * 2
    )


def test_numbers_that_grid_engine_refuses_are_said_and_hold_nothing_up(bench: Bench) -> None:
    ask = bench.grid_engine.answer

    def refuse(argv: tuple[str, ...]) -> tuple[int, str]:
        refused = argv[:4] == ("qconf", "-rattr", "queue", "seq_no")
        return (1, 'can\'t resolve hostname "fake-2"') if refused else ask(argv)

    bench.grid_engine.answer = refuse  # type: ignore[method-assign]
    outcomes = bench.act(NUMBERED, Enable("fake-000001", "fake-1", REASON))
    assert [outcome.result for outcome in outcomes] == [Result.REFUSED, Result.DONE]
    assert "can't resolve hostname" in outcomes[0].message
    assert bench.grid_engine.seq_nos == {}


def test_an_empty_host_is_removed(bench: Bench) -> None:
    done = results(bench, Remove("fake-000001", "fake-1", REASON))
    assert (done, list(bench.grid_engine.hosts)) == ([("Remove", Result.DONE)], [])


def test_a_busy_host_is_not_removed_and_its_machine_is_kept(bench: Bench) -> None:
    bench.grid_engine.busy.add("fake-1")
    outcome = bench.act(Remove("fake-000001", "fake-1", REASON))[0]
    kept = (bench.grid_engine.slots, bench.grid_engine.members, len(bench.cloud.living("tag")))
    assert (outcome.result, "still referenced" in outcome.message, kept) == (
        Result.REFUSED,
        True,
        ({"fake-1": 2}, ["fake-1"], 2),
    )


def test_a_host_without_a_worker_of_ours_is_never_removed(bench: Bench) -> None:
    done = results(bench, Remove("somebody", "fake-1", REASON))
    assert (done, list(bench.grid_engine.hosts)) == ([("Remove", Result.REFUSED)], ["fake-1"])


def test_a_removal_that_died_halfway_restores_slots_and_host_group(bench: Bench) -> None:
    bench.grid_engine.members.clear()
    bench.grid_engine.slots.clear()
    bench.grid_engine.reserved.add("fake-1")
    bench.act(Remove("fake-000001", "fake-1", REASON))
    assert (bench.grid_engine.slots, bench.grid_engine.members) == ({"fake-1": 2}, ["fake-1"])


@pytest.fixture
def several(bench: Bench) -> Bench:
    """Four workers enrolled."""
    bench.act(launch("m5.large"))
    bench.act(*(enrol(f"fake-00000{number}", f"fake-{number}") for number in (2, 3, 4)))
    bench.grid_engine.calls.clear()
    return bench


def removals(*numbers: int) -> list[Remove]:
    return [Remove(f"fake-00000{number}", f"fake-{number}", REASON) for number in numbers]


def test_several_workers_are_removed_with_few_commands(several: Bench) -> None:
    done = results(several, *removals(1, 2, 3, 4))
    edits = [call[1] for call in several.grid_engine.calls if call[1] in ("-dattr", "-de")]
    assert (done, several.grid_engine.hosts, edits) == ([("Remove", Result.DONE)] * 4, {}, ["-dattr", "-de"])


def test_in_a_removal_of_several_a_busy_host_and_a_foreign_host_are_refused(several: Bench) -> None:
    several.grid_engine.busy.add("fake-2")
    outcomes = several.act(*removals(1, 2), Remove("somebody", "fake-3", REASON), *removals(4))
    assert [outcome.result for outcome in outcomes] == [Result.DONE, Result.REFUSED, Result.REFUSED, Result.DONE]
    assert [outcome.action for outcome in outcomes][1:3] == [*removals(2), Remove("somebody", "fake-3", REASON)]
    assert ("still referenced" in outcomes[1].message, "no worker somebody" in outcomes[2].message) == (True, True)
    assert several.grid_engine.slots == {"fake-2": 2, "fake-3": 2}


def test_two_workers_of_one_name_are_removed_one_after_the_other(several: Bench) -> None:
    done = results(several, *removals(1), Remove("fake-000002", "fake-1", REASON), *removals(3))
    assert (done, list(several.grid_engine.hosts)) == ([("Remove", Result.DONE)] * 3, ["fake-2", "fake-4"])


def test_a_machine_is_terminated(bench: Bench) -> None:
    done = results(bench, Terminate("fake-000002", "fake-2", REASON))
    living = [machine.id for machine in bench.cloud.living("tag")]
    assert (done, living) == ([("Terminate", Result.DONE)], ["fake-000001"])


def test_terminating_a_machine_that_never_joined_records_its_console_and_a_failure(bench: Bench) -> None:
    outcome = bench.act(Terminate("fake-000002", "fake-2", REASON, failure=FailureKind.BOOT))[0]
    failure = bench.store.journal.failures(0)[0]
    assert (outcome.message, failure.kind, failure.bucket.instance_type) == (
        "never joined; it printed last: fake-2 booted",
        "boot",
        "m5.large",
    )
    assert failure.order_id == bench.store.journal.orders(0)[0].id


@pytest.mark.parametrize("defect", (KeyError("Output"), UnicodeError("odd bytes"), Unreachable("no answer")))
def test_a_console_that_raises_keeps_no_machine_from_being_ended(bench: Bench, defect: Exception) -> None:
    def raises(worker_id: str) -> str:
        raise defect

    bench.provider.console = raises  # type: ignore[method-assign]
    never = [Terminate(f"fake-00000{n}", f"fake-{n}", REASON, failure=FailureKind.BOOT) for n in (1, 2)]
    outcomes = bench.act(*never)
    assert [outcome.result for outcome in outcomes] == [Result.DONE, Result.DONE]
    assert (bench.cloud.living("tag"), "cannot be read" in outcomes[0].message) == ([], True)


def test_a_defect_in_one_call_does_not_keep_the_others_of_its_thread(bench: Bench) -> None:
    """Each of ten machines that never joined is ended by a call of its own, on fewer threads."""
    asked = list[str]()

    def terminate(ids: Sequence[str]) -> None:
        asked.extend(ids)
        if "i-0" in ids:
            raise KeyError("State")

    bench.provider.terminate = terminate  # type: ignore[method-assign]
    outcomes = bench.act(*(Terminate(f"i-{n}", None, REASON, failure=FailureKind.BOOT) for n in range(10)))
    failed = [o.action.worker_id for o in outcomes if o.result is Result.FAILED and isinstance(o.action, Terminate)]
    assert (sorted(asked), failed) == ([f"i-{n}" for n in range(10)], ["i-0"])


def test_only_machines_without_an_answer_have_failed_to_end(bench: Bench) -> None:
    def terminate(ids: Sequence[str]) -> None:
        error = Unreachable("fake-000002 is not visible yet")
        error.ids = ("fake-000002",)
        raise error

    bench.provider.terminate = terminate  # type: ignore[method-assign]
    done = results(bench, Terminate("fake-000001", "fake-1", REASON), Terminate("fake-000002", "fake-2", REASON))
    assert done == [("Terminate", Result.DONE), ("Terminate", Result.FAILED)]


def test_a_termination_without_an_answer_has_failed_and_can_be_repeated(bench: Bench) -> None:
    bench.cloud.faults.unreachable = 1
    bench.provider.workers = list  # type: ignore[method-assign] # the listing would use the fault up
    first = results(bench, Terminate("fake-000002", "fake-2", REASON))
    second = results(bench, Terminate("fake-000002", "fake-2", REASON))
    assert (first, second) == ([("Terminate", Result.FAILED)], [("Terminate", Result.DONE)])


def test_the_failure_of_one_action_does_not_prevent_the_next(bench: Bench) -> None:
    ask = bench.grid_engine.answer

    def hang(argv: Sequence[str]) -> tuple[int, str]:
        if argv == ("qmod", "-e", "*@fake-1"):
            raise CommandTimedOut("qmod did not end within 30 s")
        return ask(tuple(argv))

    bench.grid_engine.answer = hang  # type: ignore[method-assign]
    done = results(bench, Enable("fake-000001", "fake-1", REASON), enrol("fake-000002", "fake-2"))
    assert done == [("Enable", Result.FAILED), ("Enrol", Result.DONE)]


def test_a_stop_begins_no_further_action(bench: Bench) -> None:
    turns = iter((True, False))
    outcomes = bench.act(
        Disable("fake-000001", "fake-1", REASON),
        Remove("fake-000001", "fake-1", REASON),
        carry_on=lambda: next(turns),
    )
    assert ([outcome.result for outcome in outcomes], list(bench.grid_engine.hosts)) == (
        [Result.DONE, Result.NOT_BEGUN],
        ["fake-1"],
    )


def test_removals_that_take_long_leave_the_rest_to_a_later_pass(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches for jobs that came meanwhile wait for that pass. Disabling is quick, and goes on."""
    monkeypatch.setattr(together, "REMOVED_AT_ONCE", 1)
    bench.act(enrol("fake-000002", "fake-2"))
    times = iter((0.0, REMOVING_FOR + 0.1))
    bench.actor = Actor(bench.context, patience=0.0, stopwatch=lambda: next(times))
    leave = [Remove(f"fake-00000{number}", f"fake-{number}", REASON) for number in (1, 2)]
    outcomes = bench.act(*leave, Disable("fake-000002", "fake-2", REASON))
    assert [(outcome.result, outcome.message == LATER) for outcome in outcomes] == [
        (Result.DONE, False),
        (Result.NOT_BEGUN, True),
        (Result.DONE, False),
    ]
    assert list(bench.grid_engine.hosts) == ["fake-2"]


def test_every_outcome_is_in_the_journal(bench: Bench) -> None:
    bench.act(Disable("fake-000001", "fake-1", REASON), Remove("fake-000001", "fake-1", REASON))
    found = [(row["kind"], row["result"]) for row in bench.store.journal.outcomes_of("fake-1")]
    assert found == [("remove", "done"), ("disable", "done"), ("enrol", "done")]


@pytest.mark.parametrize("defect", (None, RuntimeError("no such attribute")), ids=("sound", "with a defect"))
def test_a_defect_of_a_provider_is_logged_and_still_wakes_the_loop(
    bench: Bench, caplog: pytest.LogCaptureFixture, defect: Exception | None
) -> None:
    """It counts as no answer: the order stays open, and is repeated."""
    woken: list[None] = []
    bench.restart(on_late=lambda: woken.append(None))
    give = bench.provider.launch

    def launch_(order: LaunchOrder) -> Launched:
        if defect is not None:
            raise defect
        return give(order)

    bench.provider.launch = launch_  # type: ignore[method-assign]
    bench.act(launch("m5.large"))
    found = ["its contract does not allow" in record.message for record in caplog.records if record.exc_info]
    assert (found, len(woken)) == ([] if defect is None else [True], 1)
    assert (OrderState.SENT in bench.states) is (defect is not None)


def test_a_termination_under_way_is_not_repeated_and_the_journal_records_that(tmp_path: Path) -> None:
    bench, answer = Bench(tmp_path, on_thread), Event()
    calls: list[Sequence[str]] = []

    def terminate(ids: Sequence[str]) -> None:
        calls.append(ids)
        answer.wait(60)

    bench.provider.terminate = terminate  # type: ignore[method-assign]
    for _ in range(2):
        bench.act(Terminate("i-1", "w1", REASON))
    found = [(row["result"], row["message"]) for row in bench.store.journal.outcomes_of("w1")]
    answer.set()
    bench.actor.finish(60)
    assert (len(calls), found[0]) == (1, (Result.UNDER_WAY, "requested by an earlier pass"))


def test_workers_that_never_joined_are_terminated_by_at_most_eight_threads(tmp_path: Path) -> None:
    """The console of each is read first, which is slow."""
    threads: list[str] = []

    def executor(call: Callable[[], Value], name: str) -> Future[Value]:
        threads.extend([name] if name.startswith("provider-") else [])
        return at_once(call, name)

    bench = Bench(tmp_path, executor)
    counts = []
    for first, count in ((0, 1), (1, 3), (10, 20)):
        threads.clear()
        bench.act(
            *(Terminate(f"i-{first + number}", None, REASON, failure=FailureKind.BOOT) for number in range(count))
        )
        counts.append(len(threads))
    assert counts == [1, 3, 8]


class TestTerminatingMany:
    """Few calls are made, and a machine that the provider refuses does not prevent the others."""

    def terminations(
        self, bench: Bench, count: int, *, protected: str = ""
    ) -> tuple[list[list[str]], dict[str, Result]]:
        """The calls that the provider got, and the outcome of each."""
        calls: list[list[str]] = []

        def terminate(ids: Sequence[str]) -> None:
            calls.append(list(ids))
            if protected in ids:
                raise Refused(f"{protected} is protected")

        bench.provider.terminate = terminate  # type: ignore[method-assign]
        actions = [Terminate(f"i-{number}", None, REASON) for number in range(count)]
        outcomes = bench.act(*actions)
        return calls, {outcome.action.worker_id: outcome.result for outcome in outcomes}  # type: ignore[union-attr]

    def test_a_thousand_terminations_take_eight_calls(self, bench: Bench) -> None:
        calls, results = self.terminations(bench, 1000)
        assert (len(calls), len({each for call in calls for each in call})) == (8, 1000)
        assert set(results.values()) == {Result.DONE}

    def test_a_hundred_terminations_take_two_calls(self, bench: Bench) -> None:
        calls, _ = self.terminations(bench, 100)
        assert sorted(map(len, calls)) == [50, 50]

    def test_a_refused_termination_does_not_prevent_the_others(self, bench: Bench) -> None:
        calls, results = self.terminations(bench, 100, protected="i-42")
        assert [name for name, result in results.items() if result is not Result.DONE] == ["i-42"]
        assert results["i-42"] is Result.REFUSED
        assert len(calls) < 20

    def test_the_journal_counts_consecutive_refusals_of_a_termination(self, bench: Bench) -> None:
        for _ in range(3):
            self.terminations(bench, 2, protected="i-1")
        (found,) = bench.store.journal.refused_ends()
        assert (found.worker_id, found.times, found.message) == ("i-1", 3, "i-1 is protected")
        self.terminations(bench, 2)
        assert bench.store.journal.refused_ends() == ()

    def test_status_reports_a_stopped_machine_until_it_is_gone(self, bench: Bench) -> None:
        kind = InstanceType("m5.large", "m5", 2, 8 * 1024**3)
        up = Worker("i-1", kind, "execute", MachineState.RUNNING, 100.0, "w1", message="anything")
        stopped = replace(
            up,
            state=MachineState.PENDING,
            failure=FailureKind.BOOT,
            message="it is stopped, and its disks are paid for",
        )
        found = []
        for worker in (up, stopped, replace(stopped, state=MachineState.TERMINATED)):
            bench.store.observations.keep(
                LastObservation("fake", workers=(SeenWorker(worker, Phase.READY, "w1"),)), 1000.0
            )
            now = Now(2000.0, "cell", "fake", serving=True, holder=None)
            found.append(dict(status_pairs(status(bench.store, now))).get("failed"))
        assert found == [None, "w1: it is stopped, and its disks are paid for", None]

    def test_status_reports_a_refused_termination_until_it_succeeds(self, bench: Bench) -> None:
        bench.store.history.note_workers(
            [Worker("i-1", InstanceType("m5.large", "m5", 2, 8 * 1024**3), "execute", MachineState.RUNNING, 100.0)],
            [],
            1000.0,
        )
        found = []
        for protected in ("i-1", "i-1", ""):
            self.terminations(bench, 2, protected=protected)
            now = Now(2000.0, "cell", "fake", serving=True, holder=None)
            found.append(dict(status_pairs(status(bench.store, now))).get("not ended"))
        assert found[0] is not None
        assert found[0].startswith("i-1, refused once, last at ")
        assert [each and each.partition(", last")[0] for each in found] == [
            "i-1, refused once",
            "i-1, refused 2 times",
            None,
        ]
        assert found[0].endswith(": i-1 is protected")


MANY = tuple((f"fake-{number:06d}", f"fake-{number}") for number in range(1, 201))


def commands(bench: Bench, *words: str) -> int:
    return sum(call[: len(words)] == words for call in bench.grid_engine.calls)


def test_200_workers_join_with_two_edits_of_the_host_group_and_two_of_the_queue(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outcomes = bench.act(*(enrol(*each) for each in MANY))
    assert ({outcome.result for outcome in outcomes}, len(outcomes), len(bench.grid_engine.members)) == (
        {Result.DONE},
        200,
        200,
    )
    assert (commands(bench, "qconf", "-aattr", "hostgroup"), commands(bench, "qconf", "-rattr", "queue")) == (2, 2)


def test_each_of_several_enrolments_has_its_own_outcome_in_the_journal(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.grid_engine.hosts["fake-2"] = "slots=2"
    outcomes = bench.act(*(enrol(*each) for each in MANY[:3]))
    assert [(outcome.action.host, outcome.message) for outcome in outcomes if isinstance(outcome.action, Enrol)] == [
        ("fake-1", ""),
        ("fake-2", "was enrolled already"),
        ("fake-3", ""),
    ]
    assert all(bench.store.journal.carried_out(Enrol.kind, worker, bench.now) for worker, _ in MANY[:3])


def test_a_refused_enrolment_among_several_has_grid_engines_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    add = bench.grid_engine.add_host

    def unresolved(text: str) -> tuple[int, str]:
        return (1, 'can\'t resolve hostname "fake-2"') if text.split()[1] == "fake-2" else add(text)

    bench.grid_engine.add_host = unresolved  # type: ignore[method-assign]
    outcomes = bench.act(*(enrol(*each) for each in MANY[:3]))
    assert [outcome.result for outcome in outcomes] == [Result.DONE, Result.REFUSED, Result.DONE]
    assert "can't resolve hostname" in outcomes[1].message


@pytest.mark.parametrize("after", range(1, 6))
def test_an_enrolment_of_several_that_was_killed_is_completed_by_the_next_process(tmp_path: Path, after: int) -> None:
    bench = Bench(tmp_path)
    bench.grid_engine.dies_after = after
    with pytest.raises(Killed):
        bench.act(*(enrol(*each) for each in MANY[:5]))
    done = [bench.store.journal.carried_out(Enrol.kind, worker, bench.now) for worker, _ in MANY[:5]]
    bench.grid_engine.dies_after = None
    bench.restart()
    outcomes = bench.act(*(enrol(*each) for each in MANY[:5]))
    assert (any(done), {outcome.result for outcome in outcomes}) == (False, {Result.DONE})
    assert (bench.grid_engine.startable, set(bench.grid_engine.slots.values())) == ([], {2})


def test_an_unreachable_qmaster_is_asked_once_for_several_enrolments(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.grid_engine.answer = lambda argv: (1, "error: commlib error: got select error")  # type: ignore[method-assign]
    outcomes = bench.act(*(enrol(*each) for each in MANY[:5]))
    asked = [call for call in bench.grid_engine.calls if call[1] == "-Ae"]
    assert ({outcome.result for outcome in outcomes}, len(asked)) == ({Result.FAILED}, 1)


def lost() -> None:
    raise LockHeld("another autoscaler has taken this cell over: process 22 of anna on shadow")


def away() -> None:
    raise LeaseNotHeld("the cell's lease could not be renewed in time")


@pytest.mark.parametrize("forbidden", (lost, away))
def test_without_the_lease_no_action_is_begun(bench: Bench, forbidden: Callable[[], None]) -> None:
    """Also those of a pass that is under way: another autoscaler may have begun to act."""
    bench.may_act = forbidden
    bench.grid_engine.calls.clear()
    launched = bench.cloud.calls.count("launch")
    actions = (Enable("fake-000001", "fake-1", REASON), Terminate("fake-000002", None, REASON), launch("m5.large"))
    outcomes = {type(one.action).__name__: (one.result, one.message) for one in bench.act(*actions)}
    assert {name: result for name, (result, _) in outcomes.items()} == dict.fromkeys(
        ("Enable", "Terminate", "Launch"), Result.NOT_BEGUN
    )
    assert "lease" in outcomes["Enable"][1] or "taken this cell over" in outcomes["Enable"][1]
    assert (bench.grid_engine.calls, bench.cloud.calls.count("launch")) == ([], launched)
    assert len(bench.cloud.living("tag")) == 2


def test_a_lease_that_is_lost_between_two_actions_ends_the_pass(bench: Bench) -> None:
    asked: list[None] = []

    def at_the_second() -> None:
        asked.append(None)
        if len(asked) > 2:  # before the pass, and before its first action
            lost()

    bench.may_act = at_the_second
    done = results(bench, Enable("fake-000001", "fake-1", REASON), Remove("fake-000001", "fake-1", REASON))
    assert done == [("Enable", Result.DONE), ("Remove", Result.NOT_BEGUN)]


def test_a_call_that_begins_late_is_not_made_without_the_lease(tmp_path: Path) -> None:
    """It waited for a thread, or is an order that is requested again."""
    late: list[Callable[[], object]] = []

    def later(call: Callable[[], Value], name: str) -> Future[Value]:
        future: Future[Value] = Future()
        late.append(lambda: future.set_result(call()))
        return future

    bench = Bench(tmp_path, executor=later)
    bench.act(launch("m5.large"), Terminate("fake-000009", None, REASON))
    assert len(late) == 2
    bench.may_act = lost
    for call in late:
        call()
    assert (bench.cloud.calls.count("launch"), bench.cloud.calls.count("terminate")) == (0, 0)
    assert bench.states == [OrderState.SENT]
