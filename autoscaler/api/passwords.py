"""Who may call: a file of user names with salted hashes of their passwords (scrypt), read again when it changes.

A password is compared in constant time, and an unknown user costs as long as a known one. What once proved right is
remembered by a keyed digest until the file changes, since scrypt is meant to be slow and a client asks every second.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from autoscaler.errors import SettingsError

COST, BLOCK, PARALLEL = 2**14, 8, 1
"""scrypt's parameters for new entries: 16 MiB and some 50 ms for each guess."""
_MEMORY = 64 * 1024 * 1024
_MOST_COST = 2**17
_FORBIDDEN = frozenset(":\n\r\0")


def hashed(password: str, *, salt: bytes | None = None, cost: int = COST) -> str:
    """`scrypt$cost$block$parallel$salt$digest`, the last two as base64."""
    salt = secrets.token_bytes(16) if salt is None else salt
    digest = _digest(password, salt, cost, BLOCK, PARALLEL)
    return "$".join(["scrypt", str(cost), str(BLOCK), str(PARALLEL), _encoded(salt), _encoded(digest)])


def proves(password: str, entry: str) -> bool:
    """Whether this password made that entry."""
    try:
        kind, cost, block, parallel, salt, digest = entry.split("$")
        if kind != "scrypt" or not 2 <= int(cost) <= _MOST_COST:
            return False
        given = _digest(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(given, base64.b64decode(digest))
    except ValueError:
        return False


def set_password(path: Path, user: str, password: str) -> bool:
    """Write a user's entry into the file (made with mode 0600); tells whether the user is new. Whole or not at all."""
    if not user or _FORBIDDEN.intersection(user):
        raise SettingsError(f"{user!r} is not a user name: it must not contain a colon or a line break")
    if not password:
        raise SettingsError("the password is empty: give one")
    entries = _read(path) if path.exists() else {}
    lines = [f"{name}:{entry}\n" for name, entry in {**entries, user: hashed(password)}.items()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(made).unlink()
        raise
    return user not in entries


class Passwords:
    """The file, for one process. Raises SettingsError where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._proved: dict[str, bytes] = {}
        self._nobody = hashed(secrets.token_hex(16))
        self._seen: tuple[int, int, int] | None = None
        self._entries: Mapping[str, str] = {}
        self._look()
        if not self._entries:
            raise SettingsError(f"{path} names no user: write one with `sge-autoscaler serve passwd USER`")

    def right(self, user: str, password: str) -> bool:
        """Whether this is a user's password. One at a time, so that guesses do not take all processors."""
        with self._guard:
            self._look()
            entry = self._entries.get(user)
            digest = hmac.digest(self._key, f"{user}\0{password}".encode("utf-8", "surrogatepass"), "sha256")
            if entry is not None and hmac.compare_digest(self._proved.get(user, b""), digest):
                return True
            right = proves(password, entry or self._nobody) and entry is not None
            if right:
                self._proved[user] = digest
            return right

    def _look(self) -> None:
        """Read the file if it changed. While it cannot be read, nobody gets in."""
        try:
            now = self._path.stat()
        except OSError as error:
            if self._seen is None:
                raise SettingsError(
                    f"cannot read the passwords: {error}; write them with `sge-autoscaler serve passwd USER`"
                ) from error
            self._entries, self._proved, self._seen = {}, {}, (0, 0, 0)
            return
        seen = now.st_mtime_ns, now.st_size, now.st_ino
        if seen == self._seen:
            return
        first, self._seen, self._proved = self._seen is None, seen, {}
        if now.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            self._entries = {}
            if first:
                raise SettingsError(f"{self._path} may be read or changed by others: chmod 600 {self._path}")
            return
        try:
            self._entries = _read(self._path)
        except SettingsError:
            self._entries = {}
            if first:
                raise


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the passwords in {path}: {error}") from error
    entries: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, separator, entry = line.strip().partition(":")
        if not (user and separator and entry.startswith("scrypt$")):
            raise SettingsError(f"{path}, line {number}, is not USER:scrypt$…; `serve passwd USER` writes such a line")
        entries[user] = entry
    return entries


def _digest(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
