"""The certificate that a listener shows, read again when its files change: renewed ones are used without a restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from autoscaler.errors import AutoscalerError
from autoscaler.outside_files import LARGEST_TEXT, read_regular
from autoscaler.strict_modes import refuse_exposed

log = logging.getLogger("autoscaler.api")
LOOK_EVERY = 30
"""Seconds between two looks at the files."""

_State = tuple[tuple[int, int, int], ...]
"""Device, inode and time of the last change of each file."""


class Certificate:
    """`context`: where both files are loaded; from then on `look` keeps it as they are. `group`: whose members may
    change the key. Where new ones cannot be used, those that are loaded stay.
    """

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path, group: str | None = None) -> None:
        self._context, self._certificate, self._key, self._group = context, certificate, key, group
        self._loaded = self._state()
        self._refused: _State | None = None
        """As the files were when they could not be used the last time."""

    async def look(self) -> None:
        """Load the files if they changed. Raises nothing."""
        state = self._state()
        if state == self._loaded:
            return
        try:
            refuse_exposed("the certificate's key", self._key, group=self._group, private=True)
            load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), self._certificate, self._key)  # do they match?
            load(self._context, self._certificate, self._key)
        except (AutoscalerError, OSError) as error:
            if state == self._refused:  # the first time, somebody may just be putting the second file in place
                log.warning("the certificate in use stays, since %s cannot be used: %s", self._certificate, error)
                self._loaded = state
            self._refused = state
            return
        log.info("the certificate in %s was renewed, and is used from now on", self._certificate)
        self._loaded = state

    def _state(self) -> _State:
        return tuple(_state_of(path) for path in (self._certificate, self._key))


def load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Into this context, if they belong together. Raises OSError, of which ssl.SSLError is one."""
    for file in (certificate, key):
        read_regular(file, LARGEST_TEXT)  # OpenSSL waits for whoever writes into a pipe
    context.load_cert_chain(certificate, key, password="")  # else OpenSSL asks the terminal where the key has one


def _state_of(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_dev, found.st_ino, found.st_mtime_ns)
