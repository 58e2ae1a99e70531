"""What jobs do right before one is changed, read from a complete listing or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoscaler.core.model.cluster import JobRequest
from autoscaler.errors import GridEngineNotObservable
from autoscaler.process import Completed
from autoscaler.sge.lookup import Lookup
from tests.sge.printed import qstat, queue_list, running_job, waiting_job


def looked_up(listing: bytes) -> Lookup:
    def runner(argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 0, listing, b"", 0.0)

    return Lookup(runner)


RUNS = queue_list("main.q@w1", running_job(3, state="s"), used=1)


def test_running_and_waiting_jobs_are_read_from_a_listing() -> None:
    now = looked_up(qstat([waiting_job(7, state="hqw"), waiting_job(8, tasks="3-9:2,12")], [RUNS])).jobs()
    assert (now.running, sorted(now.waiting), now.waiting["7"]) == (
        frozenset({3}),
        ["7", "8.12", "8.3-9:2"],
        JobRequest("hqw", owner="ann"),
    )


@pytest.mark.parametrize(
    "listing",
    (
        qstat([waiting_job(7)], [RUNS])[:-40],
        qstat([waiting_job("x")], [RUNS]),
        qstat([waiting_job(7)], [queue_list("main.q@w1", running_job("x"), used=1)]),
    ),
    ids=("cut short", "a waiting job unreadable", "a running job unreadable"),
)
def test_an_incomplete_listing_fails_the_lookup(listing: bytes) -> None:
    with pytest.raises(GridEngineNotObservable):
        looked_up(listing).jobs()


def test_waiting_jobs_are_listed_with_their_names() -> None:
    listing = (
        b"<job_info><job_info><job_list state='pending'><JB_job_number>7</JB_job_number><JAT_prio>0.5</JAT_prio>"
        b"<JB_name>a&amp;b &lt;x&gt;</JB_name><JB_owner>ann</JB_owner></job_list>"
        b"<job_list state='pending'><JB_job_number>8</JB_job_number><JB_owner>ann</JB_owner></job_list>"
        b"<job_list state='pending'><JB_job_number>9</JB_job_number><JB_name>c</JB_name></job_list>"
        b"</job_info></job_info>"
    )
    assert looked_up(listing).names() == {7: "a&b <x>", 9: "c"}
