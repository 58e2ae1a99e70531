"""A ring ends a wait, and so does a write of another process to the watched file."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler import file_watch
from autoscaler.engine.wakeup import Wakeup
from autoscaler.file_watch import FileWatch
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store

HUNG = 60.0


@contextmanager
def soon(what: threading.Timer) -> Iterator[float]:
    """Do it in a moment; yields the time before."""
    what.start()
    try:
        yield time.monotonic()
    finally:
        what.join()


def test_rings_before_a_wait_end_it_once() -> None:
    wakeup = Wakeup()
    for _ in range(3):
        wakeup.ring()
    assert (wakeup.wait(HUNG), wakeup.wait(0.0)) == (True, False)


def test_a_ring_ends_a_wait() -> None:
    wakeup = Wakeup()
    with soon(threading.Timer(0.05, wakeup.ring)):
        assert wakeup.wait(HUNG)


def test_a_commit_of_another_connection_ends_a_wait_without_a_ring(tmp_path: Path) -> None:
    own, other = Store.open(tmp_path / "store.sqlite"), Store.open(tmp_path / "store.sqlite")
    wakeup = Wakeup()
    wakeup.watch(own.database.log_file)
    before = own.database.changes_by_others
    ask = threading.Timer(0.05, lambda: other.overrides.ask(Verb.PAUSE, who="ann", at=1.0))
    with soon(ask) as began:
        rung = wakeup.wait(HUNG)
    again = wakeup.wait(HUNG)  # it may have been written before it was committed: check again soon
    assert (rung, again, time.monotonic() - began < HUNG, own.database.changes_by_others != before) == (
        False,
        False,
        True,
        True,
    )


def test_without_writes_and_rings_a_wait_takes_its_full_time(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    wakeup = Wakeup(check_every=0.01)
    wakeup.watch(tmp_path / "log")
    began = time.monotonic()
    wakeup.wait(0.3)
    assert time.monotonic() - began >= 0.29


def test_for_an_unwatchable_file_waits_are_short(tmp_path: Path) -> None:
    wakeup = Wakeup(check_every=0.01)
    wakeup.watch(tmp_path / "nowhere")
    began = time.monotonic()
    for _ in range(3):
        assert not wakeup.wait(HUNG)
    assert time.monotonic() - began < HUNG


def test_without_a_file_a_wait_takes_its_full_time() -> None:
    wakeup = Wakeup(check_every=0.01)
    wakeup.watch(None)
    began = time.monotonic()
    wakeup.wait(0.2)
    assert time.monotonic() - began >= 0.19


def test_a_watch_that_the_kernel_refuses_raises_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        FileWatch(tmp_path / "nowhere")
    (tmp_path / "there").touch()
    monkeypatch.setattr(file_watch, "_MODIFY", 0)
    with pytest.raises(OSError, match="Invalid argument"):
        FileWatch(tmp_path / "there")
