"""Notifications are sent to real servers on loopback, once each, and these never delay the loop."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.causes import BLIND_FOR
from autoscaler.core.notifications.due import AGAIN
from autoscaler.core.snapshot import Plan
from autoscaler.engine.deliver import without_secrets
from autoscaler.engine.notifications import FIRST_WAIT, GIVEN_UP_AFTER, Notifications, NotificationSettings
from autoscaler.engine.pass_listener import FailedPass
from autoscaler.errors import CommandTimedOut, GridEngineNotObservable
from autoscaler.process import Completed, Runner, SystemRunner
from autoscaler.store.notifications import MOST_WAITING
from autoscaler.store.store import Store
from tests.core.building import NOW, a_snapshot
from tests.notified import Mailbox, mail_server, web_server

TOKEN = "s3cret-t0ken"
TRIPPED = Memory(circuit_breaker=because(Code.CIRCUIT_BREAKER, what="removals", count=300, most=200, window_s=600.0))


def at_once(call: Callable[[], None], name: str) -> Future[None]:
    """Runs the call at once, so that a test sees its result."""
    future: Future[None] = Future()
    try:
        call()
        future.set_result(None)
    except Exception as error:  # noqa: BLE001
        future.set_exception(error)
    return future


@dataclass
class Notifying:
    """A process that notifies, on a clock of its own."""

    store: Store
    file: Path
    runner: Runner = field(default_factory=SystemRunner)
    now: float = NOW
    made: Notifications = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As after a restart."""
        settings = NotificationSettings(self.file, interval=60.0)
        self.made = Notifications(
            self.store.notifications, self.runner, "default of master:6444", settings, lambda: self.now
        )
        self.made.executor = at_once  # type: ignore[assignment]

    def pass_(self, memory: Memory, after: float = 0.0) -> None:
        self.now += after
        self.made.note(a_snapshot(now=self.now), Plan((), memory))

    def urls(self, *urls: str) -> None:
        self.file.write_text("# who is notified\n\n" + "".join(f"{url}\n" for url in urls))
        self.file.chmod(0o600)


@pytest.fixture
def notifying(tmp_path: Path) -> Iterator[Notifying]:
    store = Store.open(tmp_path / "cell.sqlite")
    yield Notifying(store, tmp_path / "urls")
    store.close()


@pytest.fixture
def mail() -> Iterator[tuple[str, Mailbox]]:
    with mail_server() as served:
        yield served


def test_two_events_are_sent_as_one_mail_and_one_call_with_what_to_do(
    notifying: Notifying, mail: tuple[str, Mailbox]
) -> None:
    url, box = mail
    both = Memory(circuit_breaker=TRIPPED.circuit_breaker, stopped={"execute": "no such image"})
    with web_server() as web:
        notifying.urls(url, web.url(TOKEN))
        notifying.pass_(both)
        notifying.pass_(both, after=90)
        notifying.start()
        notifying.pass_(both, after=90)
        (text,), (post,) = box.texts(), web.posts
    assert (
        box.mails[0]["Subject"]
        == "sge-autoscaler, cell default of master:6444: circuit breaker and 1 more notification"
    )
    assert "300 removals within 10m are more than the 200 allowed" in text
    assert "What to do: Find the cause, then `sge-autoscaler resume`." in text
    assert "node array stopped: execute" in text
    assert post["message"].strip() == text.replace("\r\n", "\n").strip()
    assert notifying.store.notifications.delivery().waiting == 0


def test_the_end_of_a_cause_is_a_mail_too(notifying: Notifying, mail: tuple[str, Mailbox]) -> None:
    url, box = mail
    notifying.urls(url)
    notifying.pass_(TRIPPED)
    notifying.pass_(Memory(), after=60)
    notifying.pass_(Memory(), after=61)
    assert [mail["Subject"].rpartition(": ")[0].rpartition(": ")[2] for mail in box.mails][1] == "resolved"


def test_control_characters_are_escaped_in_a_mail(notifying: Notifying, mail: tuple[str, Mailbox]) -> None:
    url, box = mail
    notifying.urls(url)
    notifying.pass_(Memory(stopped={"exe\r\nBcc: all@example.org": "bad\x1b[2J \u202e\r\n\r\n<b>image</b>"}))
    (mail_,), (text,) = box.mails, box.texts()
    assert (mail_["Bcc"], "\x1b" in text, "\u202e" in text) == (None, False, False)
    assert "bad\\x1b[2J \\u202e\\r\\n\\r\\n<b>image</b>" in text


