"""Actions on jobs: the reason is written first, no running job is deleted, each job has its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Hold,
    Kill,
    ProbeHost,
    Question,
    Release,
    Reschedule,
    TellWaiting,
)
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.evidence import Answer, Finding
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.engine.executors.ask import ask
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.lookup import JobsNow
from autoscaler.sge.probe_hosts import Answers
from autoscaler.store.journal import Outcome, Result
from tests.act.test_launch import Bench

PLAIN = JobRequest("qw", slots_min=100, slots_max=100, pe="mpi")
REASON = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)
SENTENCE = "no parallel environment mpi of the queues main.q takes 100 slots"


class RecordedOwners:
    """Records the owners that were notified."""

    def __init__(self) -> None:
        self.notified: list[tuple[tuple[str, ...], str]] = []

    def notify(self, jobs: Sequence[str], what: str, reason: Reason) -> str:
        self.notified.append((tuple(jobs), what))
        return ""


class JobsBench(Bench):
    """A bench whose Grid Engine gives prepared answers about jobs: by the command's first word, or first and last."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.owners = self.notified = RecordedOwners()
        self.waiting = {"12": PLAIN, "12.3-9:2": PLAIN, "13": PLAIN}
        self.restart()
        self.words: dict[str, str] = {}
        self.asked: list[tuple[str, ...]] = []
        model = self.grid_engine.answer

        def answer(argv: tuple[str, ...]) -> tuple[int, str]:
            if argv[0] in ("qconf",) or argv[:2] in (("qmod", "-d"), ("qmod", "-e")):
                return model(argv)
            self.asked.append(argv)
            return 0, self.words.get(argv[0], self.words.get(f"{argv[0]} {argv[-1]}", ""))

        self.grid_engine.answer = answer  # type: ignore[method-assign]

    def outcome(self, action: Action) -> tuple[Result, str]:
        (outcome,) = self.act(action)
        return outcome.result, outcome.message

    def programs(self) -> list[str]:
        return [argv[0] for argv in self.asked]


@pytest.fixture
def bench(tmp_path: Path) -> JobsBench:
    return JobsBench(tmp_path)


def test_the_reason_is_in_the_context_before_a_job_is_deleted(bench: JobsBench) -> None:
    bench.act(Kill(("12",), REASON, asks=(PLAIN,)))
    assert bench.asked == [("qalter", "-ac", f"autoscaler={SENTENCE}", "12"), ("qdel", "12")]


def test_a_job_that_runs_meanwhile_is_left_alone(bench: JobsBench) -> None:
    bench.running.add(12)
    result = bench.outcome(Kill(("12", "13"), REASON, asks=(PLAIN, PLAIN)))
    assert (result, bench.asked[-1]) == ((Result.REFUSED, "12: it runs now: left alone"), ("qdel", "13"))


def test_of_an_array_with_a_running_task_no_task_is_deleted(bench: JobsBench) -> None:
    bench.running.add(12)
    bench.act(Kill(("12.3-9:2",), REASON, asks=(PLAIN,)))
    assert bench.asked == []


def test_nothing_is_deleted_if_the_running_jobs_are_unknown(bench: JobsBench) -> None:
    def unknown() -> JobsNow:
        raise GridEngineNotObservable("qstat's list of running jobs is not whole")

    object.__setattr__(bench.actor._context, "jobs", unknown)
    assert (bench.outcome(Kill(("12",), REASON, asks=(PLAIN,)))[0], bench.asked) == (Result.FAILED, [])


CHANGES = (replace(PLAIN, slots_min=1), replace(PLAIN, hard=(("h_vmem", "1G"),)), replace(PLAIN, state="hqw"))
LEFT_ALONE = (Result.REFUSED, "12: it was changed meanwhile: left alone")


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("kind", (Kill, Hold))
def test_a_job_that_was_altered_since_the_observation_is_left_alone(
    kind: type[Kill | Hold], changed: JobRequest, bench: JobsBench
) -> None:
    bench.waiting["12"] = changed
    assert (bench.outcome(kind(("12",), REASON, asks=(PLAIN,))), bench.asked) == (LEFT_ALONE, [])


def test_a_job_without_its_judged_request_is_not_deleted(bench: JobsBench) -> None:
    assert (bench.outcome(Kill(("12",), REASON)), bench.asked) == (LEFT_ALONE, [])


