"""The fast reading of waiting and running jobs gives what the careful one gives, whatever is listed."""

from __future__ import annotations

import re
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge import job_categories as job_categories
from autoscaler.sge.known_jobs import keys_of, split_priority
from autoscaler.sge.markup import Aside
from autoscaler.sge.qstat import Listing, ListingReader, read_qstat
from autoscaler.sge.units import Clock
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
def test_fast_and_careful_reading_of_waiting_jobs_agree(waiting: list[str]) -> None:
    data = qstat(waiting)
    assert read(data, fast=True) == read(data, fast=False)


@given(elements)
def test_fast_and_careful_reading_of_running_jobs_agree(running: list[str]) -> None:
    data = qstat((), (queue_list("main.q@w1", *running),))
    assert read(data, fast=True) == read(data, fast=False)


@given(st.lists(st.one_of(jobs, torn), max_size=3), st.binary(max_size=6), st.integers(0, 10_000))
def test_fast_and_careful_reading_agree_on_damaged_listings(waiting: list[str], noise: bytes, where: int) -> None:
    data = qstat(waiting, (queue_list("main.q@w1", running_job()),))
    at = where % len(data)
    broken = data[:at] + noise + data[at + len(noise) :]
    assert read(broken, fast=True) == read(broken, fast=False)


@given(st.lists(st.sampled_from([waiting_job(n, name=f"n{n}", owner=o) for n in range(9) for o in "ab"]), max_size=40))
def test_ordinary_jobs_never_need_the_careful_reader(waiting: list[str]) -> None:
    reader = job_categories.JobReader(Clock(UTC), Aside())
    careful = []
    reader._read_last = lambda *_: careful.append(1)  # type: ignore[method-assign]
    data = "".join(waiting).encode()
    reader.read_waiting(data, 0, len(data))
    assert not careful
    assert sum(category.count for category in reader.job_categories()) == len(re.findall(b"</job_list>", data))


def reprioritized(element: str, digits: str) -> str:
    """The same job with another priority, as a pass later."""
    return re.sub(r"<JAT_prio>[0-9]\.[0-9]+</JAT_prio>", f"<JAT_prio>{digits}</JAT_prio>", element)


priorities = st.sampled_from(["0.00000", "0.12345", "0.60000", "12.5", "1", "0", ".5", "nan", "0.5.5", "<b/>0.5"])
moved = st.builds(reprioritized, st.one_of(jobs, torn), priorities)


@given(st.lists(st.one_of(jobs, torn), min_size=1, max_size=5), st.data())
def test_listings_read_one_after_the_other_equal_those_read_alone(pool: list[str], data: st.DataObject) -> None:
    reader = ListingReader()
    known = st.sampled_from(pool)
    again = st.lists(st.one_of(known, known, st.builds(reprioritized, known, priorities), moved), max_size=7)
    for _ in range(4):
        printed = qstat(data.draw(again), (queue_list("main.q@w1", *data.draw(again)), queue_list("main.q@w2")))
        try:
            found: Listing | str = reader.read(printed, UTC)
        except GridEngineNotObservable as error:
            found = str(error)
        assert found == read(printed, fast=False)


numbered = st.builds(
    waiting_job,
    st.sampled_from([8, 9, 10, 11, 100]),
    prio=st.sampled_from(["0.00000", "0.25000", "0.5"]),
    owner=st.sampled_from(["ann", "bob"]),
    tasks=st.sampled_from(["", "1-9:1"]),
    attributes=st.sampled_from([' state="pending"'] * 4 + [" state='pending'", ""]),
)


@given(st.lists(numbered, min_size=1, max_size=12), st.integers(300, 3_000), st.data())
def test_a_long_listing_read_in_stretches_equals_one_reading(
    pool: list[str], stretch: int, data: st.DataObject
) -> None:
    """Jobs come, go, stand twice and change places between stretches; most change in nothing but their priority."""
    reader = ListingReader()
    again = st.lists(st.one_of(st.sampled_from(pool), st.builds(reprioritized, st.sampled_from(pool), priorities)))
    waiting = pool
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_categories, "_STRETCH", stretch)
        for _ in range(4):
            printed = qstat(waiting)
            assert reader.read(printed, UTC) == read(printed, fast=False)
            moved = [reprioritized(job, f"0.{n}5000") for n, job in enumerate(data.draw(st.permutations(waiting)))]
            waiting = data.draw(st.one_of(st.just(moved), again))


def test_other_jobs_of_the_same_number_are_not_taken_for_those_before() -> None:
    ann, bob = waiting_job(4, owner="ann"), waiting_job(5, owner="bob")
    reader = ListingReader()
    for waiting in ([ann, bob], [ann, ann], [bob, ann], [bob, bob], [ann, waiting_job(5, owner="eve")]):
        printed = qstat(waiting)
        assert reader.read(printed, UTC) == read(printed, fast=False)


