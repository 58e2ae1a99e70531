"""`top` as a command: on a real terminal (tmux), without one, without an autoscaler, and for users who may act."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.answer_client import SOCKET_ENV, ServiceAddress
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.commands.top import NotDone, acting
from autoscaler.store.lock import hold, lock_directory
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.commands.test_answers import certificate, environ, running, service, site
from tests.commands.test_commands import worker_store
from tests.commands.test_start import HEAVY, imported_by
from tests.web.test_answers import World

__all__ = ("certificate", "environ", "running", "service", "site", "worker_store")
RUN = (sys.executable, "-m", "autoscaler.commands.main", "top")


class Terminal:
    """A tmux server of its own."""

    def __init__(self, socket: Path, size: tuple[int, int], env: dict[str, str]) -> None:
        self._tmux = ("tmux", "-S", str(socket), "-f", "/dev/null")
        command = " ".join((*RUN, ";", "echo", "ended", "with", "$?;", "sleep", "600"))
        argv = ("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-s", "top", command)
        self._run(*argv, env={**os.environ, **env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})

    def _run(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run((*self._tmux, *words), env=env, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def keys(self, *names: str) -> None:
        self._run("send-keys", "-t", "top", *names)

    def shows(self, text: str) -> str:
        """The screen, as soon as it shows this text."""
        deadline = time.monotonic() + 90
        while text not in (screen := self._run("capture-pane", "-p", "-t", "top")):
            assert time.monotonic() < deadline, f"{text!r} is not on the screen:\n{screen}"
            time.sleep(0.2)
        return screen

    def shows_no_more(self, text: str) -> None:
        deadline = time.monotonic() + 90
        while text in (screen := self._run("capture-pane", "-p", "-t", "top")):
            assert time.monotonic() < deadline, f"{text!r} is still on the screen:\n{screen}"
            time.sleep(0.2)

    def close(self) -> None:
        self._run("kill-server")


@contextmanager
def on_terminal(tmp_path: Path, size: tuple[int, int], socket: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path / "tmux", size, {SOCKET_ENV: str(socket)})
    try:
        yield made
    finally:
        made.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", ((80, 24), (200, 50)), ids=("80", "200"))
def test_top_shows_the_running_autoscaler_and_restores_the_terminal(
    service: World, environ: dict[str, str], tmp_path: Path, size: tuple[int, int]
) -> None:
    with on_terminal(tmp_path, size, service.path) as terminal:
        screen = terminal.shows("default of master:6444")
        assert "pass 7" in screen
        terminal.shows("waits because")
        assert max(map(len, terminal.shows("Quit").splitlines())) <= size[0]
        terminal.keys("Enter")
        terminal.shows("Enter: explain")
        terminal.keys("Enter")
        terminal.shows("as demand")
        terminal.keys("q")
        terminal.shows_no_more("Esc: close")
        terminal.keys("q")
        assert "default of master" not in terminal.shows("ended with 0")


def test_without_an_autoscaler_top_says_what_to_do(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 3
    printed = capsys.readouterr().err
    assert ("no autoscaler was found" in printed, "`sge-autoscaler run`" in printed, printed.count("\n")) == (
        True,
        True,
        1,
    )


def test_a_dead_autoscaler_is_reported_as_not_answering(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(Invocation(environ).cell, lock_directory(), state="", socket_path=str(tmp_path / "gone.sock")):
        assert main(["top"]) == 4
    assert "does not answer: No such file" in capsys.readouterr().err


@pytest.mark.usefixtures("running")
def test_without_a_terminal_top_names_the_alternative(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    assert "top needs a terminal; for programs: --json" in capsys.readouterr().err


@pytest.mark.usefixtures("running")
def test_json_is_one_complete_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"schema", "now", "status", "queue", "workers", "events", "passes"} <= printed.keys()
    assert printed["queue"]["reasons"][0]["tasks"] > 0


@pytest.mark.usefixtures("site")
def test_a_submit_host_watches_over_https(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["queue"]["reasons"]
    assert (main(["top"]), "top needs a terminal" in capsys.readouterr().err) == (2, True)


def test_help_and_json_import_no_terminal_library(service: World, environ: dict[str, str]) -> None:
    modules, _ = imported_by(["top", "--help"])
    assert modules.isdisjoint({*HEAVY, "textual"})
    modules, _ = imported_by(["top", "--json"], environ={**environ, "CP_CAP_AUTOSCALE_SOCKET": str(service.path)})
    assert modules.isdisjoint({*HEAVY, "textual"})


def test_top_acts_through_the_same_commands(environ: dict[str, str], worker_store: Store, tmp_path: Path) -> None:
    socket = str(tmp_path / "a.sock")
    state = str(Invocation(environ).state_directory)
    with hold(Invocation(environ).cell, lock_directory(), state=state, socket_path=socket):
        act = acting(Invocation(environ), ServiceAddress(socket))
        assert act is not None
        assert act(["drain", "fake-1"]) == "fake-1 will be drained"
        assert [(one.verb, one.host) for one in worker_store.overrides.in_force()] == [(Verb.DRAIN, "fake-1")]
        with pytest.raises(NotDone, match=r"^this autoscaler has no worker fake-2; its workers: fake-1"):
            act(["keep", "fake-2"])


def test_top_cannot_act_without_write_access_or_on_another_machine(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = str(tmp_path / "a.sock")
    assert acting(Invocation(environ), ServiceAddress(socket)) is None
    with hold(Invocation(environ).cell, lock_directory(), state=str(tmp_path), socket_path=socket):
        assert acting(Invocation(environ), ServiceAddress(socket)) is not None
        assert acting(Invocation(environ), ServiceAddress(str(tmp_path / "of another cell.sock"))) is None
        assert acting(Invocation(environ), ServiceAddress(url="https://elsewhere:1")) is None
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert acting(Invocation(environ), ServiceAddress(socket)) is None
