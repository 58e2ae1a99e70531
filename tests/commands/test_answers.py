"""Commands that show something ask the running autoscaler: on its machine, and from other machines with a token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import answer_client
from autoscaler.answer_client import ServiceAddress
from autoscaler.api import tokens
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.principal import Role
from autoscaler.api.server import Address, Server
from autoscaler.api.tokens import Tokens
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.errors import SettingsError
from autoscaler.jetpack.service import Service, Unreachable
from autoscaler.store.lock import hold, lock_directory
from tests.cases.whole import whole
from tests.cell_files import cell_files
from tests.commands.test_start import CLOUDS, DECIDING, SERVICE, imported_by
from tests.web.test_answers import World, answering_service, first_job

HYBRID = whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores")
QUESTIONS = (["status"], ["jobs"], ["workers"], ["explain", "12"], ["history"], ["events"], ["cost"])
LIGHT = (*SERVICE, *CLOUDS, *DECIDING, "pydantic", "rich", "sqlite3", "ssl", "http.client", "asyncio", "email")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A cell's files, and no service."""
    monkeypatch.setattr(answer_client, "CLIENT_FILE", tmp_path / "client")
    values = cell_files(tmp_path / "sge") | {
        "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"),
        "CP_CAP_AUTOSCALE_PROVIDER": "fake",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in (answer_client.URL_ENV, answer_client.TOKEN_ENV, answer_client.CA_ENV, answer_client.SOCKET_ENV):
        monkeypatch.delenv(name, raising=False)
    return values


@pytest.fixture(scope="module")
def service() -> Iterator[World]:
    with answering_service() as made:
        made.loop.observe(HYBRID)
        made.answers.status = lambda: json.loads(STATUS)
        yield made


STATUS = json.dumps(
    {
        **dict.fromkeys(("lock", "prices_as_of", "requested", "paused", "stop", "circuit_breaker", "persistent"), None),
        "log_level": None,
        **{name: [] for name in ("failures", "unanswered", "failed_workers", "refused_ends", "backoff", "protected")},
        **{name: [] for name in ("troubles", "keep", "drain")},
        "cell": "default of master:6444",
        "serving": True,
        "provider": "fake",
        "sentence": "all is well",
        "pass": 7,
        "pass_age_s": 1.0,
        "waiting": 8,
        "counted": 8,
        "fitting": 0,
        "workers": 0,
        "ordered": 0,
        "price_per_hour": 0.0,
        "currency": "USD",
        "budgets": [],
        "unknown_prices": 0,
        "stopped": {},
    }
)


@pytest.fixture
def running(environ: dict[str, str], service: World) -> Iterator[World]:
    """The service of this cell, as its lock note names it."""
    with hold(Invocation(environ).cell, lock_directory(), state="/nowhere", socket_path=str(service.path)):
        yield service


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: words[0])
def test_the_running_autoscaler_answers_with_the_time_of_its_pass(
    running: World, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.out.strip()
    assert (printed.err.startswith("as of the pass at "), printed.err.rstrip().endswith("(pass 7)")) == (True, True)


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: words[0])
def test_commands_that_ask_the_service_import_next_to_nothing(
    service: World, environ: dict[str, str], words: list[str]
) -> None:
    modules, _ = imported_by(words, environ={**environ, answer_client.SOCKET_ENV: str(service.path)})
    assert modules.isdisjoint(LIGHT), modules & set(LIGHT)
    assert not [name for name in modules if name.startswith("autoscaler.core")]


@pytest.mark.parametrize("words", (["jobs"], ["workers"], ["explain", "12"]), ids=lambda words: words[0])
def test_json_from_the_service_is_that_of_a_record_of_the_same_pass(
    running: World, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--json"])
    asked = json.loads(capsys.readouterr().out)
    main([*words, "--json", "--from", str(HYBRID)])
    assert asked == json.loads(capsys.readouterr().out)
    assert (asked["schema"], len(asked) > 1) == (1, True)


def test_what_the_service_does_not_know_is_not_found(running: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "1000000"]) == 3
    assert "job 1000000 neither waits nor runs" in capsys.readouterr().err


def test_history_is_available_as_csv(running: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["history", "--csv"]), capsys.readouterr().out.startswith("at,observed_s,")) == (0, True)


@pytest.mark.usefixtures("environ")
def test_without_a_service_a_command_says_so_and_reads_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "not running" in capsys.readouterr().out
    assert main(["history"]) == 0
    assert "no autoscaler serves cell default of master:6444 on this machine" in capsys.readouterr().err


