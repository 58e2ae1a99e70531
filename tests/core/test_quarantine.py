"""Workers that seem broken: which of them leave service, which are only reported, and which failures prove nothing."""

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
from tests.core.building import (
    NOW,
    Thing,
    a_job,
    a_snapshot,
    a_worker,
    acts,
    codes,
    note_codes,
    verdict_and_code,
    verdict_of,
)

SHEPHERD, DIRECTORY = "18 : shepherd returned error", "28 : changing to working directory"
BEFORE, PROLOG = "1 : assumedly before job", "8 : in prolog"
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


def unhealthy(
    worker: str = "w1", *, since: float = 120.0, age: float = 10.0, healthy: bool = False
) -> dict[str, Health]:
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
def test_a_worker_being_quarantined_is_not_supply_unless_a_person_keeps_it(kept: bool) -> None:
    world = a_snapshot(a_worker(), a_job(7, waited=600))
    overrides = Overrides(keep=frozenset({"w1"} if kept else ()))
    made = plan(replace(world, evidence=Evidence(failures=failures()), overrides=overrides))
    fits = [verdict.reason.code is Code.FITS for verdict in made.job_categories]
    assert ([act for act in acts(made) if act[1] == "w1"], fits) == ([] if kept else W1_OUT, [kept])


def test_a_worker_on_which_jobs_fail_one_after_another_is_disabled() -> None:
    made = planned(failed=failures())
    assert (acts(made), verdict_and_code(made, "w1")) == (W1_OUT, ("disable", Code.BLACK_HOLE))


def test_the_reason_of_a_quarantine_is_remembered() -> None:
    note = planned(failed=failures()).memory.workers["i-w1"]
    assert (note.disabling, note.quarantined and note.quarantined.code) == (Disabling.BROKEN, Code.BLACK_HOLE)


def test_an_empty_quarantined_worker_is_removed_with_that_reason() -> None:
    worker = a_worker(mark=Disabling.BROKEN, empty=99)
    reason = planned(failed=failures()).memory.workers["i-w1"].quarantined
    assert worker.note
    made = planned(replace(worker, note=replace(worker.note, quarantined=reason)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([("remove", "w1")], [Code.EMPTY, Code.BLACK_HOLE])


def test_a_quarantined_worker_with_a_job_is_not_removed() -> None:
    assert acts(planned(a_worker(mark=Disabling.BROKEN, used=1), failed=failures())) == []


def test_a_quarantined_worker_is_replaced_for_waiting_jobs() -> None:
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
def test_other_or_too_few_failures_do_not_make_a_black_hole(failed: tuple[JobFailure, ...]) -> None:
    made = planned(failed=failed)
    assert (acts(made), Code.SUSPECT in codes(verdict_of(made, "w1").reason)) == ([], False)


def test_a_later_success_ends_a_series_of_failures() -> None:
    assert acts(planned(failed=failures(), ran=(JobSuccess("w1", "bob", NOW - 30),))) == []


def test_an_earlier_success_does_not_end_a_series_of_failures() -> None:
    assert acts(planned(failed=failures(), ran=(JobSuccess("w1", "bob", NOW - 600),))) == W1_OUT


def test_failures_of_an_earlier_machine_of_the_same_name_do_not_count() -> None:
    worker = a_worker(used=1)
    assert worker.note
    young = replace(worker, note=replace(worker.note, joined_at=NOW - 20))
    assert acts(planned(young, failed=failures())) == []


def test_a_host_name_matches_with_and_without_its_domain() -> None:
    assert acts(planned(failed=failures(host="W1.example.org"))) == W1_OUT


def test_a_threshold_of_0_turns_black_hole_detection_off() -> None:
    assert acts(planned(failed=failures(99), least=0)) == []


def test_failures_of_one_owner_that_may_be_the_jobs_fault_are_only_reported() -> None:
    made = planned(failed=failures(failed=DIRECTORY))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == (
        [],
        [Code.RUNS_JOBS, Code.SUSPECT, Code.BLACK_HOLE, Code.ONE_OWNER],
    )


def again(*starts: tuple[int, int], failed: str = BEFORE) -> tuple[JobFailure, ...]:
    """Failures right at the beginning, of these jobs and tasks in turn."""
    return tuple(JobFailure("w1", job, NOW - 60 + n, failed, "ann", task) for n, (job, task) in enumerate(starts))


@pytest.mark.parametrize("failed", (BEFORE, PROLOG))
def test_a_repeated_failure_of_the_same_job_before_it_starts_is_the_hosts_fault(failed: str) -> None:
    assert acts(planned(failed=again((1, 0), (2, 0), (1, 0), failed=failed))) == W1_OUT


@pytest.mark.parametrize(
    "failed", (again((1, 0), (2, 0), (3, 0)), again((1, 1), (1, 2), (2, 0))), ids=("jobs", "tasks")
)
def test_one_owners_failures_before_the_job_are_only_reported(failed: tuple[JobFailure, ...]) -> None:
    made = planned(failed=failed)
    assert (acts(made), Code.ONE_OWNER in codes(verdict_of(made, "w1").reason)) == ([], True)


def test_failures_of_two_owners_are_the_hosts_fault() -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY, owners=("ann", "bob")))) == W1_OUT


