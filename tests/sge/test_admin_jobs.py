"""Jobs are held, deleted and rescheduled: each job gets its own outcome."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoscaler.errors import CommandTimedOut, GridEngineNotObservable, GridEngineRefused
from autoscaler.process import Completed
from autoscaler.sge.admin import Administrator, JobsOutcome
from autoscaler.sge.objects import UnusableName


class Answering:
    """A runner that always gives one answer, and records the commands."""

    def __init__(self, text: str = "", code: int = 0) -> None:
        self.text, self.code, self.calls = text, code, list[tuple[str, ...]]()

    def __call__(self, argv: Sequence[str], **_: object) -> Completed:
        self.calls.append(tuple(argv))
        return Completed(tuple(argv), self.code, self.text.encode(), b"", 0.0)


def test_a_job_that_no_longer_exists_counts_as_gone_and_the_others_as_done() -> None:
    runner = Answering('modified hold of job 4\ndenied: job "99" does not exist\n', code=3)
    assert Administrator(runner).hold(["4", "99"]) == JobsOutcome(done=("4",), gone=("99",))


def test_holding_a_held_job_is_done_though_grid_engine_prints_nothing() -> None:
    assert Administrator(Answering()).hold(["4"]) == JobsOutcome(done=("4",))


def test_hold_and_release_use_the_operator_hold_only() -> None:
    runner = Answering()
    Administrator(runner).hold(["4"])
    Administrator(runner).release(["4"])
    assert runner.calls == [("qhold", "-h", "o", "4"), ("qrls", "-h", "o", "4")]


def test_deleting_a_job_that_is_being_deleted_is_done() -> None:
    assert Administrator(Answering("job 1 is already in deletion")).delete(["1"]) == JobsOutcome(done=("1",))


def test_one_array_task_can_be_deleted() -> None:
    runner = Answering("root has deleted job-array task 2.1")
    Administrator(runner).delete(["2.1"])
    assert runner.calls == [("qdel", "2.1")]


def test_a_forced_deletion_runs_qdel_f() -> None:
    runner = Answering("root forced the deletion of job 1")
    Administrator(runner).delete(["1"], forced=True)
    assert runner.calls == [("qdel", "-f", "1")]


def test_a_task_of_a_job_that_is_gone_is_gone() -> None:
    runner = Answering('denied: job "13" does not exist', code=1)
    assert Administrator(runner).delete(["13.2", "5"]) == JobsOutcome(done=("5",), gone=("13.2",))


def test_rescheduling_a_job_that_is_not_rerunnable_is_refused_though_grid_engine_exits_0() -> None:
    words = "The job 3 is running in queue none where jobs are not rerunable."
    assert Administrator(Answering(words)).reschedule("3") == JobsOutcome(refused={"3": words})


def test_an_unknown_message_about_a_job_counts_as_a_refusal() -> None:
    assert Administrator(Answering("job 3 met something new")).delete(["3"]).refused == {"3": "job 3 met something new"}


def test_a_forced_reschedule_runs_qmod_f() -> None:
    runner = Answering("Forced rescheduling of job 3 on host w1")
    Administrator(runner).reschedule("3", forced=True)
    assert runner.calls == [("qmod", "-f", "-rj", "3")]


def test_a_context_text_stays_one_value_of_one_variable() -> None:
    runner = Answering("modified context of job 3")
    Administrator(runner).set_context(["3"], "autoscaler", "asks 100 slots, has 64\nask -pe mpi 100")
    assert runner.calls == [("qalter", "-ac", "autoscaler=asks 100 slots; has 64 ask -pe mpi 100", "3")]


def test_many_jobs_are_held_in_several_commands() -> None:
    runner = Answering()
    Administrator(runner).hold([str(number) for number in range(1, 451)])
    assert [len(call) - 3 for call in runner.calls] == [200, 200, 50]


def test_no_command_runs_for_an_empty_list_of_jobs() -> None:
    runner = Answering()
    Administrator(runner).hold([])
    assert runner.calls == []


@pytest.mark.parametrize("job", ("", "*", "12 13", "-u", "12,13", "all"))
def test_a_text_that_is_not_a_job_number_is_refused_before_any_command(job: str) -> None:
    runner = Answering()
    with pytest.raises(UnusableName):
        Administrator(runner).delete([job])
    assert runner.calls == []


def test_a_refusal_that_names_no_job_is_raised_with_grid_engines_message() -> None:
    runner = Answering('error: denied: host "w1" is neither submit nor admin host', code=1)
    with pytest.raises(GridEngineRefused, match="neither submit nor admin host"):
        Administrator(runner).hold(["4"])


def test_an_unknown_failure_never_counts_as_done() -> None:
    with pytest.raises(GridEngineRefused, match="Wrong job id list"):
        Administrator(Answering('qalter: Wrong job id list format "x" specified', code=7)).hold(["4"])


def test_an_unreachable_qmaster_is_not_a_refusal() -> None:
    runner = Answering('unable to send message to qmaster using port 6444 on host "master": got send error', code=1)
    with pytest.raises(GridEngineNotObservable):
        Administrator(runner).delete(["4"])


def test_a_timeout_of_a_command_is_raised() -> None:
    def hanging(argv: Sequence[str], **_: object) -> Completed:
        raise CommandTimedOut(" ".join(argv))

    with pytest.raises(CommandTimedOut):
        Administrator(hanging).delete(["4"])
