"""Users of submit hosts prove their identity by a real MUNGE: for one call, once, and without delaying others."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import requests

from autoscaler.answer_client import (
    OVERRIDES,
    PREFIX,
    TRIES,
    Refused,
    ServiceAddress,
    Unanswered,
    ask,
    override,
    remote,
    standing,
)
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.logins import BURST, Logins
from autoscaler.api.munge_login import AT_ONCE, LINE, OF_ADDRESS, MungeLogin, _Line
from autoscaler.api.passwords import Passwords
from autoscaler.api.principal import Principal
from autoscaler.api.relayed_answers import RelayedAnswers
from autoscaler.api.server import Address, Server
from autoscaler.commands._http import network
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.errors import CommandTimedOut, GridEngineNotObservable, SettingsError
from autoscaler.munge import MOST_AGE, Call, Undecided, Unproven, credential, uid_of
from autoscaler.process import Completed, Runner, SystemRunner
from autoscaler.settings.guarded_files import GuardedFile
from autoscaler.store.overrides import Verb
from autoscaler.unix_connection import OWN
from tests.cases.whole import whole
from tests.commands.test_commands import environ
from tests.deadlines import wait_for
from tests.munged import made_by, munged, programs
from tests.web.served import PASSWORD, USER, behind, free_port, password_file
from tests.web.test_answers import World, answering_service, first_job, owned_by

__all__ = ["environ"]
OWNER, OTHER = "daemon", "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes credentials of other users")
ENVIRON = programs()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Path]:
    with munged(ENVIRON) as socket:
        yield socket


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


@dataclass
class Site:
    """`serve` for a cell in which all jobs are owned by `daemon` and visible to their owners only."""

    url: str
    socket: Path
    service: World
    logins: Logins
    in_force: Callable[[], list[tuple[Verb, str]]]
    who_called: Callable[[], list[str]]

    @property
    def place(self) -> ServiceAddress:
        return ServiceAddress(url=self.url, munge=str(self.socket))

    def call(self, method: str, target: str) -> Call:
        return Call(method, target, self.url.removeprefix("http://"))

    def sent(self, user: str, call: Call, **changed: str) -> requests.Response:
        return self.bring(credential(str(self.socket), call, made_by(user)), replace(call, **changed))

    def bring(self, given: str, call: Call, **more: str) -> requests.Response:
        headers = {"Authorization": f"MUNGE {given}", "Host": call.host}
        return requests.request(call.method, self.url + call.target, headers=headers, timeout=120, **more)  # type: ignore[arg-type]


@pytest.fixture
def site(daemon: Path, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        service = stack.enter_context(answering_service(owners_only=True))
        seen = service.loop.observe(whole("growth/hybrid-takes-the-type-that-runs-all-pending-cores"))
        service.loop.seen = owned_by(seen, OWNER), 8
        operations, calls = stack.enter_context(behind(tmp_path / "store.sqlite"))
        roles = LocalRoles(None, lambda: list(service.managers))
        passwords = Passwords(password_file(tmp_path / "passwords"))
        logins = Logins(passwords, munge=MungeLogin(daemon, roles, SystemRunner()), stopwatch=lambda: 0.0)
        api = Api(operations, logins, calls, answers=RelayedAnswers(lambda: str(service.path)))
        server = stack.enter_context(Server(make_app(api), Address("127.0.0.1", 0)).beside())

        def in_force() -> list[tuple[Verb, str]]:
            return [(each.verb, each.who) for each in operations.store.overrides.in_force()]

        yield Site(server.url, daemon, service, logins, in_force, lambda: [each.who for each in calls.newest(9)])


def test_a_command_on_a_submit_host_needs_no_token_and_no_password(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in list(os.environ):
        if name.startswith(("SGE_", "CP_CAP_")):
            monkeypatch.delenv(name)
    file = tmp_path / "client"
    file.write_text(f"CP_CAP_AUTOSCALE_URL={site.url}\nCP_CAP_AUTOSCALE_MUNGE={site.socket}\n")
    assert remote({}, file) == site.place
    for line in file.read_text().splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    assert main(["workers"]) == 0
    assert "as of the pass at " in capsys.readouterr().err


@as_root
def test_each_user_of_a_submit_host_sees_only_their_own_jobs(site: Site) -> None:
    assert site.service.loop.seen is not None
    job = first_job(site.service.loop.seen[0])
    explained = site.call("GET", f"{PREFIX}/explain?subject={job}")
    assert [site.sent(user, explained).status_code for user in (OWNER, OTHER)] == [200, 403]
    site.service.managers.append(OTHER)  # the service reads Grid Engine's managers itself
    assert site.sent(OTHER, explained).status_code == 403  # of those read within the last minute
    with answering_service(owners_only=True) as anew:
        anew.managers.append(OTHER)
        anew.loop.seen = site.service.loop.seen
        for end in ("", OWN):
            Path(f"{site.service.path}{end}").unlink()
            Path(f"{site.service.path}{end}").symlink_to(f"{anew.path}{end}")
        assert site.sent(OTHER, explained).status_code == 200
    assert set(site.who_called()) == {OWNER, OTHER}


@as_root
def test_only_a_manager_may_act_and_is_recorded_by_name(site: Site) -> None:
    site.service.managers.append(OWNER)
    pause = site.call("POST", f"{OVERRIDES}/pause")
    refused = site.sent(OTHER, pause)
    assert (refused.status_code, "manager of Grid Engine" in refused.text) == (403, True)
    assert (site.sent(OWNER, pause).status_code, site.in_force()) == (200, [(Verb.PAUSE, f"{OWNER} (MUNGE)")])
    standings = [site.sent(user, site.call("GET", OVERRIDES)).json()["may"] for user in (OWNER, OTHER)]
    assert standings == [True, False]
    create = site.sent(OTHER, site.call("POST", "/clusters/demo/scale/execute"))
    assert create.status_code == 403


@as_root
def test_without_an_answer_of_grid_engine_a_refusal_says_that_managers_are_unknown(site: Site) -> None:
    def unanswered() -> list[str]:
        raise GridEngineNotObservable("qconf did not end within 20 s")

    assert site.logins.munge is not None
    site.logins.munge.roles.managers = unanswered
    answer = site.sent(OWNER, site.call("POST", f"{OVERRIDES}/pause"))
    assert (answer.status_code, "cannot be read now: qconf did not end" in answer.text) == (403, True)


def test_the_client_acts_as_its_own_user(site: Site) -> None:
    me = [standing(site.place)["name"], standing(site.place)["may"]]
    site.service.managers.append(me[0])
    with pytest.raises(Refused, match="may read, but not act"):
        override(site.place, "pause", {})
    site.logins.munge.roles._read_at = None  # type: ignore[union-attr]
    assert (me[1], override(site.place, "pause", {})["done"]) == (False, True)


WORKERS = f"{PREFIX}/workers"


def test_a_credential_is_valid_for_one_call_and_once(site: Site) -> None:
    call = site.call("GET", WORKERS)
    given = credential(str(site.socket), call)
    answers = [site.bring(given, call) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 401]
    assert "was used before" in answers[1].text
    other = [
        replace(call, target=f"{PREFIX}/jobs"),
        replace(call, target=f"{WORKERS}?form=text"),
        replace(call, host=f"localhost:{site.url.rpartition(':')[2]}"),
    ]
    statuses = [site.bring(credential(str(site.socket), call), each) for each in other]
    pause_call = site.call("GET", f"{OVERRIDES}/pause")
    statuses.append(site.bring(credential(str(site.socket), pause_call), replace(pause_call, method="POST")))
    assert [(each.status_code, "for another call" in each.text) for each in statuses] == [(401, True)] * 4
    assert site.logins.failures == 5


def test_a_host_name_matches_only_the_address_at_which_the_call_arrived() -> None:
    """A process that listens at an address or at localhost of a submit host gets credentials for that name."""
    assert Call("GET", "/", "127.0.0.1:8651").meant_for("127.0.0.1")
    assert Call("GET", "/", "[::1]:8651").meant_for("::1")
    assert Call("GET", "/", "LOCALHOST:8651").meant_for("127.0.0.1")
    assert Call("GET", "/", "master:8651").meant_for("10.0.0.1")
    assert Call("GET", "/", "10.0.0.1:8651").meant_for("::ffff:10.0.0.1")
    assert Call("GET", "/", "localhost").meant_for("::ffff:127.0.0.1")
    passed_on = ("127.0.0.1:8651", "localhost:8651", "localhost", "[::1]:8651", "10.0.0.9")
    assert not any(Call("GET", "/", host).meant_for("10.0.0.1") for host in passed_on)


def test_a_relayed_credential_is_refused(site: Site) -> None:
    call = replace(site.call("GET", WORKERS), host="192.0.2.7:8651")
    answer = site.bring(credential(str(site.socket), call), call)
    assert (answer.status_code, "credential is for 192.0.2.7:8651" in answer.text) == (401, True)


def test_a_credential_does_not_cover_a_call_with_a_body(site: Site) -> None:
    call = site.call("POST", f"{OVERRIDES}/pause")
    answer = site.bring(credential(str(site.socket), call), call, data="{}")
    assert (answer.status_code, "calls without a body" in answer.text) == (401, True)


@pytest.mark.parametrize("given", ("", "x", "MUNGE:AwQDAAA:", "MUNGE:" + "A" * 5000 + ":", "MUNGE:=\x00:", "--help"))
def test_a_malformed_credential_is_a_wrong_login(site: Site, given: str) -> None:
    call = site.call("GET", WORKERS)
    with pytest.raises(Unproven):
        uid_of(SystemRunner(), site.socket, given, call)
    if "\0" not in given:
        assert site.bring(given, call).status_code == 401


def test_a_credential_of_another_key_is_a_wrong_login(site: Site) -> None:
    call = site.call("GET", WORKERS)
    with munged(ENVIRON) as foreign:
        given = credential(str(foreign), call)
    assert site.bring(given, call).status_code == 401


def edited(change: Callable[[bytes], bytes], status: int = 0) -> Runner:
    """The output of `unmunge`, changed."""

    class Edited(SystemRunner):
        def __call__(self, argv, **options):  # type: ignore[no-untyped-def]
            done = super().__call__(argv, **options)
            return replace(done, stdout=change(done.stdout), returncode=status)

    return Edited()


@pytest.mark.parametrize(
    ("status", "message"),
    ((15, "has expired"), (16, "is of the future"), (17, "was used before"), (18, "is for somebody else"), (8, "none")),
)
def test_a_credential_that_munged_refuses_proves_nothing(daemon: Path, status: int, message: str) -> None:
    call = Call("GET", WORKERS, "master")
    with pytest.raises(Unproven, match=message):
        uid_of(edited(bytes, status), daemon, credential(str(daemon), call), call)


def test_a_credential_is_too_old_after_a_minute_whatever_its_lifetime(daemon: Path) -> None:
    call = Call("GET", WORKERS, "master")

    def aged(text: bytes) -> bytes:
        made = int(text.split()[1])
        return text.replace(str(made).encode(), str(made - MOST_AGE - 1).encode(), 1)

    with pytest.raises(Unproven, match="has expired: do the clocks"):
        uid_of(edited(aged), daemon, credential(str(daemon), call), call)
    assert uid_of(SystemRunner(), daemon, credential(str(daemon), call), call) == os.geteuid()


@pytest.mark.parametrize("output", (b"", b"UID: 0\n\n", b"ENCODE_TIME: x\nDECODE_TIME: 1\nUID: 0\n\n"))
def test_an_incomplete_answer_of_unmunge_proves_nothing(daemon: Path, output: bytes) -> None:
    call = Call("GET", WORKERS, "master")
    with pytest.raises(Undecided):
        uid_of(edited(lambda _: output), daemon, credential(str(daemon), call), call)


@as_root
def test_a_uid_without_a_local_name_is_refused(site: Site) -> None:
    answer = site.sent("59999", site.call("GET", WORKERS))
    assert (answer.status_code, "no user of the autoscaler's machine has the uid 59999" in answer.text) == (401, True)


def test_wrong_credentials_shut_nobody_out_at_the_same_address(site: Site) -> None:
    call = site.call("GET", WORKERS)
    assert {site.bring("MUNGE:AwQDAAA:", call).status_code for _ in range(2 * BURST)} == {401}
    assert site.bring(credential(str(site.socket), call), call).status_code == 200
    answer = requests.get(f"{site.url}/clusters/demo/status", auth=(USER, PASSWORD), timeout=120)
    assert answer.status_code == 200


def test_commands_of_managers_do_not_wait_behind_credentials_for_questions(site: Site) -> None:
    """As many as are decoded at once hang, and as many again wait."""
    munge, answered, began = site.logins.munge, threading.Event(), threading.Semaphore(0)
    assert munge is not None
    decode = munge.runner

    def hang(argv, **given) -> Completed:  # type: ignore[no-untyped-def]
        began.release()
        assert answered.wait(300)
        return decode(argv, **given)

    call, command = site.call("GET", WORKERS), site.call("POST", f"{OVERRIDES}/pause")
    munge.runner = hang
    given = credential(str(site.socket), call)
    with ThreadPoolExecutor(LINE) as threads:
        asked = [threads.submit(site.bring, given, call) for _ in range(LINE)]
        try:
            for _ in range(AT_ONCE):
                assert began.acquire(timeout=300)
            munge.runner = decode
            site.service.managers[:] = ["root"]
            assert site.bring(credential(str(site.socket), command), command).status_code == 200
        finally:
            answered.set()
        assert {each.result(300).status_code for each in asked} <= {200, 401, 503}


class Callers:
    """Calls in a line, each on a thread of its own, that end when they are told to."""

    def __init__(self, line: _Line, threads: ThreadPoolExecutor) -> None:
        self._line, self._threads = line, threads
        self.served: list[str] = []
        self.gave_way: list[str] = []
        self._may_end = {name: threading.Event() for name in ("first", "rest")}

    def call(self, name: str, address: str, ends: str = "rest") -> None:
        """Returns when it is served, waits, or gave way."""
        before = self._seen()
        self._threads.submit(self._call, name, address, self._may_end[ends])
        assert wait_for(lambda: self._seen() > before, 60)

    def _seen(self) -> int:
        return len(self.served) + len(self.gave_way) + len(self._line._waiting)

    def _call(self, name: str, address: str, may_end: threading.Event) -> None:
        try:
            with self._line.turn(address):
                self.served.append(name)
                may_end.wait(60)
        except Undecided:
            self.gave_way.append(name)

    def end(self, which: str) -> None:
        self._may_end[which].set()


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callers]:
    monkeypatch.setattr("autoscaler.api.munge_login.PATIENCE", 60.0)
    with ThreadPoolExecutor(4 * LINE) as threads:
        made = Callers(_Line(), threads)
        for number in range(AT_ONCE):
            made.call(f"decoded {number}", "a", "first" if number == 0 else "rest")
        yield made
        made.end("first")
        made.end("rest")


def test_the_oldest_of_an_address_gives_way_and_the_newest_is_next(callers: Callers) -> None:
    waiting = [f"forged {number}" for number in range(OF_ADDRESS - AT_ONCE)]
    for name in waiting:
        callers.call(name, "a")
    callers.call("own", "a")
    assert wait_for(lambda: callers.gave_way == [waiting[0]], 60)
    callers.end("first")
    assert wait_for(lambda: callers.served[-1] == "own", 60)


def test_an_address_that_has_fewer_is_before_one_that_fills_the_line(callers: Callers) -> None:
    for number in range(OF_ADDRESS - AT_ONCE):
        callers.call(f"forged at a {number}", "a")
    for number in range(LINE - OF_ADDRESS):
        callers.call(f"forged at b {number}", "b")
    callers.call("own", "c")
    assert wait_for(lambda: callers.gave_way in (["forged at a 0"], ["forged at b 0"]), 60)
    callers.end("first")
    assert wait_for(lambda: callers.served[-1] == "own", 60)


def test_a_service_without_a_place_is_asked_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it asks for that itself; each time with a new credential."""
    monkeypatch.setattr("autoscaler.answer_client._PAUSE", 0.0)
    munge, refused = site.logins.munge, [Undecided("too many logins")] * 3
    assert munge is not None
    decode = munge.caller

    def caller(*given: str) -> Principal:
        if refused:
            raise refused.pop()
        return decode(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(MungeLogin, "caller", lambda _, *given: caller(*given))
    site.service.managers[:] = ["root"]
    assert override(site.place, "pause", {})["done"]
    refused[:] = [Undecided("too many logins")] * TRIES
    with pytest.raises(Unanswered, match="too many logins"):
        override(site.place, "resume", {})
    assert refused == []


@pytest.mark.thorough
def test_commands_are_heard_while_forged_ones_come_without_a_pause(site: Site) -> None:
    site.service.managers[:] = ["root"]
    ended, forged = threading.Event(), site.call("POST", f"{OVERRIDES}/pause")

    def forge() -> int:
        count = 0
        while not ended.is_set():
            count += site.bring("MUNGE:AwQDAAA:", forged).status_code in (401, 503)
        return count

    with ThreadPoolExecutor(2 * LINE) as threads:
        forging = [threads.submit(forge) for _ in range(2 * LINE)]
        try:
            assert [override(site.place, verb, {})["done"] for verb in ("pause", "resume") * 3] == [True] * 6
        finally:
            ended.set()
        assert sum(each.result(60) for each in forging) > LINE


def test_right_credentials_do_not_use_up_the_budget_of_an_address(site: Site) -> None:
    call = site.call("GET", OVERRIDES)
    answers = [site.bring(credential(str(site.socket), call), call).status_code for _ in range(BURST + 2)]
    assert answers == [200] * len(answers)


def test_an_unreachable_munged_does_not_count_as_a_wrong_login(site: Site) -> None:
    munge = site.logins.munge
    assert munge is not None
    munge.socket = site.socket.with_name("none")
    with pytest.raises(Unanswered, match=r"MUNGE cannot be asked now: .*none"):
        ask(site.place, "workers")
    assert site.logins.failures == 0


def test_a_hanging_munged_does_not_delay_proven_callers(site: Site) -> None:
    """However many callers use it: here none of them ends before the others were answered."""
    answered, began = threading.Event(), threading.Semaphore(0)

    def hang(argv, **_) -> Completed:  # type: ignore[no-untyped-def]
        began.release()
        assert answered.wait(300)
        raise CommandTimedOut("unmunge did not end")

    munge, call = site.logins.munge, site.call("GET", WORKERS)
    assert munge is not None
    munge.runner = hang
    given = credential(str(site.socket), call)
    many = 3 * LINE
    with ThreadPoolExecutor(many) as threads:
        asked = [threads.submit(site.bring, given, call) for _ in range(many)]
        for _ in range(AT_ONCE):
            assert began.acquire(timeout=300)
        proven = [
            requests.get(f"{site.url}/clusters/demo/status", auth=(USER, PASSWORD), timeout=120).status_code
            for _ in range(5)
        ]
        answered.set()
        results = {each.result(300).status_code for each in asked}
    assert (proven, results) == ([200] * 5, {503})  # and no wrong login is counted


def test_without_the_setting_munge_proves_nothing(site: Site) -> None:
    site.logins.munge = None
    with pytest.raises(Refused, match="refuses the user that MUNGE reports: MUNGE proves nothing here"):
        ask(site.place, "status")


def test_a_missing_munge_program_is_reported(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, daemon: Path
) -> None:
    values = {"CP_CAP_AUTOSCALE_HTTP": f"127.0.0.1:{free_port()}", "CP_CAP_AUTOSCALE_MUNGE": str(daemon)}
    with network(Invocation({**environ, **values})) as (server, _):  # needs neither a token nor a password
        server.close()
    monkeypatch.setenv("PATH", str(daemon.parent))
    with (
        pytest.raises(SettingsError, match="MUNGE is not installed here"),
        network(Invocation({**environ, **values})),
    ):
        pass
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_MUNGE: cannot run munge"):
        ask(ServiceAddress(url="http://127.0.0.1:1", munge=str(daemon)), "status")


def test_without_munged_a_command_reports_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"MUNGE gives no credential: .*none"):
        ask(ServiceAddress(url="http://127.0.0.1:1", munge=str(tmp_path / "none")), "status")


@as_root
def test_a_munge_socket_of_another_user_is_refused(daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that listens there decides who everybody is. Debian's socket belongs to the user munge, in a
    directory of theirs.
    """

    def judged(user: str) -> str:
        guarded = GuardedFile("the socket of MUNGE", daemon, user=user)
        return str(guarded.exposure(Invocation({}).settings, {}))

    assert judged("munge") == "None"
    for path in (daemon, daemon.parent):
        os.chown(path, 1, -1)
        assert (judged("nobody").partition(":")[0], judged("daemon")) == (f"{path} belongs to daemon", "None")
        os.chown(path, 0, -1)


def test_no_secret_is_in_the_arguments_of_a_command(daemon: Path) -> None:
    words: list[str] = []

    class Watched(SystemRunner):
        def __call__(self, argv, **options):  # type: ignore[no-untyped-def]
            words.extend(argv)
            return super().__call__(argv, **options)

    call = Call("GET", WORKERS, "master")
    given = credential(str(daemon), call, Watched())
    uid_of(Watched(), daemon, given, call)
    assert [word for word in words if given in word or call.digest.decode() in word] == []
    assert json.dumps(words).count("munge") >= 2
