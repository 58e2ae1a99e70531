"""What a queue has for the instance on each host decides what fits there, and what a worker of it would offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.cluster import HostJob, ParallelEnvironment, Queue, QueueInstance
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import DeadlockAnswer, QueuePolicy
from autoscaler.core.snapshot import Snapshot
from tests.core.building import (
    COMPLEXES,
    GIB,
    MAIN,
    PES,
    X4LARGE,
    Thing,
    a_bucket,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    category_of,
    codes,
    details_of,
    jobs,
    launched,
    reason_code,
)

LIC = {"lic": "1"}
COLOUR = {**COMPLEXES, "colour": replace(COMPLEXES["arch"], name="colour", shortcut="col")}


def seen(*things: Thing, queue: Queue, pes: Mapping[str, str] | None = None, **more: Any) -> Snapshot:
    """A snapshot whose main.q is this one; `pes`: more parallel environments by their rule."""
    snapshot = a_snapshot(*things, queues={queue.name: queue}, complexes=more.pop("complexes", COLOUR), **more)
    known = {**PES, **{name: ParallelEnvironment(name, 99, rule) for name, rule in (pes or {}).items()}}
    return replace(snapshot, cluster=replace(snapshot.cluster, pes=known))


def main(**queue: Any) -> Queue:
    return replace(MAIN, **queue)


def of_big(snapshot: Snapshot, *hosts: str, group: str = "@x") -> Snapshot:
    """The same, these hosts being in a host group of their own."""
    groups = {"@allhosts": snapshot.cluster.host_groups["@allhosts"], group: hosts}
    return replace(snapshot, cluster=replace(snapshot.cluster, host_groups=groups))


@pytest.mark.parametrize(
    ("on_h1", "fitting"), (({}, 1), ({"h1": {"colour": "red"}}, 1), ({"h1": {"colour": "blue"}}, 0))
)
def test_a_queues_fixed_value_for_a_host_holds_there(on_h1: dict[str, dict[str, str]], fitting: int) -> None:
    queue = main(complex_values={"colour": "red"}, complex_values_by_host=on_h1)
    assert plan(seen(a_job(hard={"colour": "red"}), a_host("h1"), queue=queue)).fitting == fitting


# -- consumables of the queue ---------------------------------------------------------------------------------------


def test_a_consumable_of_the_queue_limits_each_instance_of_it() -> None:
    hosts = (a_host("h1", slots=4), a_host("h2", slots=4))
    found = plan(seen(jobs(9, hard=LIC), *hosts, queue=main(complex_values={"lic": "2"})))
    assert found.fitting == 4


def test_a_hosts_smaller_amount_limits_all_its_queue_instances_together() -> None:
    more = QueueInstance("b.q", "h1", 4, 0, 0)
    host = a_host("h1", slots=4, more=[more], consumables={"lic": "3"})
    snapshot = seen(jobs(9, hard=LIC), host, queue=main(complex_values={"lic": "2"}))
    queues = {**snapshot.cluster.queues, "b.q": main(name="b.q")}
    assert plan(replace(snapshot, cluster=replace(snapshot.cluster, queues=queues))).fitting == 3


def test_a_consumable_of_one_queue_is_offered_only_in_that_queue() -> None:
    host = a_host("h1", slots=4, more=[QueueInstance("b.q", "h1", 4, 0, 0)])
    snapshot = seen(jobs(9, hard=LIC), host, queue=main(complex_values={"lic": "2"}))
    queues = {**snapshot.cluster.queues, "b.q": main(name="b.q")}
    assert plan(replace(snapshot, cluster=replace(snapshot.cluster, queues=queues))).fitting == 2


@pytest.mark.parametrize(
    ("hard", "left"), ((LIC, 2), ((("lic", "3"),), 0), ((), 3)), ids=("asked", "all of it", "by default")
)
def test_a_queues_consumable_held_by_running_jobs_is_not_offered(hard: object, left: int) -> None:
    held = tuple(dict(hard).items())  # type: ignore[call-overload]
    running = HostJob(9001, "", "r", 1, "ann", hard=held)
    instance = QueueInstance("main.q", "h1", 8, 1, 0, "", (running,))
    host = replace(a_host("h1"), instances=(instance,))
    assert plan(seen(jobs(9, hard=LIC), host, queue=main(complex_values={"lic": "3"}))).fitting == left


def test_a_queues_consumable_held_by_default_is_not_offered() -> None:
    complexes = {**COMPLEXES, "lic": replace(COMPLEXES["lic"], default="1")}
    host = a_host("h1", slots=8, used=2)
    found = plan(seen(jobs(9), host, queue=main(complex_values={"lic": "5"}), complexes=complexes))
    assert found.fitting == 3


def test_a_queues_value_for_a_host_or_host_group_overrides_the_general_one() -> None:
    queue = main(complex_values={"lic": "1"}, complex_values_by_host={"@x": {"lic": "3"}, "h3": {}})
    hosts = [a_host(name, slots=4) for name in ("h1", "h2", "h3")]
    assert plan(of_big(seen(jobs(9, hard=LIC), *hosts, queue=queue), "h2")).fitting == 4


def test_a_per_job_consumable_of_a_queue_is_taken_once_on_an_instance() -> None:
    queue = main(complex_values={"scratch": "10G"})
    host = a_host("h1", slots=8)
    assert plan(seen(jobs(9, hard={"scratch": "4G"}), host, queue=queue)).fitting == 2


def test_a_job_over_several_hosts_takes_a_per_job_consumable_on_one_instance() -> None:
    queue = main(complex_values={"scratch": "10G"})
    hosts = (a_host("h1", slots=2), a_host("h2", slots=2))
    mpi = a_job(slots=4, pe="mpi", hard={"scratch": "8G"})
    assert plan(seen(mpi, *hosts, queue=queue)).fitting == 1
    assert plan(seen(replace(mpi, ask=replace(mpi.ask, hard=(("scratch", "11G"),))), *hosts, queue=queue)).fitting == 0


def test_slots_over_several_hosts_are_bounded_by_each_instances_consumable() -> None:
    queue = main(complex_values={"lic": "2"})
    hosts = (a_host("h1", slots=8), a_host("h2", slots=8))
    assert reason_code(plan(seen(a_job(slots=4, pe="mpi", hard=LIC), *hosts, queue=queue))) is Code.FITS
    assert reason_code(plan(seen(a_job(slots=5, pe="mpi", hard=LIC), *hosts, queue=queue))) is not Code.FITS


def test_launches_are_sized_by_the_queues_consumable_a_worker() -> None:
    found = plan(
        seen(
            jobs(4, hard=LIC),
            a_bucket(X4LARGE),
            queue=main(complex_values={"lic": "2"}),
            instance_type="m5.4xlarge",
        )
    )
    assert launched(found) == {"m5.4xlarge": 2}


def test_nothing_is_launched_if_the_queues_consumable_is_too_small_for_one_job() -> None:
    found = plan(seen(a_job(hard={"lic": "3"}), queue=main(complex_values={"lic": "2"})))
    assert launched(found) == {}
    assert codes(category_of(found).reason)[0] is Code.TOO_MUCH_ON_ONE_HOST


def test_a_worker_has_the_queues_consumable_of_its_host_group() -> None:
    queue = main(complex_values={"lic": "0"}, complex_values_by_host={"@allhosts": {"lic": "2"}})
    assert launched(plan(seen(jobs(4, hard=LIC), queue=queue))) == {"m5.large": 2}


# -- fixed values of the queue --------------------------------------------------------------------------------------


def test_a_hosts_matching_value_does_not_override_the_queues_mismatch() -> None:
    host = a_host("h1", fixed={"colour": "blue"})
    queue = main(complex_values={"colour": "red"})
    found = plan(seen(a_job(hard={"colour": "blue"}), host, queue=queue))
    assert (reason_code(found), launched(found)) == (Code.RESTRICTED_QUEUE, {})


def test_a_host_whose_value_differs_from_its_queues_is_not_supply() -> None:
    host = a_host("h1", fixed={"colour": "blue"})
    queue = main(complex_values={"colour": "red"})
    assert launched(plan(seen(a_job(hard={"colour": "red"}), host, queue=queue))) == {"m5.large": 1}


# -- parallel environments ------------------------------------------------------------------------------------------


def test_a_pe_of_another_host_group_is_not_available_on_workers() -> None:
    queue = main(pe_list=(), pe_list_by_host={"@x": ("mpi",)})
    found = plan(of_big(seen(a_job(slots=4, pe="mpi"), a_host("h1", slots=2), queue=queue), "h1"))
    assert (reason_code(found), launched(found)) == (Code.PE_ELSEWHERE, {})


def test_a_pe_of_the_workers_host_group_is_available_on_workers() -> None:
    queue = main(pe_list=(), pe_list_by_host={"@allhosts": ("mpi",)})
    assert launched(plan(seen(a_job(slots=4, pe="mpi"), queue=queue))) == {"m5.large": 2}


def test_a_host_without_the_pe_offers_it_no_slots() -> None:
    queue = main(pe_list_by_host={"h1": ("local",)})
    hosts = (a_host("h1", slots=4), a_host("h2", slots=4))
    snapshot = seen(a_job(slots=4, pe="mpi"), a_job(2, slots=4, pe="mpi"), *hosts, queue=queue)
    assert plan(snapshot).fitting == 1


def test_a_job_without_pe_runs_wherever_the_queue_is() -> None:
    queue = main(pe_list_by_host={"h1": ("local",)})
    assert plan(seen(jobs(9), a_host("h1", slots=3), a_host("h2", slots=3), queue=queue)).fitting == 6


def test_a_pe_job_may_spread_over_an_existing_and_a_new_worker() -> None:
    queue = main(pe_list=(), pe_list_by_host={"@allhosts": ("mpi",)})
    snapshot = seen(a_job(slots=4, pe="mpi"), a_worker("w1"), queue=queue)
    assert launched(plan(snapshot)) == {"m5.large": 1}


@pytest.mark.parametrize(
    ("job", "code"),
    (
        (a_job(slots=101, pe="fp*"), Code.PE_RULE),
        (a_job(slots=(5, 5), pe="fp2"), Code.PE_RULE),
        (a_job(slots=120, pe="fp*"), Code.PE_SLOTS),
        (a_job(slots=2, pe="xx*"), Code.UNKNOWN_PE),
    ),
)
def test_a_request_that_no_pe_allows_has_that_reason(job: Any, code: Code) -> None:
    queue = main(pe_list=("fp2", "fp4"))
    assert reason_code(plan(seen(job, queue=queue, pes={"fp2": "2", "fp4": "4"}))) is code


def test_memory_of_the_queue_counts_in_bytes() -> None:
    queue = main(complex_values={"h_vmem": "3G"})
    host = a_host("h1", slots=8, consumables={"h_vmem": f"{8 * GIB}"})
    assert plan(seen(jobs(9, hard={"h_vmem": "1G"}), host, queue=queue)).fitting == 3


# -- several queues on a host ---------------------------------------------------------------------------------------


def with_second_queue(snapshot: Snapshot, **queue: Any) -> Snapshot:
    """The same with a queue b.q beside main.q."""
    queues = {**snapshot.cluster.queues, "b.q": main(name="b.q", **queue)}
    return replace(snapshot, cluster=replace(snapshot.cluster, queues=queues))


def test_a_fixed_value_of_one_of_two_queues_is_used_only_there() -> None:
    host = a_host("h1", slots=2, more=[QueueInstance("b.q", "h1", 3, 0, 0)])
    snapshot = seen(jobs(9, hard={"colour": "red"}), host, queue=main(complex_values={"colour": "red"}))
    assert plan(with_second_queue(snapshot)).fitting == 2


def test_a_per_job_consumable_is_needed_only_in_the_jobs_first_queue_instance() -> None:
    host = a_host("h1", slots=2, more=[QueueInstance("b.q", "h1", 2, 0, 0)])
    snapshot = seen(jobs(2, slots=4, hard={"scratch": "1G"}), host, queue=main(complex_values={"scratch": "1G"}))
    assert plan(with_second_queue(snapshot)).fitting == 1


def test_a_job_cannot_take_its_per_job_consumable_in_an_instance_without_a_slot_for_it() -> None:
    host = a_host("h1", slots=2, more=[QueueInstance("b.q", "h1", 2, 0, 0)])
    asked = a_job(hard={"scratch": "1G", "lic": "1"})
    snapshot = with_second_queue(seen(asked, host, queue=main(complex_values={"scratch": "1G"})), complex_values=LIC)
    assert plan(snapshot).fitting == 0


def test_a_one_slot_pe_wildcard_job_fits_in_any_queue_with_a_matching_pe() -> None:
    host = a_host("h1", slots=0, more=[QueueInstance("b.q", "h1", 3, 0, 0)])
    snapshot = seen(a_job(slots=(1, 3), pe="*"), host, queue=main(pe_list=("mpi",)))
    assert plan(with_second_queue(snapshot, pe_list=("local",))).fitting == 1


def test_of_pes_with_one_rule_a_wildcard_uses_the_one_of_most_queues() -> None:
    host = a_host("h1", slots=2, more=[QueueInstance("b.q", "h1", 2, 0, 0)])
    both = ("team",)
    snapshot = seen(a_job(slots=4, pe="*"), host, queue=main(pe_list=("mpi", *both)), pes={"team": "$fill_up"})
    assert plan(with_second_queue(snapshot, pe_list=both)).fitting == 1


# -- kinds of job ---------------------------------------------------------------------------------------------------

INTERACTIVE = ("INTERACTIVE",)


def kinds(*things: Thing, ckpt: str = "", **queue: Any) -> Snapshot:
    """Jobs of this checkpointing environment where one is to be had, and main.q with these attributes."""
    snapshot = seen(*things, details_of(1, group="users", ckpt=ckpt), queue=main(**queue))
    return replace(snapshot, cluster=replace(snapshot.cluster, ckpts=("blcr",)))


@pytest.mark.parametrize(
    ("asked", "queue", "code"),
    (
        ({}, {"qtype": ("BATCH",)}, None),
        ({}, {"qtype": INTERACTIVE}, Code.NO_BATCH_QUEUE),
        ({}, {"qtype": ()}, Code.NO_BATCH_QUEUE),
        ({}, {"qtype": INTERACTIVE, "qtype_by_host": {"@allhosts": ("BATCH",)}}, None),
        ({}, {"qtype_by_host": {"@allhosts": INTERACTIVE}}, Code.NO_BATCH_QUEUE),
        ({"slots": 2}, {"qtype": ()}, None),
        ({"slots": (1, 1), "pe": "local"}, {"qtype": INTERACTIVE}, None),
        ({"ckpt": "blcr"}, {}, Code.NOT_IN_CKPT_LIST),
        ({"ckpt": "blcr", "slots": 2}, {}, Code.NOT_IN_CKPT_LIST),
        ({"ckpt": "blcr"}, {"ckpt_list": ("blcr",)}, None),
        ({"ckpt": "blcr"}, {"ckpt_list": ("dmtcp",), "ckpt_list_by_host": {"@allhosts": ("blcr",)}}, None),
        ({"ckpt": "blcr"}, {"ckpt_list": ("blcr",), "qtype": INTERACTIVE}, Code.NO_BATCH_QUEUE),
        ({"ckpt": "blcr"}, {"ckpt_list": ("blcr",), "qtype": (), "pe_list": ()}, None),
        ({"ckpt": "blcr", "slots": 2}, {"ckpt_list": ("blcr",), "qtype": ()}, None),
    ),
)
def test_a_worker_is_launched_only_for_jobs_of_its_queues_qtype_and_ckpt_list(
    asked: dict[str, Any], queue: dict[str, Any], code: Code | None
) -> None:
    asked = dict(asked)
    snapshot = kinds(ckpt=asked.pop("ckpt", ""), **queue)
    found = plan(replace(snapshot, cluster=replace(snapshot.cluster, job_categories=(a_job(**asked),))))
    assert (bool(launched(found)), reason_code(found) if code else None) == (code is None, code)


def test_a_host_for_interactive_jobs_only_does_not_prevent_a_launch() -> None:
    host = a_host("h1", slots=4)
    found = plan(seen(a_job(), host, queue=main(qtype_by_host={"h1": INTERACTIVE})))
    assert (found.fitting, launched(found)) == (0, {"m5.large": 1})


@pytest.mark.parametrize(
    ("free", "code"), ((2, Code.FITS), (0, Code.COUNTED)), ids=("free slots there", "no free slot there")
)
def test_a_job_that_names_a_queue_that_refuses_it_and_a_host_is_judged_on_that_host(free: int, code: Code) -> None:
    """`-q main.q,b.q@w1` of a batch job, where main.q takes interactive ones only."""
    queues = {"main.q": main(qtype=INTERACTIVE), "b.q": Queue("b.q", ("w1",), 1)}
    worker = a_worker("w1", host=a_host("w1", slots=2, used=2 - free, queue="b.q"), node_array="b")
    snapshot = a_snapshot(a_job(queues=("main.q", "b.q@w1")), worker, queues=queues)
    (main_array,) = snapshot.policy.node_arrays
    policy = replace(
        snapshot.policy,
        queues=(*snapshot.policy.queues, QueuePolicy("b.q", "b")),
        node_arrays=(main_array, replace(main_array, name="b", queue="b.q")),
    )
    found = plan(replace(snapshot, policy=policy))
    assert (reason_code(found), launched(found)) == (code, {})


def test_nothing_is_launched_for_a_ckpt_that_only_a_persistent_host_has() -> None:
    found = plan(kinds(a_job(), a_host("h1", slots=4), ckpt="blcr", ckpt_list_by_host={"h1": ("blcr",)}))
    assert (reason_code(found), launched(found)) == (Code.NOT_IN_CKPT_LIST, {})


def test_a_host_with_a_lower_h_rt_limit_does_not_prevent_a_launch_for_a_longer_job() -> None:
    host = a_host("h1", slots=4)
    queue = main(limits_by_host={"h1": {"h_rt": "1:0:0"}})
    assert plan(seen(a_job(hard={"h_rt": "600"}), host, queue=queue)).fitting == 1
    found = plan(seen(a_job(hard={"h_rt": "7200"}), host, queue=queue))
    assert (found.fitting, launched(found)) == (0, {"m5.large": 1})


def test_nothing_is_launched_for_an_immediate_job() -> None:
    found = plan(seen(a_job(unscheduled=True), details_of(1, unscheduled=True, immediate=True), queue=main()))
    assert (reason_code(found), launched(found)) == (Code.IMMEDIATE, {})


@pytest.mark.parametrize("qtype", (INTERACTIVE, ()))
def test_a_job_that_its_queues_qtype_excludes_is_not_deleted(qtype: tuple[str, ...]) -> None:
    snapshot = seen(a_job(hard={"h_vmem": "900G"}, waited=9e5), queue=main(qtype=qtype))
    found = plan(replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.KILL)))
    assert (reason_code(found), found.memory.unsatisfiable_jobs, found.actions) == (Code.NO_BATCH_QUEUE, {}, ())
