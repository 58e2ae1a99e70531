"""The log of the run in which the autoscaler works, where its platform keeps one: what is logged is written there too.

Off everybody's thread, since a platform may be slow or gone. What cannot be written is let go; the log itself has it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable

from providers.interface import ProviderError

CAPACITY = 1000
"""Lines that wait to be written; beyond them new ones are let go."""
LAST_CALLS = 5.0
"""Seconds that the end waits for what is left."""
_NAME = "run-log"


class RunLog(logging.Handler):
    """A handler of the root logger. Lines of its own thread, and of what that calls, are not written: they would breed
    more.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(CAPACITY)
        self._thread = threading.Thread(target=self._write, name=_NAME, daemon=True)
        self._thread.start()

    def attach(self, level: str) -> None:
        """Take part in the log from `level` on; again after the log was set up anew."""
        self.setLevel(level)
        root = logging.getLogger()
        if self not in root.handlers:
            root.addHandler(self)
        root.setLevel(min(root.level, self.level))

    def first(self, call: Callable[[], None]) -> None:
        """Have something else done at the platform, in the same order and with the same indulgence."""
        self._put(call)

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is self._thread or record.threadName == _NAME:
            return
        line = self._line(record)
        self._put(lambda: self._tell(line))

    def close(self) -> None:
        """Write what is left, for a few seconds."""
        logging.getLogger().removeHandler(self)
        self._put(None)
        self._thread.join(LAST_CALLS)
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        """The same words as in the log itself, secrets taken out."""
        handlers = logging.getLogger().handlers
        formatter = next((handler.formatter for handler in handlers if handler is not self and handler.formatter), None)
        return formatter.format(record) if formatter is not None else record.getMessage()

    def _put(self, call: Callable[[], None] | None) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(call)

    def _write(self) -> None:
        said = False
        while (call := self._waiting.get()) is not None:
            try:
                call()
            except ProviderError as error:
                if not said:
                    logging.getLogger(__name__).warning("cannot write the run log of the platform: %s", error)
                said = True
            else:
                said = False
