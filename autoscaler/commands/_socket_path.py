"""Where a cell's service listens for callers."""

from __future__ import annotations

import os
from pathlib import Path

from autoscaler.answer_client import OF_ROOT
from autoscaler.commands.context import Invocation


def socket_path(invocation: Invocation) -> Path:
    """Where this cell's service listens."""
    process = invocation.settings.process
    if process.socket is not None:
        return process.socket
    # A work directory is closed to everybody else, and so to a group that may ask.
    of_root = os.geteuid() == 0 and (process.work_directory is None or process.socket_group is not None)
    of_root = of_root or (os.geteuid() != 0 and _made_for_us(OF_ROOT))
    return (OF_ROOT if of_root else invocation.state_directory) / named(invocation)


def _made_for_us(directory: Path) -> bool:
    """Whether systemd made it for the user that we run as (`RuntimeDirectory`)."""
    try:
        return directory.stat().st_uid == os.geteuid()
    except OSError:
        return False


def named(invocation: Invocation) -> str:
    return f"{invocation.cell.cell}-{invocation.cell.slug[-8:]}.sock"
