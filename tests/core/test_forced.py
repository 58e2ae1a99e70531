"""Where a host has or reports a complex that is FORCED, only jobs that request it start, whatever its value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enrol
from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.fleet import InstanceType, MachineState
from autoscaler.core.model.memory import Memory, ReportedType
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import DeadlockAnswer
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    COMPLEXES,
    GIB,
    LARGE,
    NOW,
    Thing,
    a_bucket,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    category_of,
    codes,
    jobs,
    launched,
    reason_code,
)

GPU = InstanceType("p3.large", "p3", 2, 8 * GIB, gpus=1)
FORCED = {
    **COMPLEXES,
    "gpus": replace(COMPLEXES["gpus"], requestable="FORCED"),
    "must": Complex("must", "mu", "BOOL", "==", "FORCED", Consumable.NO, "0"),
    "alone": Complex("alone", "al", "BOOL", "EXCL", "FORCED", Consumable.PER_SLOT, "0"),
}


def forced(*things: Thing, **more: Any) -> Snapshot:
    return a_snapshot(*things, complexes={**FORCED, **more.pop("complexes", {})}, gpu_complex="gpus", **more)


# -- hosts that are there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "hard", "fits"),
    (
        ({"fixed": {"must": "TRUE"}}, {}, 0),
        ({"fixed": {"must": "FALSE"}}, {}, 0),
        ({"fixed": {"must": "TRUE"}}, {"mu": "1"}, 2),
        ({"fixed": {"must": "TRUE"}}, {"must": "0"}, 0),
        ({"consumables": {"gpus": "1"}}, {}, 0),
        ({"consumables": {"gpus": "0"}}, {}, 0),
        ({"consumables": {"gpus": "1"}}, {"gpu": "1"}, 1),
        ({"consumables": {"gpus": "1"}}, {"gpus": "0"}, 2),
        ({"consumables": {"alone": "1"}}, {}, 0),
        ({"consumables": {"alone": "1"}}, {"alone": "0"}, 2),
        ({"consumables": {"alone": "1"}}, {"al": "1"}, 1),
        ({"load": {"must": "1"}}, {}, 0),
        ({"load": {"must": "1"}}, {"must": "1"}, 2),
        ({}, {}, 2),
    ),
)
def test_only_jobs_that_request_a_forced_complex_fit_on_a_host_that_has_it(
    values: dict[str, Any], hard: dict[str, str], fits: int
) -> None:
    assert plan(forced(jobs(3, hard=hard), a_host("h1", slots=2, **values))).fitting == fits


def test_a_job_that_does_not_request_a_forced_complex_gets_another_worker() -> None:
    made = plan(forced(a_job(), a_host("h1", slots=2, consumables={"gpus": "1"})))
    assert launched(made) == {"m5.large": 1}


def test_a_parallel_job_uses_no_slots_of_a_host_with_a_forced_complex() -> None:
    hosts = (a_host("h1", slots=4, fixed={"must": "1"}), a_host("h2", slots=3))
    assert plan(forced(a_job(slots=3, pe="mpi"), *hosts)).fitting == 1
    assert plan(forced(a_job(slots=4, pe="mpi"), *hosts)).fitting == 0


# -- workers to come ------------------------------------------------------------------------------------------------


def test_a_type_with_a_forced_complex_is_launched_only_for_jobs_that_request_it() -> None:
    gpus = {"instance_type": GPU.name}
    plain, asking = (
        plan(forced(a_job(), a_bucket(GPU), **gpus)),
        plan(forced(a_job(hard={"gpu": "1"}), a_bucket(GPU), **gpus)),
    )
    assert (launched(plain), reason_code(plain)) == ({}, Code.MUST_BE_REQUESTED)
    assert "have gpus, which is FORCED" in text(category_of(plain).reason)
    assert launched(asking) == {"p3.large": 1}


def test_a_coming_worker_with_a_forced_complex_is_not_supply_for_other_jobs() -> None:
    coming = a_machine(None, type_=GPU, state=MachineState.PENDING)
    assert launched(plan(forced(a_job(), coming))) == {"m5.large": 1}
    assert launched(plan(forced(a_job(hard={"gpus": "1"}), coming))) == {}


def test_a_worker_without_a_forced_consumable_is_enrolled_without_it() -> None:
    made = plan(forced(a_job(), a_machine("w1")))
    (enrol,) = (action for action in made.actions if isinstance(action, Enrol))
    assert "gpus" not in dict(enrol.complex_values)
    assert launched(made) == {}


def test_a_type_of_the_family_without_the_forced_complex_is_launched_for_other_jobs() -> None:
    mixed = (a_bucket(replace(GPU, family="m5")), a_bucket(LARGE))
    assert launched(plan(forced(a_job(), *mixed, hybrid=True))) == {"m5.large": 1}


def test_a_type_whose_hosts_reported_a_forced_complex_is_not_launched_for_other_jobs() -> None:
    """A boot script of the image gave it to them."""
    learnt = plan(
        forced(a_job(), a_worker("w1", host=a_host("w1", slots=2, load={"arch": "lx-amd64"}, fixed={"must": "1"})))
    )
    (reported,) = learnt.memory.reported
    assert ("must", "1") in reported.values
    known = Memory(passes=7, reported=(ReportedType("m5.large", "execute", reported.values, NOW - 60),))
    made = plan(forced(a_job(), known))
    assert launched(made) == {}
    assert "its hosts report must=1, which is FORCED" in text(category_of(made).reason)
    assert launched(plan(forced(a_job(hard={"must": "1"}), known))) == {}  # no type is known to have it
    assert launched(plan(forced(a_job(2), Memory(passes=7)))) == {"m5.large": 1}


# -- queues ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("h_rt", "h_vmem", "hostname", "qname"))
def test_a_forced_complex_that_every_queue_has_must_be_requested(name: str) -> None:
    """Sites force a run time to be requested so."""
    must = {name: replace(COMPLEXES[name], requestable="FORCED")}
    made = plan(forced(a_job(), complexes=must))
    assert (reason_code(made), launched(made)) == (Code.RESTRICTED_QUEUE, {})
    assert f"{name}, which is FORCED" in text(category_of(made).reason)
    values = {"h_rt": "600", "h_vmem": "1G", "hostname": "*", "qname": "main.q"}
    assert launched(plan(forced(a_job(hard={name: values[name]}), complexes=must))) == {"m5.large": 1}


# -- proofs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there", ((a_bucket(GPU),), (a_bucket(GPU), a_host("h1", slots=9, used=9, consumables={"gpus": "1"})))
)
def test_a_job_excluded_only_by_a_forced_complex_is_not_deleted(there: tuple[Thing, ...]) -> None:
    snapshot = forced(a_job(waited=9e5), *there, instance_type=GPU.name)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.KILL)))
    assert Code.ONLY_FORCED in codes(category_of(made).reason)
    assert (made.actions, {note.since for note in made.memory.unsatisfiable_jobs.values()}) in (
        ((), set()),
        ((), {None}),
    )


def test_a_job_too_large_anyway_is_judged_as_without_forced_complexes() -> None:
    snapshot = forced(a_job(slots=64, waited=9e5), a_bucket(GPU), instance_type=GPU.name)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.KILL)))
    assert reason_code(made) is Code.TOO_LARGE_FOR_ONE_HOST
    assert made.memory.unsatisfiable_jobs[1].since == NOW


# -- the global host ------------------------------------------------------------------------------------------------


def test_only_jobs_that_request_a_forced_complex_of_the_global_host_are_launched_for() -> None:
    asking, plain = (plan(forced(a_job(hard=hard), global_values={"must": "TRUE"})) for hard in ({"mu": "1"}, {}))
    assert launched(asking) == {"m5.large": 1}
    assert (launched(plain), reason_code(plain)) == ({}, Code.RESTRICTED_QUEUE)
    assert "must=TRUE of the global host, which is FORCED" in text(category_of(plain).reason)
