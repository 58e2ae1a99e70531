"""The fast reading of waiting and running jobs says what the careful one says, whatever is listed."""

from __future__ import annotations

import re
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.errors import GridEngineNotObservable
from sge import job_categories as shapes
from sge.markup import Aside
from sge.qstat import Listing, read_qstat
from sge.units import Clock
from tests.sge.printed import qstat, queue_list, running_job, waiting_job

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<&"), max_size=8)
names = st.one_of(
    texts, st.sampled_from(["a<b", "&<>", "&amp;%lt;&gt;", "x</JB_name>y", "</job_list>", "\x07bell", "%"])
)
tags = st.sampled_from(
    [
        "",
        '<requested_pe name="mpi">4-12</requested_pe>',
        '<requested_pe name="mpi">few</requested_pe>',
        '<requested_PE name="local">4</requested_PE>',
        '<hard_request name="h_vmem" resource_contribution="1.0">4G</hard_request>',
        "<hard_req_queue>main.q</hard_req_queue>",
        "<predecessor_jobs_req>align</predecessor_jobs_req><predecessor_jobs>3</predecessor_jobs>",
        "<predecessor_jobs>3</predecessor_jobs><predecessor_jobs>4</predecessor_jobs>",
        "<tasks>2</tasks>",
        "<JB_job_number>99</JB_job_number>",
        "<JAT_prio>0.00000</JAT_prio>",
        "<queue_name>main.q@w9</queue_name>",
        "<queue_name></queue_name>",
        "<!-- note -->",
        "<master></master>",
        "<broken>",
        "loose text & more",
        "&undefined;",
    ]
)
times = st.sampled_from(
    [
        "<JB_submission_time>2026-11-21T09:04:23</JB_submission_time>",
        "<JB_submission_time>2026-11-21T09:04:23.092</JB_submission_time>",
        "<JB_submission_time>1557926211092</JB_submission_time>",
        "<JAT_start_time>2026-11-21T09:04:24</JAT_start_time>",
        "<JB_submission_time>2026-99-21T09:04:23</JB_submission_time>",
        "<JB_submission_time></JB_submission_time>",
        "",
    ]
)
jobs = st.builds(
    waiting_job,
    st.sampled_from([1, 2, 3, 4, "", "x", "7" * 5000]),
    prio=st.sampled_from(["0.00000", "0", "0.5", "0.25000", "0,00000", ".", "", "-1.0", "nan"]),
    name=names,
    owner=st.one_of(st.sampled_from(["ann", "bob", "DOMAIN\\eve", "o&amp;o", "caf\u00e9", " ann "]), texts),
    state=st.sampled_from(["qw", "hqw", "Eqw", "Rq", "r", ""]),
    time=times,
    slots=st.sampled_from([1, 2, 16, 0, "", "many", "7" * 5000]),
    tasks=st.sampled_from(["", "1-100:3", "7", "8,9", "9-1", "1-3:1,7"]),
    more=st.lists(tags, max_size=3).map("\n      ".join),
    attributes=st.sampled_from([' state="pending"', "", " state='zombie'"]),
)
torn = st.builds(lambda job, at: job[: at % (len(job) + 1)], jobs, st.integers(0, 600))
elements = st.lists(st.one_of(jobs, jobs, jobs, torn), max_size=6)


def read(data: bytes, *, fast: bool) -> Listing | str:
    try:
        return read_qstat(data, UTC, fast=fast)
    except GridEngineNotObservable as error:
        return str(error)


@given(elements)
def test_waiting_jobs_read_fast_are_those_read_carefully(waiting: list[str]) -> None:
    data = qstat(waiting)
    assert read(data, fast=True) == read(data, fast=False)


@given(elements)
def test_running_jobs_read_fast_are_those_read_carefully(running: list[str]) -> None:
    data = qstat((), (queue_list("main.q@w1", *running),))
    assert read(data, fast=True) == read(data, fast=False)


@given(st.lists(st.one_of(jobs, torn), max_size=3), st.binary(max_size=6), st.integers(0, 10_000))
def test_bytes_broken_in_anywhere_never_make_the_two_differ(waiting: list[str], noise: bytes, where: int) -> None:
    data = qstat(waiting, (queue_list("main.q@w1", running_job()),))
    at = where % len(data)
    broken = data[:at] + noise + data[at + len(noise) :]
    assert read(broken, fast=True) == read(broken, fast=False)


@given(st.lists(st.sampled_from([waiting_job(n, name=f"n{n}", owner=o) for n in range(9) for o in "ab"]), max_size=40))
def test_the_usual_job_is_never_read_carefully_twice(waiting: list[str]) -> None:
    reader = shapes.JobReader(Clock(UTC), Aside())
    careful = []
    reader._read_last = lambda *_: careful.append(1)  # type: ignore[method-assign]
    data = "".join(waiting).encode()
    reader.read_waiting(data, 0, len(data))
    assert not careful
    assert sum(shape.count for shape in reader.shapes()) == len(re.findall(b"</job_list>", data))
