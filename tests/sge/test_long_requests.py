"""Jobs whose requests or environments take long to read cost their owners, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import pytest

from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.reasons import Code
from autoscaler.errors import CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed
from autoscaler.sge.detail import MOST_CONTEXT, read_details
from autoscaler.sge.detail_lookups import PATIENCE, DetailLookups
from autoscaler.sge.qstat import read_qstat
from autoscaler.sge.shared_listing import EXTRA, REST, TURN, SharedListing
from autoscaler.sge.units import Clock
from tests.sge.printed import qstat, queue_list, running_job, waiting_job

LONG = f"<predecessor_jobs_req>{'n' * (EXTRA + 10_000)}</predecessor_jobs_req>"
SHORT = '<hard_request name="h_rt" resource_contribution="0.0">100</hard_request>'


@dataclass
class Master:
    """qstat of some waiting jobs by owner, at `speed` bytes a second."""

    jobs: dict[str, list[str]]
    speed: float = 10_000_000.0
    now: float = 0.0
    asked: list[str] = field(default_factory=list)
    running: str = ""

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        self.asked.append(" ".join(argv))
        owners = self.jobs if "*" in argv else argv[argv.index("-u") + 1].split(",")
        jobs = [job for owner in owners for job in self.jobs.get(owner, ())]
        shown = jobs if "-r" in argv else [job.partition("<full_job_name>")[0] + "</job_list>" for job in jobs]
        answer = qstat(shown, [queue_list("main.q@w1", self.running, used=1)]).decode()
        seconds = len(answer) / self.speed
        self.now += min(seconds, timeout)
        if seconds > timeout:
            raise CommandTimedOut(f"it did not end within {timeout:g} s and was killed")
        return Completed(tuple(argv), 0, answer.encode(), b"", seconds)

    def listing(self) -> SharedListing:
        return SharedListing(lambda: self.now)


def of(owner: str, number: int, more: str = SHORT, **values: str) -> str:
    return waiting_job(number, owner=owner, more=more, **values)


def categories(data: bytes) -> dict[int, JobCategory]:
    return {job: category for category in read_qstat(data, UTC).job_categories for job in category.jobs}


def unread(data: bytes) -> set[int]:
    return {
        job
        for job, category in categories(data).items()
        if category.ask.fault is not None and category.ask.fault.code is Code.REQUESTS_UNREAD
    }


def test_where_requests_are_short_one_command_lists_all_jobs() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", number) for number in range(2, 50)]})
    listing = master.listing()
    for _ in range(3):
        assert not unread(listing.read(master, 30.0))
    assert set(master.asked) == {"qstat -u * -s a -r -f -xml"}
    assert listing.trouble == ""


def test_jobs_whose_requests_take_longer_than_a_pass_may_keep_nobody_else_unread() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG)], "bob": [of("bob", 3)]}, speed=EXTRA / 50)
    listing = master.listing()
    found = listing.read(master, 30.0)
    assert categories(found)[1].ask.hard == (("h_rt", "100"),)
    assert unread(found) == {2}
    assert "jobs of eve are" in listing.trouble
    began = master.now
    assert unread(listing.read(master, 30.0)) == {2}
    assert master.now - began < 0.5


def test_many_long_requests_are_read_in_turns_and_count_as_they_were_read_last() -> None:
    eve = [of("eve", number, LONG.replace("nnn", "n", 1) + SHORT) for number in range(10, 14)]
    master = Master({"ann": [of("ann", 1)], "eve": eve})
    listing = master.listing()
    assert not unread(listing.read(master, 30.0))
    master.jobs["eve"].append(of("eve", 20, SHORT))
    master.jobs["ann"].append(of("ann", 21, SHORT))
    master.asked.clear()
    began = master.now
    found = listing.read(master, 30.0)
    assert unread(found) == {20}
    assert categories(found)[10].ask.hard == (("h_rt", "100"),)
    assert master.asked == ["qstat -u * -s a -f -xml", "qstat -u ann -s a -r -f -xml"]
    assert master.now - began < 0.01

    master.now += REST * 1.0
    assert not unread(listing.read(master, 30.0))
    assert master.asked[-1] == "qstat -u eve -s a -r -f -xml"


def test_turns_of_the_longest_requests_take_a_small_share_of_the_time() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG)], "mal": [of("mal", 3, LONG)]}, speed=EXTRA / 5)
    listing, began = master.listing(), master.now
    for _ in range(60):
        assert 1 not in unread(listing.read(master, 30.0))
        master.now += 40.0
    spent = master.now - began - 60 * 40.0
    assert sum("-u eve" in asked or "-u mal" in asked for asked in master.asked) > 4
    assert spent < 0.06 * (master.now - began)


def test_when_the_requests_are_short_again_one_command_lists_all_jobs() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG)]})
    listing = master.listing()
    listing.read(master, 30.0)
    master.jobs["eve"] = [of("eve", 2)]
    for _ in range(3):
        assert 1 not in unread(listing.read(master, 30.0))
        master.now += 1000.0
    assert master.asked[-1] == "qstat -u * -s a -r -f -xml"
    assert listing.trouble == ""


def test_an_owner_without_jobs_is_forgotten() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG)]})
    listing = master.listing()
    listing.read(master, 30.0)
    del master.jobs["eve"]
    listing.read(master, 30.0)
    assert listing.trouble == ""
    listing.read(master, 30.0)
    assert master.asked[-1] == "qstat -u * -s a -r -f -xml"


def test_where_all_jobs_have_one_owner_nobody_waits_for_a_turn() -> None:
    master = Master({"eve": [of("eve", 2, LONG), of("eve", 3, LONG)]})
    listing = master.listing()
    for _ in range(3):
        assert not unread(listing.read(master, 30.0))
    assert set(master.asked) == {"qstat -u * -s a -r -f -xml"}


def test_many_owners_who_agree_are_all_read_in_turns() -> None:
    """Each of them has less than may be read in a pass."""
    half = LONG.replace("n" * EXTRA, "n" * (EXTRA // 2))
    master = Master({"ann": [of("ann", 1)], **{f"mal{at}": [of(f"mal{at}", 10 + at, half)] for at in range(8)}})
    listing = master.listing()
    listing.read(master, 30.0)
    began = master.now
    assert 1 not in unread(listing.read(master, 30.0))
    assert master.now - began < 2 * EXTRA / master.speed


def test_a_job_that_runs_stays_on_its_host_and_a_name_is_no_owner() -> None:
    master = Master(
        {"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG, name="&lt;JB_owner&gt;ann")]}, running=running_job(7)
    )
    listing = master.listing()
    for _ in range(2):
        found = read_qstat(listing.read(master, 30.0), UTC)
        assert [job.number for job in found.instances[0].jobs] == [7]
    assert "jobs of eve are" in listing.trouble


def test_the_priority_is_that_of_this_pass() -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG, prio="0.00000")]})
    listing = master.listing()
    assert categories(listing.read(master, 30.0))[2].ask.unscheduled
    master.jobs["eve"] = [of("eve", 2, LONG, prio="0.55500")]
    assert not categories(listing.read(master, 30.0))[2].ask.unscheduled


def test_a_qmaster_that_answers_nothing_ends_the_reading() -> None:
    master = Master({"ann": [of("ann", 1)]}, speed=1e-6)
    with pytest.raises(GridEngineNotObservable):
        master.listing().read(master, 30.0)
    assert master.now <= 40.0


@pytest.mark.parametrize("share", (0.0, 0.01, 0.5, 0.9, 0.99))
def test_an_answer_about_some_owners_that_is_cut_short_ends_the_reading(share: float) -> None:
    """Their jobs would count as ones that were not read, so nothing would wait (rule 2)."""
    master = Master({"ann": [of("ann", 1), of("ann", 3)], "eve": [of("eve", 2, LONG)]})
    listing = master.listing()
    listing.read(master, 30.0)

    def cut(argv: Sequence[str], **options: Any) -> Completed:
        done = master(argv, **options)
        return done if "*" in argv else replace(done, stdout=done.stdout[: int(share * len(done.stdout))])

    with pytest.raises(GridEngineNotObservable, match=r"qstat -u ann .* nothing was decided"):
        listing.read(cut, 30.0)


@pytest.mark.parametrize("share", (0.01, 0.5, 0.99))
def test_an_answer_in_a_turn_that_is_cut_short_ends_the_reading(share: float) -> None:
    master = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG), of("eve", 3, LONG)]})
    listing = master.listing()
    listing.read(master, 30.0)
    master.now += REST * 10.0

    def cut(argv: Sequence[str], **options: Any) -> Completed:
        done = master(argv, **options)
        return replace(done, stdout=done.stdout[: int(share * len(done.stdout))]) if "eve" in argv else done

    with pytest.raises(GridEngineNotObservable, match=r"qstat -u eve .* nothing was decided"):
        listing.read(cut, 30.0)


# -- qstat -j --------------------------------------------------------------------------------------------------------


@dataclass
class Details:
    """`qstat -j` of jobs, each of which takes some seconds."""

    seconds: Mapping[int, float]
    now: float = 0.0

    def __call__(self, argv: Sequence[str], *, timeout: float, **_: object) -> Completed:
        numbers = [int(number) for number in argv[2].split(",")]
        seconds = sum(self.seconds.get(number, 0.001) for number in numbers)
        self.now += min(seconds, timeout)
        if seconds > timeout:
            raise CommandTimedOut(f"it did not end within {timeout:g} s and was killed")
        answer = "".join(f"<JB_job_number>{number}</JB_job_number>" for number in numbers)
        return Completed(tuple(argv), 0, f"<detailed_job_info>{answer}</detailed_job_info>".encode(), b"", seconds)


def test_jobs_with_huge_environments_keep_no_job_of_others_from_being_looked_up() -> None:
    master = Details(dict.fromkeys(range(100, 200), 2.0))
    lookups = DetailLookups(lambda: master.now)
    owners = {1: "ann", 2: "bob", **dict.fromkeys(range(100, 200), "eve")}
    found = lookups.read(master, (100, 1, 101, 2, *range(102, 200)), owners, 30.0)
    assert found is not None
    assert {int(number) for number in re.findall(rb"number>(\d+)<", found)} >= {1, 2}
    assert "jobs of eve are huge" in lookups.trouble
    began, most = master.now, 0.0
    for job in range(300, 400):
        owners[job] = "ann"
        before = master.now
        found = lookups.read(master, (100, 101, *range(102, 200), job), owners, 30.0)
        assert f"<JB_job_number>{job}<".encode() in (found or b"")
        most = max(most, master.now - before)
        master.now += 15.0
    assert most < 2 * PATIENCE
    assert master.now - began - 100 * 15.0 < 0.1 * (master.now - began)


def test_it_is_known_which_jobs_there_was_no_answer_about() -> None:
    """Else a lost job would count as one that was asked about and may start again (rule 7)."""
    master = Details({100: 9.0})
    lookups = DetailLookups(lambda: master.now)
    owners = {1: "ann", 100: "eve", 101: "eve"}
    lookups.read(master, (1, 100, 101), owners, 30.0)
    assert lookups.unanswered == {100, 101}
    lookups.read(master, (1,), owners, 30.0)
    assert lookups.unanswered == frozenset()


def test_a_lookup_that_is_quick_again_is_no_trouble() -> None:
    slow = dict.fromkeys(range(100, 104), 2.0)
    master = Details(slow)
    lookups = DetailLookups(lambda: master.now)
    owners = dict.fromkeys(slow, "eve")
    assert lookups.read(master, tuple(slow), owners, 30.0) is None
    slow.clear()
    for _ in range(5):
        master.now += TURN * REST
        lookups.read(master, tuple(owners), owners, 30.0)
    assert lookups.trouble == ""


def test_of_a_context_only_a_part_is_kept() -> None:
    pairs = [("tier", "gold"), *((f"x{number}", "y" * 1000) for number in range(100))]
    context = "".join(
        f"<context_list><VA_variable>{name}</VA_variable><VA_value>{value}</VA_value></context_list>"
        for name, value in pairs
    )
    answer = f"<djob_info><JB_job_number>7</JB_job_number><JB_context>{context}</JB_context></djob_info>"
    (found,) = read_details(answer.encode(), Clock(UTC), 0.0).values()
    assert found.context["tier"] == "gold"
    assert sum(map(len, found.context.values())) < MOST_CONTEXT
