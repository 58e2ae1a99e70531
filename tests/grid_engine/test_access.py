"""Access on a real Grid Engine: access lists, projects, quotas and reservations decide what is launched."""

from __future__ import annotations

import re
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from tests.differential.rounds import STOPPED, dispatch
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.test_doctor import findings
from tests.grid_engine.waiting import Shown, Until
from tests.samples import sample

GAMES, MAIL, NEWS = ("games", "60"), ("mail", "8"), ("news", "9")
MANY = {"CP_CAP_AUTOSCALE_WORKERS": "9", "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "9"}


def a_list(cell: Cell, name: str, entries: str, type_: str = "ACL") -> None:
    file = cell.directory / "list"
    file.write_text(f"name {name}\ntype {type_}\nfshare 0\noticket 0\nentries {entries}\n")
    cell.out("qconf", "-Au", str(file))


def a_project(cell: Cell, name: str) -> None:
    file = cell.directory / "project"
    file.write_text(f"name {name}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n")
    cell.out("qconf", "-Aprj", str(file))


def submitted_by(cell: Cell, who: tuple[str, str], *words: str, seconds: int = 0) -> str:
    """The number of a job of that user and primary group; its working directory is there on every host."""
    user, group = who
    entering = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups")
    argv = (
        *entering,
        "qsub",
        "-wd",
        "/tmp",
        "-b",
        "y",
        "-o",
        "/dev/null",
        "-e",
        "/dev/null",
        *words,
        "sleep",
        str(seconds),
    )
    ended = cell.runner(argv, timeout=60.0)
    output = (ended.stdout + ended.stderr).decode()
    made = re.search(r"Your job(?:-array)? (\d+)\b.* has been submitted", output)
    assert made is not None, output
    return made[1]


def rows(plan: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    """Job → whether it counts, and the code of the reason."""
    return {
        job.partition(".")[0]: (row["counted"], row["reason"]["code"])
        for row in plan["job_categories"]
        for job in row["jobs"]
    }


def launches(plan: dict[str, Any]) -> list[str]:
    return [action["kind"] for action in plan["actions"] if action["kind"] == "launch"]


def test_workers_are_launched_only_for_users_on_the_access_list(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = scaling.log_text
    a_list(empty_cell, "staff", "games,@news")
    empty_cell.out("qconf", "-aattr", "queue", "user_lists", "staff", "main.q")
    named = submitted_by(empty_cell, GAMES)
    refused = submitted_by(empty_cell, MAIL)
    by_group = submitted_by(empty_cell, ("mail", "9"))

    with scaling.running():
        until(lambda: scaling.ended_well(named) and scaling.ended_well(by_group), 60, "the allowed did not run")
        explained = scaling.explained(refused)["waiting"]
        until(scaling.all_gone, 60, "the worker did not leave")
    assert [(row["counted"], row["reason"]["code"]) for row in explained] == [(False, "NO_ACCESS")]
    assert explained[0]["reason"]["text"] == "mail of group mail may not use main.q (user_lists=staff)"
    assert len(scaling.lifetimes()) == 1


@pytest.mark.parametrize(
    ("attribute", "type_", "counted"),
    (
        ("user_lists", "ACL", {"games": True, "mail": False}),
        pytest.param("xuser_lists", "ACL", {"games": False, "mail": True}, marks=pytest.mark.thorough),
        pytest.param("user_lists", "DEPT", {"games": False, "mail": False}, marks=pytest.mark.thorough),
        pytest.param("xuser_lists", "DEPT", {"games": False, "mail": False}, marks=pytest.mark.thorough),
    ),
)
def test_access_lists_of_a_queue_are_judged_as_by_the_scheduler(
    cell: Cell, until: Until, attribute: str, type_: str, counted: dict[str, bool]
) -> None:
    """Two hosts are free: the scheduler starts exactly the jobs that we count."""
    a_list(cell, "staff", "games", type_)
    cell.out("qconf", "-aattr", "queue", attribute, "staff", "main.q")
    cell.schedule(**STOPPED)  # with `qconf -kt` and `-at` in a row qmaster 8.1.9 sometimes dies
    dispatch(cell)
    jobs = {submitted_by(cell, GAMES): "games", submitted_by(cell, MAIL): "mail"}
    made = rows(Autoscaling(cell).plan())
    assert {jobs[job]: row[0] for job, row in made.items()} == counted
    cell.schedule(**cell.scheduler)
    dispatch(cell)
    allowed = {job for job, user in jobs.items() if counted[user]}
    until(lambda: all(Autoscaling(cell).ended_well(job) for job in allowed), 20, "the scheduler did not start them")
    waiting = cell.out("qstat", "-u", "*")
    assert all((f" {user} " in waiting) is not counted[user] for user in jobs.values())


def test_access_lists_of_a_pe_the_global_host_and_a_host_group_count(empty_cell: Cell) -> None:
    a_list(empty_cell, "staff", "games")
    jobs = [submitted_by(empty_cell, who, "-pe", "local", "1") for who in (GAMES, MAIL)]
    for kind, attribute, name in (
        ("pe", "user_lists", "local"),
        ("exechost", "user_lists", "global"),
        ("queue", "user_lists", "main.q@@allhosts"),
    ):
        empty_cell.out("qconf", "-rattr", kind, attribute, "staff", name)
        made = rows(Autoscaling(empty_cell).plan())
        assert [made[job][0] for job in jobs] == [True, False], (kind, made)
        if kind != "queue":
            empty_cell.out("qconf", "-rattr", kind, attribute, "NONE", name)


def test_a_persistent_host_counts_only_for_users_on_its_access_list(cell: Cell) -> None:
    """The cell's two hosts are free, and only staff may use them: for the others a worker is launched."""
    a_list(cell, "staff", "games")
    a_list(cell, "members", "games,mail")
    cell.out("qconf", "-aattr", "queue", "user_lists", "members", "main.q")
    for host in cell.declared:
        cell.out("qconf", "-rattr", "exechost", "user_lists", "staff", host.name)
    cell.schedule(schedule_interval="0:5:0", flush_submit_sec="0", flush_finish_sec="0")
    scaling = Autoscaling(cell, MANY)
    submitted_by(cell, GAMES)
    assert launches(scaling.plan()) == []
    submitted_by(cell, MAIL)
    assert launches(scaling.plan()) == ["launch"]


def test_only_jobs_of_the_projects_of_a_queue_count(empty_cell: Cell) -> None:
    a_project(empty_cell, "blue")
    a_project(empty_cell, "green")
    jobs = [submitted_by(empty_cell, GAMES, *words) for words in ((), ("-P", "blue"), ("-P", "green"))]
    empty_cell.out("qconf", "-aattr", "queue", "projects", "blue", "main.q")
    made = rows(Autoscaling(empty_cell).plan())
    assert [made[job][0] for job in jobs] == [False, True, False]
    assert (made[jobs[0]][1], made[jobs[2]][1]) == ("NO_PROJECT", "NO_PROJECT_ACCESS")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rule", sample(("projects blue", "projects {*}", "users @staff", "users {@staff}"), "projects blue")
)
def test_a_quota_of_a_project_or_access_list_limits_launches(
    empty_cell: Cell, until: Until, show_on_failure: Shown, rule: str
) -> None:
    """Eight tasks of one slot under slots=2: one worker of two slots, and never another, while they run."""
    scaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = scaling.log_text
    a_list(empty_cell, "staff", "games")
    a_project(empty_cell, "blue")
    file = empty_cell.directory / "quota"
    file.write_text(f"{{\n name q\n enabled TRUE\n limit {rule} to slots=2\n}}\n")
    empty_cell.out("qconf", "-Arqs", str(file))
    job = submitted_by(empty_cell, GAMES, "-P", "blue", "-t", "1-8")
    with scaling.running():
        until(lambda: scaling.ended_well(job, tasks=8), 90, "the tasks did not end well")
        until(scaling.all_gone, 60, "the worker did not leave")
    assert len(scaling.lifetimes()) == 1


def test_a_quota_of_a_project_does_not_limit_other_jobs(empty_cell: Cell) -> None:
    a_project(empty_cell, "blue")
    file = empty_cell.directory / "quota"
    file.write_text("{\n name q\n enabled TRUE\n limit projects blue to slots=0\n}\n")
    empty_cell.out("qconf", "-Arqs", str(file))
    jobs = [submitted_by(empty_cell, GAMES), submitted_by(empty_cell, GAMES, "-P", "blue")]
    made = rows(Autoscaling(empty_cell).plan())
    assert [made[job][0] for job in jobs] == [True, False]
    assert made[jobs[1]][1] == "QUOTA_ALLOWS_NONE"


def test_a_rule_for_a_project_applies_to_its_jobs_only(empty_cell: Cell) -> None:
    a_project(empty_cell, "blue")
    rules = empty_cell.home / "rules.json"
    rules.write_text('{"apply": [{"project": "blue", "constraints": {"never": "blue rents nothing"}}]}')
    jobs = [submitted_by(empty_cell, GAMES), submitted_by(empty_cell, GAMES, "-P", "blue")]
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_RULES": str(rules)})
    (launch,) = [action for action in scaling.plan()["actions"] if action["kind"] == "launch"]
    explained = scaling.explained(jobs[1])["waiting"]
    assert launch is not None
    assert "blue rents nothing" in str(explained)
    assert "blue rents nothing" not in str(scaling.explained(jobs[0])["waiting"])


def test_nothing_is_launched_for_jobs_of_an_advance_reservation(cell: Cell) -> None:
    cell.out("qrsub", "-d", "600", "-q", "main.q", "-u", "games,root")
    reserved = submitted_by(cell, GAMES, "-ar", "1", "-h")
    cell.out("qmod", "-d", "*")
    cell.out("qalter", "-h", "U", reserved)
    cell.out("qrls", reserved)
    cell.out("qalter", "-h", "n", reserved)
    made = Autoscaling(cell, MANY).plan()
    assert (rows(made)[reserved], launches(made)) == ((False, "ADVANCE_RESERVATION"), [])


@pytest.mark.thorough
def test_nothing_is_launched_for_a_reservation_whose_host_is_gone(cell: Cell, until: Until) -> None:
    """Grid Engine gives it no other host: it waits for one of the very same name, so nothing is rented for it."""
    cell.configure(max_unheard="00:00:05")
    lost, other = (host.name for host in cell.declared)
    cell.out("qmod", "-d", f"*@{other}")
    cell.out("qrsub", "-d", "600", "-q", f"main.q@{lost}", "-u", "games,root")
    cell.end_host(lost)
    until(lambda: " E " in cell.out("qrstat", "-u", "*"), 40, "the reservation did not miss its host")
    cell.out("qmod", "-e", f"*@{other}")
    job = submitted_by(cell, GAMES, "-ar", "1")
    made = Autoscaling(cell, MANY).plan()
    assert (rows(made)[job], launches(made)) == ((False, "ADVANCE_RESERVATION"), [])
    assert " qw " in cell.out("qstat", "-u", "games")


@pytest.mark.thorough
def test_doctor_reports_an_access_list_that_excludes_everybody(empty_cell: Cell) -> None:
    a_list(empty_cell, "nobody", "NONE")
    a_list(empty_cell, "dept", "games", "DEPT")
    assert findings(empty_cell)["access"] == "ok"
    for attribute, list_ in (("user_lists", "nobody"), ("user_lists", "dept"), ("xuser_lists", "dept")):
        empty_cell.out("qconf", "-rattr", "queue", attribute, list_, "main.q")
        assert findings(empty_cell)["access"] == "fail", (attribute, list_)
        empty_cell.out("qconf", "-rattr", "queue", attribute, "NONE", "main.q")
    a_list(empty_cell, "staff", "games")
    empty_cell.out("qconf", "-rattr", "queue", "user_lists", "staff", "main.q")
    assert findings(empty_cell)["access"] == "warn"
