"""Links of the pages to other sites: their form, and that `make links` sees what is gone, at a site that is played."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from installers.site import links

PAGE = b'<h2 id="user-content-part">Part</h2><a name=other>'


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, where = {"/gone": (404, ""), "/moved": (302, "/there"), "/sick": (503, ""), "/closed": (403, "")}.get(
            self.path, (200, "")
        )
        self.send_response(status)
        if where:
            self.send_header("Location", where)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_link_to_another_site_is_well_formed() -> None:
    found = links.links()
    assert {url: problem for url in found if (problem := links.misshapen(url))} == {}
    assert len(found) >= 10


@pytest.mark.parametrize(
    ("url", "problem"),
    (
        ("http://karpenter.sh/docs/", "is not https"),
        ("https://cyclecloud.example.org/x", "leads to an example"),
        ("https://HOST/x", "names no public host"),
        ("https://user@karpenter.sh/", "names no public host"),
        ("https://karpenter.sh/docs.", "ends in punctuation"),
        ("https://karpenter.sh/docs/", ""),
    ),
)
def test_a_link_that_can_lead_nowhere_is_found_by_its_form(url: str, problem: str) -> None:
    assert links.misshapen(url) == problem


def test_code_is_no_link() -> None:
    text = "[a](https://a.b) <https://c.d> `[x](https://e.f)`\n\n```sh\ncurl <https://g.h>\n```\n[own](page.md)\n"
    assert list(links.links_of(text)) == ["https://a.b", "https://c.d"]


@pytest.mark.parametrize(
    ("path", "problem", "reached"),
    (
        ("/there", "", True),
        ("/moved", "", True),
        ("/there#part", "", True),
        ("/there#other", "", True),
        ("/there#removed", "has no part #removed", True),
        ("/gone", "answers 404 Not Found", True),
        ("/closed", "", True),
        ("/sick", "", False),
    ),
)
def test_a_site_is_asked_for_the_page_and_its_part(site: str, path: str, problem: str, *, reached: bool) -> None:
    assert links.ask(site + path, 5.0) == links.Answer(site + path, problem, reached)


def test_a_site_that_does_not_answer_says_nothing_of_its_links() -> None:
    url = "http://127.0.0.1:9/x"
    assert links.ask(url, 5.0) == links.Answer(url, reached=False)
    assert list(links.told([links.Answer(url, reached=False)], {url: ["a.md"]})) == [f"a.md: {url} was not reached"]