def test_failures_of_an_owner_whose_jobs_run_elsewhere_are_the_hosts_fault() -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY), ran=(JobSuccess("w2", "ann", NOW - 30),))) == W1_OUT


@pytest.mark.parametrize(
    "ran",
    (JobSuccess("w2", "bob", NOW - 30), JobSuccess("w2", "ann", NOW - 600)),
    ids=("another owner's", "before the failures"),
)
def test_another_owners_or_an_earlier_success_elsewhere_does_not_count(ran: JobSuccess) -> None:
    assert acts(planned(failed=failures(failed=DIRECTORY), ran=(ran,))) == []


@pytest.mark.parametrize(
    "failed", (failures(failed=DIRECTORY), *(again((1, 0), (2, 0), (1, 0), failed=each) for each in (BEFORE, PROLOG)))
)
def test_failures_of_one_owner_prove_nothing_where_jobs_of_others_run_well(failed: tuple[JobFailure, ...]) -> None:
    elsewhere = JobSuccess("w2", "ann", NOW - 30)
    assert acts(planned(failed=failed, ran=(elsewhere, JobSuccess("w1", "bob", NOW - 600)))) == []
    beside = a_worker(used=1)
    assert beside.host is not None
    (instance,) = beside.host.instances
    job = replace(instance.jobs[0], owner="bob")
    beside = replace(beside, host=replace(beside.host, instances=(replace(instance, jobs=(job,)),)))
    assert acts(planned(beside, failed=failed, ran=(elsewhere,))) == []


def test_a_job_that_fails_again_is_the_hosts_fault_also_where_another_job_of_its_owner_ran_before() -> None:
    assert acts(planned(failed=again((1, 0), (2, 0), (1, 0)), ran=(JobSuccess("w1", "ann", NOW - 600),))) == W1_OUT


def test_mistakes_of_an_owner_prove_nothing_where_another_of_their_jobs_ran_unless_nobody_else_is_there() -> None:
    ran = (JobSuccess("w1", "ann", NOW - 600), JobSuccess("w2", "ann", NOW - 30))
    failed = failures(failed=DIRECTORY)
    assert acts(planned(failed=failed, ran=ran)) == W1_OUT
    assert acts(planned(failed=failed, ran=(*ran, JobSuccess("w2", "bob", NOW - 30)))) == []


def test_failure_codes_of_jobs_that_ran_do_not_count() -> None:
    assert [number for number in (*range(12, 18), 24, 25, 30, 37, 100) if number in FAULTS] == []


def test_a_failure_is_classified_by_its_number() -> None:
    assert [fault_of(text) for text in (SHEPHERD, DIRECTORY, BEFORE, "0 : no failure")] == [
        Fault.HOST,
        Fault.EITHER,
        Fault.AGAIN,
        None,
    ]


# -- few at a time ---------------------------------------------------------------------------------------------------


def all_failed(count: int) -> tuple[JobFailure, ...]:
    return tuple(failure for n in range(1, count + 1) for failure in failures(host=f"w{n}"))


def test_if_all_workers_fail_one_is_quarantined_and_the_others_are_reported() -> None:
    made = planned(*fleet(3), failed=all_failed(3))
    link = [Code.RUNS_JOBS, Code.SUSPECT, Code.BLACK_HOLE, Code.QUARANTINE_LIMIT]
    assert (acts(made), codes(verdict_of(made, "w2").reason)) == (W1_OUT, link)


def test_at_most_a_fifth_of_many_workers_is_quarantined() -> None:
    assert len(acts(planned(*fleet(10), failed=all_failed(10)))) == 2


def test_recent_quarantines_count_towards_the_limit() -> None:
    recent = (Event(NOW - WINDOW + 1, 1, "execute"),)
    made = planned(failed=failures(), quarantines=recent)
    assert (acts(made), made.memory.quarantines) == ([], recent)


