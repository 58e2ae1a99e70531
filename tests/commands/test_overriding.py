"""`pause`, `drain` and other commands of users who may not write the autoscaler's state: they ask it, and it reports
who may.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoscaler import answer_client
from autoscaler.answer_client import SOCKET_ENV, TOKEN_ENV, URL_ENV, ServiceAddress
from autoscaler.api import tokens
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.principal import Role
from autoscaler.api.server import Address, Server
from autoscaler.api.tokens import Tokens
from autoscaler.commands import overriding, stop  # noqa: F401 - a user may not read them later
from autoscaler.commands import top as top_command
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.commands.overriding import _sent
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store import lock
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.cell_files import cell_files
from tests.commands.test_answers import listening
from tests.commands.test_commands import environ, worker_store
from tests.web.test_overrides import MANAGER, OTHER, Site, a_site, as_root

__all__ = ("environ", "listening", "worker_store")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def as_user(user: str, run: Callable[[], int]) -> Done:
    """Runs this in a process of another user of this machine, with the modules imported here."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                signal.alarm(120)
                sys.stdout, sys.stderr = out, err
                account = pwd.getpwnam(user)
                os.setgroups([])
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
                code = run()
            finally:
                out.flush()
                err.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Done(os.waitstatus_to_exitcode(status), out.read(), err.read())


