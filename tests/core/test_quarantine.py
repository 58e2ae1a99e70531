"""Workers that seem broken: which of them leave service, which are only told of, and what no failure proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoscaler.core.hosts.job_faults import FAULTS, Fault, fault_of
from autoscaler.core.model.evidence import Evidence, Health, JobFailure, JobSuccess
from autoscaler.core.model.memory import Disabling, Event, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.scale_down.quarantine import WINDOW
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import NOW, Thing, a_job, a_snapshot, a_worker, acts, codes, noted, told, verdict_of

SHEPHERD, DIRECTORY = "18 : shepherd returned error", "28 : changing to working directory"
BEFORE = "1 : assumedly before job"
W1_OUT = [("disable", "w1")]


def failures(
    count: int = 3,
    *,
    host: str = "w1",
    failed: str = SHEPHERD,
    age: float = 60,
    owners: Sequence[str] = ("ann",),
    **job: int,
) -> tuple[JobFailure, ...]:
    """This many, each of another job, the last `age` seconds ago."""
    return tuple(
        JobFailure(host, job.get("job", n), NOW - age - count + n, failed, owners[n % len(owners)])
        for n in range(count)
    )


def sick(worker: str = "w1", *, since: float = 120.0, age: float = 10.0, healthy: bool = False) -> dict[str, Health]:
    return {f"i-{worker}": Health(f"i-{worker}", NOW - age, healthy, "no /data", None if healthy else NOW - since)}


def planned(
    *things: Thing,
    failed: tuple[JobFailure, ...] = (),
    ran: tuple[JobSuccess, ...] = (),
    health: dict[str, Health] | None = None,
    least: int = 3,
    quarantines: tuple[Event, ...] = (),
) -> Plan:
    world = a_snapshot(*(things or (a_worker(used=1),)), health_check=("/opt/check",))
    return plan(
        replace(
            world,
            evidence=Evidence(failures=failed, successes=ran, health=health or {}),
            policy=replace(world.policy, black_hole_failures=least),
            memory=replace(world.memory, quarantines=quarantines),
        )
    )


def fleet(count: int) -> list[Thing]:
    return [a_worker(f"w{n}", used=1) for n in range(1, count + 1)]


# -- black holes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", (False, True))
def test_a_worker_that_is_quarantined_is_no_room_for_the_job_that_waits(kept: bool) -> None:
    world = a_snapshot(a_worker(), a_job(7, waited=600))
    overrides = Overrides(keep=frozenset({"w1"} if kept else ()))
    made = plan(replace(world, evidence=Evidence(failures=failures()), overrides=overrides))
    fits = [verdict.reason.code is Code.FITS for verdict in made.job_categories]
    assert ([act for act in acts(made) if act[1] == "w1"], fits) == ([] if kept else W1_OUT, [kept])


def test_a_worker_on_which_jobs_fail_one_after_another_lets_no_further_job_in() -> None:
    made = planned(failed=failures())
    assert (acts(made), told(made, "w1")) == (W1_OUT, ("disable", Code.BLACK_HOLE))


def test_its_note_tells_why_for_as_long_as_it_leaves() -> None:
    note = planned(failed=failures()).memory.workers["i-w1"]
    assert (note.disabling, note.quarantined and note.quarantined.code) == (Disabling.BROKEN, Code.BLACK_HOLE)


def test_what_is_quarantined_leaves_with_that_reason_when_it_is_empty() -> None:
    worker = a_worker(mark=Disabling.BROKEN, empty=99)
    reason = planned(failed=failures()).memory.workers["i-w1"].quarantined
    assert worker.note
    made = planned(replace(worker, note=replace(worker.note, quarantined=reason)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([("remove", "w1")], [Code.EMPTY, Code.BLACK_HOLE])


def test_a_quarantined_worker_with_a_job_is_not_removed() -> None:
    assert acts(planned(a_worker(mark=Disabling.BROKEN, used=1), failed=failures())) == []


def test_a_quarantined_worker_is_replaced_for_what_waits() -> None:
    made = planned(a_job(), a_worker(mark=Disabling.BROKEN, used=1))
    assert acts(made) == [("launch", {"m5.large": 1})]


@pytest.mark.parametrize(
    "failed",
    (
        failures(2),
        failures(9, job=7),
        failures(age=WINDOW + 1),
        failures(host="w2"),
        failures(failed="100 : assumedly after job"),
        failures(failed="37 : qmaster enforced h_rt, h_cpu, or h_vmem limit"),
        failures(failed="999 : what no manual names"),
        failures(failed=""),
    ),
    ids=("too few", "one job", "too old", "another host", "signal", "limit", "unknown number", "no number"),
)
def test_less_than_that_is_no_black_hole(failed: tuple[JobFailure, ...]) -> None:
    made = planned(failed=failed)
    assert (acts(made), Code.SUSPECT in codes(verdict_of(made, "w1").reason)) == ([], False)


def test_a_job_that_ran_ends_the_row_of_failures() -> None:
    assert acts(planned(failed=failures(), ran=(JobSuccess("w1", "bob", NOW - 30),))) == []


def test_a_job_that_ran_before_ends_no_row_of_failures() -> None:
    assert acts(planned(failed=failures(), ran=(JobSuccess("w1", "bob", NOW - 600),))) == W1_OUT


def test_failures_of_an_earlier_machine_of_its_name_are_not_its_own() -> None:
    worker = a_worker(used=1)
    assert worker.note
    young = replace(worker, note=replace(worker.note, heard_at=NOW - 20))
    assert acts(planned(young, failed=failures())) == []


def test_a_host_is_the_same_with_and_without_its_domain() -> None:
    assert acts(planned(failed=failures(host="W1.example.org"))) == W1_OUT


def test_zero_turns_it_off() -> None:
    assert acts(planned(failed=failures(99), least=0)) == []


def test_whether_job_or_host_is_at_fault_is_not_known_from_one_owners_jobs() -> None:
    made = planned(failed=failures(failed=DIRECTORY))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == (
        [],
        [Code.RUNS_JOBS, Code.SUSPECT, Code.BLACK_HOLE, Code.ONE_OWNER],
    )


def again(*starts: tuple[int, int]) -> tuple[JobFailure, ...]:
    """Failures right at the beginning, of these jobs and tasks in turn."""
    return tuple(JobFailure("w1", job, NOW - 60 + n, BEFORE, "ann", task) for n, (job, task) in enumerate(starts))


def test_jobs_that_grid_engine_lets_fail_again_are_not_at_fault() -> None:
    assert acts(planned(failed=again((1, 0), (2, 0), (1, 0)))) == W1_OUT


@pytest.mark.parametrize(
    "failed", (again((1, 0), (2, 0), (3, 0)), again((1, 1), (1, 2), (2, 0))), ids=("jobs", "tasks")
)
def test_a_user_whom_the_host_may_not_know_is_not_the_hosts_fault(failed: tuple[JobFailure, ...]) -> None:
    made = planned(failed=failed)
    assert (acts(made), Code.ONE_OWNER in codes(verdict_of(made, "w1").reason)) == ([], True)


def test_two_owners_whose_jobs_both_fail_make_it_the_hosts_fault() -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY, owners=("ann", "bob")))) == W1_OUT


def test_an_owner_whose_jobs_run_elsewhere_meanwhile_makes_it_the_hosts_fault() -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY), ran=(JobSuccess("w2", "ann", NOW - 30),))) == W1_OUT


@pytest.mark.parametrize(
    "ran",
    (JobSuccess("w2", "bob", NOW - 30), JobSuccess("w2", "ann", NOW - 600)),
    ids=("another owner's", "before the failures"),
)
def test_no_other_success_elsewhere_makes_it_the_hosts_fault(ran: JobSuccess) -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY), ran=(ran,))) == []


def test_no_failure_of_a_job_that_ran_counts() -> None:
    assert [number for number in (*range(12, 18), 24, 25, 30, 37, 100) if number in FAULTS] == []


def test_a_failure_is_told_by_its_number() -> None:
    assert [fault_of(text) for text in (SHEPHERD, DIRECTORY, BEFORE, "0 : no failure")] == [
        Fault.HOST,
        Fault.EITHER,
        Fault.AGAIN,
        None,
    ]


# -- few at a time ---------------------------------------------------------------------------------------------------


def all_failed(count: int) -> tuple[JobFailure, ...]:
    return tuple(failure for n in range(1, count + 1) for failure in failures(host=f"w{n}"))


def test_where_all_fail_alike_one_is_quarantined_and_the_others_are_told_of() -> None:
    made = planned(*fleet(3), failed=all_failed(3))
    link = [Code.RUNS_JOBS, Code.SUSPECT, Code.BLACK_HOLE, Code.QUARANTINE_LIMIT]
    assert (acts(made), codes(verdict_of(made, "w2").reason)) == (W1_OUT, link)


def test_of_many_a_fifth_is_quarantined() -> None:
    assert len(acts(planned(*fleet(10), failed=all_failed(10)))) == 2


def test_what_was_quarantined_a_short_while_ago_counts() -> None:
    recent = (Event(NOW - WINDOW + 1, 1, "execute"),)
    made = planned(failed=failures(), quarantines=recent)
    assert (acts(made), made.memory.quarantines) == ([], recent)


def test_what_was_quarantined_longer_ago_counts_no_more() -> None:
    made = planned(failed=failures(), quarantines=(Event(NOW - WINDOW, 1, "execute"),))
    assert (acts(made), made.memory.quarantines) == (W1_OUT, (Event(NOW, 1, "execute"),))


def test_the_pass_tells_of_those_that_stay() -> None:
    made = planned(*fleet(3), failed=all_failed(3))
    assert [(note.code, note["workers"]) for note in made.notes] == [(Code.SUSPECT, ("w2", "w3"))]


def test_queue_instances_in_error_everywhere_are_one_cause_too() -> None:
    made = planned(*(a_worker(f"w{n}", used=1, states="E") for n in (1, 2, 3)))
    assert (acts(made), Code.QUARANTINE_LIMIT in noted(made)) == (W1_OUT, True)


def test_a_black_hole_goes_before_a_queue_instance_in_error() -> None:
    made = planned(a_worker("w1", used=1, states="E"), a_worker("w2", used=1), failed=failures(host="w2"))
    assert acts(made) == [("disable", "w2")]


# -- health checks ---------------------------------------------------------------------------------------------------


def test_a_worker_found_sick_twice_lets_no_further_job_in() -> None:
    made = planned(health=sick())
    assert (acts(made), told(made, "w1")) == (W1_OUT, ("disable", Code.UNHEALTHY))


@pytest.mark.parametrize(
    "health",
    (sick(since=10, age=10), sick(since=400, age=200), sick(healthy=True)),
    ids=("once", "long ago", "healthy"),
)
def test_nothing_else_that_a_health_check_says_acts(health: dict[str, Health]) -> None:
    assert acts(planned(health=health)) == []


# -- people ----------------------------------------------------------------------------------------------------------


def trusted(seconds: float, *, states: str = "") -> Thing:
    """A worker that a person enabled so long ago although it was quarantined."""
    worker = a_worker(used=1, states=states)
    assert worker.note
    return replace(worker, note=replace(worker.note, trusted_at=NOW - seconds))


def test_a_person_who_enables_a_quarantined_worker_is_remembered() -> None:
    worker = a_worker(mark=Disabling.BROKEN, empty=30, states="", used=1)
    made = planned(worker, failed=failures())
    assert (acts(made), made.memory.workers["i-w1"].trusted_at) == ([], NOW)


@pytest.mark.parametrize("states", ("", "E"))
def test_what_was_held_against_it_before_counts_no_more(states: str) -> None:
    assert acts(planned(trusted(40, states=states), failed=failures(), health=sick())) == []


def test_what_comes_after_that_does() -> None:
    assert acts(planned(trusted(300), failed=failures())) == W1_OUT


@pytest.mark.parametrize(
    "overrides", (Overrides(keep=frozenset({"w1"})), Overrides(paused=True)), ids=("kept", "paused")
)
def test_a_persons_wish_comes_first(overrides: Overrides) -> None:
    made = planned(a_worker(used=1), overrides, failed=failures())
    assert (acts(made), made.memory.quarantines) == ([], ())


def test_a_worker_that_a_person_disabled_is_left_alone() -> None:
    assert acts(planned(a_worker(states="d", used=1), failed=failures(), health=sick())) == []


def test_a_persistent_host_is_never_touched() -> None:
    worker = a_worker("h1", used=1)
    assert worker.host
    assert acts(planned(worker.host, failed=failures(host="h1"))) == []


# -- rule 9 ----------------------------------------------------------------------------------------------------------


def test_what_is_quarantined_is_not_quarantined_again() -> None:
    first = planned(failed=failures())
    shown = a_worker(used=1, mark=Disabling.BROKEN)
    second = planned(
        replace(shown, note=first.memory.workers["i-w1"]), failed=failures(), quarantines=first.memory.quarantines
    )
    assert (acts(second), second.memory.quarantines) == ([], first.memory.quarantines)


def test_nothing_is_remembered_of_what_is_no_suspect() -> None:
    snapshot: Snapshot = a_snapshot(a_worker(used=1))
    memory: Memory = plan(snapshot).memory
    note: WorkerNote = memory.workers["i-w1"]
    assert (memory.quarantines, note.quarantined, note.trusted_at) == ((), None, None)
