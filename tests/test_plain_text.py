"""Text of job owners, hosts and strangers reaches no terminal or log as a command or as a line of ours."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import click
import pytest
from rich.console import Console

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.commands import main as entry
from autoscaler.commands.main import main
from autoscaler.core.model.reasons import Code, because
from autoscaler.engine.job_owners import Notices
from autoscaler.engine.systemd import Notifier
from autoscaler.plain_text import plain, plain_json, plain_lines
from autoscaler.process import Completed
from autoscaler.report.blocks import Block, print_blocks
from autoscaler.report.log import configure_log
from autoscaler.report.requests import requests_text
from autoscaler.report.tables import pairs_block
from autoscaler.report.wording import text
from autoscaler.settings import Process
from autoscaler.settings.process_settings import OwnerNotice
from autoscaler.sge.admin import Administrator
from autoscaler.sge.lookup import JobOwner
from autoscaler.store.calls import CallLog
from autoscaler.store.store import Store
from autoscaler.terminal.lines import Lines
from tests.commands.test_commands import environ
from tests.sge.printed import qstat, queue_list, running_job, waiting_job
from tests.web.served import password_file, until

__all__ = ["environ"]

FORGED = "2031-01-02 09:00:00 pass 9: root resumed"
HOSTILE = (
    f"zz\n{FORGED}",
    f"zz\r\n{FORGED}",
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31m",
    "\x9b31m",
    "\x08\x08\x08\x7f",
    "\u202egnp.exe",
    f"a\u2028{FORGED}",
    "\udc80",
)
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> bool:
    """No command to the terminal, and no line that starts like one of our log."""
    return COMMANDS.search(text) is None and not any(line.startswith(FORGED[:10]) for line in text.splitlines())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_plain_text_is_one_printable_line_and_idempotent(hostile: str) -> None:
    once = plain(hostile)
    assert (harmless(once), len(once.splitlines()), plain(once)) == (True, 1, once)


def test_words_of_any_language_are_not_changed() -> None:
    for words in ("jüßß", "日本語", "naïve—“x”", "a b", "C:\\new", "→ 5 %"):
        assert plain(words) == words


def test_plain_lines_keep_their_line_breaks() -> None:
    assert plain_lines("a\n  - b\x1b[0m") == "a\n  - b\\x1b[0m"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_escaped_json_has_the_same_values(hostile: str) -> None:
    document = plain_json(json.dumps({"name": hostile}, indent=2, ensure_ascii=False))
    assert (json.loads(document), harmless(document)) == ({"name": hostile}, True)


# -- output by output -----------------------------------------------------------------------------------------------


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("_logging_as_before")
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("as_json", (False, True))
def test_the_log_and_its_file_are_harmless(hostile: str, as_json: bool, tmp_path: Path) -> None:
    console = io.StringIO()
    configure_log(Process(log_directory=tmp_path), {}, console=console, as_json=as_json)
    logger = logging.getLogger("autoscaler.test")
    logger.warning("hold %s: refused", hostile)
    logger.info("pass 1", extra={"host": hostile})
    try:
        raise ValueError(hostile)
    except ValueError:
        logger.exception("a defect")
    for result in (console.getvalue(), (tmp_path / "sge-autoscaler.log").read_text(encoding="utf-8")):
        own = [line for line in result.splitlines() if as_json or line[:2] == "20"]
        assert (len(own), COMMANDS.search(result), FORGED in [line[:40] for line in own]) == (3, None, False)


def record(folder: Path, hostile: str) -> Path:
    """A recorded cell in which every name that others choose is hostile."""
    odd = hostile.encode("utf-8", "replace").decode().replace("&", "").replace("<", "")
    odd = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "", odd)  # what is not valid XML never comes from a reader
    request = f'<hard_request name="arch" resource_contribution="0.0">{odd}</hard_request>'
    pe = f'<requested_pe name="{odd}">2</requested_pe>'
    queue = f"<hard_req_queue>{odd}</hard_req_queue>"
    listed = qstat(
        [
            waiting_job(1, name=odd, owner=odd, more=request),
            waiting_job(2, name=odd, owner=odd, more=pe),
            waiting_job(3, name=odd, owner=odd, more=queue),
        ],
        [queue_list(f"{odd}@{odd}", running_job(4, more=request)), queue_list(f"main.q@{odd}", running_job(5))],
    )
    folder.mkdir()
    (folder / "qstat.xml").write_bytes(listed)
    return folder


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_every_command_that_shows_jobs_or_hosts_is_harmless(
    hostile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "record", hostile)
    spoken = [["jobs"], ["workers"], ["plan"], *(["explain", str(job)] for job in range(1, 6)), ["explain", hostile]]
    for words in spoken:
        for form in ([], ["--json"]):
            code = main([*words, "--from", str(folder), *form])
            printed = capsys.readouterr()
            assert harmless(printed.out), (words, form)
            assert harmless(printed.err), (words, form)
            assert (code, bool(printed.out)) == (0, True) or words[0] == "explain", (words, form, printed.err)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_sentence_of_a_reason_is_harmless(hostile: str) -> None:
    for fact in (hostile, (hostile, "b")):
        assert harmless(text(because(Code.IGNORED, what=fact, why="odd")))


class Recorder:
    """Runs nothing; keeps its arguments and input."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.stdin = b""

    def __call__(self, argv: object, *, timeout: float, stdin: bytes | None = None, **_: object) -> Completed:
        assert isinstance(argv, list | tuple)
        self.argv, self.stdin = [str(word) for word in argv], stdin or b""
        return Completed(tuple(self.argv), 0, b"", b"", 0.0)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_context_of_a_job_is_harmless(hostile: str) -> None:
    runner = Recorder()
    Administrator(runner).set_context(["4"], "autoscaler_reason", f"asks for {hostile}")
    assert harmless(runner.argv[2])


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_mail_to_a_job_owner_is_harmless(hostile: str) -> None:
    class Finds:
        def owner(self, job: int) -> JobOwner:
            return JobOwner(job, "ann", hostile, addresses=("ann@example.org",))

        def mailer(self) -> str:
            return "/bin/mail"

    runner = Recorder()
    notices = Notices(OwnerNotice.MAIL, Finds(), runner)  # type: ignore[arg-type]
    notices.notify(("4",), "held", because(Code.IGNORED, what=hostile, why="odd"))
    assert harmless(runner.stdin.decode())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_status_line_of_systemd_is_harmless(hostile: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).status(hostile)
        result = systemd.recv(4096).decode()
    assert (harmless(result), "\n" in result) == (True, False)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_tables_pairs_requests_and_lines_of_the_demo_are_harmless(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_blocks([Block(columns=("name", hostile), rows=[(hostile, "b")], lines=[hostile])])
    print_blocks([pairs_block([(hostile, hostile)])])
    Lines(Console()).say(hostile)
    sets = [{"name": hostile, "by": hostile, "expires_at": None, "targets": [], "arrays": [hostile]}]
    print(requests_text({"request_sets": sets, "nodes": [], "node_arrays": []}, UTC))
    assert harmless(capsys.readouterr().out)


URLS = (
    f"/clusters/%0a{FORGED.replace(' ', '%20')}",
    "/operations/%1b%5d0;owned%07",
    "/%c2%9b31m?a=%1b%5b2J",
    "/x?\x1b]0;owned\x07",
    "/%e2%80%ae",
)


@pytest.mark.parametrize("url", URLS)
def test_the_journal_of_calls_is_harmless(
    url: str, environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everyone who can reach the address can cause a line, without a password."""
    from autoscaler.commands.context import Invocation

    kept = Invocation(environ).store_file.with_suffix(".calls")
    kept.parent.mkdir(parents=True)
    calls = CallLog.open(kept)
    app = make_app(
        Api(
            Operations(Store.open(None), ClusterValues("demo")),
            Logins(Passwords(password_file(tmp_path / "pw"))),
            calls,
        )
    )
    with Server(app, Address("127.0.0.1", 0)).beside() as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=120) as stranger:
            stranger.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode("latin-1"))
            answer = b"".join(iter(lambda: stranger.recv(4096), b""))
        refused = answer.startswith(b"HTTP/1.1 400")
        assert refused or until(lambda: len(calls.newest()) == 1)
    main(["serve", "calls"])
    printed = capsys.readouterr().out
    assert (harmless(printed), len(printed.splitlines())) == (True, 0 if refused else 1)
    assert all(harmless(call.target) and harmless(call.method) for call in calls.newest())
    calls.close()


# -- no output is forgotten -----------------------------------------------------------------------------------------


def test_commands_print_only_through_one_module() -> None:
    """The other modules print plain parts with colours of their own, or code that a shell runs."""
    here = Path(entry.__file__).parent
    found = {
        path.name for path in here.glob("*.py") if re.search(r"\bclick\.s?echo\(|(?<![\w.])print\(", path.read_text())
    }
    assert found == {"_output.py", "doctor.py", "completion.py"}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_error_message_of_a_command_is_harmless(
    hostile: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autoscaler.errors import NotFound

    def fails(*_: object, **__: object) -> None:
        raise NotFound(f"there is no {plain(hostile)}")

    monkeypatch.setattr(click.Command, "main", fails)
    assert main(["explain", "4"]) == 3
    assert harmless(capsys.readouterr().err)
