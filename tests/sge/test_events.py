"""Events wake the loop; if qevent is silent, refused or missing, the loop only falls back to polling."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from autoscaler import process
from autoscaler.errors import CommandNotFound, CommandNotStarted
from autoscaler.process import Running
from autoscaler.sge.events import Events
from tests.deadlines import wait_for

BEAT = 'echo "ECL_STATE (jobs_running=0:jobs_registered=0:ECL_TIME=1795259912)"'
JOB = 'echo "JOB_ADD (5.0:ECL_TIME=1795259915:project=NONE)"'
STAY = "while :; do sleep 0.01; done"
WENT_AWAY = 'echo "qmaster alive timeout expired"'
DENIED = 'echo "error: denied: host \\"w1\\" is neither submit nor admin host"'


HUNG = 60.0
"""Seconds: nothing here takes so long, however busy the machine is."""


class Scripts:
    """Starts these shell scripts one after the other instead of qevent, the last one again and again."""

    def __init__(self, *scripts: str) -> None:
        self.scripts = list(scripts)
        self.started: list[Running] = []
        self.directories: list[Path | None] = []

    def __call__(self, argv: Sequence[str], *, cwd: Path | None = None) -> Running:
        script = self.scripts[min(len(self.started), len(self.scripts) - 1)]
        self.directories.append(cwd)
        self.started.append(process.start(("sh", "-c", script), cwd=cwd))
        return self.started[-1]


@contextlib.contextmanager
def listening(
    start: Callable[..., Running], heartbeat: float = 5.0, news: Callable[[], None] = lambda: None
) -> Iterator[Events]:
    with Events(news, start, heartbeat=heartbeat, pauses=(0.01,)) as events:
        yield events


def until(predicate: Callable[[], bool], deadline: float = 5.0) -> bool:
    return wait_for(predicate, deadline, step=0.005)


def test_a_new_job_wakes_the_loop() -> None:
    news = threading.Event()
    with listening(Scripts(f"{BEAT}; {JOB}; {STAY}"), news=news.set):
        assert news.wait(HUNG)


def test_a_heartbeat_alone_does_not_wake_the_loop() -> None:
    news = threading.Event()
    with listening(Scripts(f"{BEAT}; {BEAT}; {STAY}"), news=news.set) as events:
        assert until(lambda: events.alive)
        assert not news.wait(0.05)


@pytest.mark.parametrize("end", (f"{WENT_AWAY}; {STAY}", STAY, "exit 1"), ids=("said", "silent", "ended"))
def test_the_end_of_events_wakes_the_loop(end: str) -> None:
    """From then on the loop has to poll."""
    news = threading.Event()
    with listening(Scripts(f"{BEAT}; {end}", f"{DENIED}; {STAY}"), heartbeat=0.2, news=news.set) as events:
        assert news.wait(HUNG)
        assert not events.alive


def test_a_qevent_that_never_reported_does_not_wake_the_loop() -> None:
    news = threading.Event()
    with listening(Scripts(f"{DENIED}; {STAY}"), news=news.set) as events:
        assert until(lambda: "denied" in (events.reason or ""))
        assert not news.wait(0.05)


def test_qevent_is_restarted_when_its_heartbeat_stops() -> None:
    scripts = Scripts(f"{BEAT}; {STAY}")
    with listening(scripts, heartbeat=0.1):
        assert until(lambda: len(scripts.started) >= 2)


def test_a_silent_qevent_is_terminated_by_sigterm(tmp_path: Path) -> None:
    # Outside of its directory, which goes with it. On a busy machine one may be ended before it knows what to do then.
    ended = tmp_path / "ended-properly"
    with listening(Scripts(f"trap 'touch {ended}; exit' TERM; {BEAT}; {STAY}"), heartbeat=0.2):
        assert until(ended.exists)


def test_a_restart_of_qevent_wakes_the_loop() -> None:
    news: list[None] = []
    with listening(Scripts(BEAT, f"{BEAT}; {STAY}"), news=lambda: news.append(None)):
        assert until(lambda: len(news) == 2)  # when qevent ended, and when it listens again


def test_a_refused_qevent_is_reported_and_not_retried_at_once() -> None:
    scripts = Scripts(f"{DENIED}; {STAY}")
    with listening(scripts) as events:
        assert until(lambda: "neither submit nor admin host" in (events.reason or ""))
        assert until(lambda: scripts.started[0].poll() is not None)
        time.sleep(0.05)
        assert len(scripts.started) == 1


def test_a_missing_qevent_is_reported() -> None:
    def missing(argv: Sequence[str], *, cwd: Path | None = None) -> Running:
        raise CommandNotFound("cannot run qevent: No such file or directory")

    with listening(missing) as events:
        assert until(lambda: "cannot run qevent" in (events.reason or ""))


def test_a_qmaster_that_went_away_is_reported_until_it_answers_again() -> None:
    scripts = Scripts(f"{BEAT}; {WENT_AWAY}; while [ ! -e back ]; do :; done; {BEAT}; {STAY}")
    with listening(scripts) as events:
        assert until(lambda: "alive timeout" in (events.reason or ""))
        assert scripts.directories[0] is not None
        scripts.directories[0].joinpath("back").touch()
        assert until(lambda: events.alive)


def test_closing_ends_qevent_and_removes_its_directory() -> None:
    scripts = Scripts(f"{BEAT}; {STAY}")
    with listening(scripts) as events:
        assert until(lambda: events.alive)
    assert scripts.directories[0] is not None
    assert (scripts.started[0].poll() is not None, scripts.directories[0].exists()) == (True, False)


def test_closing_does_not_wake_the_loop() -> None:
    news = threading.Event()
    with listening(Scripts(f"{BEAT}; {STAY}"), news=news.set) as events:
        assert until(lambda: events.alive)
    assert not news.is_set()


def test_qevent_runs_in_a_directory_of_its_own() -> None:
    scripts = Scripts(f"{BEAT}; {STAY}")
    with listening(scripts):
        assert until(lambda: bool(scripts.directories))
        assert scripts.directories[0] not in (None, Path.cwd())


EXHAUSTED_SAID = 'echo "error: cannot register event client. Only 99 event clients are allowed in the system"'


def test_a_qmaster_without_a_free_event_client_is_reported_and_not_retried_at_once() -> None:
    """qevent itself would go on, and report only that its alive timeout expired."""
    scripts = Scripts(f"{EXHAUSTED_SAID}; echo 'qmaster alive timeout expired'; {STAY}")
    with listening(scripts) as events:
        assert until(lambda: "MAX_DYN_EC" in events.trouble)
        assert until(lambda: scripts.started[0].poll() is not None)
        time.sleep(0.05)
        assert len(scripts.started) == 1


def test_only_a_long_silence_of_qevent_is_reported_as_trouble() -> None:
    with listening(Scripts(STAY), heartbeat=0.1) as events:
        assert events.trouble == ""
        assert until(lambda: events.trouble != "")


def test_a_listening_qevent_is_not_reported_as_trouble() -> None:
    with listening(Scripts(f"{BEAT}; {STAY}")) as events:
        assert until(lambda: events.alive)
        assert events.trouble == ""


@pytest.mark.parametrize(
    "error",
    (
        CommandNotStarted("cannot run qevent now: Resource temporarily unavailable"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
    ),
    ids=lambda error: type(error).__name__,
)
def test_a_start_that_the_system_refuses_once_does_not_end_the_listening(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.supervised.FIRST_WAIT", 0.01)
    monkeypatch.setattr("autoscaler.supervised._failures", {})
    scripts, refusals = Scripts(f"{BEAT}; {STAY}"), iter((error,))

    def sometimes(argv: Sequence[str], *, cwd: Path | None = None) -> Running:
        if (refusal := next(refusals, None)) is not None:
            raise refusal
        return scripts(argv, cwd=cwd)

    with listening(sometimes) as events:
        assert until(lambda: events.alive, HUNG)


def test_a_directory_that_is_gone_is_made_again(tmp_path: Path) -> None:
    scripts = Scripts(BEAT, f"{BEAT}; {STAY}")
    with Events(lambda: None, scripts, heartbeat=5.0, pauses=(0.2,), directory=tmp_path / "own") as events:
        assert until(lambda: len(scripts.started) == 1)
        shutil.rmtree(tmp_path / "own")
        assert until(lambda: len(scripts.started) == 2 and events.alive, HUNG)
