"""The page served on loopback by the real application, over what a pass observed; and a client like a browser without
scripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from types import MappingProxyType

import requests

from autoscaler.api.answers import Answers, Asker, Reply
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords, hashed
from autoscaler.api.principal import Role
from autoscaler.api.relayed_answers import unanswered
from autoscaler.api.server import Address, Server
from autoscaler.api.stored_answers import AnsweredOrStored, NoPass
from autoscaler.api.tokens import Tokens
from autoscaler.api.view import ClusterValues
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.page.feed import Feed
from autoscaler.page.reader import Reader
from autoscaler.page.routes import Page, with_page
from autoscaler.page.viewer import Viewers
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.status import Now, status
from autoscaler.sge.cluster import Outputs
from autoscaler.store.calls import CallLog
from autoscaler.store.sessions import Sessions
from autoscaler.store.store import Store
from tests.core.building import NOW

PASSWORD = "s3cret/pass:word"
USERS: Mapping[str, Role] = MappingProxyType({"ann": Role.READER, "bob": Role.READER, "root": Role.ADMIN})


@dataclass
class PublishedPass:
    """What the loop publishes."""

    seen: tuple[ObservedPlan, int] | None = None
    unobserved: str = ""
    quiet_s: float = 0.0


@dataclass
class Browser:
    """Somebody who looks, with cookies and without scripts."""

    url: str
    session: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str = "", **more: object) -> requests.Response:
        return self.session.get(f"{self.url}/page/{path}", timeout=60, **more)  # type: ignore[arg-type]

    def post(self, path: str, form: Mapping[str, str] = MappingProxyType({}), **headers: str) -> requests.Response:
        given = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **headers}
        target = f"{self.url}/page/{path}"
        return self.session.post(target, dict(form), headers=given, timeout=60, allow_redirects=False)

    def log_in(self, name: str = "root", password: str = PASSWORD, **more: str) -> requests.Response:
        return self.post("login", {"user": name, "password": password, **more})

    def text(self, path: str = "") -> str:
        """What a view says, without its elements."""
        answer = self.get(path)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return text_of(answer.text)


def text_of(html: str) -> str:
    """The words of a document, each gap one space."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@dataclass
class Site:
    """An autoscaler with its page."""

    url: str
    folder: Path
    store: Store
    loop: PublishedPass
    answers: Answers
    page: Page
    calls: CallLog
    now: list[float]
    api: Api
    reporter: PassReporter

    def browser(self, name: str = "root") -> Browser:
        """Somebody who has logged in; '' has not."""
        made = Browser(self.url)
        if name:
            assert made.log_in(name).status_code == 303
        return made

    def observe(self, snapshot: Snapshot) -> ObservedPlan:
        """A pass over this snapshot, stored as the loop does."""
        made = plan(snapshot)
        seen = ObservedPlan(snapshot, made, {}, None)
        self.loop.seen, self.loop.quiet_s = (seen, made.memory.passes), 0.0
        hosts = {host.name for host in snapshot.cluster.hosts}
        joined = [worker.id for worker in snapshot.fleet.workers if worker.name in hosts]
        self.store.history.note_workers(snapshot.fleet.workers, joined, snapshot.now, {}, "USD")
        self.reporter.report(Observation(snapshot, Outputs(b"", b""), {}), made)
        self.store.memory.save(made.memory, snapshot.now)
        self.now[0] = max(self.now[0], snapshot.now)
        self.page.feed.publish()
        return seen


@contextmanager
def a_site(folder: Path, *, header: str = "", proxies: tuple[str, ...] = (), **known: object) -> Iterator[Site]:
    """An autoscaler that has made no pass. `known`: of `Answers`."""
    passwords = folder / "passwords"
    passwords.touch(mode=0o600)
    passwords.write_text("".join(f"{name}:{hashed(PASSWORD, cost=2)}:{role}\n" for name, role in USERS.items()))
    now = [NOW]
    with (
        closing(Store.open(folder / "cell.sqlite")) as store,
        closing(CallLog.open(folder / "cell.calls")) as calls,
        closing(Sessions.open(folder / "cell.sessions")) as sessions,
    ):
        loop = PublishedPass()

        def state() -> dict[str, object]:
            policy = None if loop.seen is None else loop.seen[0].snapshot.policy
            decided = None if loop.seen is None else (loop.seen[0].plan, loop.seen[1], loop.seen[0].snapshot.now)
            known = Now(now[0], "p1 (/sge)", "fake", serving=True, holder=None, policy=policy, decided=decided)
            return status(store, known)

        clock: Callable[[], float] = lambda: now[0]  # noqa: E731
        answers = Answers(loop, store, state, clock=clock, **known)  # type: ignore[arg-type]
        logins = Logins(Passwords(passwords), Tokens(folder / "tokens"))
        operations = Operations(store, ClusterValues("p1"), clock=clock)
        viewers = Viewers(logins, sessions, "p1", header, proxies, clock)
        page = Page("p1", viewers, Reader(answers), operations, Feed())
        api = Api(operations, logins, calls, answers=answers)
        app = make_app(api, rooms=[with_page(page)])
        address = Address("127.0.0.1", 0, proxies=proxies)
        with Server(app, address).beside() as server:
            try:
                yield Site(
                    server.url, folder, store, loop, answers, page, calls, now, api, PassReporter(store, silent=True)
                )
            finally:
                page.feed.close()
        answers.close()


@dataclass
class Relay:
    """In place of the socket of an autoscaler that may be down or hang. It counts what is asked."""

    site: Site
    silent: str = ""
    """Why it does not answer; '' if it does."""
    asked: int = 0
    questions: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    def answer(self, question: str, query: Mapping[str, str], asker: Asker) -> Reply:
        self.asked += 1
        self.questions.append((question, query))
        return unanswered(self.silent) if self.silent else self.site.answers.answer(question, query, asker)


def served_apart(site: Site, *, owners_only: bool = False) -> Relay:
    """From now on the page is served as by `serve`, apart from its autoscaler."""
    relay, no_pass = Relay(site), NoPass()

    def state() -> dict[str, object]:
        return status(site.store, Now(site.now[0], "p1 (/sge)", "fake", serving=False, holder=None))

    stored = Answers(no_pass, site.store, state, clock=lambda: site.now[0], stored=True)
    site.page.reader = Reader(AnsweredOrStored(relay, stored, no_pass, lambda: owners_only))
    return relay
