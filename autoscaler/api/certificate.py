"""The certificate of a listener. Its files are read again when they change, so a renewed one needs no restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from autoscaler.errors import AutoscalerError
from autoscaler.outside_files import LARGEST_TEXT, read_regular
from autoscaler.strict_modes import refuse_exposed

log = logging.getLogger("autoscaler.api")
CHECK_EVERY = 30
"""Seconds between two checks of the files."""

_NOT_A_PAIR = ("NO_CERTIFICATE_ASSIGNED", "KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
"""OpenSSL's reasons for a key of another certificate. It gives the first one if the types differ (EC, RSA)."""
_State = tuple[tuple[int, ...], ...]
"""Device, inode, size and the times of the last changes of each file, of its mode and owner too."""


class Certificate:
    """The pair of PEM files of a listener. `context`: the TLS context of the listener. If new files cannot be used,
    the loaded pair stays. `group`: members of this group may change the files. Raises OSError, which includes
    ssl.SSLError.

    Every handshake begins in `context` and continues in the context of the newest pair: loading a second pair into one
    context would leave a certificate of another type (EC beside RSA) in use.
    """

    def __init__(self, certificate: Path, key: Path, group: str | None = None) -> None:
        self._certificate, self._key, self._group = certificate, key, group
        self._loaded = self._state()
        self.context = self._newest = load_pair(certificate, key)
        self.context.sni_callback = self._with_newest
        self._failures = 0
        self._reported = ""

    def _with_newest(
        self, handshake: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        """OpenSSL calls it in every handshake, also if the client names no server."""
        handshake.context = self._newest

    async def check(self) -> None:
        """Load the files if they changed. Raises nothing."""
        state = self._state()
        if state == self._loaded:
            if self._reported:
                log.info("the files of the certificate are as they were: %s stays in use", self._certificate)
            self._failures, self._reported = 0, ""
            return
        try:
            refuse_exposed("the certificate", self._certificate, group=self._group)
            refuse_exposed("the certificate's key", self._key, group=self._group, private=True)
            self._newest = load_pair(self._certificate, self._key)
        except (AutoscalerError, OSError) as error:
            self._report(str(error))
            return
        log.info("the files of the certificate have changed: %s is used from now on", self._certificate)
        self._loaded, self._failures, self._reported = state, 0, ""

    def _report(self, why: str) -> None:
        """Log each cause once, from the second check on: at the first, the second file may be about to be replaced."""
        self._failures += 1
        if self._failures > 1 and why != self._reported:
            log.warning("the certificate in use stays, since %s cannot be used: %s", self._certificate, why)
            self._reported = why

    def _state(self) -> _State:
        return tuple(_state_of(path) for path in (self._certificate, self._key))


def load_pair(certificate: Path, key: Path) -> ssl.SSLContext:
    """A TLS context with this pair. Raises OSError, which includes ssl.SSLError."""
    for file in (certificate, key):
        read_regular(file, LARGEST_TEXT)  # OpenSSL would wait for a writer of a pipe
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # also if the machine's OpenSSL allows older ones
    try:
        context.load_cert_chain(certificate, key, password="")  # else OpenSSL would ask the terminal for it
    except ssl.SSLError as error:
        if error.reason in _NOT_A_PAIR:
            raise OSError(f"{key} is not the key of that certificate") from error
        if error.reason:
            raise
        raise OSError("both must be PEM files, the key without a password") from error  # OpenSSL names no cause
    return context


def _state_of(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
