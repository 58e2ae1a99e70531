"""Tells the system's log (syslog, journald) what people changed: one line each, who and what.

The journal of calls and our own log belong to the autoscaler's account. The system's log is root's, and may go to
another machine.
"""

from __future__ import annotations

import syslog

from autoscaler.plain_text import plain

IDENTITY = "sge-autoscaler"
LONGEST = 900
"""Characters of a line: a datagram of syslog may be cut at 1,024 bytes."""


def changed(who: str, what: str) -> None:
    """`anna: drain ip-10-0-0-7: ip-10-0-0-7 will be drained`. Where no system log listens, nothing happens."""
    syslog.openlog(IDENTITY, syslog.LOG_PID, syslog.LOG_AUTH)
    syslog.syslog(syslog.LOG_NOTICE, plain(f"{who}: {what}")[:LONGEST])
