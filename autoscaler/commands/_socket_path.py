"""Where a cell's service listens for callers."""

from __future__ import annotations

import os
from pathlib import Path

from autoscaler.answer_client import OF_ROOT
from autoscaler.commands.context import Invocation
from autoscaler.strict_modes import ours


def socket_path(invocation: Invocation) -> Path:
    """Where this cell's service listens."""
    process = invocation.settings.process
    if process.socket is not None:
        return process.socket
    # A work directory is closed to everybody else, and so to a group that may ask.
    of_root = os.geteuid() == 0 and (process.work_directory is None or process.socket_group is not None)
    of_account = os.geteuid() != 0 and ours(OF_ROOT)  # systemd made it for the account (`RuntimeDirectory`)
    return (OF_ROOT if of_root or of_account else invocation.state_directory) / named(invocation)


def named(invocation: Invocation) -> str:
    return f"{invocation.cell.cell}-{invocation.cell.slug[-8:]}.sock"