def test_a_failed_service_is_retried_and_others_are_sent_to_once(
    notifying: Notifying, mail: tuple[str, Mailbox], caplog: pytest.LogCaptureFixture
) -> None:
    url, box = mail
    with web_server(500) as web:
        notifying.urls(url, web.url(TOKEN))
        notifying.pass_(TRIPPED)
        failed = notifying.store.notifications.delivery()
        notifying.pass_(TRIPPED, after=FIRST_WAIT - 1)
        assert len(web.posts) == 1
        web.status = 200
        notifying.start()
        notifying.pass_(TRIPPED, after=1)
        assert (len(box.mails), len(web.posts)) == (1, 2)
    assert (failed.attempts, failed.waiting, failed.failing_since) == (1, 1, NOW)
    assert failed.message.startswith("json (line 4): ")
    assert TOKEN not in failed.message + caplog.text
    assert notifying.store.notifications.delivery().failing_since is None


def test_an_unavailable_service_does_not_block_the_others(notifying: Notifying, mail: tuple[str, Mailbox]) -> None:
    url, box = mail
    stopped = Memory(circuit_breaker=TRIPPED.circuit_breaker, stopped={"execute": "no such image"})
    with web_server(500) as web:
        notifying.urls(url, web.url(TOKEN))
        notifying.pass_(TRIPPED)
        for _ in range(8):
            notifying.pass_(TRIPPED, after=FIRST_WAIT)  # attempts become rarer
        tried = len(web.posts)
        notifying.pass_(stopped, after=60)
        notifying.pass_(stopped, after=1)
        assert (len(box.mails), len(web.posts)) == (2, tried)
        assert "node array stopped: execute" in box.texts()[1]
        assert "removals within" not in box.texts()[1]
        web.status = 200
        notifying.pass_(stopped, after=3600)
        assert (len(box.mails), len(web.posts)) == (2, tried + 1)
    assert "removals within" in web.posts[-1]["message"]
    assert "node array stopped: execute" in web.posts[-1]["message"]
    assert notifying.store.notifications.delivery().waiting == 0


def test_an_unavailable_service_is_reported_without_its_url(
    notifying: Notifying, caplog: pytest.LogCaptureFixture
) -> None:
    notifying.urls(f"json://anna:{TOKEN}@127.0.0.1:1/{TOKEN}", f"slack://{TOKEN}", f"nonsense://{TOKEN}")
    notifying.pass_(TRIPPED)
    message = notifying.store.notifications.delivery().message
    assert "refused" in message
    assert "slack (line 4)" in message
    assert "nonsense (line 5)" in message
    assert TOKEN not in message + caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_a_hanging_service_blocks_neither_the_loop_nor_the_others(
    notifying: Notifying, mail: tuple[str, Mailbox]
) -> None:
    from autoscaler.background import on_thread

    url, box = mail
    notifying.made.executor = on_thread
    with web_server(None) as web:
        notifying.urls(web.url(TOKEN), url)
        notifying.pass_(TRIPPED)
        assert web.called.wait(300.0)  # the pass is over, and the service has not answered
        notifying.pass_(TRIPPED, after=1)
        sending = notifying.made._sending
        assert sending is not None
        sending.result(300.0)
    assert len(box.mails) == 1
    assert notifying.store.notifications.delivery().message.startswith("json (line 3): ")


@pytest.mark.parametrize("mode", (0o644, 0o622))
def test_a_file_that_others_may_read_or_write_is_not_used(notifying: Notifying, mode: int) -> None:
    with web_server() as web:
        notifying.urls(web.url(TOKEN))
        notifying.file.chmod(mode)
        notifying.pass_(TRIPPED)
        assert web.posts == []
    assert "chmod" in notifying.store.notifications.delivery().message


@dataclass
class Program:
    """Replaces the program that sends."""

    why: str = ""
    calls: list[tuple[Sequence[str], dict[str, str], dict[str, object]]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], *, stdin: bytes = b"", env: object = None, **_: object) -> Completed:
        assert isinstance(env, dict)
        self.calls.append((argv, env, json.loads(stdin)))
        if self.why == "hangs":
            raise CommandTimedOut("it did not end within 60 s")
        sent = [{"line": 1, "service": "json", "why": self.why}]
        return Completed(tuple(argv), 0, json.dumps(sent).encode(), b"", 0.1)


