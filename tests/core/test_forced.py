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
    fate,
    jobs,
    launched,
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
def test_only_jobs_that_request_it_fit_on_a_host_that_has_it(
    values: dict[str, Any], hard: dict[str, str], fits: int
) -> None:
    assert plan(forced(jobs(3, hard=hard), a_host("h1", slots=2, **values))).fitting == fits


def test_a_job_that_does_not_request_it_gets_a_worker_beside_the_host_that_has_it() -> None:
    made = plan(forced(a_job(), a_host("h1", slots=2, consumables={"gpus": "1"})))
    assert launched(made) == {"m5.large": 1}


def test_slots_of_a_parallel_job_stand_on_the_other_hosts_only() -> None:
    hosts = (a_host("h1", slots=4, fixed={"must": "1"}), a_host("h2", slots=3))
    assert plan(forced(a_job(slots=3, pe="mpi"), *hosts)).fitting == 1
    assert plan(forced(a_job(slots=4, pe="mpi"), *hosts)).fitting == 0


# -- workers to come ------------------------------------------------------------------------------------------------


def test_workers_whose_type_has_it_are_launched_only_for_jobs_that_request_it() -> None:
    gpus = {"instance_type": GPU.name}
    plain, asking = (
        plan(forced(a_job(), a_bucket(GPU), **gpus)),
        plan(forced(a_job(hard={"gpu": "1"}), a_bucket(GPU), **gpus)),
    )
    assert (launched(plain), fate(plain)) == ({}, Code.MUST_BE_REQUESTED)
    assert "have gpus, which is FORCED" in text(category_of(plain).reason)
    assert launched(asking) == {"p3.large": 1}


def test_a_worker_of_that_type_that_is_coming_is_no_supply_for_others() -> None:
    coming = a_machine(None, type_=GPU, state=MachineState.PENDING)
    assert launched(plan(forced(a_job(), coming))) == {"m5.large": 1}
    assert launched(plan(forced(a_job(hard={"gpus": "1"}), coming))) == {}


def test_a_worker_without_any_of_it_is_enrolled_without_it_and_takes_jobs_that_do_not_request_it() -> None:
    made = plan(forced(a_job(), a_machine("w1")))
    (enrol,) = (action for action in made.actions if isinstance(action, Enrol))
    assert "gpus" not in dict(enrol.complex_values)
    assert launched(made) == {}


def test_of_a_family_the_type_without_it_is_launched_for_jobs_that_do_not_request_it() -> None:
    mixed = (a_bucket(replace(GPU, family="m5")), a_bucket(LARGE))
    assert launched(plan(forced(a_job(), *mixed, hybrid=True))) == {"m5.large": 1}


def test_what_hosts_of_a_type_turned_out_to_have_is_not_launched_for_jobs_that_do_not_request_it() -> None:
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
def test_what_every_queue_has_must_be_requested_everywhere(name: str) -> None:
    """Sites force a run time to be requested so."""
    must = {name: replace(COMPLEXES[name], requestable="FORCED")}
    made = plan(forced(a_job(), complexes=must))
    assert (fate(made), launched(made)) == (Code.RESTRICTED_QUEUE, {})
    assert f"{name}, which is FORCED" in text(category_of(made).reason)
    values = {"h_rt": "600", "h_vmem": "1G", "hostname": "*", "qname": "main.q"}
    assert launched(plan(forced(a_job(hard={name: values[name]}), complexes=must))) == {"m5.large": 1}


# -- proofs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there", ((a_bucket(GPU),), (a_bucket(GPU), a_host("h1", slots=9, used=9, consumables={"gpus": "1"})))
)
def test_a_job_that_only_does_not_request_it_is_never_deleted(there: tuple[Thing, ...]) -> None:
    snapshot = forced(a_job(waited=9e5), *there, instance_type=GPU.name)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.KILL)))
    assert Code.ONLY_FORCED in codes(category_of(made).reason)
    assert (made.actions, {note.since for note in made.memory.suspicions.values()}) in (((), set()), ((), {None}))


def test_a_job_that_is_too_large_in_any_case_is_proven_as_without_it() -> None:
    snapshot = forced(a_job(slots=64, waited=9e5), a_bucket(GPU), instance_type=GPU.name)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.KILL)))
    assert fate(made) is Code.TOO_LARGE_FOR_ONE_HOST
    assert made.memory.suspicions[1].since == NOW


# -- the global host ------------------------------------------------------------------------------------------------


def test_only_jobs_that_request_what_the_global_host_has_are_launched_for() -> None:
    asking, plain = (plan(forced(a_job(hard=hard), global_values={"must": "TRUE"})) for hard in ({"mu": "1"}, {}))
    assert launched(asking) == {"m5.large": 1}
    assert (launched(plain), fate(plain)) == ({}, Code.RESTRICTED_QUEUE)
    assert "must=TRUE of the global host, which is FORCED" in text(category_of(plain).reason)