def test_unchanged_jobs_are_recognised_in_any_order_and_formatting() -> None:
    jobs = [
        waiting_job(number, attributes=" state='pending'" if number % 3 else ' state="pending"') for number in range(9)
    ]
    reader = ListingReader()
    first = reader.read(qstat(jobs), UTC)
    again = [reprioritized(job, f"0.{9 - number}0000") for number, job in enumerate(jobs)]
    for printed in (qstat(again), qstat(reversed(again))):
        pairs = zip(reader.read(printed, UTC).job_categories, first.job_categories, strict=True)
        assert all(one is other for one, other in pairs)
    for lost in (' state="pending"', '    <job_list state="pending">\n', "    </job_list>\n"):
        for at in range(len(jobs)):
            torn = qstat([*jobs[:at], jobs[at].replace(lost, ""), *jobs[at + 1 :]])
            assert reader.read(torn, UTC) == read(torn, fast=False)


def test_jobs_that_exchange_states_or_priorities_are_read_again() -> None:
    for number in range(100, 160):
        for values in ({"state": ("qw", "hqw")}, {"prio": ("0.50000", "0.00000")}):
            ((name, (one, other)),) = values.items()
            reader = ListingReader()
            for first, second in ((one, other), (other, one)):
                printed = qstat([waiting_job(number, **{name: first}), waiting_job(number + 1, **{name: second})])
                assert reader.read(printed, UTC) == read(printed, fast=False), number


def test_a_category_is_the_same_object_until_its_jobs_change() -> None:
    reader = ListingReader()
    ann, bob = [waiting_job(number, owner="ann") for number in (4, 5)], waiting_job(6, owner="bob")
    first = reader.read(qstat([*ann, bob]), UTC).job_categories
    moved = [reprioritized(job, prio) for job, prio in ((bob, "0.9"), (ann[1], "0.8"), (ann[0], "0.7"))]
    assert reader.read(qstat(moved), UTC).job_categories is first
    later = reader.read(qstat([*ann[:1], bob]), UTC).job_categories
    assert [category.jobs for category in later] == [(4,), (6,)]
    assert later[1] is first[1]


def test_a_job_is_unscheduled_exactly_while_its_priority_is_zero() -> None:
    reader = ListingReader()
    job = waiting_job(4)
    found = [
        reader.read(qstat([reprioritized(job, prio)]), UTC).job_categories[0] for prio in ("0.5", "0.00000", "0.4")
    ]
    assert [category.ask.unscheduled for category in found] == [False, True, False]


def test_jobs_set_aside_are_reported_for_every_listing() -> None:
    reader = ListingReader()
    torso = waiting_job(4)[:80] + waiting_job(5)
    found = [reader.read(qstat([torso]), UTC).set_aside for _ in range(2)]
    assert found[0] == found[1] != ()


def test_running_jobs_keep_their_own_requests() -> None:
    requests = [f'<hard_request name="h_rt" resource_contribution="0.0">{n}</hard_request>' for n in (60, 90)]
    running = [running_job(number, more=more) for number, more in enumerate(requests)]
    (instance,) = read_qstat(qstat((), (queue_list("main.q@w1", *running),)), UTC).instances
    assert [job.hard for job in instance.jobs] == [(("h_rt", "60"),), (("h_rt", "90"),)]


@pytest.mark.parametrize(
    "odd",
    (
        "<JAT_prio>0.00000</JAT_prio>",
        "<JAT_prio>12.50000</JAT_prio>",
        "<JAT_prio>0.5</JAT_prio>",
        "<JAT_prio>nan</JAT_prio>",
        "<JAT_prio>0.5000x</JAT_prio>",
        "<JAT_prio>0.50000",
        "0.50000</JAT_prio>",
        "<JAT_prio>0.50000</JAT_prio><JAT_prio>0.50000</JAT_prio>",
        "",
    ),
)
def test_keys_of_many_jobs_at_once_equal_those_made_one_by_one(odd: str) -> None:
    elements = [f"<n>{n}</n>\n<JAT_prio>0.{n}0000</JAT_prio>\n<s>qw</s>".encode() for n in range(3)]
    elements.insert(1, f"<n>9</n>\n{odd}\n<s>qw</s>".encode())
    for some in (elements, elements[:1], elements[1:2], elements[2:], []):
        parted = [split_priority(element) for element in some]
        assert keys_of(some) == [None if zero is None else hash(a + b"0.00000" * zero + b) for a, b, zero in parted]


def test_an_element_cut_short_after_the_priority_has_no_key() -> None:
    assert keys_of([b"<n>1</n><JAT_prio>0.50000"]) == [None]
