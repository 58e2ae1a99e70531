"""A thread of the service whose work fails begins again, and says so."""

from __future__ import annotations

import errno
import logging
import threading
from pathlib import Path

import pytest

from autoscaler import supervised as supervised_module
from autoscaler.errors import CommandNotStarted
from autoscaler.supervised import supervised, troubles


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_module, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(supervised_module, "_failures", {})


@pytest.mark.parametrize(
    "error",
    (
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
        CommandNotStarted("cannot run qconf now"),
        RuntimeError("can't start new thread"),
        SystemExit(1),
        MemoryError(),
    ),
    ids=lambda error: type(error).__name__,
)
def test_work_that_fails_begins_again_and_says_so(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    done, tries = threading.Event(), iter((error, error, None))

    def work() -> None:
        if (now := next(tries)) is not None:
            raise now
        done.set()

    with caplog.at_level(logging.INFO):
        thread = supervised(work, "lease")
        thread.join(10)
    assert done.is_set()
    assert not thread.is_alive(), "work that returns is over"
    said = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.message.startswith("the thread lease failed and begins again in") for record in said] == [True]
    assert [trouble.startswith("the thread lease failed and began again") for trouble in troubles()] == [True]


def test_nothing_begins_again_after_the_end() -> None:
    ended, tries = threading.Event(), 0

    def work() -> None:
        nonlocal tries
        tries += 1
        ended.set()
        raise OSError

    supervised(work, "lease", ended).join(10)
    assert tries == 1


def test_every_thread_of_the_service_is_supervised_or_ends_with_its_call() -> None:
    """A new thread is supervised, or is named here with what becomes of its error."""
    known = {
        "autoscaler/supervised.py",
        "autoscaler/background.py",  # the future has the error
        "autoscaler/terminal/top.py",  # no service: the screen shows the error
        "autoscaler/api/answers.py",  # an index: the next question starts it again
        "autoscaler/providers/contract.py",  # tests
        "autoscaler/sge/events.py",  # one qevent's output: its end is reported whatever ends it
    }
    root = Path(__file__).parents[1]
    found = {
        f"{'' if top == 'autoscaler' else 'autoscaler/'}{file.relative_to(root)}"
        for top in ("autoscaler", "providers", "sge")
        for file in (root / top).rglob("*.py")
        if "threading.Thread(" in file.read_text("utf-8")
    }
    assert found == known