def command_as(user: str, *words: str) -> Done:
    return as_user(user, lambda: main(words))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The autoscaler of a cell whose files every user can read, with a state that only root can write."""
    with a_site() as made:
        for name, value in cell_files(made.folder / "sge").items():
            monkeypatch.setenv(name, value)
        for name in (URL_ENV, TOKEN_ENV, SOCKET_ENV, "CP_CAP_AUTOSCALE_WORKDIR", "SUDO_USER"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(answer_client, "CLIENT_FILE", made.folder / "client")
        monkeypatch.setattr(lock, "LOCKS", made.folder / "locks")
        cell = Invocation(os.environ).cell
        with hold(cell, lock_directory(), state=str(made.folder / "state"), socket_path=str(made.path)):
            yield made


@as_root
def test_a_manager_who_may_not_write_the_state_acts_through_the_service(site: Site) -> None:
    site.managers.append(MANAGER)
    site.store.memory.save(site.store.memory.load(), 4e9)  # as if a pass had just been made
    done = [command_as(MANAGER, *words) for words in (["pause"], ["drain", "fake-1"], ["stop", "--now", "--no-wait"])]
    assert [(one.code, one.err) for one in done] == [(0, "")] * 3
    assert done[0].out == "the autoscaler pauses from its next pass on; `sge-autoscaler resume` ends the pause\n"
    assert site.in_force() == [
        (Verb.PAUSE, "", MANAGER),
        (Verb.DRAIN, "fake-1", MANAGER),
        (Verb.STOP_NOW, "", MANAGER),
    ]
    assert command_as(MANAGER, "resume").out == "ended: the pause, the stop at once\n"
    assert command_as(MANAGER, "drain", "--undo", "fake-1").out == "the drain of fake-1 is cancelled\n"
    unknown = command_as(MANAGER, "keep", "fake-2")
    assert (unknown.code, "its workers: fake-1" in unknown.err) == (3, True)
    waits = command_as(MANAGER, "stop", "--now")
    assert (waits.code, "add --no-wait" in waits.err, site.in_force()) == (2, True, [])


@as_root
@pytest.mark.parametrize("words", (["pause"], ["resume"], ["retry"], ["keep", "fake-1"], ["drain", "fake-1"]))
def test_a_user_who_is_not_a_manager_is_refused_with_who_may_act(site: Site, words: list[str]) -> None:
    done = command_as(OTHER, *words)
    assert (done.code, done.out, done.err.count("\n"), site.in_force()) == (1, "", 1, [])
    assert "nobody may read, but not act on the autoscaler: only root" in done.err


@as_root
def test_a_refused_stop_does_not_advise_no_wait(site: Site) -> None:
    refused, sent = (command_as(OTHER, "stop", "--now", *more) for more in ((), ("--no-wait",)))
    assert (refused.code, sent.code, refused.out, site.in_force()) == (1, 1, "", [])
    assert "nobody may read, but not stop the autoscaler: ask root" in refused.err
    assert "--no-wait" not in refused.err


@as_root
@pytest.mark.parametrize("words", (["pause"], ["stop", "--now"], ["stop", "--now", "--no-wait"]))
def test_a_socket_closed_to_a_user_is_a_refusal(site: Site, words: list[str]) -> None:
    site.path.chmod(0o700)
    done = command_as(OTHER, *words)
    assert (done.code, "is closed to you: ask root" in done.err) == (1, True)


@as_root
def test_top_offers_actions_to_managers_only(site: Site) -> None:
    site.managers.append(MANAGER)

    def offered() -> int:
        return 0 if top_command.acting(Invocation(os.environ), ServiceAddress(str(site.path))) is None else 1

    assert [as_user(user, offered).code for user in (MANAGER, OTHER)] == [1, 0]


@pytest.mark.timeout(120)
def test_an_override_stored_for_a_hanging_service_is_reported_as_late(
    environ: dict[str, str], worker_store: Store, listening: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    invocation = Invocation(environ)
    state, path = str(invocation.state_directory), str(listening("hangs"))
    with hold(invocation.cell, lock_directory(), state=state, socket_path=path):
        assert main(["pause"]) == 0
    printed = capsys.readouterr().out
    assert ("takes effect at the next pass" in printed, "it hangs, or was stopped" in printed) == (True, True)
    assert worker_store.overrides.load().paused


@pytest.mark.timeout(120)
def test_a_user_of_a_hanging_service_learns_that_it_will_not_act_later(
    environ: dict[str, str],
    worker_store: Store,
    listening: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    invocation = Invocation(environ)
    state, path = str(invocation.state_directory), str(listening("hangs"))
    monkeypatch.setattr(os, "access", lambda at, mode, real=os.access: str(at) != state and real(at, mode))
    with hold(invocation.cell, lock_directory(), state=state, socket_path=path):
        assert main(["pause"]) == 4
    printed = capsys.readouterr()
    assert (
        printed.out,
        "it hangs, or was stopped" in printed.err,
        "carries out no command whose caller has gone" in printed.err,
    ) == (
        "",
        True,
        True,
    )


def test_a_command_that_nobody_received_is_not_promised_for_later(tmp_path: Path) -> None:
    with pytest.raises(answer_client.Unanswered) as a_site:
        _sent(ServiceAddress(path=str(tmp_path / "none.sock")), OperatorCommand(Verb.PAUSE))
    assert "if it received" not in str(a_site.value)


def test_a_service_without_recent_observations_is_reported_as_late(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.store.memory.save(site.store.memory.load(), 1.0)
    assert main(["pause"]) == 0
    assert "takes effect at the next pass of the autoscaler, and that is late: the last" in capsys.readouterr().out


def test_from_another_machine_only_a_proven_admin_may_act(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "tokens"
    api = site.app_api
    app = make_app(Api(api.operations, Logins(None, Tokens(kept)), api.calls))
    for name in ("SGE_ROOT", "SGE_CELL"):
        monkeypatch.setenv(name, "nowhere")
    with Server(app, Address("127.0.0.1", 0)).beside() as server:
        monkeypatch.setenv(URL_ENV, server.url)
        for role, code in ((Role.CALLER, 1), (Role.ADMIN, 0)):
            token = tmp_path / f"token of {role}"
            token.touch(mode=0o600)
            token.write_text(tokens.create(kept, str(role), role, 4e9))
            monkeypatch.setenv(TOKEN_ENV, str(token))
            assert main(["pause"]) == code, capsys.readouterr().err
    assert "only an admin may" in capsys.readouterr().err
    assert site.in_force() == [(Verb.PAUSE, "", "token:admin (REST)")]
