"""The log of the Cloud Pipeline run in which the autoscaler works: written besides the log, without delaying it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from autoscaler.providers.interface import Unreachable
from autoscaler.report.run_log import CAPACITY, RunLog

log = logging.getLogger("autoscaler.pass")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, restored afterwards."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield root
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def attached(root: logging.Logger) -> Iterator[Callable[[Callable[[str], None]], RunLog]]:
    made: list[RunLog] = []

    def make(send: Callable[[str], None]) -> RunLog:
        made.append(RunLog(send))
        made[-1].attach("INFO")
        return made[-1]

    yield make
    for run_log in made:
        run_log.close()


def test_log_records_are_forwarded_in_order(attached: Callable[[Callable[[str], None]], RunLog]) -> None:
    results: list[str] = []
    run_log = attached(results.append)
    log.info("pass 1")
    log.debug("too low")
    log.info("pass 2")
    run_log.close()
    assert [line.rsplit(" ", 2)[-2:] for line in results] == [["pass", "1"], ["pass", "2"]]


def test_an_unreachable_platform_is_logged_once(
    attached: Callable[[Callable[[str], None]], RunLog], caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[str] = []

    def send(line: str) -> None:
        tried.append(line)
        raise Unreachable("no answer")

    run_log = attached(send)
    for number in range(3):
        log.info("pass %d", number)
    run_log.close()
    assert len(tried) == 3
    assert caplog.text.count("cannot write") == 1


def test_a_hanging_platform_blocks_no_logging(attached: Callable[[Callable[[str], None]], RunLog]) -> None:
    answer, answered = threading.Event(), list[str]()

    def send(text: str) -> None:
        answer.wait(120)
        answered.append(text)

    attached(send)
    for number in range(CAPACITY + 10):
        log.info("pass %d", number)
    assert answered == [], "logging waited for an answer"
    answer.set()


def test_the_run_log_is_attached_again_after_reconfiguration(
    attached: Callable[[Callable[[str], None]], RunLog], root: logging.Logger
) -> None:
    results: list[str] = []
    run_log = attached(results.append)
    root.handlers.clear()
    run_log.attach("WARNING")
    log.info("too low")
    log.warning("told")
    run_log.close()
    assert results == ["told"]