def test_a_job_missing_from_the_listing_counts_as_gone(bench: JobsBench) -> None:
    bench.waiting.clear()
    assert (bench.outcome(Kill(("12",), REASON, asks=(PLAIN,))), bench.asked) == ((Result.DONE, "gone already: 12"), [])


def test_a_job_of_a_lost_machine_is_deleted_by_force_even_if_listed_as_running(bench: JobsBench) -> None:
    bench.running.add(12)
    bench.act(Kill(("12",), REASON, lost=True))
    assert bench.asked[-1] == ("qdel", "-f", "12")


def test_the_owner_is_notified_before_the_deletion(bench: JobsBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.notified, "notify", lambda *_: bench.asked.append(("notice",)))
    bench.act(Kill(("12",), REASON, asks=(PLAIN,)))
    assert bench.programs() == ["qalter", "notice", "qdel"]


def test_the_owner_is_notified_only_of_deleted_jobs(bench: JobsBench) -> None:
    bench.running.add(13)
    bench.act(Kill(("12", "13"), REASON, asks=(PLAIN, PLAIN)))
    assert bench.notified.notified == [(("12",), "deleted")]


def test_deleting_a_job_that_is_gone_already_is_done(bench: JobsBench) -> None:
    bench.words = {"qalter": 'denied: job "12" does not exist', "qdel": 'denied: job "12" does not exist'}
    assert bench.outcome(Kill(("12",), REASON, asks=(PLAIN,))) == (Result.DONE, "gone already: 12")


def test_a_job_whose_context_cannot_be_written_is_not_deleted(bench: JobsBench) -> None:
    bench.words = {"qalter": "error: commlib error: got select error"}
    assert (bench.outcome(Kill(("12",), REASON, asks=(PLAIN,)))[0], bench.programs()) == (Result.FAILED, ["qalter"])


def test_holding_writes_the_reason_and_notifies_the_owner(bench: JobsBench) -> None:
    bench.act(Hold(("12", "13"), REASON))
    assert (bench.programs(), bench.asked[-1], bench.notified.notified) == (
        ["qalter", "qhold"],
        ("qhold", "-h", "o", "12", "13"),
        [(("12", "13"), "held")],
    )


def test_releasing_removes_only_the_operator_hold(bench: JobsBench) -> None:
    bench.act(Release(("12",), REASON))
    assert bench.asked[-1] == ("qrls", "-h", "o", "12")


def test_annotating_runs_one_command_with_each_job_once(bench: JobsBench) -> None:
    bench.act(Annotate(("12.1-5:2", "12.9", "13"), REASON))
    assert [argv[3:] for argv in bench.asked] == [("12", "13")]


def test_why_jobs_wait_is_written_by_one_command(bench: JobsBench) -> None:
    bench.act(TellWaiting(("12", "13"), because(Code.CAPPED, cap="max_workers")))
    text = "it waits for a worker: the limit max_workers is reached (sge-autoscaler explain JOB says more)"
    assert bench.asked == [("qalter", "-ac", f"autoscaler={text}", "12", "13")]


def test_why_jobs_wait_is_removed_by_one_command(bench: JobsBench) -> None:
    bench.act(TellWaiting(("12", "13"), because(Code.WAITS_NO_MORE), over=True))
    assert bench.asked == [("qalter", "-dc", "autoscaler", "12", "13")]


def test_writing_the_context_of_a_job_that_ended_meanwhile_is_done(bench: JobsBench) -> None:
    bench.words = {"qalter": 'modified context of job 12\ndenied: job "13" does not exist'}
    notified = bench.outcome(TellWaiting(("12", "13"), because(Code.CAPPED, cap="max_workers")))
    assert notified == (Result.DONE, "gone already: 13")


def test_a_refused_change_of_a_context_is_the_outcome(bench: JobsBench) -> None:
    bench.words = {"qalter": "error: denied: job 12 is not yours"}
    assert bench.outcome(Annotate(("12",), REASON))[0] is Result.REFUSED


def test_the_outcome_has_the_result_of_each_job(bench: JobsBench) -> None:
    """With the cause of each task of a job that refused it."""
    lines = ("modified context of job 12", 'denied: job "13" does not exist', "error: denied: job 14 is not yours")
    bench.words = {"qalter": "\n".join(lines)}
    assert bench.outcome(Annotate(("12", "13.2", "14.1", "14.7"), REASON)) == (
        Result.REFUSED,
        "14.1: error: denied: job 14 is not yours; 14.7: error: denied: job 14 is not yours; gone already: 13.2",
    )


