"""What the views show is what the answers say, for each user only what they may see."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import requests

from autoscaler.store.overrides import Verb
from tests.core.building import NOW, a_host, a_job, a_snapshot, a_worker, jobs
from tests.page.shown import Site, a_site

VIEWS = ("", "jobs", "workers")


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_strict_about_what_its_browser_loads(site: Site, path: str) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann"), a_worker("w1")))
    answer = site.browser().get(path)
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
    assert row["reason"]["text"] in shown
    assert "4 tasks in 2 job categories" in shown
    assert shown.index("4711") < shown.index("bob")  # one's own first


def test_jobs_are_found_by_number_owner_and_reason(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=100), jobs(3, first=10, owner="bob"), a_host("h1", slots=9)))
    browser = site.browser()
    assert "1 task in 1 job category" in browser.text("jobs?search=4711")
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


def test_figures_of_the_overview_are_those_of_status_and_lead_to_what_they_count(site: Site) -> None:
    site.observe(a_snapshot(jobs(7, owner="ann"), a_worker("w1"), a_worker("w2")))
    html = site.browser().get().text
    answer = requests.get(f"{site.url}/answers/v1/status", auth=("root", "s3cret/pass:word"), timeout=60).json()
    status = answer["document"]
    figures = re.findall(r'<a href="([^"]+)"><b>([^<]+)</b> <span>([^<]+)', html)
    assert (f"{status['workers']}", "workers") in [(number, what) for _, number, what in figures]
    assert {target for target, _, _ in figures} == {"jobs", "workers", "cost"}


# -- owner mode --------------------------------------------------------------------------------------------------------


def test_if_details_are_their_owners_a_user_finds_nothing_of_others(tmp_path: Path) -> None:
    with a_site(tmp_path, owners_only=True) as site:
        site.observe(
            a_snapshot(
                a_job(4711, owner="ann", project="secret-a"),
                a_job(4812, owner="bob", slots=100, project="secret-b"),
                a_worker("w1"),
            )
        )
        own, other = site.browser("ann"), site.browser("bob")
        for path in (*VIEWS, "jobs?search=bob", "jobs?search=4812", "jobs?owner=bob"):
            asked = re.escape(path.partition("=")[2] or "-")
            answer = re.sub(rf'(search=|value="|owner=|<b>){asked}', "", own.get(path).text)
            assert not re.search(r"4812|secret-b", answer), path
        assert "4711" in own.text("jobs")
        assert "4812" in other.text("jobs")
        assert {"4711", "4812"} <= set(re.findall(r"\d{4}", site.browser("root").text("jobs")))


# -- without an answer -------------------------------------------------------------------------------------------------


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
    document = requests.get(asked, {"owner": "bob"}, auth=("root", "s3cret/pass:word"), timeout=60).json()["document"]
    assert [(row["jobs"], row["tasks"], row["owner"]) for row in document["categories"]] == [
        (["10", "11", "12"], 3, "bob")
    ]
    lines = requests.get(asked, {"form": "text"}, auth=("root", "s3cret/pass:word"), timeout=60).json()["blocks"]
    assert json.dumps(lines).count("bob") == 1
