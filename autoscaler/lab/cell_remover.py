"""Removes a cell's place when its owner ends, however it ends: a SIGKILL of the owner leaves nothing behind.

Run as a file of its own by the interpreter alone (`python -I -S cell_remover.py PLACE`). Its standard input is a pipe
that the owner holds and never writes to: when the owner ends, the pipe closes. Then it waits until no process is left
in the place (the tree's PID 1 holds a lock there) and removes it, and the folders above it that are empty now. It
starts nothing.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE = 30.0
"""Seconds to wait for the last process of the place, and for the place to be gone."""
STEP = 0.05
_OF_MACHINES = "worker"
"""The folder beside that of the cells, on which every machine of theirs mounts one of its own: all others see it empty.
"""


def main(place: Path) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)  # held, so that no other place gets its inode
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while os.read(0, 4096):
        pass
    deadline = time.monotonic() + PATIENCE
    while _lived_in(place / "tree" / "first") and time.monotonic() < deadline:
        time.sleep(STEP)
    while _is_there(place, handle) and time.monotonic() < deadline:
        shutil.rmtree(place, ignore_errors=True)
        time.sleep(STEP if _is_there(place, handle) else 0)
    cells = place.parent
    with contextlib.suppress(OSError):  # other cells live there
        cells.rmdir()
        with contextlib.suppress(OSError):
            (cells.parent / _OF_MACHINES).rmdir()
        cells.parent.rmdir()
    return 1 if _is_there(place, handle) else 0


def _is_there(place: Path, handle: int) -> bool:
    """Whether `place` is still the one of `handle`: once it is gone, another cell may get its name at once."""
    try:
        return os.path.samestat(place.stat(), os.fstat(handle))
    except OSError:
        return False


def _lived_in(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