def test_with_a_dead_service_a_command_says_so_and_reads_the_state(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    with hold(Invocation(environ).cell, lock_directory(), state=state, socket_path=str(tmp_path / "gone.sock")):
        assert main(["status"]) == 0
    printed = capsys.readouterr().err
    assert "does not answer: No such file or directory: this command shows what it has stored" in printed


LISTENING = """
import signal, socket, sys, time
made = socket.socket(socket.AF_UNIX)
made.bind(sys.argv[1])
made.listen()
print("listening", flush=True)
if sys.argv[2] == "hangs":
    signal.pause()
asked, _ = made.accept()
asked.recv(65536)
end = time.process_time() + 3
while time.process_time() < end:
    pass
asked.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n{"answers": 1}')
"""


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Starts a service that hangs, or works for three seconds of processor time before it answers."""
    monkeypatch.setattr(answer_client, "TIMEOUT", 300.0)
    started: list[subprocess.Popen[bytes]] = []

    def start(how: str) -> Path:
        path = tmp_path / "other.sock"
        argv = (sys.executable, "-c", LISTENING, str(path), how)
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        output = started[-1].stdout
        assert output is not None
        assert output.readline() == b"listening\n"
        return path

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.timeout(120)
def test_with_a_hanging_service_a_command_says_so_and_reads_the_state(
    environ: dict[str, str], tmp_path: Path, listening: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    state, path = str(tmp_path / "state"), str(listening("hangs"))
    with hold(Invocation(environ).cell, lock_directory(), state=state, socket_path=path):
        assert main(["status"]) == 0
    printed = capsys.readouterr()
    assert "does not answer: it hangs, or was stopped: this command shows what it has stored" in printed.err
    assert "does not answer, and may hang: process" in printed.out


@pytest.mark.thorough
def test_a_busy_service_is_waited_for(listening: Callable[[str], Path]) -> None:
    assert answer_client.ask(answer_client.ServiceAddress(str(listening("works"))), "status") == {"answers": 1}


# -- from a submit host ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    argv = ("openssl", "req", "-x509", *curve, "-nodes", "-days", "2", *subject, "-keyout", str(key), "-out", str(made))
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    key.chmod(0o600)
    return made, key


@pytest.fixture
def site(
    service: World, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Path]]:
    """The service over HTTPS: its address, and the file with a reader's token. There is no Grid Engine here."""
    for name in list(os.environ):
        if name.startswith(("SGE_", "CP_CAP_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(answer_client, "CLIENT_FILE", tmp_path / "client")
    kept, token_file = tmp_path / "tokens", tmp_path / "token"
    token_file.write_text(tokens.create(kept, "site", Role.READER, time.time() + 3600) + "\n")
    app = make_app(Api(logins=Logins(None, Tokens(kept)), answers=service.answers))
    with Server(app, Address("localhost", 0, *certificate)).beside() as server:
        port = server.url.rpartition(":")[2]
        monkeypatch.setenv(answer_client.URL_ENV, f"https://localhost:{port}")
        monkeypatch.setenv(answer_client.TOKEN_ENV, str(token_file))
        monkeypatch.setenv(answer_client.CA_ENV, str(certificate[0]))
        yield f"https://localhost:{port}", token_file


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: words[0])
def test_a_submit_host_with_a_token_is_answered_over_https(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    assert "as of the pass at " in capsys.readouterr().err


def test_a_client_file_names_address_and_token_of_the_site(
    site: tuple[str, Path], certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (answer_client.URL_ENV, answer_client.TOKEN_ENV, answer_client.CA_ENV):
        monkeypatch.delenv(name)
    lines = (f"{answer_client.URL_ENV}={site[0]}", f"{answer_client.TOKEN_ENV}={site[1]}")
    file = tmp_path / "client"
    file.write_text("# of the site\n" + "\n".join((*lines, f"{answer_client.CA_ENV}='{certificate[0]}'")) + "\n")
    place = answer_client.remote(os.environ, file)
    assert place is not None
    assert answer_client.ask(place, "jobs")["pass"] == 7
    file.write_text("CP_CAP_AUTOSCALE_URLL=x\n")
    with pytest.raises(SettingsError, match="line 1: 'CP_CAP_AUTOSCALE_URLL' is none of"):
        answer_client.remote(os.environ, file)


@pytest.mark.parametrize("body", (b"[" * 100_000, b"nonsense", b"\xff", b'"text"', b"[]"))
def test_a_malformed_answer_of_the_service_is_an_error_not_a_crash(body: bytes, tmp_path: Path) -> None:
    """The process that listens there may be any."""
    path = tmp_path / "any.sock"

    def answer() -> None:
        made, _ = there.accept()
        with made:
            made.recv(65536)
            made.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))
        there.listen()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(answer)
            with pytest.raises(answer_client.Unanswered):
                answer_client.ask(ServiceAddress(str(path)), "status")
            threads.submit(answer)
            with pytest.raises(Unreachable):
                Service(str(path)).call("GET", "/requests")


@pytest.mark.parametrize("pasted", ("sgea_paddedSECRET==", "SECRET=x", "sgea_SECRET"))
def test_a_token_pasted_into_the_client_file_is_not_shown(tmp_path: Path, pasted: str) -> None:
    file = tmp_path / "client"
    file.write_text(f"{pasted}\n")
    with pytest.raises(SettingsError, match="line 1: the name there is none of") as raised:
        answer_client.remote({}, file)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(("mode", "how"), ((0o646, "may be written by everybody"), (0o664, "written by group")))
def test_a_client_file_that_others_can_write_is_refused(tmp_path: Path, mode: int, how: str) -> None:
    file = tmp_path / "client"
    file.write_text(f"{answer_client.URL_ENV}=https://localhost:1\n")
    file.chmod(mode)
    with pytest.raises(SettingsError, match=f"client is not used, .*{how}.*: chmod"):
        answer_client.remote({}, file)
    file.chmod(0o644)
    assert answer_client.remote({}, file) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_client_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client"
    file.write_text(f"{answer_client.URL_ENV}=https://localhost:1\n")
    os.chown(file, 1, -1)
    with pytest.raises(SettingsError, match="belongs to daemon: chown root"):
        answer_client.remote({}, file)


@pytest.mark.parametrize("name", ("token", "login", "ca"))
def test_a_token_login_or_ca_file_that_others_can_write_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("ann:word\n")
    file.chmod(0o666)
    place = replace(ServiceAddress("", "https://localhost:1"), **{f"{name}_file": str(file)})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=f"{name} is not used, since others could change or read it"):
        answer_client.ask(place, "status")


def test_a_login_file_that_everybody_can_read_is_refused_and_a_token_file_of_root_is_not(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("ann:word\n")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="may be read by everybody: chmod o="):
        answer_client.ask(ServiceAddress("", "https://localhost:1", login_file=str(file)), "status")
    with pytest.raises(answer_client.Unanswered if os.geteuid() == 0 else SettingsError):
        answer_client.ask(ServiceAddress("", "https://localhost:1", token_file=str(file)), "status")


@pytest.mark.parametrize("url", ("http://grid.example.org:8651", "http://192.0.2.1", "http://[2001:db8::1]:1"))
def test_no_token_is_sent_over_plain_http_unless_a_setting_allows_it(tmp_path: Path, url: str) -> None:
    file = tmp_path / "client"
    file.write_text(f"{answer_client.URL_ENV}={url}\n{answer_client.TOKEN_ENV}={tmp_path / 'none'}\n")
    place = answer_client.remote({}, file)
    assert place is not None
    with pytest.raises(SettingsError, match="in the clear: write https://, or set CP_CAP_AUTOSCALE_HTTP_PLAIN=true"):
        answer_client.ask(place, "status")
    place = answer_client.remote({"CP_CAP_AUTOSCALE_HTTP_PLAIN": "true"}, file)
    assert place is not None
    with pytest.raises(SettingsError, match=r"cannot read .*none: No such file"):  # the address is accepted
        answer_client.ask(place, "status")


def test_each_failure_is_one_line_without_the_token(
    site: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, token_file = site
    secret = token_file.read_text().strip()

    def error_of(code: int, **changed: str) -> str:
        with monkeypatch.context() as changing:
            for name, value in changed.items():
                changing.setenv(f"CP_CAP_AUTOSCALE_{name}", value)
            assert main(["status"]) == code
        printed = capsys.readouterr()
        assert (secret not in printed.err, printed.err.count("\n"), printed.out) == (True, 1, "")
        return printed.err

    kept = tmp_path / "tokens"
    ended = tmp_path / "ended"
    ended.write_text(tokens.create(kept, "ended", Role.READER, time.time() - 60))
    wrong = tmp_path / "wrong"
    wrong.write_text("sgea_nonsense")
    assert "refuses the connection: nobody listens there" in error_of(4, URL="https://localhost:1")
    assert "names no file" not in error_of(2, TOKEN_FILE=secret)
    assert "(not shown" in error_of(2, TOKEN_FILE=secret)
    assert "(not shown" in error_of(2, TOKEN_FILE=f"/{secret}/x")
    assert "must not contain a name and password" in error_of(2, URL=f"https://me:{secret}@localhost")
    assert "(not shown" in error_of(2, URL=secret)
    assert "(not shown" in error_of(2, URL=f"https://localhost:{secret}")
    assert "(not shown" in error_of(2, URL=f"https://[{secret}")
    assert "cannot be reached" in error_of(4, URL="https://no-such-host.invalid:1")
    assert "is not trusted" in error_of(4, CA_FILE="")
    assert "refuses the token in" in error_of(1, TOKEN_FILE=str(ended))
    assert "this token has expired" in error_of(1, TOKEN_FILE=str(ended))
    assert "this token is not known" in error_of(1, TOKEN_FILE=str(wrong))
    assert "a caller without credentials" in error_of(1, TOKEN_FILE="")
    assert "cannot read" in error_of(2, TOKEN_FILE=str(tmp_path / "none"))
    assert "is not an address" in error_of(2, URL="localhost:8651")
    assert "cannot be used" in error_of(2, CA_FILE=str(tmp_path / "none"))


def test_with_owner_only_details_a_site_token_sees_no_jobs(
    site: tuple[str, Path], service: World, capsys: pytest.CaptureFixture[str]
) -> None:
    service.answers.owners_only = True
    try:
        assert service.loop.seen is not None
        job = first_job(service.loop.seen[0])
        assert (main(["explain", job]), "is not yours" in capsys.readouterr().err) == (1, True)
        assert (main(["jobs"]), "jobs of others wait" in capsys.readouterr().out) == (0, True)
    finally:
        service.answers.owners_only = False
