"""A pass that uses the caches of the one before decides as one without caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.demand import demand, eligibility
from autoscaler.core.demand.alike import alike_in
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.memory import Memory
from autoscaler.core.placement.queue_instances import with_queue_instances
from autoscaler.core.plan import plan
from autoscaler.core.readable import screening
from autoscaler.core.readable.remembered import LastValue, PerCategory
from autoscaler.core.snapshot import Plan
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.qstat import ListingReader, read_qstat
from bench.generate import NOW
from bench.world import snapshot_of, world
from tests.samples import examples
from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, running_job, waiting_job

Reading = tuple[Outputs, dict[int, JobDetail], float]
"""Outputs, what is known of single jobs, and the time."""
HOSTS = ("w1", "w2")
CONFIGURATION = {
    "sq_main.q": "qname main.q\nhostlist @allhosts\npe_list local mpi\nslots 4\nh_rt 2:0:0\n",
    "sq_short.q": "qname short.q\nhostlist @allhosts\npe_list local\nslots 4\nh_rt 0:10:0\n",
    "sp_local": "pe_name local\nslots 6\nallocation_rule $pe_slots\n",
    "sp_mpi": "pe_name mpi\nslots 99999\nallocation_rule $fill_up\n",
    "shgrp_@allhosts": f"group_name @allhosts\nhostlist {' '.join(HOSTS)}\n",
    "sel": "\n".join(HOSTS) + "\n",
}
QUOTA = "{{\n name most\n enabled TRUE\n limit users {{*}} to slots={}\n}}\n"


def request(name: str, value: str) -> str:
    return f'<hard_request name="{name}" resource_contribution="0.0">{value}</hard_request>'


asked = st.sampled_from(
    [
        "",
        '<requested_pe name="local">2</requested_pe>',
        '<requested_pe name="mpi">6</requested_pe>',
        '<requested_pe name="mpi">200000</requested_pe>',
        request("mem_free", "2G"),
        request("h_vmem", "1.5G"),
        request("odd", "1"),
        *(request("h_rt", value) for value in ("60", "61", "599", "600", "601", "7200", "7201", "1e400", "soon")),
        "<hard_req_queue>short.q</hard_req_queue>",
    ]
)
details = st.builds(
    JobDetail,
    job=st.just(0),
    read_at=st.just(NOW.timestamp() - 60),
    start_after=st.sampled_from([None, None, NOW.timestamp() + 5, NOW.timestamp() - 500]),
    concurrency=st.sampled_from([None, None, 1]),
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, object]:
    """What is printed of a job, but for its number and priority."""
    minute = draw(st.integers(0, 59))
    return {
        "owner": draw(st.sampled_from(["ann", "bob"])),
        "state": draw(st.sampled_from(["qw", "qw", "qw", "hqw", "Eqw"])),
        "time": f"<JB_submission_time>2026-03-02T11:{minute:02}:00</JB_submission_time>",
        "tasks": draw(st.sampled_from(["", "", "", "1-5:1"])),
        "more": "\n      ".join(draw(st.lists(asked, max_size=2, unique=True))),
    }


@st.composite
def readings(draw: st.DrawFn) -> list[Reading]:
    """A cell from pass to pass: jobs come, go and are changed; priorities, loads, limits and the time move."""
    waiting: dict[int, dict[str, object]] = {}
    found = []
    known: dict[int, JobDetail] = {}
    now, quota = NOW.timestamp(), ""
    for turn in range(draw(st.integers(2, 4))):
        changes = draw(st.integers(0, 3)) if turn else draw(st.integers(1, 8))
        for _ in range(changes):
            number = draw(st.integers(10, 20))
            if draw(st.booleans()) or number not in waiting:
                waiting[number] = draw(jobs())
            else:
                del waiting[number]
        if draw(st.integers(0, 3)) == 0:
            quota = draw(st.sampled_from(["", QUOTA.format(1), QUOTA.format(3)]))
        if draw(st.integers(0, 3)) == 0:
            known = {**known, **{one: replace(draw(details), job=one) for one in draw(st.sets(st.integers(10, 20)))}}
        numbers = draw(st.permutations(sorted(waiting)))
        listed = [
            waiting_job(number, prio=draw(st.sampled_from(["0.5", "0.61234", "0.00000"])), **waiting[number])  # type: ignore[arg-type]
            for number in numbers
        ]
        busy = draw(st.sets(st.sampled_from(HOSTS)))
        lists = [
            queue_list(f"main.q@{one}", *([running_job(3, slots=4)] if one in busy else []), used=4 * (one in busy))
            for one in HOSTS
        ]
        offers = [
            host(
                one,
                queue_of_host(used=4 * (one in busy)),
                load={"load_avg": "0.1", "arch": "lx-amd64", "mem_free": draw(st.sampled_from(["1G", "3G", "9G"]))},
            )
            for one in HOSTS
        ]
        configuration = {**CONFIGURATION, "srqs": quota}
        found.append((Outputs(qstat(listed, lists), qhost(*offers), configuration), known, now))
        now += draw(st.sampled_from([1, 10, 40]))
    return found


def decided(outputs: Outputs, known: Mapping[int, JobDetail], memory: Memory, now: float) -> Plan:
    cluster = cluster_from(outputs, zone=UTC, now=now)
    memory = replace(memory, details={**memory.details, **known})
    rest = replace(world(outputs), memory=memory)
    return plan(replace(snapshot_of(cluster, rest), now=now))


def forget(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(demand, "_LAST", LastValue())
    patched.setattr(demand, "_READER", LastValue())
    patched.setattr(eligibility, "_WHOLE", PerCategory())
    patched.setattr(screening, "_FINE", PerCategory())


@settings(max_examples=examples(150))
@given(readings())
def test_passes_with_caches_decide_as_those_without(
    passes: list[Reading],
) -> None:
    reader, memory, plans = ListingReader(), Memory(passes=10), []
    for outputs, known, now in passes:
        listing = reader.read(outputs.qstat, UTC)
        found = decided(replace(outputs, listing=listing), known, memory, now)
        plans.append(found)
        memory = replace(found.memory, launches=())
    memory = Memory(passes=10)
    for (outputs, known, now), before in zip(passes, plans, strict=True):
        with pytest.MonkeyPatch.context() as patched:
            forget(patched)
            alone = replace(outputs, listing=read_qstat(outputs.qstat, UTC, fast=False))
            assert decided(alone, known, memory, now) == before
        memory = replace(before.memory, launches=())


def test_a_start_time_takes_effect_though_nothing_else_changed() -> None:
    printed = qstat([waiting_job(10, tasks="1-5:1")], [queue_list("main.q@w1")])
    outputs, now = Outputs(printed, qhost(host("w1", queue_of_host())), CONFIGURATION), NOW.timestamp()
    known = {10: JobDetail(10, now - 60, start_after=now + 5)}
    reader = ListingReader()
    plans = [
        decided(replace(outputs, listing=reader.read(printed, UTC)), known, Memory(passes=10), at)
        for at in (now, now + 10)
    ]
    assert [found.counted for found in plans] == [0, 5]


def test_a_timeout_takes_effect_though_nothing_else_changed() -> None:
    submitted = f"<JB_submission_time>{NOW:%Y-%m-%dT%H:%M:%S}</JB_submission_time>"
    printed = qstat([waiting_job(10, time=submitted)], [queue_list("main.q@w1", running_job(3, slots=4), used=4)])
    outputs, now = Outputs(printed, qhost(host("w1", queue_of_host(used=4))), CONFIGURATION), NOW.timestamp()
    reader = ListingReader()
    plans = [
        decided(replace(outputs, listing=reader.read(printed, UTC)), {}, Memory(passes=10), at)
        for at in (now, now + 3600)
    ]
    assert [len(found.actions) for found in plans] == [0, 1]


@given(st.lists(st.lists(asked, max_size=2, unique=True), min_size=2, max_size=8))
def test_requests_with_the_same_number_are_read_equally(requested: list[list[str]]) -> None:
    """Each is read by itself; those with the same number have the same answer."""
    waiting = [waiting_job(number, more="\n      ".join(some)) for number, some in enumerate(requested, 10)]
    outputs = Outputs(qstat(waiting, [queue_list()]), None, CONFIGURATION)
    cluster = cluster_from(outputs, zone=UTC, now=NOW.timestamp())
    rest = world(outputs)
    snapshot = with_queue_instances(snapshot_of(cluster, rest))
    reader = RequestReader(snapshot.cluster, rest.policy, frozenset())
    answers: dict[int, object] = {}
    for category in cluster.job_categories:
        answer = reader.read(category.ask)
        assert answers.setdefault(reader.alike.number(category.ask), answer) == answer


def test_run_times_on_the_same_side_of_every_queue_limit_have_the_same_number() -> None:
    waiting = [waiting_job(number, more=request("h_rt", str(number))) for number in (10, 11, 599, 601, 602, 7200, 7201)]
    cluster = cluster_from(Outputs(qstat(waiting, [queue_list()]), None, CONFIGURATION), zone=UTC, now=NOW.timestamp())
    alike = alike_in(cluster.complexes, cluster.queues)
    numbers = {category.jobs[0]: alike.number(category.ask) for category in cluster.job_categories}
    assert [numbers[one] == numbers[10] for one in (11, 599, 601, 7201)] == [True, True, False, False]
    assert numbers[601] == numbers[602] == numbers[7200] != numbers[7201]
