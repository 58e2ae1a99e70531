"""The page beside a loop that serves a real cell, in a real browser: what it shows is what `qstat`, `qhost` and the
answers say, and it lives through a restart of the service.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from autoscaler import namespaces
from autoscaler.api.passwords import set_password
from autoscaler.api.principal import Role
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until
from tests.page.in_browser import a_browser, log_in
from tests.page.shown import PASSWORD

pytestmark = pytest.mark.slow
URL = "http://127.0.0.1:8651"
SERVED = {
    "CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651",
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600",
}


@contextmanager
def on_the_master(cell: Cell) -> Iterator[BrowserContext]:
    """A browser in the network of the master."""
    first = namespaces.holder(cell.tree.directory / "first")
    with a_browser(within=("nsenter", "--target", str(first), "--net", "--")) as made:
        yield made


def logged_in(cell: Cell) -> Autoscaling:
    scaling = Autoscaling(cell, SERVED)
    set_password(scaling.state / "http-passwords", "root", PASSWORD)
    set_password(scaling.state / "http-passwords", "ann", PASSWORD, Role.READER)
    return scaling


def answer(cell: Cell, question: str) -> Any:
    argv = ("curl", "--silent", "--user", f"root:{PASSWORD}", f"{URL}/answers/v1/{question}")
    return json.loads(cell.runner(argv, timeout=60.0).stdout)["document"]


def cells(page: Page, path: str) -> list[list[str]]:
    """The table of a view, row by row."""
    page.goto(f"{URL}/page/{path}")
    return [row.locator("th, td").all_inner_texts() for row in page.locator("main table tbody tr").all()]


def test_the_page_shows_what_grid_engine_and_the_answers_say(cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = logged_in(cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    with scaling.running(), on_the_master(cell) as browser:
        job = cell.submit("-b", "y", "-t", "1:12", "sleep", "600")
        never = cell.submit("-b", "y", "-pe", "local", "50", "sleep", "1") if "local" in pes(cell) else ""
        until(lambda: len(scaling.living()) == 2 and len(scaling.running_on(job)) == 4, 90.0)
        until(lambda: answer(cell, "status")["waiting"] == waiting(cell), 60.0)
        page = browser.pages[0]
        log_in(page, URL, path="jobs")
        expect(page.locator("main")).to_contain_text("task")
        # Waiting tasks, as qstat counts them.
        shown = re.search(r"(\d+) tasks? in", page.locator("main").inner_text())
        assert shown is not None
        assert int(shown[1]) == waiting(cell)
        rows = cells(page, "jobs")
        numbers = [row[0].split()[0].partition(".")[0] for row in rows]
        assert set(numbers) == {job, never} - {""}
        assert {row[0].split()[-1] for row in rows} == {"sleep"}  # root's own: `qsub -b y` takes the program's name
        document = answer(cell, "waiting")
        assert [row[2] for row in rows] == [str(one["tasks"]) for one in document["categories"]]
        assert all(one["cause"]["text"] in row[5] for row, one in zip(rows, document["categories"], strict=True))
        found = [row[0].split() for row in cells(page, "jobs?search=SLEE")]
        assert [words[0].partition(".")[0] for words in found] == numbers
        assert {words[-1] for words in found} == {"sleep"}
        assert cells(page, "jobs?search=no-such-name") == []
        # Workers and hosts, as qhost and qstat show them.
        workers = cells(page, "workers")
        names = {row[0].split()[0] for row in workers}
        listed = {line.split()[0] for line in cell.out("qhost").splitlines()[3:]}
        assert names == listed
        used = {instance.host: instance.used for instance in scaling.instances().values()}
        for row in workers:
            name, slots = row[0].split()[0], row[2]
            assert int(slots.partition("/")[0]) == used[name], row
        status = answer(cell, "status")
        page.goto(f"{URL}/page/")
        figures = page.locator(".figures b").all_inner_texts()
        assert figures[:2] == [str(status["waiting"]), str(status["workers"])]
        # A job's story.
        page.goto(f"{URL}/page/job?subject={job}")
        expect(page.locator(".timeline")).to_contain_text("of root started on main.q@")
        # Live: a job that is deleted goes from the page without a reload.
        page.goto(f"{URL}/page/jobs")
        page.wait_for_timeout(1500)
        cell.out("qdel", job, *([never] if never else []))
        until(lambda: answer(cell, "status")["waiting"] == 0, 60.0)
        expect(page.locator("main")).to_contain_text("No job waits", timeout=2000)


def pes(cell: Cell) -> list[str]:
    return cell.out("qconf", "-spl").split()


def waiting(cell: Cell) -> int:
    """Tasks that wait, by `qstat -s p -g d`."""
    return len(cell.out("qstat", "-s", "p", "-g", "d", "-u", "*").splitlines()[2:])


def test_an_action_of_the_page_acts_and_a_restart_of_the_service_is_said_and_survived(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = logged_in(cell)
    alone = Autoscaling(cell, {name: value for name, value in SERVED.items() if name != "CP_CAP_AUTOSCALE_HTTP"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    with alone.running(), on_the_master(cell) as browser:
        page = browser.pages[0]
        with scaling.serving():
            log_in(page, URL, path="act?verb=pause")
            page.get_by_role("button", name="Pause").click()
            expect(page.get_by_role("status")).to_contain_text("pauses from its next pass on")
            until(lambda: "autoscaler is paused" in scaling.log_text() or answer(cell, "status")["paused"], 30.0)
            assert answer(cell, "status")["paused"] == {"by": "root (page)"}
            page.goto(f"{URL}/page/")
            expect(page.locator("main")).to_contain_text("by root (page)")
            page.wait_for_timeout(1500)
        expect(page.get_by_role("alert")).to_contain_text("has not answered since", timeout=15_000)
        resumed = scaling.command("resume")
        assert resumed.returncode == 0
        with scaling.serving():
            expect(page.get_by_role("alert")).to_be_hidden(timeout=15_000)
            expect(page.locator(".attention")).to_have_count(0, timeout=10_000)
            expect(page.locator("header")).to_contain_text("root")  # the session went on
            page.goto(f"{URL}/page/jobs")
            expect(page.locator("h1")).to_have_text("Waiting jobs")


def test_without_a_running_autoscaler_the_page_says_so(cell: Cell) -> None:
    scaling = logged_in(cell)
    with scaling.serving(), on_the_master(cell) as browser:
        page = browser.pages[0]
        log_in(page, URL)
        expect(page.locator("[data-stored]")).to_contain_text("no autoscaler runs on this machine now")
        expect(page.locator(".attention")).to_contain_text("not running")
        expect(page.locator("#lost")).to_contain_text("The autoscaler has not answered since", timeout=20_000)


@pytest.mark.parametrize("number", (signal.SIGSTOP, signal.SIGKILL), ids=("hangs", "killed"))
def test_an_open_overview_says_that_the_autoscaler_ends_or_hangs_and_that_it_is_back(
    cell: Cell, number: signal.Signals
) -> None:
    scaling = logged_in(cell)
    alone = Autoscaling(cell, {name: value for name, value in SERVED.items() if name != "CP_CAP_AUTOSCALE_HTTP"})
    with scaling.serving(), on_the_master(cell) as browser:
        page = browser.pages[0]
        lost = page.locator("#lost")
        with alone.running() as run:
            log_in(page, URL)
            expect(page.locator("main")).to_contain_text("As of pass", timeout=60_000)  # the first one comes
            page.wait_for_timeout(1500)
            expect(lost).to_be_hidden()
            run.signal(number)
            try:
                expect(lost).to_contain_text("The autoscaler has not answered since", timeout=25_000)
                page.wait_for_timeout(15_000)
                expect(lost).to_be_visible()
                page.goto(f"{URL}/page/decisions")
                expect(page.locator("[data-stored]")).to_contain_text("what its store still knows")
            finally:
                run.signal(signal.SIGCONT)
        with alone.running():
            expect(page.locator("[data-stored]")).to_have_count(0, timeout=30_000)
            expect(lost).to_be_hidden()
