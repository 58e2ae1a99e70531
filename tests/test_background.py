"""Calls on background threads: the caller gets the result, and threads are reused, never shared."""

from __future__ import annotations

import threading

import pytest

from autoscaler import background as background
from autoscaler.background import on_thread


def test_the_result_of_a_call_is_in_its_future() -> None:
    assert on_thread(lambda: 3, "three").result(120) == 3


def test_the_exception_of_a_call_is_in_its_future() -> None:
    with pytest.raises(ZeroDivisionError):
        on_thread(lambda: 1 // 0, "wrong").result(120)


def test_an_idle_thread_is_reused() -> None:
    first = on_thread(threading.get_ident, "first").result(120)
    used = {on_thread(threading.get_ident, "again").result(120) for _ in range(200)}
    assert len(used | {first}) < 20


def test_a_thread_that_hangs_blocks_no_other() -> None:
    gate = threading.Event()
    hanging = on_thread(gate.wait, "hanging")
    done = [on_thread(lambda number=number: number, "other").result(120) for number in range(50)]  # type: ignore[misc]
    gate.set()
    assert (done, hanging.result(120)) == (list(range(50)), True)


def test_an_idle_thread_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "KEPT_FOR", 0.01)
    monkeypatch.setattr(background, "_idle", [])
    thread = on_thread(threading.current_thread, "short").result(120)
    thread.join(120)
    assert not thread.is_alive()


def test_many_calls_from_many_threads_all_return() -> None:
    def ask(number: int) -> int:
        return sum(on_thread(lambda: number, "one").result(120) for _ in range(100))

    answers = [on_thread(lambda number=number: ask(number), "many") for number in range(16)]  # type: ignore[misc]
    assert [answer.result(120) for answer in answers] == [100 * number for number in range(16)]