def test_the_owner_is_not_notified_of_a_job_that_is_gone(bench: JobsBench) -> None:
    bench.words = {"qalter 13": 'denied: job "13" does not exist', "qdel": "root has deleted job 12"}
    bench.act(Kill(("12", "13"), REASON, asks=(PLAIN, PLAIN)))
    assert bench.notified.notified == [(("12",), "deleted")]


def test_jobs_are_rescheduled_one_by_one_and_a_refusal_does_not_prevent_the_others(bench: JobsBench) -> None:
    bench.words = {"qmod 12": "The job 12 is running in queue none where jobs are not rerunable."}
    result = bench.outcome(Reschedule(("12", "13"), "i-1", "w1", REASON))
    pushed = [argv for argv in bench.asked if argv[0] == "qmod"]
    assert (result, pushed) == (
        (Result.REFUSED, "12: The job 12 is running in queue none where jobs are not rerunable."),
        [("qmod", "-rj", "12"), ("qmod", "-rj", "13")],
    )


def test_a_forced_reschedule_runs_qmod_f(bench: JobsBench) -> None:
    bench.act(Reschedule(("12.3",), "i-1", "w1", REASON, forced=True))
    assert bench.asked[-1] == ("qmod", "-f", "-rj", "12.3")


def test_outcomes_of_a_job_are_found_by_its_number(bench: JobsBench) -> None:
    bench.act(Hold(("12", "13"), REASON), Kill(("12.3-9:2",), REASON, asks=(PLAIN,)), Annotate(("112",), REASON))
    assert [row["kind"] for row in bench.store.journal.outcomes_of_job(12)] == ["kill", "hold"]


# -- asking ----------------------------------------------------------------------------------------------------------

ASK = AskGridEngine((Question(12, "a"), Question(13, "b")), (ProbeHost("main.q", 2, ()),), REASON)


def test_answers_become_evidence_with_their_questions(bench: JobsBench) -> None:
    words = 'Job 12 cannot run in PE "mpi" because it only offers 2 slots\nverification: no suitable queues'
    bench.words = {"qalter": f"{words}\nverification: found suitable queue(s)"}
    outcome = bench.outcome(ASK)
    assert (outcome, bench.store.evidence.load(0).answers) == (
        (Result.DONE, "1 impossible, 1 possible"),
        {
            12: Finding(12, "a", bench.now, Answer.UNSATISFIABLE, words.replace("\n", "; ")),
            13: Finding(13, "b", bench.now, Answer.SATISFIABLE, "verification: found suitable queue(s)"),
        },
    )


def test_missing_answers_are_stored_and_the_action_has_failed(bench: JobsBench) -> None:
    result, message = bench.outcome(ASK)
    kept = [finding.answer for finding in bench.store.evidence.load(0).answers.values()]
    assert (result, kept, message) == (
        Result.FAILED,
        [Answer.NONE, Answer.NONE],
        "2 unanswered; no answer: Grid Engine printed nothing",
    )


def test_probe_hosts_that_stay_are_told_beside_the_answers(bench: JobsBench) -> None:
    class Stays:
        def ask(self, jobs: Sequence[int], hosts: Sequence[ProbeHost]) -> Answers:
            return Answers(dict.fromkeys(jobs, (Answer.SATISFIABLE, "")), "denied: still in use")

    outcome = ask(ASK, replace(bench.context, scheduler=Stays()))  # type: ignore[arg-type]
    assert (outcome.result, outcome.message) == (
        Result.DONE,
        "2 possible; probe hosts stay for now: denied: still in use",
    )


def test_probe_hosts_of_an_earlier_process_are_swept_before_the_first_action(bench: JobsBench) -> None:
    bench.grid_engine.hosts["sge-autoscaler-probe-1"] = "slots=4"
    outcomes: list[Outcome] = bench.act()
    assert (outcomes, bench.grid_engine.hosts) == ([], {})


def test_a_swept_cell_is_not_swept_again(bench: JobsBench) -> None:
    bench.act()
    before = len(bench.grid_engine.calls)
    bench.act()
    assert len(bench.grid_engine.calls) == before
