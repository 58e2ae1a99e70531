"""Open pages hear of each pass at once, take no place from those who ask, and learn that their session has ended."""

from __future__ import annotations

import contextlib
import gc
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import requests
from sse_starlette import EventSourceResponse

from autoscaler.api.listeners import STREAMS
from autoscaler.garbage import collect_after_calls, collect_rarely
from autoscaler.page import feed as feeds
from autoscaler.page.feed import OF_ONE, Feed
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.core.building import a_snapshot
from tests.page.shown import PASSWORD, Browser, Site
from tests.web.served import until

pytestmark = pytest.mark.timeout(120)


@contextmanager
def stream(browser: Browser, query: str = "", **headers: str) -> Iterator[requests.Response]:
    given = {"Accept": "text/event-stream", **headers}
    with browser.session.get(f"{browser.url}/page/stream{query}", headers=given, stream=True, timeout=60) as answer:
        yield answer


def events(answer: requests.Response) -> Iterator[tuple[str, str]]:
    """Kind and data of each event."""
    kind = ""
    for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, value


def test_a_pass_is_told_to_an_open_page(site: Site) -> None:
    with stream(site.browser("ann"), f"?seen={site.page.feed.mark}") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        threading.Timer(0.3, lambda: site.observe(a_snapshot())).start()
        assert next(events(answer)) == ("pass", site.page.feed.mark)


def test_news_since_the_page_was_made_are_told_at_once(site: Site) -> None:
    seen = site.page.feed.mark
    site.page.feed.publish()
    with stream(site.browser(), f"?seen={seen}") as answer:
        assert next(events(answer)) == ("pass", site.page.feed.mark)
    with stream(site.browser(), f"?seen={seen}", **{"Last-Event-ID": "of-another-process-7"}) as answer:
        assert next(events(answer))[0] == "pass"  # after a restart of the service


def test_a_stream_ends_with_its_session(site: Site) -> None:
    browser, other = site.browser("ann"), site.browser("ann")
    cookies = dict(browser.session.cookies)
    with stream(browser, f"?seen={site.page.feed.mark}") as answer:
        other.session.cookies.update(cookies)
        other.post("logout")
        site.page.feed.publish()
        assert [kind for kind, _ in events(answer)][-1] == "expired"


def test_a_stream_needs_a_login(site: Site) -> None:
    with stream(Browser(site.url)) as answer:
        assert answer.status_code == 401


def test_one_user_has_some_streams_and_others_theirs(site: Site) -> None:
    ann = site.browser("ann")
    with ExitStack() as stack:
        opened = [stack.enter_context(stream(ann)) for _ in range(OF_ONE + 1)]
        assert [answer.status_code for answer in opened] == [200] * OF_ONE + [503]
        assert stack.enter_context(stream(site.browser("bob"))).status_code == 200
        assert site.browser("root").get("jobs").status_code == 503  # no pass yet: answered, not kept out
    assert until(lambda: not site.page.feed._waiting)


def test_streams_take_no_place_from_those_who_ask(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "OF_ONE", STREAMS)
    site.observe(a_snapshot())
    ann = site.browser("ann")
    with ExitStack() as stack:
        opened = [stack.enter_context(stream(ann)) for _ in range(STREAMS)]
        assert {answer.status_code for answer in opened} == {200}
        with stream(ann) as beyond:
            assert beyond.status_code == 503
        answers = [
            requests.get(f"{site.url}/answers/v1/status", auth=("root", PASSWORD), timeout=60).status_code
            for _ in range(20)
        ]
        assert answers == [200] * 20


def test_the_feed_follows_what_another_process_commits(tmp_path: object) -> None:
    path = tmp_path / "cell.sqlite"  # type: ignore[operator]
    with closing(Store.open(path)) as writer, closing(Store.open(path)) as reader:
        feed = Feed()
        with feed.following(reader):
            for _ in range(2):
                before = feed.mark
                until(lambda: False, 0.6)
                writer.overrides.ask(Verb.PAUSE, who="eve", at=1.0)
                writer.overrides.end(Verb.PAUSE, who="eve", at=1.0)
                assert until(lambda: feed.mark != before)  # noqa: B023
        with contextlib.suppress(sqlite3.Error):
            assert feed._ended.is_set()


def test_pages_that_were_left_leave_nothing_behind(site: Site) -> None:
    """Each stream that ended refers to itself. A collector that waits for 100,000 objects kept 700 of them."""

    def kept() -> int:
        return sum(type(each) is EventSourceResponse for each in gc.get_objects())

    before, browsers, rounds = gc.get_threshold(), [site.browser(name) for name in ("ann", "bob")], 8
    collect_rarely()
    collect_after_calls()
    try:
        for _ in range(rounds):
            with ExitStack() as stack:
                seen = f"?seen={site.page.feed.mark}"
                opened = [stack.enter_context(stream(each, seen)) for each in browsers for _ in range(OF_ONE)]
                site.page.feed.publish()  # so that each has told something before it ends
                assert [next(events(answer))[0] for answer in opened] == ["pass"] * len(opened)
            until(lambda: not site.page.feed._waiting)
        assert kept() < rounds * len(opened) / 2
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
