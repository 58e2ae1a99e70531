"""Users that may call: a file of names with salted hashes of their passwords (scrypt) and roles, read again when it
changes.

A password is compared in constant time, and an unknown user takes as long as a known one. scrypt is slow on purpose and
a client may call every second, so a keyed digest of a proven password is remembered until the user's line changes.
`logins` limits how many passwords are checked at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.api.login_file import changed, replace_file, state_of
from autoscaler.api.principal import Role
from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_text
from autoscaler.strict_modes import exposure

COST, BLOCK, PARALLEL = 2**14, 8, 1
"""scrypt's parameters for new entries: 16 MiB and some 50 ms for each guess."""
# By default OpenSSL refuses scrypt with more than 32 MiB.
_MEMORY = 64 * 1024 * 1024
_MOST_COST = 2**17


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


def set_password(path: Path, user: str, password: str, role: Role | None = None) -> bool:
    """Write a user's entry into the file (made with mode 0600); return whether the user is new. The file is written
    whole or not at all. Without a role a user keeps their own; a new one is an admin.
    """
    if ":" in user or user.startswith("#") or user != user.strip() or not user or not user.isprintable():
        why = "no colon, no control character, no space around it, and no # before it"
        raise SettingsError(f"{user!r} is not a user name: {why}")
    if not password:
        raise SettingsError("the password is empty: give one")
    entries = _read(path) if path.exists() else {}
    own = role or (entries[user].role if user in entries else Role.ADMIN)
    written = {**entries, user: Entry(hashed(password), own)}
    replace_file(path, (f"{name}:{entry.hash}:{entry.role}\n" for name, entry in written.items()))
    return user not in entries


@dataclass(frozen=True, slots=True)
class Entry:
    """A user's line."""

    hash: str
    role: Role


class Passwords:
    """The file, for one process. Raises SettingsError where it cannot be used."""

    def __init__(self, path: Path, group: str | None = None, *, may_be_empty: bool = False) -> None:
        """`may_be_empty`: callers have tokens, so there need not be a user, nor a file."""
        self._path, self._group, self._may_be_empty = path, group, may_be_empty
        self._guard = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._proved: dict[str, bytes] = {}
        self._nobody = hashed(secrets.token_hex(16))
        self._seen = state_of(path)
        self._entries: Mapping[str, Entry] = {} if self._seen is None and may_be_empty else self._checked()
        if not self._entries and not may_be_empty:
            raise SettingsError(f"{path} names no user: write one with `sge-autoscaler serve passwd USER`")

    @property
    def empty(self) -> bool:
        """Whether there is no user yet."""
        return not self._entries

    def proven(self, user: str, password: str) -> Role | None:
        """The role of a user who proved this password before; None: not yet. Never runs scrypt."""
        with self._guard:
            self._look()
            entry = self._entries.get(user)
            known = hmac.compare_digest(self._proved.get(user, b""), self._digest(user, password))
            return entry.role if entry is not None and known else None

    def role(self, user: str, password: str) -> Role | None:
        """The role of this user if the password is right, else None. Takes as long as scrypt does."""
        with self._guard:
            self._look()
            entry = self._entries.get(user)
        right = proves(password, entry.hash if entry else self._nobody) and entry is not None
        if not right or entry is None:
            return None
        with self._guard:
            if self._entries.get(user) == entry:  # it may have changed meanwhile
                self._proved[user] = self._digest(user, password)
        return entry.role

    def standing(self, user: str) -> tuple[Role, str] | None:
        """The present role of a user who logged in before, and a mark that changes with the password; None: there is no
        such user any more.
        """
        with self._guard:
            self._look()
            entry = self._entries.get(user)
        return None if entry is None else (entry.role, hashlib.sha256(entry.hash.encode()).hexdigest())

    def right(self, user: str, password: str) -> bool:
        """Whether this is the password of this user."""
        return (self.proven(user, password) or self.role(user, password)) is not None

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{user}\0{password}".encode("utf-8", "surrogatepass"), "sha256")

    def _look(self) -> None:
        """Read the file if it changed. While it cannot be read, every login is refused."""
        now = state_of(self._path)
        if now == self._seen:
            return
        self._seen, before = now, self._entries
        try:
            self._entries = self._checked()
        except SettingsError as error:
            changed(error)
            self._entries = {}
        self._proved = {
            user: digest for user, digest in self._proved.items() if before.get(user) == self._entries.get(user)
        }

    def _checked(self) -> Mapping[str, Entry]:
        if (exposed := exposure(self._path, group=self._group, private=True)) is not None:
            raise SettingsError(f"the passwords {self._path} may be read or changed by others: {exposed}")
        return _read(self._path)


def _read(path: Path) -> dict[str, Entry]:
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"cannot read the passwords in {path}: {error}; write them with `sge-autoscaler serve passwd USER`"
        ) from error
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, separator, rest = line.strip().partition(":")
        entry, _, role = rest.partition(":")
        if (
            not (user and separator and entry.startswith("scrypt$"))
            or (role or "admin").upper() not in Role.__members__
        ):
            why = f"{path}, line {number}, is not USER:scrypt$…:ROLE"
            raise SettingsError(f"{why}; `serve passwd USER` writes such a line")
        entries[user] = Entry(entry, Role[(role or "admin").upper()])
    return entries


def _digest(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
