"""A call on a thread of its own, for whatever may hang: its caller waits as long as it likes and no longer.

Threads are daemons: one that hangs in somebody's library never keeps the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

Value = TypeVar("Value")


class Executor(Protocol):
    """Carries out a call somewhere; what it returned or raised is in the future, whatever it was."""

    def __call__(self, call: Callable[[], Value], name: str) -> Future[Value]: ...


def on_thread(call: Callable[[], Value], name: str) -> Future[Value]:
    """The Executor of a running autoscaler. The future cannot be cancelled: outside calls happen or have happened."""
    future: Future[Value] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - not swallowed: whoever asks the future gets it
            future.set_exception(error)
        else:
            future.set_result(value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