def test_older_quarantines_do_not_count_towards_the_limit() -> None:
    made = planned(failed=failures(), quarantines=(Event(NOW - WINDOW, 1, "execute"),))
    assert (acts(made), made.memory.quarantines) == (W1_OUT, (Event(NOW, 1, "execute"),))


def test_the_pass_reports_suspects_that_stay() -> None:
    made = planned(*fleet(3), failed=all_failed(3))
    assert [(note.code, note["workers"]) for note in made.notes] == [(Code.SUSPECT, ("w2", "w3"))]


def test_queue_instances_in_error_everywhere_fall_under_the_quarantine_limit() -> None:
    made = planned(*(a_worker(f"w{n}", used=1, states="E") for n in (1, 2, 3)))
    assert (acts(made), Code.QUARANTINE_LIMIT in note_codes(made)) == (W1_OUT, True)


def test_a_black_hole_is_quarantined_before_a_queue_instance_in_error() -> None:
    made = planned(a_worker("w1", used=1, states="E"), a_worker("w2", used=1), failed=failures(host="w2"))
    assert acts(made) == [("disable", "w2")]


# -- health checks ---------------------------------------------------------------------------------------------------


def test_a_worker_found_unhealthy_twice_is_disabled() -> None:
    made = planned(health=unhealthy())
    assert (acts(made), verdict_and_code(made, "w1")) == (W1_OUT, ("disable", Code.UNHEALTHY))


@pytest.mark.parametrize(
    "health",
    (unhealthy(since=10, age=10), unhealthy(since=400, age=200), unhealthy(healthy=True)),
    ids=("once", "long ago", "healthy"),
)
def test_a_single_old_or_healthy_result_does_not_quarantine(health: dict[str, Health]) -> None:
    assert acts(planned(health=health)) == []


# -- people ----------------------------------------------------------------------------------------------------------


def trusted(seconds: float, *, states: str = "") -> Thing:
    """A worker that a person enabled so long ago although it was quarantined."""
    worker = a_worker(used=1, states=states)
    assert worker.note
    return replace(worker, note=replace(worker.note, trusted_at=NOW - seconds))


def test_a_quarantined_worker_that_a_person_enables_stays_and_is_remembered_as_trusted() -> None:
    worker = a_worker(mark=Disabling.BROKEN, empty=30, states="", used=1)
    made = planned(worker, failed=failures())
    assert (acts(made), made.memory.workers["i-w1"].trusted_at) == ([], NOW)


@pytest.mark.parametrize("states", ("", "E"))
def test_evidence_from_before_a_person_enabled_the_worker_does_not_count(states: str) -> None:
    assert acts(planned(trusted(40, states=states), failed=failures(), health=unhealthy())) == []


def test_evidence_from_after_a_person_enabled_the_worker_counts() -> None:
    assert acts(planned(trusted(300), failed=failures())) == W1_OUT


@pytest.mark.parametrize(
    "overrides", (Overrides(keep=frozenset({"w1"})), Overrides(paused=True)), ids=("kept", "paused")
)
def test_keep_and_pause_prevent_a_quarantine(overrides: Overrides) -> None:
    made = planned(a_worker(used=1), overrides, failed=failures())
    assert (acts(made), made.memory.quarantines) == ([], ())


def test_a_worker_that_a_person_disabled_is_not_quarantined() -> None:
    assert acts(planned(a_worker(states="d", used=1), failed=failures(), health=unhealthy())) == []


def test_a_persistent_host_is_never_quarantined() -> None:
    worker = a_worker("h1", used=1)
    assert worker.host
    assert acts(planned(worker.host, failed=failures(host="h1"))) == []


# -- rule 9 ----------------------------------------------------------------------------------------------------------


def test_a_quarantined_worker_is_not_quarantined_again() -> None:
    first = planned(failed=failures())
    shown = a_worker(used=1, mark=Disabling.BROKEN)
    second = planned(
        replace(shown, note=first.memory.workers["i-w1"]), failed=failures(), quarantines=first.memory.quarantines
    )
    assert (acts(second), second.memory.quarantines) == ([], first.memory.quarantines)


def test_no_quarantine_is_remembered_for_a_healthy_worker() -> None:
    snapshot: Snapshot = a_snapshot(a_worker(used=1))
    memory: Memory = plan(snapshot).memory
    note: WorkerNote = memory.workers["i-w1"]
    assert (memory.quarantines, note.quarantined, note.trusted_at) == ((), None, None)