@pytest.fixture
def program(notifying: Notifying) -> Program:
    notifying.runner = program = Program()
    notifying.start()
    return program


def arrays(count: int) -> Memory:
    return Memory(stopped={f"a{number}": "no such image" for number in range(count)})


def test_at_most_one_message_is_sent_in_an_interval(notifying: Notifying, program: Program) -> None:
    for count in range(1, 5):
        notifying.pass_(arrays(count), after=20)
    assert len(program.calls) == 2
    assert str(program.calls[1][2]["title"]).endswith("node array stopped: a1 and 2 more notifications")


def test_the_program_gets_no_credentials_and_no_url(notifying: Notifying, program: Program) -> None:
    notifying.made._environ = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "CP_CAP_AUTOSCALE_TAG": "y", "LC_ALL": "C"}
    notifying.urls(f"json://127.0.0.1/{TOKEN}")
    notifying.pass_(TRIPPED)
    argv, environment, asked = program.calls[0]
    assert environment == {"PATH": "/bin", "LC_ALL": "C"}
    assert TOKEN not in json.dumps([list(argv), asked])


def test_attempts_become_rarer_and_end_after_a_day(notifying: Notifying, program: Program) -> None:
    program.why = "hangs"
    notifying.pass_(TRIPPED)
    while notifying.now < NOW + GIVEN_UP_AFTER + 3700:
        notifying.pass_(TRIPPED, after=10)
    state = notifying.store.notifications.delivery()
    assert (state.waiting, state.dropped, state.failing_since) == (0, 1, None)
    assert 24 < len(program.calls) < 40


def test_waiting_messages_are_bounded(notifying: Notifying, program: Program) -> None:
    program.why = "refused"
    notifying.pass_(arrays(MOST_WAITING))
    notifying.pass_(Memory(stopped=arrays(MOST_WAITING).stopped, circuit_breaker=TRIPPED.circuit_breaker), after=1)
    state = notifying.store.notifications.delivery()
    assert (state.waiting, state.dropped) == (MOST_WAITING, 1)


def test_a_message_lists_some_and_counts_the_rest(notifying: Notifying, program: Program) -> None:
    notifying.pass_(arrays(25))
    assert "node array stopped: a0, a1, a2, a3, a4 and 20 more (" in str(program.calls[0][2]["body"])


def test_an_outage_is_notified_without_a_pass(notifying: Notifying, program: Program) -> None:
    notifying.made.failed(FailedPass(GridEngineNotObservable("qstat got no answer"), NOW, ""))
    notifying.made.failed(FailedPass(GridEngineNotObservable("qstat got no answer"), NOW + BLIND_FOR, ""))
    assert "qstat got no answer" in str(program.calls[0][2]["body"])


def test_without_a_file_nothing_is_stored(notifying: Notifying, program: Program) -> None:
    notifying.made.settings = NotificationSettings()
    notifying.pass_(TRIPPED)
    assert notifying.store.notifications.known().watched == {}


def test_a_restart_within_the_hour_sends_nothing_twice(notifying: Notifying, program: Program) -> None:
    notifying.pass_(TRIPPED)
    notifying.start()
    notifying.pass_(Memory(), after=100)
    notifying.start()
    notifying.pass_(Memory(), after=100)
    notifying.start()
    notifying.pass_(TRIPPED, after=AGAIN - 300)
    titles = [str(asked["title"]).rpartition("6444: ")[2] for _, _, asked in program.calls]
    assert titles == ["circuit breaker", "resolved: circuit breaker"]


@pytest.mark.parametrize(
    ("url", "words"),
    (
        ("slack://T0ken/Ab%2Fcdef/x1234", "error at t0ken with AB/cdef, x1234"),
        ("mailto://anna:pass%20word@host.example.org?to=bob@example.org", "login of anna pass word to bob@example.org"),
        ("json://h/p", "Max retries exceeded with https://h/p?token=1"),
    ),
)
def test_no_part_of_a_url_is_left_in_the_answer_of_a_service(url: str, words: str) -> None:
    assert without_secrets(f"not sent to {url} : refused", url) == "not sent to (hidden) : refused"
    text = without_secrets(words, url).lower()
    assert not any(part in text for part in ("t0ken", "cdef", "x1234", "anna", "pass word", "bob", "token=1"))
