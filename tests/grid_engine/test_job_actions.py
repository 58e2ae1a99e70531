"""Jobs of a real Grid Engine are held, deleted and rescheduled with a reason that their owners can read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.core.actions import Action, Hold, Kill, Release, Reschedule
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import Plan
from autoscaler.engine.actor import Actor
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.job_owners import Notices
from autoscaler.lab.cell import Cell
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.settings.process_settings import OwnerNotice
from autoscaler.sge.admin import Administrator
from autoscaler.sge.lookup import Lookup
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.store.journal import Result
from autoscaler.store.store import Store
from tests.grid_engine.waiting import Until
from tests.simulated.asking import NamesInMemory
from tests.simulated.executor import at_once

REASON = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)
SENTENCE = "no parallel environment mpi of the queues main.q takes 100 slots"


class Acting:
    """An actor on a real cell whose owners are notified by files."""

    def __init__(self, cell: Cell) -> None:
        self.store = Store.open(None)
        lookup = Lookup(cell.runner)
        context = ExecutionContext(
            grid_engine=Administrator(cell.runner),
            provider=FakeProvider(FakeSettings(), cell="cell"),
            store=self.store,
            tag="cell",
            boot_script=lambda array: "",
            clock=lambda: 1_795_252_200.0,
            executor=at_once,
            scheduler=ProbeHosts(cell.runner, NamesInMemory()),
            jobs=lookup.jobs,
            owners=Notices(OwnerNotice.FILE, lookup, cell.runner),
        )
        self.actor = Actor(context, patience=0.0)
        self.jobs = lookup.jobs

    def kill(self, *jobs: str) -> tuple[Result, str]:
        """As they wait now."""
        waiting = self.jobs().waiting
        return self(Kill(jobs, REASON, asks=tuple(waiting.get(job, JobRequest("qw")) for job in jobs)))

    def __call__(self, action: Action) -> tuple[Result, str]:
        journalled = self.store.accept(Plan((action,), Memory()), pass_number=1, at=1_795_252_200.0)
        (outcome,) = self.actor.act(journalled, ())
        return outcome.result, outcome.message


@pytest.fixture
def acting(cell: Cell) -> Acting:
    return Acting(cell)


@pytest.fixture
def nobodys_folder(cell: Cell) -> Iterator[Path]:
    """A directory of `nobody`'s that everybody can reach."""
    place = cell.output / "nobodys"
    place.mkdir()
    shutil.chown(place, "nobody")
    yield place
    shutil.rmtree(place)


def shown(cell: Cell, job: str) -> list[str]:
    """State and more of a job, as `qstat` prints its line."""
    lines = (line.split() for line in cell.out("qstat", "-u", "*").splitlines())
    return next((words for words in lines if words[:1] == [job]), [])


def test_a_held_job_has_the_reason_in_its_context_and_can_be_released(cell: Cell, acting: Acting) -> None:
    job = cell.submit("-b", "y", "-pe", "local", "99", "sleep", "60")
    acting(Hold((job,), REASON))
    held, context = shown(cell, job)[4], cell.out("qstat", "-j", job)
    acting(Release((job,), REASON))
    assert (held, f"autoscaler={SENTENCE}" in context, shown(cell, job)[4]) == ("hqw", True, "qw")


def test_the_owner_of_a_deleted_job_gets_a_file_with_the_reason(
    cell: Cell, acting: Acting, nobodys_folder: Path
) -> None:
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    job = cell.out(
        *as_nobody,
        "qsub",
        "-terse",
        "-b",
        "y",
        "-N",
        "sim",
        "-pe",
        "local",
        "99",
        "-o",
        str(nobodys_folder),
        "sleep",
        "60",
    ).strip()
    assert (acting.kill(job), shown(cell, job)) == ((Result.DONE, ""), [])
    file = nobodys_folder / f"sim.{job}.autoscaler"
    assert (file.owner(), SENTENCE in file.read_text()) == ("nobody", True)


@pytest.mark.parametrize(
    "words", (("-pe", "local", "1"), ("-h", "u"), ("-l", "h_rt=9"), ("-q", "main.q")), ids=" ".join
)
def test_a_job_that_was_altered_since_it_was_judged_is_neither_deleted_nor_held(
    words: tuple[str, ...], cell: Cell, acting: Acting
) -> None:
    job = cell.submit("-b", "y", "-pe", "local", "99", "sleep", "60")
    asks = (acting.jobs().waiting[job],)
    cell.out("qalter", *words, job)
    outcomes = acting(Kill((job,), REASON, asks=asks)), acting(Hold((job,), REASON, asks=asks))
    assert [result for result, _ in outcomes] == [Result.REFUSED, Result.REFUSED]
    assert shown(cell, job)[4:5] in (["hqw"] if "-h" in words else ["qw"], ["r"], ["t"])


@pytest.mark.parametrize("how", ("runs", "is suspended"))
def test_a_job_that_started_meanwhile_is_not_deleted(how: str, cell: Cell, acting: Acting, until: Until) -> None:
    job = cell.submit("-b", "y", "sleep", "60")
    until(lambda: shown(cell, job)[4] == "r", message="the job did not start")
    if how == "is suspended":
        cell.out("qmod", "-sj", job)
        until(lambda: shown(cell, job)[4] == "s", message="the job was not suspended")
    outcome = acting.kill(job)
    assert (outcome[0], shown(cell, job)[4] in ("r", "s")) == (Result.REFUSED, True)


def test_waiting_tasks_of_an_array_with_a_running_task_are_not_deleted(
    cell: Cell, acting: Acting, until: Until
) -> None:
    job = cell.submit("-b", "y", "-t", "1-9", "sleep", "60")
    until(lambda: shown(cell, job)[4:5] == ["r"], message="no task started")
    outcome = acting.kill(f"{job}.7-9")
    assert (outcome[0], "7-9:1" in cell.out("qstat", "-u", "*") or "5-9:1" in cell.out("qstat", "-u", "*")) == (
        Result.REFUSED,
        True,
    )


def test_a_job_that_is_not_rerunnable_is_rescheduled_only_by_force(cell: Cell, acting: Acting, until: Until) -> None:
    jobs = [cell.submit("-b", "y", "-r", rerun, "sleep", "60") for rerun in ("y", "n")]
    until(lambda: all(shown(cell, job)[4] == "r" for job in jobs), message="the jobs did not start")
    cell.out("qmod", "-d", "*")
    outcome = acting(Reschedule(tuple(jobs), "i-1", "w1", REASON))
    assert (outcome[0], outcome[1].startswith(f"{jobs[1]}: ")) == (Result.REFUSED, True)
    until(lambda: shown(cell, jobs[0])[4] == "Rq", message="the first was not rescheduled")
    assert (shown(cell, jobs[1])[4], acting(Reschedule((jobs[1],), "i-1", "w1", REASON, forced=True))[0]) == (
        "r",
        Result.DONE,
    )


def test_a_job_is_rescheduled_even_if_another_is_gone(cell: Cell, acting: Acting, until: Until) -> None:
    job = cell.submit("-b", "y", "-r", "y", "sleep", "60")
    until(lambda: shown(cell, job)[4] == "r", message="the job did not start")
    assert acting(Reschedule(("999", job), "i-1", "w1", REASON)) == (Result.DONE, "gone already: 999")
