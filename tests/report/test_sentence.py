"""One sentence a pass: short, complete, and the same for passes without news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoscaler.core.actions import AskGridEngine, Enrol, Hold, Kill, Question, Remove, Reschedule, Terminate
from autoscaler.core.model.fleet import FailureKind
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import JobCategoryVerdict, Plan
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.sentence import news, sentence
from autoscaler.report.wording import text
from tests.report.plans import disable, kept, launch, plan, waiting


def test_a_sentence_has_demand_actions_and_kept_workers() -> None:
    planned = plan(
        launch(2), disable("ip-10-0-3-7"), job_categories=(waiting(14),), workers=(kept("ip-10-0-3-9"),), fitting=9
    )
    assert sentence(planned, 812) == (
        "pass 812: 14 jobs wait, 9 fit; launching 2 c5.4xlarge; disabling ip-10-0-3-7 (idle 11m > 10m); "
        "keeping ip-10-0-3-9 (job 4411 runs)"
    )


def test_a_plan_that_is_not_carried_out_has_no_number() -> None:
    assert sentence(plan()).startswith("plan: ")


def test_nothing_to_do_on_an_empty_cluster() -> None:
    assert sentence(plan(), 1) == "pass 1: no job waits; nothing to do"


def test_jobs_that_do_not_count_are_listed_by_cause() -> None:
    job_categories = (
        waiting(5, reason=because(Code.HELD, state="hqw"), counted=False),
        waiting(2, first=30, reason=because(Code.FUTURE, start=0.0), counted=False),
    )
    assert sentence(plan(job_categories=job_categories), 3) == (
        "pass 3: 7 jobs wait, 7 do not count (5 held, 2 future); nothing to do: no waiting job counts"
    )


def test_unreadable_values_are_named_besides_everything_else() -> None:
    odd = because(Code.CANNOT_BE_READ, what="its request", value="mem_free=1e400", why="no number")
    job_categories = (
        waiting(9, reason=because(Code.HELD, state="hqw"), counted=False),
        *(waiting(5, first=n * 20, reason=because(Code.FUTURE), counted=False) for n in range(1, 3)),
        waiting(1, first=99, reason=odd, counted=False),
    )
    notes = (
        because(Code.IGNORED, what="host w1", why="cut short"),
        *(because(Code.CANNOT_BE_READ, what=f"bucket m{n}", value="vcpus -1", why="odd") for n in range(3)),
    )
    line = sentence(plan(job_categories=job_categories, notes=notes), 3)
    assert line.endswith("; nothing to do: no waiting job counts; cannot read job 99, host w1, bucket m0 and 2 more")


UNREAD = because(Code.JOBS_NOT_READ, count=365, why="it has no state", jobs=("1", "2", "3", "…"))


def test_unread_jobs_are_not_reported_as_no_jobs() -> None:
    line = sentence(plan(notes=(UNREAD,)), 3)
    assert line == "pass 3: 365 jobs could not be read: it has no state (jobs 1, 2, 3, …); nothing to do"
    assert "could not be read" in news(plan(notes=(UNREAD,)))


def test_unread_jobs_are_reported_besides_waiting_ones() -> None:
    line = sentence(plan(job_categories=(waiting(2, reason=because(Code.FITS)),), fitting=2, notes=(UNREAD,)), 3)
    assert line.startswith("pass 3: 2 jobs wait, 2 fit; 365 jobs could not be read: it has no state (")


def test_causes_of_unread_jobs_are_listed_with_their_counts() -> None:
    notes = (UNREAD, *(because(Code.JOBS_NOT_READ, count=n, why=f"cause {n}", jobs=()) for n in (9, 4, 2, 1)))
    assert "381 jobs could not be read: 365 it has no state, 9 cause 9, 4 cause 4, 3 other;" in sentence(
        plan(notes=notes), 3
    )


def test_one_unread_job_is_reported_in_the_singular() -> None:
    note = because(Code.JOBS_NOT_READ, count=1, why="it has no state", jobs=("8",))
    assert "1 job could not be read: it has no state (job 8);" in sentence(plan(notes=(note,)), 3)


def test_all_jobs_fitting_is_a_reason_to_do_nothing() -> None:
    planned = plan(job_categories=(waiting(2, reason=because(Code.FITS)),), fitting=2)
    assert sentence(planned, 3) == "pass 3: 2 jobs wait, 2 fit; nothing to do: all fit"


def test_jobs_not_yet_expired_are_a_reason_to_do_nothing() -> None:
    planned = plan(job_categories=(waiting(1, reason=because(Code.NOT_EXPIRED, lacking=1, limit_s=90.0)),))
    assert sentence(planned, 3) == "pass 3: 1 job waits; nothing to do: not expired, 1m of 1m30s"


@pytest.mark.parametrize("code", (Code.PAUSED, Code.CIRCUIT_BREAKER, Code.BATCH_DELAY, Code.NODE_ARRAY_STOPPED))
def test_a_note_that_stops_the_pass_is_the_reason_to_do_nothing(code: Code) -> None:
    assert "nothing to do: " in sentence(plan(job_categories=(waiting(),), notes=(because(code),)), 3)


def test_a_cap_is_named_after_its_launch() -> None:
    capped = because(Code.DEMAND).then(because(Code.CAPPED, cap="max_workers", limit=2))
    assert "max_workers" in sentence(plan(launch(2, capped), job_categories=(waiting(6),)), 3).split(";")[1]


def test_launches_of_several_node_arrays_and_groups_are_distinguished() -> None:
    other = replace(launch(3), node_array="dynamic", reason=because(Code.REQUESTED, sets=("a",)))
    group = replace(launch(2), node_array="execute:4", group_id="execute:4-1")
    assert sentence(plan(launch(1), other, group), 3) == (
        "pass 3: no job waits; launching 1 c5.4xlarge for execute; launching 3 c5.4xlarge for dynamic (requested by "
        "a); launching 2 c5.4xlarge for execute:4-1"
    )


def test_a_batch_limit_is_named_after_its_launch() -> None:
    batched = (
        because(Code.DEMAND).then(because(Code.LAUNCH_WANTED, workers=3)).then(because(Code.SCALE_UP_BATCH, batch=1))
    )
    line = sentence(plan(launch(1, batched), job_categories=(waiting(6),)), 3)
    assert line == "pass 3: 6 jobs wait; launching 1 c5.4xlarge (wanted 3; 1 at a time)"


def test_machines_without_a_host_name_are_named_by_id() -> None:
    ended = Terminate("i-7", None, because(Code.BOOT_TIMEOUT), failure=FailureKind.BOOT)
    assert "terminating i-7 (" in sentence(plan(ended), 3)


def test_enrolling_is_reported() -> None:
    joined = Enrol("i-7", "w7", "execute", "main.q", "@allhosts", 2, (), because(Code.BOOTED))
    assert sentence(plan(joined), 3) == "pass 3: no job waits; enrolling w7 (booted)"


def test_persistent_hosts_are_not_mentioned() -> None:
    persistent = kept("p1", because(Code.PERSISTENT))
    assert "p1" not in sentence(plan(workers=(persistent,)), 3)


def test_a_terminated_machine_still_listed_is_not_mentioned() -> None:
    gone = kept("w1", because(Code.GONE), verdict="wait")
    assert sentence(plan(workers=(gone,)), 3) == "pass 3: no job waits; nothing to do"


def test_an_action_on_a_terminated_machine_is_mentioned() -> None:
    removed = Remove("i-1", "w1", because(Code.GONE))
    assert "removing w1 (gone)" in sentence(plan(removed), 3)


def test_silent_and_lost_workers_are_listed_as_left_alone() -> None:
    silent = kept("w1", because(Code.SILENT, silent_s=13.0, limit_s=600.0), verdict="wait")
    lost = kept("w2", because(Code.LOST_JOBS_STAY, jobs=("31",)).then(because(Code.GONE)), verdict="wait")
    gone = kept("w3", because(Code.GONE), verdict="wait")
    assert sentence(plan(workers=(silent, lost, gone)), 3).endswith(
        "leaving alone w1 (silent 13s of 10m), w2 (gone, and its jobs may not start again)"
    )


def test_lost_jobs_are_reported_with_a_short_cause() -> None:
    why = because(Code.LOST_JOBS_DELETED, jobs=("31", "32"))
    assert "killing job 31 (its machine is gone), job 32 (its machine is gone)" in sentence(
        plan(Kill(("31", "32"), why, lost=True)), 3
    )


def test_a_thousand_workers_are_summarised_in_one_line() -> None:
    workers = tuple(kept(f"ip-10-0-{n // 250}-{n % 250}", because(Code.RUNS_JOBS, jobs=(str(n),))) for n in range(990))
    leaving = tuple(disable(f"ip-10-1-0-{n}", idle_s=600.0 + n) for n in range(10))
    planned = plan(
        launch(50), *leaving, job_categories=tuple(waiting(5, first=10 * n) for n in range(400)), workers=workers
    )
    assert sentence(planned, 99999) == (
        "pass 99999: 2000 jobs wait; launching 50 c5.4xlarge; disabling 10 hosts (idle); keeping 990 workers (busy)"
    )


def test_many_requested_workers_are_summarised_without_their_sets() -> None:
    asked = because(Code.REQUESTED, sets=("nightly", "standard"), node_array="execute", workers=6)
    planned = plan(workers=tuple(kept(f"w{n}", asked) for n in range(6)))
    assert sentence(planned, 3) == "pass 3: no job waits; nothing to do; keeping 6 workers (requested)"


def test_many_kept_workers_are_summarised_by_reason() -> None:
    workers = (*(kept(f"w{n}") for n in range(5)), kept("w6", because(Code.RESERVED)))
    assert "keeping 6 workers (5 busy, 1 reserved)" in sentence(plan(workers=workers), 3)


@pytest.mark.parametrize(
    "later",
    (
        lambda: plan(disable("w1", idle_s=661.0), job_categories=(waiting(3),), passes=813),
        lambda: plan(disable("w1", idle_s=1300.0), job_categories=(waiting(3),)),
    ),
)
def test_the_same_pass_at_another_time_is_not_news(later: Callable[[], Plan]) -> None:
    assert news(later()) == news(plan(disable("w1"), job_categories=(waiting(3),)))


def test_a_message_with_another_duration_is_not_news() -> None:
    """Durations also stand in messages of others and in sentences without a short form."""
    first, later = (
        plan(notes=(because(Code.NODE_ARRAY_STOPPED, node_array="execute", message=f"no answer, {age} of 30s"),))
        for age in ("20s", "25s")
    )
    assert sentence(first) != sentence(later)
    assert news(first) == news(later)


@pytest.mark.parametrize(
    "other",
    (
        lambda: plan(disable("w2"), job_categories=(waiting(3),)),
        lambda: plan(disable("w1"), job_categories=(waiting(4),)),
        lambda: plan(disable("w1"), job_categories=(waiting(3),), fitting=1),
        lambda: plan(disable("w1"), job_categories=(waiting(3, counted=False, reason=because(Code.HELD)),)),
        lambda: plan(job_categories=(waiting(3),)),
        lambda: plan(disable("w1"), job_categories=(waiting(3),), workers=(kept("w3"),)),
    ),
)
def test_a_changed_pass_is_news(other: Callable[[], Plan]) -> None:
    assert news(other()) != news(plan(disable("w1"), job_categories=(waiting(3),)))


@pytest.mark.parametrize("code", Code)
def test_every_reason_code_can_be_summarised(code: Code) -> None:
    """A sentence summarises reasons by code alone; none may then be left out or fail."""
    workers = tuple(kept(f"w{n}", because(code)) for n in range(9))
    assert sentence(plan(workers=workers, notes=(because(code),)), 3).count("\n") == 0


def test_actions_on_jobs_are_reported_with_their_cause() -> None:
    why = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)
    asked = AskGridEngine((Question(12, "a"), Question(13, "b")), (), why)
    planned = plan(
        Reschedule(("9", "10"), "i-1", "w1", because(Code.GONE)), Kill(("11",), why), Hold(("14", "15"), why), asked
    )
    assert sentence(planned, 1) == (
        "pass 1: no job waits; rescheduling job 9 (gone), job 10 (gone); killing job 11 (PE unknown); holding job 14 "
        "(PE unknown), job 15 (PE unknown); asking Grid Engine about 2 jobs"
    )


def test_a_question_about_one_job_names_it() -> None:
    asked = AskGridEngine((Question(12, "a"),), (), because(Code.NO_TYPE_FITS))
    assert sentence(plan(asked), 1).endswith("; asking Grid Engine about job 12")


# -- what an operator must fix is never summarised away ------------------------------------------------------------


def _folded(*more: JobCategoryVerdict) -> Plan:
    causes = ((Code.HELD, 9), (Code.FUTURE, 5), (Code.DEPENDENT, 3), (Code.BEYOND_CONCURRENCY, 2))
    job_categories = [waiting(n, first=n * 100, reason=because(code), counted=False) for code, n in causes]
    return plan(job_categories=(*job_categories, *more))


def test_an_unknown_instance_type_is_named_before_other_causes() -> None:
    unknown = because(Code.NO_INSTANCE_TYPE, node_array="execute", requested="m5.lrage")
    assert "(1 no instance type m5.lrage, 9 held, 5 future, 3 dependent, 2 other)" in sentence(
        _folded(waiting(1, reason=unknown, counted=False)), 3
    )


def test_all_unknown_instance_types_are_named() -> None:
    codes = (Code.NO_INSTANCE_TYPE, Code.NO_INSTANCE_TYPE, Code.NO_WORKER_ALLOWED)
    asked = ("m5.lrage", "c5.lrage", "x")
    job_categories = [
        waiting(1, first=n, reason=because(code, node_array="execute", requested=name), counted=False)
        for n, (code, name) in enumerate(zip(codes, asked, strict=True), start=50)
    ]
    line = sentence(_folded(*job_categories), 3)
    assert all(name in line for name in ("type m5.lrage", "type c5.lrage", "no worker allowed", "2 other"))


def test_a_stopped_node_array_is_reported_besides_actions() -> None:
    stopped = because(Code.NODE_ARRAY_STOPPED, node_array="execute", message="key not found")
    line = sentence(plan(launch(1), job_categories=(waiting(3),), notes=(because(Code.BATCH_DELAY), stopped)), 3)
    assert line.endswith("; to fix: execute launches nothing until resumed: key not found")
    alone = sentence(plan(job_categories=(waiting(3),), notes=(stopped,)), 3)
    assert alone.count("key not found") == 1


def test_a_queue_instance_in_error_is_named_among_many() -> None:
    codes = (Code.NO_LOAD_REPORT,) * 4 + (Code.DISABLED_BY_HAND,) * 3 + (Code.SILENT,) * 2 + (Code.INTERRUPTED,) * 2
    workers = [kept(f"w{n}", because(code)) for n, code in enumerate((*codes, Code.INSTANCE_IN_ERROR))]
    line = sentence(plan(workers=tuple(workers)), 3)
    assert "leaving alone 12 workers (1 queue instance in error, 4 no load report, 3 disabled by hand, …)" in line


def test_a_machine_that_was_stopped_from_outside_is_not_called_one_that_failed_to_boot() -> None:
    assert REASONS[Code.BOOT_FAILED].short == "does not come up"
    stopped = because(Code.BOOT_FAILED, message="it is stopped, and its disks still cost money")
    assert text(stopped) == "its machine will never be up: it is stopped, and its disks still cost money"
