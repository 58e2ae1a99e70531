"""An Executor without threads: what a test starts happens at once, and what kills the process is raised there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Value = TypeVar("Value")


def at_once(call: Callable[[], Value], name: str) -> Future[Value]:
    """Carry out the call here and now. An exception is in the future, as on a thread; a killing one is not."""
    future: Future[Value] = Future()
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - whoever asks the future gets it
        future.set_exception(error)
    else:
        future.set_result(value)
    return future
