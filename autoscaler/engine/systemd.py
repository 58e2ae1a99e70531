"""Reports to systemd (`Type=notify`): ready, alive, stopping. Without systemd every call does nothing."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from autoscaler.plain_text import plain


class Notifier:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # `@` stands for the NUL byte with which the name of an abstract socket begins (sd_notify(3)).
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_every = _watchdog(environ)
        """Half of the seconds between two signs of life that systemd requires; None: it requires none."""

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """The line that `systemctl status` shows."""
        self._send("STATUS=" + plain(text.replace("\n", " ")))

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(message.encode(), self._address)


FIRST_PASSED = 3
"""The number of the first socket that systemd passes (sd_listen_fds(3))."""


def passed_socket(environ: Mapping[str, str], at: tuple[object, ...]) -> int | None:
    """The listening TCP socket at this address that a `.socket` unit made and systemd passed to this process: it stays
    bound while the service restarts, so nobody else can take its port. None: there is none.
    """
    count, meant = environ.get("LISTEN_FDS", ""), environ.get("LISTEN_PID", "")
    if not count.isdecimal() or meant != str(os.getpid()):
        return None
    for number in range(FIRST_PASSED, FIRST_PASSED + min(int(count), 100)):
        try:
            with socket.socket(fileno=os.dup(number)) as copy:
                if copy.type == socket.SOCK_STREAM and copy.getsockname()[:2] == at[:2]:
                    return number
        except OSError:
            continue
    return None


def _watchdog(environ: Mapping[str, str]) -> float | None:
    period, meant = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    # Children inherit both variables: WATCHDOG_PID names the process that they are for.
    if not period.isdecimal() or (meant and meant != str(os.getpid())):
        return None
    return int(period) / 2_000_000
