"""The administrator on a real Grid Engine: workers are enrolled disabled, and removed only when empty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.errors import GridEngineRefused
from autoscaler.lab.cell import Cell
from autoscaler.process import Completed
from autoscaler.sge.admin import Administrator
from autoscaler.sge.membership import Membership
from autoscaler.sge.removal import membership_of
from tests.grid_engine.waiting import Until

SLEEP = ("-b", "y", "-w", "n", "sleep", "300")
HAD = Membership(slots=(("main.q", "2"),), host_groups=("@allhosts",))


class Died(BaseException):
    """The autoscaler was killed here."""


class Interrupted:
    """A runner that is killed after its n-th command."""

    def __init__(self, cell: Cell, after: int) -> None:
        self.cell, self.left = cell, after

    def __call__(self, argv: Sequence[str], **options: Any) -> Completed:
        completed = self.cell.runner(argv, **options)
        self.left -= 1
        if self.left == 0:
            raise Died
        return completed


def names(cell: Cell) -> list[str]:
    """The persistent hosts of the cell."""
    return [host.name for host in cell.declared]


def instance(cell: Cell, host: str) -> str | None:
    """The line of main.q on a host in `qstat -f`: type, reserved/used/total, load, arch, states."""
    lines = cell.out("qstat", "-f").splitlines()
    return next((line for line in lines if line.startswith(f"main.q@{host} ")), None)


def states(cell: Cell, host: str) -> str:
    line = instance(cell, host)
    assert line is not None, f"no queue instance on {host}"
    words = line.split()
    return words[5] if len(words) > 5 else ""


def run_on(cell: Cell, until: Until, host: str, *options: str) -> str:
    """A job that runs there."""
    job = cell.submit("-q", f"main.q@{host}", *options, *SLEEP)
    until(lambda: f"main.q@{host}" in cell.out("qstat", "-s", "r"), message=f"job {job} did not start on {host}")
    return job


def test_a_worker_is_enrolled_disabled_before_its_machine_reports(cell: Cell) -> None:
    administrator = Administrator(cell.runner)
    administrator.remove(names(cell)[0])
    administrator.enrol(names(cell)[0], "main.q", "@allhosts", 8, {"h_vmem": "32G"})
    shown = cell.out("qconf", "-se", names(cell)[0])
    assert ("slots=8,h_vmem=32G" in shown, "d" in states(cell, names(cell)[0])) == (True, True)


def test_an_enabled_worker_runs_jobs(cell: Cell, until: Until) -> None:
    host = names(cell)[0]
    administrator = Administrator(cell.runner)
    administrator.remove(host)
    administrator.enrol(host, "main.q", "@allhosts", 8)
    job = cell.submit("-q", f"main.q@{host}", *SLEEP)
    administrator.enable(host)
    until(lambda: f"main.q@{host}" in cell.out("qstat", "-s", "r"), message=f"job {job} did not start")


def traces(cell: Cell, host: str) -> list[tuple[str, ...]]:
    """What `qconf` shows that still names a host."""
    places = (("-sel",), ("-sh",), ("-ss",), ("-sconfl",), ("-sq", "*"), ("-shgrp", "@allhosts"))
    shown = {words: cell.runner(("qconf", *words), timeout=60.0).stdout.decode() for words in places}
    return [words for words, text in shown.items() if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text)]


def test_a_removed_worker_leaves_no_trace(cell: Cell) -> None:
    host = names(cell)[0]
    cell.out("qconf", "-as", host)
    cell.out("qconf", "-ah", host)
    (cell.directory / host).write_text("mailer /bin/mail\n")
    cell.out("qconf", "-Aconf", str(cell.directory / host))
    before = len(traces(cell, host))
    Administrator(cell.runner).remove(host)
    assert (before, traces(cell, host)) == (6, [])


@pytest.mark.parametrize("suspended", (False, True), ids=("running", "suspended"))
def test_a_host_with_a_job_is_not_removed_keeps_its_membership_and_is_disabled(
    cell: Cell, until: Until, suspended: bool
) -> None:
    host = names(cell)[0]
    job = run_on(cell, until, host)
    if suspended:
        cell.out("qmod", "-sj", job)
    outcome = Administrator(cell.runner).remove(host)
    kept = membership_of(Administrator(cell.runner), [host])[host]
    assert (outcome.removed, outcome.restored, kept, states(cell, host)) == (False, HAD, HAD, "d")


def test_a_host_with_a_reserved_slot_is_not_removed(cell: Cell, until: Until) -> None:
    host = names(cell)[0]
    cell.out("qconf", "-au", "root", "arusers")
    cell.out("qrsub", "-d", "600", "-q", f"main.q@{host}")
    outcome = Administrator(cell.runner).remove(host)
    assert (outcome.removed, membership_of(Administrator(cell.runner), [host])[host]) == (False, HAD)


def test_a_host_that_another_queue_names_leaves_that_queue_too(cell: Cell) -> None:
    host = names(cell)[0]
    file = cell.directory / "two.q"
    file.write_text(cell.out("qconf", "-sq", "main.q").replace("main.q", "two.q").replace("@allhosts", host))
    cell.out("qconf", "-Aq", str(file))
    assert (Administrator(cell.runner).remove(host).removed, traces(cell, host)) == (True, [])


def test_removing_a_removed_host_is_done(cell: Cell) -> None:
    host = names(cell)[0]
    Administrator(cell.runner).remove(host)
    assert Administrator(cell.runner).remove(host).removed


@pytest.mark.parametrize("after", (6, 7, 8))
def test_a_removal_killed_after_a_change_is_completed_by_the_next(cell: Cell, after: int) -> None:
    host = names(cell)[0]
    with pytest.raises(Died):
        Administrator(Interrupted(cell, after)).remove(host)
    Administrator(cell.runner).remove(host)
    assert (host in cell.out("qconf", "-sel").split(), membership_of(Administrator(cell.runner), [host])[host]) == (
        False,
        Membership(),
    )


@pytest.mark.parametrize("after", (1, 2, 3, 4))
def test_an_enrolment_killed_after_a_change_is_completed_by_the_next(cell: Cell, after: int) -> None:
    host = names(cell)[0]
    Administrator(cell.runner).remove(host)
    with pytest.raises(Died):
        Administrator(Interrupted(cell, after)).enrol(host, "main.q", "@allhosts", 2)
    Administrator(cell.runner).enrol(host, "main.q", "@allhosts", 2)
    assert (membership_of(Administrator(cell.runner), [host])[host], "d" in states(cell, host)) == (HAD, True)


def test_a_name_that_does_not_resolve_is_refused_with_grid_engines_message(cell: Cell) -> None:
    with pytest.raises(GridEngineRefused, match="can't resolve hostname"):
        Administrator(cell.runner).enrol("nowhere", "main.q", "@allhosts", 2)


def test_a_host_whose_name_no_longer_resolves_is_removed_without_a_trace(cell: Cell) -> None:
    administrator, names_file = Administrator(cell.runner), cell.tree.hosts_file
    before = names_file.read_text()
    names_file.write_text(f"{before}10.1.0.77 vanished\n")
    administrator.enrol("vanished", "main.q", "@allhosts", 2)
    (cell.directory / "vanished").write_text("mailer /bin/mail\n")
    cell.out("qconf", "-Aconf", str(cell.directory / "vanished"))
    names_file.write_text(before)
    outcome = administrator.remove("vanished")
    assert (outcome.removed, traces(cell, "vanished")) == (True, [])


def test_enrolling_is_refused_if_the_queue_does_not_include_the_host_group(cell: Cell) -> None:
    (cell.directory / "other").write_text("group_name @other\nhostlist NONE\n")
    cell.out("qconf", "-Ahgrp", str(cell.directory / "other"))
    host = names(cell)[0]
    Administrator(cell.runner).remove(host)
    with pytest.raises(GridEngineRefused, match="does not include @other"):
        Administrator(cell.runner).enrol(host, "main.q", "@other", 2)


def test_jobs_are_held_annotated_released_and_deleted(cell: Cell) -> None:
    administrator = Administrator(cell.runner)
    job = cell.submit("-h", *SLEEP)
    administrator.hold([job])
    administrator.set_context([job], "autoscaler", "asks 100 slots, has 64")
    assert "autoscaler=asks 100 slots; has 64" in cell.out("qstat", "-j", job)
    administrator.release([job])
    assert "hqw" in cell.out("qstat", "-u", "*")  # the owner's own hold stays
    assert administrator.delete([job, "999"]).gone == ("999",)
    assert administrator.delete([job]).gone == (job,)


def test_a_job_that_is_not_rerunnable_is_rescheduled_only_by_force(cell: Cell, until: Until) -> None:
    administrator = Administrator(cell.runner)
    host = names(cell)[0]
    job = run_on(cell, until, host, "-r", "n")
    assert job in administrator.reschedule(job).refused
    assert administrator.reschedule(job, forced=True).done == (job,)
    until(lambda: "Rq" in cell.out("qstat", "-u", "*"), message="the job was not rescheduled")
