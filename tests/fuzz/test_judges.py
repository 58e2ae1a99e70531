"""Every judge of `make fuzz` can fail: a planted defect of each kind is found, and without one nothing is."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socket import create_server

import pytest

from autoscaler.api import auto_stop, operations
from autoscaler.core.actions import Action, Launch, LaunchSet, Remove, Terminate
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.errors import AutoscalerError
from tests.core.building import LARGE, a_bucket, a_job, a_snapshot, a_worker
from tests.deadlines import stretched
from tests.fuzz import exchange, files, judges
from tests.fuzz.campaign import InputKind, Tally, campaign
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import KINDS


class Planted:
    """A target that does one thing with every input, and another in the end."""

    def __init__(self, feeds: Callable[[], object], settles: Callable[[], object] = lambda: None) -> None:
        self._feeds, self._settles = feeds, settles

    def feed(self, seed: str) -> str:
        self._feeds()
        return "fed"

    def settle(self) -> None:
        self._settles()


def found(feeds: Callable[[], object], settles: Callable[[], object] = lambda: None) -> str:
    @contextmanager
    def opened() -> Iterator[Planted]:
        yield Planted(feeds, settles)

    return " | ".join(campaign([InputKind("planted", 1, opened)], "s", 2, 600, lambda _: None).findings.values())


def campaign_of(name: str, inputs: int, seed: str = "planted") -> Tally:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    return campaign([kind], seed, inputs, 600, lambda _: None)


def fail(error: BaseException) -> None:
    raise error


def test_an_error_that_is_not_a_refusal_is_a_finding() -> None:
    assert "KeyError: 'odd'" in found(lambda: fail(KeyError("odd")))


def test_a_refusal_is_not_a_finding() -> None:
    assert found(lambda: fail(AutoscalerError("no"))) == ""


def test_an_input_that_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "SECONDS", 0.02)

    def spin() -> None:
        while True:
            try:
                time.sleep(0.001)
            except Exception:  # noqa: BLE001  # as careless code may do
                continue

    assert "hangs: no end after" in found(spin)


def test_an_input_that_takes_too_much_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "MEMORY", 32 << 20)
    assert "took " in found(lambda: len(b"x" * (64 << 20)))


def test_memory_that_inputs_leave_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "KEPT", 32 << 20)
    kept: list[bytes] = []
    assert "more are held" in found(lambda: kept.append(b"x" * (32 << 20)))


def test_a_traceback_in_the_log_is_a_finding() -> None:
    def logs() -> None:
        try:
            fail(KeyError("odd"))
        except KeyError:
            logging.getLogger("autoscaler.somewhere").exception("went wrong")

    assert "traceback in the log of autoscaler.somewhere: KeyError: 'odd'" in found(logs)


def test_a_thread_that_ends_by_an_error_is_a_finding() -> None:
    def runs() -> None:
        thread = threading.Thread(target=fail, args=(KeyError("odd"),))
        thread.start()
        thread.join()

    assert "a thread ended: KeyError('odd')" in found(runs)


def test_a_failure_at_the_end_is_a_finding() -> None:
    def broken() -> None:
        raise AssertionError("it is otherwise than before")

    assert "otherwise than before" in found(lambda: None, broken)


# -- actions -----------------------------------------------------------------------------------------------------------

WHY = because(Code.DEMAND)
BUSY, IDLE = a_worker("w1", used=1), a_worker("w2")


def launching(count: int) -> Launch:
    return Launch("execute", (LaunchSet((a_bucket(LARGE),), count),), WHY)


@pytest.mark.parametrize(
    ("action", "seen", "output"),
    (
        (launching(3), a_snapshot(limits=Limits(max_workers=2)), "3 workers where 2 are allowed"),
        (launching(3), a_snapshot(limits=Limits(max_cores=5)), "6 cores where 5 are allowed"),
        (launching(3), a_snapshot(limits=Limits(max_price_per_hour=0.2)), "price an hour where 0.2"),
        (launching(3), a_snapshot(limits=Limits(max_workers=9, total_workers=2)), "3 workers where 2 are allowed"),
        (launching(2), a_snapshot(IDLE, limits=Limits(max_workers=2)), "3 workers where 2 are allowed"),
        (launching(1), a_snapshot(Overrides(paused=True)), "although a person said no"),
        (Remove("i-w1", "w1", WHY), a_snapshot(BUSY), "is for a busy host"),
        (Terminate("i-w2", "w2", WHY), a_snapshot(IDLE), "is for an execution host"),
        (Terminate("i-9", "w9", WHY), a_snapshot(IDLE), "is for a worker that is not ours"),
    ),
)
def test_an_action_beyond_a_limit_is_a_finding(action: Action, seen: Snapshot, output: str) -> None:
    assert output in judges.beyond_limits(seen, replace(plan(seen), actions=(action,)))


def test_an_allowed_launch_is_not_a_finding() -> None:
    seen = a_snapshot(*(a_job(number) for number in range(1, 9)), limits=Limits(max_workers=2))
    made = plan(seen)
    assert (any(isinstance(action, Launch) for action in made.actions), judges.beyond_limits(seen, made)) == (True, "")


@pytest.mark.thorough
def test_nodes_of_the_rest_api_beyond_the_limit_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "available", lambda *_: 10**6)
    assert "nodes are there where 10 may be" in " ".join(campaign_of("rest", 150).findings.values())


def test_a_worker_that_stops_another_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_stop, "same_address", lambda *_: True)
    assert "i-1 made i-2 ask to stop" in " ".join(campaign_of("auto-stop", 60).findings.values())


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", (b"HTTP/1.1 500 Oh\r\n\r\n", b"HTTP/1.1 503 No\r\n\r\n", b"HTTP/1.1 505 No\r\n\r\n"))
def test_an_error_of_the_server_is_a_finding(answer: bytes) -> None:
    with pytest.raises(AssertionError, match="answers 50"):
        exchange.judge_answer(b"GET / HTTP/1.1\r\n\r\n", answer)


def test_an_unsupported_http_version_is_not_a_finding() -> None:
    assert exchange.judge_answer(b"GET / HTTP/2.0\r\n\r\n", b"HTTP/1.1 505 No\r\n\r\n") == "505"


def test_a_traceback_in_an_answer_is_a_finding() -> None:
    with pytest.raises(AssertionError, match="a traceback"):
        exchange.judge_answer(b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 No\r\n\r\nTraceback (most recent call last):")


def test_a_server_that_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "ENDS", 0.02)
    with create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        with pytest.raises(AssertionError, match="neither answer nor end"):
            exchange.exchanged(exchange.over_tcp(f"http://{host}:{port}"), b"GET / HTTP/1.1\r\n\r\n")


def test_an_answer_500_of_the_real_server_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations.Operations, "view", lambda _: fail(KeyError("odd")))
    output = " ".join(campaign_of("rest", 60).findings.values())
    assert ("answers 500" in output, "traceback in the log" in output) == (True, True)


# -- readers -----------------------------------------------------------------------------------------------------------


def test_a_reader_that_raises_on_odd_input_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "read_owner", lambda *_: fail(IndexError("odd")))
    assert "IndexError: odd" in " ".join(campaign_of("readers", 60).findings.values())


def test_a_reader_that_reads_whole_outputs_differently_later_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setattr(files, "busy", lambda _: next(calls))
    assert "are read otherwise than before" in " ".join(campaign_of("readers", 3).findings.values())


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_inputs() -> None:
    def inputs(seed: str) -> list[object]:
        return [(Mutator(f"{seed}/{n}").damaged(b"<a>1</a>\n" * 9), Mutator(f"{seed}/{n}").text()) for n in range(200)]

    assert (inputs("a") == inputs("a"), inputs("a") == inputs("b")) == (True, False)


@pytest.mark.slow
def test_a_few_inputs_of_every_target_have_no_finding() -> None:
    tally = campaign(KINDS, "few", 210, 600, lambda _: None)
    assert (tally.findings, set(tally.fed)) == ({}, {kind.name for kind in KINDS})


@pytest.mark.thorough
@pytest.mark.slow
def test_ctrl_c_stops_with_the_counts_and_leaves_no_files(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tests.fuzz", "--seed", "7", "--target", "rest", "--target", "records")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "seed 7\n"
            running.send_signal(signal.SIGINT)
            output, _ = running.communicate(timeout=stretched(60))
        finally:
            running.kill()
    assert (running.returncode, "seed 7: " in output, "of 20000, stopped, 0 failed" in output) == (130, True, True)
    assert list(tmp_path.iterdir()) == []
