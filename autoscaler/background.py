"""A call on a thread of its own, for calls that may hang: the caller decides how long it waits.

Threads are daemons: one that hangs in a library never keeps the process from ending. A thread that finished is reused
for a while, since an order of a thousand machines may need a thousand calls.
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
"""Seconds that a thread waits for its next call before it ends."""
_idle: list[Inbox] = []
"""Inboxes of idle threads: the caller that takes one out puts exactly one call into it."""


class Executor(Protocol):
    """Carries out a call somewhere. The future has its result or its error."""

    def __call__(self, call: Callable[[], Value], name: str) -> Future[Value]: ...


def on_thread(call: Callable[[], Value], name: str) -> Future[Value]:
    """The Executor of a running autoscaler. The future cannot be cancelled: outside calls happen or have happened."""
    future: Future[Value] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        threading.current_thread().name = name
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - not swallowed: the future has it
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
            except ValueError:  # a caller has just taken it: its call is on the way
                run = inbox.get()
            else:
                return
        run()
        _idle.append(inbox)
