"""`platform install` after an `uninstall`: what gives our workers back ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.platform import UNINSTALL_LOG, cancel_drain, uninstall_log
from autoscaler.engine.queue_register import QueueRegister
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store


@dataclass
class Served:
    """The settings of all queues, as far as they matter here."""

    store_file: Path
    who: str = "ann"
    stores: list[Store] = field(default_factory=list)

    @contextmanager
    def store(self) -> Iterator[Store]:
        store = Store.open(self.store_file)
        try:
            yield store
        finally:
            store.close()


def until_begun(pid: int) -> None:
    """A process has no arguments for a moment after its start."""
    while not Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.01)


@pytest.mark.parametrize(("words", "ends"), ((("stop", "--drain"), True), (("other",), False)))
def test_install_cancels_the_stop_of_an_uninstall_and_ends_its_process_and_no_other(
    tmp_path: Path, words: tuple[str, ...], *, ends: bool
) -> None:
    register, served = QueueRegister(tmp_path), Served(tmp_path / "store.sqlite")
    with served.store() as store:
        store.overrides.ask(Verb.STOP_DRAIN, who="uninstall", at=1.0)
    child = subprocess.Popen((sys.executable, "-c", "import time; time.sleep(60)", *words))
    try:
        until_begun(child.pid)
        register.note_drain(child.pid, log := tmp_path / "a log.log")
        assert register.drain() == (child.pid, str(log))
        cancel_drain(register, cast("Invocation", served))
        with served.store() as store:
            assert store.overrides.in_force() == ()
        if ends:
            assert child.wait(10) == -15
        else:
            assert child.poll() is None
        assert not register.end_drain(), "once"
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("stands_there", ("nothing", "no folder", "a file", "a pipe", "a link"))
def test_nothing_that_stands_in_place_of_the_log_keeps_an_uninstall_from_giving_workers_back(
    tmp_path: Path, stands_there: str
) -> None:
    """A pipe that nobody reads would hold the command for ever."""
    folder, otherwise = tmp_path / "logs", tmp_path / "register"
    otherwise.mkdir()
    if stands_there == "a file":
        folder.touch()
    elif stands_there != "no folder":
        folder.mkdir()
    if stands_there == "a pipe":
        os.mkfifo(folder / UNINSTALL_LOG)
    if stands_there == "a link":
        (folder / UNINSTALL_LOG).symlink_to(tmp_path / "elsewhere")
    usual = stands_there in ("nothing", "no folder")
    log = uninstall_log({"LOG_DIR": str(folder)}, otherwise)
    assert log == (folder if usual else otherwise) / UNINSTALL_LOG
    assert log.is_file()
