"""The log of one queue: the process that Cloud Pipeline's launcher started for it writes it, whichever one decides.

The process that decides sends each line to the process of the queue that it is about, and lines about the whole cell to
all. A line is a datagram at a socket in the register of queues, sent by a thread of its own: a process that hangs or
ends costs lines of its own log, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoscaler.supervised import supervised

CAPACITY = 1000
"""Lines that wait to be sent; further ones are dropped."""
PATIENCE = 1.0
"""Seconds for one line to a process that does not read."""
LARGEST = 1 << 16
QUEUE = "queue"
"""Attribute of a record: the queue that it is about; none: the whole cell."""
RELAYED = "relayed"
_THREAD = "queue-log"


class QueueLines(logging.Handler):
    """A handler of the root logger of the process that decides."""

    def __init__(self, channels: Mapping[str, Path]) -> None:
        """`channels`: by queue of another process, the socket of that."""
        super().__init__()
        self._channels = channels
        self._waiting: queue.Queue[tuple[Path, bytes] | None] = queue.Queue(CAPACITY)
        self._thread = supervised(self._send_all, _THREAD)

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is self._thread:
            return
        subject = getattr(record, QUEUE, None)
        line = json.dumps(_fields(record, self.format(record)), default=str).encode()[:LARGEST]
        for name, channel in self._channels.items():
            if subject in (None, name):
                with contextlib.suppress(queue.Full):
                    self._waiting.put_nowait((channel, line))

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(PATIENCE)
        super().close()

    def _send_all(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(PATIENCE)
            while (item := self._waiting.get()) is not None:
                channel, line = item
                with contextlib.suppress(OSError), _short(channel) as name:
                    sender.sendto(line, name)


@contextlib.contextmanager
def lines_taken(channel: Path, handle: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Take lines at this socket, on a thread, until the end of the block."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taker:
        channel.unlink(missing_ok=True)
        with _short(channel) as name:
            taker.bind(name)
        channel.chmod(0o600)
        ended = threading.Event()
        thread = supervised(lambda: _take_all(taker, handle), _THREAD, ended)
        try:
            yield
        finally:
            ended.set()
            channel.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                taker.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


def _take_all(taker: socket.socket, handle: Callable[[logging.LogRecord], None]) -> None:
    while line := taker.recv(LARGEST):
        with contextlib.suppress(ValueError, TypeError):
            handle(_record(json.loads(line)))


def _fields(record: logging.LogRecord, message: str) -> dict[str, Any]:
    return {
        "name": record.name,
        "levelno": record.levelno,
        "levelname": record.levelname,
        "msg": message,
        "created": record.created,
        "msecs": record.msecs,
        "threadName": record.threadName,
    }


def _record(fields: Mapping[str, Any]) -> logging.LogRecord:
    return logging.makeLogRecord({**fields, RELAYED: True})


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of this socket that is short enough for the kernel (108 bytes)."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
