"""The page below a path of a reverse proxy that takes the path off, as an endpoint proxy of a platform does: views, the
session, actions and news work there, in a real browser.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.core.building import NOW, a_job, a_snapshot, a_worker
from tests.page.in_browser import a_browser, log_in, watched
from tests.page.shown import Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BELOW = "/pipeline-4711-8651-0"
_OF_A_CONNECTION = ("connection", "transfer-encoding", "keep-alive")


@contextmanager
def a_proxy(target: str) -> Iterator[str]:
    """Serves `target` below `BELOW`, and nothing else. It sends each part of an answer on as soon as it comes."""
    place = urlsplit(target).netloc

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{BELOW}/"):
                self.send_error(404, "the page asked for something outside of its path")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            kept = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
            connection = http.client.HTTPConnection(place, timeout=60)
            try:
                connection.request(self.command, self.path.removeprefix(BELOW), body or None, kept)
                answer = connection.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _OF_A_CONNECTION:
                        self.send_header(name, value)
                self.end_headers()
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()
            except (ConnectionError, TimeoutError):
                pass  # a browser leaves its stream without a word
            finally:
                connection.close()

        do_GET = do_POST = forward  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{BELOW}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_all_of_the_page_works_below_a_path_that_a_proxy_takes_off(site: Site) -> None:
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2), a_worker("w1", used=1)))
    with a_proxy(site.url) as url, a_browser() as browser:
        page = browser.pages[0]
        complaints = watched(page)
        failed: list[str] = []
        page.on("response", lambda answer: failed.append(answer.url) if answer.status == 404 else None)
        page.goto(f"{url}/")
        assert page.url == f"{url}/page/"
        log_in(page, url, path="jobs?search=ann")
        assert page.url == f"{url}/page/jobs?search=ann"
        for name in ("Overview", "Jobs", "Workers", "Decisions", "Cost", "Actions"):
            page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
            expect(page.get_by_role("navigation", name="Views").locator("[aria-current]")).to_have_text(name)
        page.goto(f"{url}/page/act?verb=pause")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_contain_text("pauses from its next pass on")
        (cookie,) = browser.cookies()
        assert cookie["path"] == f"{BELOW}/page"  # other services of the proxy do not get it
        # News arrive through the proxy.
        page.goto(f"{url}/page/jobs")
        expect(page.locator("main")).to_contain_text("4711")
        page.wait_for_timeout(1500)
        site.observe(a_snapshot(a_job(4712, owner="ann"), now=NOW + 60))
        expect(page.locator("main")).to_contain_text("4712", timeout=4000)
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{url}/page/login")
        assert browser.cookies() == []
        assert failed == []
        assert [text for text in complaints if "401" not in text] == []  # the first look, before the login
