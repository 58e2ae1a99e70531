"""Connects to a Unix socket as every client of ours does: root and the account by a way of their own, others by waiting
for a place in the queue.

Any local user may fill the queue of a socket that everybody may call. Python's own time limit makes a socket
non-blocking, and for such a one the kernel does not wait (EAGAIN at once): whoever asks without a pause then gets every
place that becomes free. A blocking one waits in the kernel's line of callers. That line has no limit, so the service
has a second socket, which only its own user and root can reach.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

FULL = 15.0
"""Seconds that a caller waits for a place in a full queue. A service that hangs or was stopped may have one, too."""
OWN = ".own"
"""Ends the path of the second socket, beside the first."""


def connect(made: socket.socket, path: Path | str, then: float, patience: float = FULL) -> None:
    """Connect a socket of the family AF_UNIX, and give it the time limit `then`, in seconds, for all that follows.

    Raises OSError; TimeoutError if the queue stays full for `patience` seconds: somebody listens there.
    """
    seconds = int(patience)
    made.settimeout(None)
    made.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", seconds, int((patience - seconds) * 1_000_000))
    )
    try:
        if not _connected_to_own(made, str(path)):
            made.connect(str(path))
    except BlockingIOError:
        raise TimeoutError("the queue of the socket is full") from None
    made.settimeout(then)


def _connected_to_own(made: socket.socket, path: str) -> bool:
    """Whether there is a second socket beside the first, of the same user, and we may use it: in /tmp anybody may put
    one there. That of a killed service refuses, and then so does the first, unless another one listens there.
    """
    try:
        owners = {os.lstat(each).st_uid for each in (path, path + OWN)}
        if len(owners) > 1 or not os.access(path + OWN, os.W_OK):
            return False
        made.connect(path + OWN)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True
