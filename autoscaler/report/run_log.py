"""Copies the log into the run log of the platform, if it keeps one.

It writes on a thread of its own, since a platform may be slow or unreachable. A line that cannot be written is dropped;
the log itself has it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable

from autoscaler.providers.interface import ProviderError
from autoscaler.supervised import supervised

CAPACITY = 1000
"""Lines that wait to be written; further ones are dropped."""
LAST_CALLS = 5.0
"""Seconds that `close` waits for lines that are left."""
_NAME = "run-log"


class RunLog(logging.Handler):
    """A handler of the root logger. It drops lines of its own thread, which would cause more."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write_line = write
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(CAPACITY)
        self._thread = supervised(self._write, _NAME)

    def attach(self, level: str) -> None:
        """Log from `level` on. Call it again after the log was configured anew."""
        self.setLevel(level)
        root = logging.getLogger()
        if self not in root.handlers:
            root.addHandler(self)
        root.setLevel(min(root.level, self.level))

    def first(self, call: Callable[[], None]) -> None:
        """Queue another call to the platform. If it fails, that is logged once, as for lines."""
        self._put(call)

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is self._thread or record.threadName == _NAME:
            return
        line = self._line(record)
        self._put(lambda: self._write_line(line))

    def close(self) -> None:
        """Write the lines that are left, for at most `LAST_CALLS`."""
        logging.getLogger().removeHandler(self)
        self._put(None)
        self._thread.join(LAST_CALLS)
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        """The line as the log itself has it, without secrets."""
        handlers = logging.getLogger().handlers
        formatter = next((handler.formatter for handler in handlers if handler is not self and handler.formatter), None)
        return formatter.format(record) if formatter is not None else record.getMessage()

    def _put(self, call: Callable[[], None] | None) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(call)

    def _write(self) -> None:
        reported = False
        while (call := self._waiting.get()) is not None:
            try:
                call()
            except ProviderError as error:
                if not reported:
                    logging.getLogger(__name__).warning("cannot write the run log of the platform: %s", error)
                reported = True
            else:
                reported = False
