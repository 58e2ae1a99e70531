"""Actions of the page: asked before, carried out as the commands are, for those who may."""

from __future__ import annotations

import pytest
import requests

from autoscaler.api.answers import BURST
from autoscaler.store.overrides import Verb
from tests.core.building import NOW, a_host, a_snapshot, a_worker
from tests.page.shown import PASSWORD, Browser, Site, text_of


@pytest.fixture
def worked(site: Site) -> Site:
    site.observe(a_snapshot(a_worker("w1"), a_worker("w2")))
    return site


def in_force(site: Site) -> list[tuple[Verb, str, str]]:
    return [(one.verb, one.host, one.who) for one in site.store.overrides.in_force()]


def test_a_question_says_what_will_happen_and_changes_nothing(worked: Site) -> None:
    shown = worked.browser().text("act?verb=drain&host=w1")
    assert "Drain w1?" in shown
    assert "its machine is terminated" in shown
    assert in_force(worked) == []


@pytest.mark.parametrize("host", ("nosuch", "master"))
def test_a_question_about_what_is_no_worker_promises_nothing(worked: Site, host: str) -> None:
    worked.observe(a_snapshot(a_worker("w1"), a_host("master", slots=4)))
    answer = worked.browser().get(f"act?verb=drain&host={host}")
    assert answer.status_code == 404
    assert f"this autoscaler has no worker {host}" in text_of(answer.text)
    assert "terminated" not in answer.text
    assert 'action="act"' not in answer.text


def test_a_question_names_the_jobs_that_a_drain_waits_for(worked: Site) -> None:
    worked.observe(a_snapshot(a_worker("w1", used=2), a_worker("w2")))
    assert "2 jobs on it now: 9000, 9001." in worked.browser().text("act?verb=drain&host=w1")
    assert "No job runs on it now." in worked.browser().text("act?verb=drain&host=W2")


@pytest.mark.parametrize(
    ("query", "said"),
    (
        ("verb=pause", "The autoscaler is paused already, by eve."),
        ("verb=drain&host=w1", "w1 is drained by command already."),
        ("verb=keep&host=w2", "w2 is kept by command already."),
        ("verb=keep&host=w1&undo=true", "w1 is not kept by command."),
    ),
)
def test_a_question_says_if_nothing_would_change(worked: Site, query: str, said: str) -> None:
    ask = worked.store.overrides.ask
    ask(Verb.PAUSE, who="eve", at=NOW)
    ask(Verb.DRAIN, who="eve", at=NOW, host="w1")
    ask(Verb.KEEP, who="eve", at=NOW, host="w2")
    answer = worked.browser().get(f"act?{query}")
    assert f"{said} Nothing would change." in text_of(answer.text)
    assert 'action="act"' not in answer.text


def test_an_action_is_stored_under_the_users_name_with_the_commands_words(worked: Site) -> None:
    browser = worked.browser()
    answers = [
        browser.post("act", {"verb": "pause"}),
        browser.post("act", {"verb": "drain", "host": "W1.example.org"}),
        browser.post("act", {"verb": "keep", "host": "w2"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert "w1 will be drained" in text_of(answers[1].text)
    assert in_force(worked) == [
        (Verb.PAUSE, "", "root (page)"),
        (Verb.DRAIN, "w1", "root (page)"),
        (Verb.KEEP, "w2", "root (page)"),
    ]
    browser.post("act", {"verb": "resume"})
    browser.post("act", {"verb": "drain", "host": "w1", "undo": "true"})
    browser.post("act", {"verb": "retry"})
    assert in_force(worked) == [(Verb.KEEP, "w2", "root (page)")]
    assert worked.store.overrides.retried_at is not None
    written = [(call.who, call.method, call.target, call.status) for call in worked.calls.newest(6)]
    asked = ("retry", "drain&host=w1&undo=true", "resume", "keep&host=w2", "drain&host=W1.example.org", "pause")
    assert written == [("root", "POST", f"/page/act?verb={each}", 200) for each in asked]


@pytest.mark.parametrize("verb", ("pause", "resume", "retry", "drain", "keep"))
def test_a_reader_may_look_and_not_act(worked: Site, verb: str) -> None:
    browser = worked.browser("ann")
    host = {"host": "w1"} if verb in ("drain", "keep") else {}
    assert browser.get(f"act?verb={verb}&host={host.get('host', '')}").status_code == 403
    answer = browser.post("act", {"verb": verb, **host})
    assert (answer.status_code, "ann may look, but not act" in answer.text) == (403, True)
    assert (in_force(worked), worked.store.overrides.resumed_at, worked.store.overrides.retried_at) == ([], None, None)
    assert "act?verb" not in browser.get("actions").text


@pytest.mark.parametrize(
    "form",
    (
        {"verb": "stop-now"},
        {"verb": "log-level"},
        {"verb": "drain"},
        {"verb": "pause", "host": "w1"},
        {},
        {"verb": "drain", "host": "master"},
    ),
)
def test_what_is_no_action_of_the_page_changes_nothing(worked: Site, form: dict[str, str]) -> None:
    assert worked.browser().post("act", form).status_code == 404
    assert in_force(worked) == []


def test_a_form_of_another_site_or_of_no_page_is_refused(worked: Site) -> None:
    browser = worked.browser()
    assert browser.post("act", {"verb": "pause"}, Origin="https://evil.example").status_code == 403
    assert browser.post("act", {"verb": "pause"}, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    bare = browser.session.post(f"{worked.url}/page/act", {"verb": "pause"}, timeout=60)
    assert bare.status_code == 403
    assert browser.get("act?verb=pause").status_code == 200  # a link only asks
    assert in_force(worked) == []


def test_without_a_login_nothing_is_done(worked: Site) -> None:
    assert Browser(worked.url).post("act", {"verb": "pause"}).status_code == 401
    auth = ("root", PASSWORD)
    answer = requests.post(
        f"{worked.url}/page/act", {"verb": "pause"}, auth=auth, headers={"Origin": worked.url}, timeout=60
    )
    assert answer.status_code == 401
    assert in_force(worked) == []


def test_actions_are_as_frequent_as_commands_may_be(worked: Site) -> None:
    browser = worked.browser()
    while worked.api.acts.take("root"):
        pass
    for _ in range(BURST):
        worked.api.acts.charge("root", 1.0)
    assert browser.post("act", {"verb": "pause"}).status_code == 429
    assert in_force(worked) == []


def test_what_is_in_force_names_who_asked_for_it(worked: Site) -> None:
    worked.store.overrides.ask(Verb.STOP_NOW, who="eve", at=NOW)
    worked.store.overrides.ask(Verb.KEEP, who="ann", at=NOW, host="w1")
    assert "stopping now, by eve" in (said := worked.browser().text("actions"))
    assert "kept w1, by ann" in said
