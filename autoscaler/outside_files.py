"""Reads files that others may have made: only regular files, and only up to a limit.

A pipe never ends, nor does `/dev/zero`, and text may be nested deeper than any reader goes.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

TOO_DEEP = "it is nested too deeply"
LARGEST_TEXT = 16 << 20
"""Limit in bytes of a file that a setting names."""


def read_regular(path: Path, most: int) -> bytes:
    """All of a file of at most `most` bytes. Raises OSError, also for a longer file and for no regular file."""
    with open(path, "rb", opener=only_regular) as file:
        data = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if data is None or len(data) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most} bytes", str(path))
    return data


def only_regular(path: str, flags: int) -> int:
    """For `open`: only regular files. Raises OSError."""
    opened = os.open(path, flags | os.O_NONBLOCK)  # opening a pipe would wait for a writer
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_text(path: Path) -> str:
    """The text of a file that a setting names. Raises OSError as `read_regular`, UnicodeDecodeError."""
    return read_regular(path, LARGEST_TEXT).decode("utf-8")


def read_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises tomllib.TOMLDecodeError, also where it is nested too deeply."""
    import tomllib  # a command that only asks a running service reads none

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError(TOO_DEEP) from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # a number of more digits than Python converts
        raise tomllib.TOMLDecodeError("it has a number of too many digits") from error
