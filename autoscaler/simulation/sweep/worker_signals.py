"""What Dask loads in each local worker: Ctrl-C, which a terminal sends to all, is for the command alone."""

from __future__ import annotations

import signal


def dask_setup(_worker: object) -> None:
    """Called by Dask, in the main thread of the worker's process. The command ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
