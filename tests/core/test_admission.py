"""A job is refused at submission only if its request alone shows that it is unsatisfiable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.cluster import Access, Consumable, JobRequest, ParallelEnvironment, Queue, QueueInstance
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.plan import plan
from autoscaler.core.policy import DeadlockAnswer, Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.admission import Judge, admission_of
from autoscaler.report.wording import text
from tests.core.building import (
    COMPLEXES,
    GIB,
    MAIN,
    PES,
    X8LARGE,
    a_bucket,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    an_order,
)

HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}
TOO_LARGE = a_job(slots=64)
"""On one host; the largest type has 32."""


def judged(ask: JobRequest, snapshot: Snapshot) -> Reason | None:
    return Judge(admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy)).refusal(ask)


def code(job: Any, *things: Any, **world: Any) -> Code | None:
    reason = judged(job.ask, a_snapshot(*things, **{**HYBRID, **world}))
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    ("job", "expected"),
    (
        (TOO_LARGE, Code.TOO_LARGE_FOR_ONE_HOST),
        (a_job(slots=(64, 128), pe="local"), Code.TOO_LARGE_FOR_ONE_HOST),
        (a_job(slots=321, pe="mpi"), Code.TOO_MANY_SLOTS),
        (a_job(slots=44, pe="mpi4"), Code.TOO_MANY_HOSTS),
        (a_job(hard={"h_vmem": "129G"}), Code.TOO_MUCH_ON_ONE_HOST),
        (a_job(slots=2, hard={"h_vmem": "65G"}), Code.TOO_MUCH_ON_ONE_HOST),
        (a_job(hard={"h_vmem": "129G", "gpu": "1"}), Code.NO_TYPE_FITS),
        (a_job(slots=64, hard={"arch": "lx-amd64", "m_topology": "SCC"}), Code.TOO_LARGE_FOR_ONE_HOST),
        (a_job(slots=64, queues=("main.q",)), Code.TOO_LARGE_FOR_ONE_HOST),
        (a_job(slots=64, queues=("m*@*",)), Code.TOO_LARGE_FOR_ONE_HOST),
        (a_job(slots=64, tasks="1-9:1", count=9), Code.TOO_LARGE_FOR_ONE_HOST),
    ),
)
def test_an_unsatisfiable_job_is_refused(job: Any, expected: Code) -> None:
    assert code(job) is expected


@pytest.mark.parametrize(
    "job",
    (
        a_job(),
        a_job(slots=32),
        a_job(slots=(4, 64), pe="local"),
        a_job(slots=320, pe="mpi"),
        a_job(slots=40, pe="mpi4"),
        a_job(slots=(41, 1000), pe="mpi4", queues=("nosuch.q",)),
        a_job(hard={"h_vmem": "128G"}),
        a_job(hard={"h_vmem": "129G", "nosuch": "1"}),
        a_job(hard={"h_vmem": "much"}),
        a_job(hard={"gpu": "1", "scr": "4000G"}),
        a_job(hard={"mem_free": "1000G", "num_proc": "77"}),
        a_job(slots=64, pe="nosuch"),
        a_job(slots=64, hard={"h": "w1"}),
        a_job(slots=64, hard={"qname": "main.q"}),
        a_job(slots=64, queues=("main.q@w1",)),
        a_job(slots=64, queues=("main.q@@allhosts",)),
        a_job(slots=64, queues=("other.q",)),
        a_job(slots=64, master_queues=("main.q@w1",)),
        a_job(slots=64, hard={"h_rt": "48:00:00"}),
    ),
)
def test_a_job_that_may_run_or_is_not_understood_is_accepted(job: Any) -> None:
    queues = {"main.q": replace(MAIN, limits={"h_rt": "24:00:00"})}
    assert code(job, queues=queues) is None


@pytest.mark.parametrize(
    "world",
    (
        {"queues": {"main.q": MAIN, "other.q": Queue("other.q", ("@allhosts",), 64, pe_list=("local",))}},
        {"queues": {"main.q": replace(MAIN, access=Access(user_lists=("staff",)))}},
        {
            "queues": {
                "main.q": MAIN,
                "staff.q": Queue("staff.q", ("big",), 64, pe_list=("local",), access=Access(user_lists=("staff",))),
            }
        },
        {"queue": {"default": False}},
        {"enrols_itself": True},
        {"family": "nosuch"},
        {"limits": Limits(max_workers=0)},
    ),
    ids=(
        "another queue may take it",
        "a restricted queue",
        "another queue may take some",
        "no default queue",
        "workers tell what they have",
        "no type known",
        "no worker allowed",
    ),
)
def test_a_job_is_accepted_if_its_request_alone_does_not_decide(world: dict[str, Any]) -> None:
    assert code(TOO_LARGE, **world) is None


MUCH = a_job(hard={"h_vmem": "129G"})


@pytest.mark.parametrize(
    ("job", "pes", "refused"),
    (
        (MUCH, (), False),
        (replace(MUCH, ask=replace(MUCH.ask, queues=("@*",))), (), False),
        (TOO_LARGE, (), True),
        (TOO_LARGE, ("local",), False),
    ),
)
def test_a_job_is_refused_only_if_no_other_queue_may_take_it(job: Any, pes: tuple[str, ...], refused: bool) -> None:
    other = Queue("other.q", ("big",), 64, pe_list=pes)
    assert (code(job, queues={"main.q": MAIN, "other.q": other}) is not None) is refused


@pytest.mark.parametrize(
    "bucket",
    (
        {"problem": "no quota"},
        {"available": 0},
        {"price": -1.0},
    ),
    ids=("no quota", "sold out", "price not known"),
)
def test_a_currently_unavailable_type_counts_as_allowed(bucket: dict[str, Any]) -> None:
    limits = Limits(max_workers=2, max_price_per_hour=5.0)
    assert code(a_job(slots=32), a_bucket(X8LARGE, **bucket), limits=limits) is None


def test_a_job_that_fits_on_a_persistent_host_is_accepted() -> None:
    assert code(TOO_LARGE, a_host("big", slots=64, used=3, states="au", heard=False)) is None


def test_equal_persistent_hosts_count_together() -> None:
    hosts = [a_host(f"h{number}", slots=8) for number in range(4)]
    assert code(a_job(slots=352, pe="mpi"), *hosts) is None
    assert code(a_job(slots=353, pe="mpi"), *hosts) is Code.TOO_MANY_SLOTS


def test_a_job_that_fits_on_a_worker_of_a_no_longer_allowed_type_is_accepted() -> None:
    worker = a_worker("w1", type_=replace(X8LARGE, name="x1.big", family="x1", vcpus=64))
    assert code(TOO_LARGE, worker) is None


def test_a_job_is_accepted_if_its_memory_is_a_load_value_that_may_rise() -> None:
    host = a_host("h1", consumables={"h_vmem": str(2 * GIB)}, load={"h_vmem": str(2 * GIB)})
    assert code(a_job(hard={"h_vmem": "500G"}), host) is None


def test_a_job_is_accepted_if_running_jobs_may_hold_its_memory_by_default() -> None:
    complexes = {**COMPLEXES, "h_vmem": replace(COMPLEXES["h_vmem"], default="300G")}
    host = a_host("h1", used=1, consumables={"h_vmem": "1G"})
    assert code(a_job(hard={"h_vmem": "200G"}), host, complexes=complexes) is None


@pytest.mark.parametrize("name", ("lic", "scratch"))
def test_a_consumable_of_the_global_host_refuses_no_job(name: str) -> None:
    assert code(a_job(hard={name: "99"}), global_consumables={name: "1"}) is None


def test_a_pe_wildcard_is_refused_only_if_every_matching_pe_would_be() -> None:
    job = a_job(slots=64, pe="*")
    assert code(job) is None
    one_host = {name: PES[name] for name in ("local",)} | {"single": ParallelEnvironment("single", 99999, "$pe_slots")}
    queues = {"main.q": replace(MAIN, pe_list=("local", "single"))}
    snapshot = a_snapshot(queues=queues, **HYBRID)
    both = replace(snapshot, cluster=replace(snapshot.cluster, pes=one_host))
    assert judged(job.ask, both) is not None


def test_no_job_is_refused_if_unsatisfiable_jobs_are_only_reported() -> None:
    snapshot = a_snapshot(**HYBRID)
    reporting = replace(snapshot, policy=replace(snapshot.policy, deadlock=DeadlockAnswer.REPORT))
    assert (judged(TOO_LARGE.ask, snapshot) is None, judged(TOO_LARGE.ask, reporting)) == (False, None)


def test_a_thousand_equal_hosts_are_one_entry() -> None:
    snapshot = a_snapshot(*(a_host(f"h{number}") for number in range(1000)))
    assert [group.count for group in admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy).persistent] == [
        1000
    ]


def test_running_jobs_do_not_change_the_admission_data() -> None:
    """Otherwise it would be written and read in every pass."""
    idle, busy = (a_snapshot(a_host("h1", slots=4, used=used), a_worker("w1", used=used)) for used in (0, 2))
    assert admission_of(idle.cluster, idle.fleet, idle.policy) == admission_of(busy.cluster, busy.fleet, busy.policy)


@pytest.mark.parametrize(
    "job",
    (
        TOO_LARGE,
        a_job(slots=321, pe="mpi"),
        a_job(slots=44, pe="mpi4"),
        a_job(hard={"h_vmem": "129G"}),
        a_job(slots=2, hard={"h_vmem": "65G"}),
        a_job(slots=64, hard={"arch": "lx-amd64", "gpu": "2"}),
    ),
)
def test_a_refusal_has_the_text_that_plan_reports_for_the_job(job: Any) -> None:
    """What plan adds is how far its own proof has got."""
    snapshot = a_snapshot(job, a_host("h1", slots=1, queue="other.q"), a_worker("w1"), **HYBRID)
    reason = judged(job.ask, snapshot)
    assert reason is not None
    assert text(plan(snapshot).job_categories[0].reason).startswith(f"{text(reason)}; not proven unsatisfiable")


def test_a_large_queue_without_the_jobs_pe_does_not_make_it_accepted() -> None:
    other = Queue("other.q", ("@allhosts",), 64, pe_list=("mpi",))
    assert code(TOO_LARGE, queues={"main.q": MAIN, "other.q": other}) is Code.TOO_LARGE_FOR_ONE_HOST


def test_a_job_that_fits_on_an_ordered_worker_of_a_no_longer_allowed_type_is_accepted() -> None:
    assert code(TOO_LARGE, an_order(type_=replace(X8LARGE, name="x1.big", family="x1", vcpus=64))) is None


def test_slots_of_another_queue_do_not_make_a_job_accepted() -> None:
    other = QueueInstance("other.q", "h1", 64, 0, 0)
    assert code(TOO_LARGE, a_host("h1", more=(other,)), queues={"main.q": MAIN}) is Code.TOO_LARGE_FOR_ONE_HOST


def test_a_consumable_that_the_queue_defines_is_not_required_of_hosts() -> None:
    queues = {"main.q": replace(MAIN, complex_values={"gpus": "4"})}
    assert COMPLEXES["gpus"].consumable is Consumable.PER_SLOT
    assert code(a_job(hard={"gpus": "2"}), queues=queues) is None
