"""Notices by Linux's inotify that a file was written to, so that a process need not check it all the time. Each check
wakes a processor that could sleep, which costs more than the check itself.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

_MODIFY = 0x2
"""`IN_MODIFY`, inotify(7)."""


class FileWatch:
    """Watches one file that exists. The file itself is not opened: closing it would drop SQLite's locks on it.

    Raises OSError if the kernel cannot watch the file, or no further one for this user.
    """

    def __init__(self, path: Path) -> None:
        import ctypes  # 0.2 MB, for processes that wait

        library = ctypes.CDLL(None, use_errno=True)
        try:
            self._descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            watch = library.inotify_add_watch(self._descriptor, os.fsencode(path), _MODIFY)
        except AttributeError as error:
            raise OSError("this C library has no inotify") from error
        self.close = weakref.finalize(self, _close, self._descriptor)
        if watch < 0:
            error_number = ctypes.get_errno()
            self.close()
            raise OSError(error_number, os.strerror(error_number), str(path))

    def fileno(self) -> int:
        """Readable once the file was written to."""
        return self._descriptor

    def clear(self) -> None:
        """Forget all writes until now."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._descriptor, 4096):
                pass


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
