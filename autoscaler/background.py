"""A call on a thread of its own, for whatever may hang: its caller waits as long as it likes and no longer.

Threads are daemons: one that hangs in somebody's library never keeps the process from ending. One that came back is
used again for a while, since an order of a thousand machines may be a thousand calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

Value = TypeVar("Value")
Inbox = SimpleQueue[Callable[[], None]]
KEPT_FOR = 10.0
"""Seconds that a thread waits for its next errand before it ends."""
_idle: list[Inbox] = []
"""Inboxes of threads without an errand: whoever takes one out gives it exactly one."""


class Executor(Protocol):
    """Carries out a call somewhere; what it returned or raised is in the future, whatever it was."""

    def __call__(self, call: Callable[[], Value], name: str) -> Future[Value]: ...


def on_thread(call: Callable[[], Value], name: str) -> Future[Value]:
    """The Executor of a running autoscaler. The future cannot be cancelled: outside calls happen or have happened."""
    future: Future[Value] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        threading.current_thread().name = name
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - not swallowed: whoever asks the future gets it
            future.set_exception(error)
        else:
            future.set_result(value)

    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), daemon=True).start()
    inbox.put(run)
    return future


def _serve(inbox: Inbox) -> None:
    while True:
        try:
            run = inbox.get(timeout=KEPT_FOR)
        except Empty:
            try:
                _idle.remove(inbox)
            except ValueError:  # taken out this moment: its errand is on the way
                run = inbox.get()
            else:
                return
        run()
        _idle.append(inbox)
