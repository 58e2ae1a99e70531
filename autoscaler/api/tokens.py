"""Bearer tokens: a file of names with role, expiry and a hash of the token, read again when it changes.

A token is 256 random bits, so its hash needs no salt and may be fast. A token is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autoscaler.api.login_file import changed, replace_file, state_of
from autoscaler.api.principal import Role
from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_text
from autoscaler.strict_modes import exposure

PREFIX = "sgea_"
"""Lets scanners recognise a token in a log or a repository."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Token:
    """A token's entry: its hash, not the token itself."""

    name: str
    role: Role
    expires_at: float
    digest: str


def create(path: Path, name: str, role: Role, expires_at: float) -> str:
    """Make a token, write its hash into the file, and return it. It cannot be shown again. Raises SettingsError."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is no name of a token: letters, digits, and _ . @ - after the first, 64 at most")
    known = read(path)
    if name in known:
        raise SettingsError(f"there is a token {name}: revoke it first, or give another name")
    token = PREFIX + secrets.token_urlsafe(32)
    _write(path, {**known, name: Token(name, role, expires_at, _digest(token))})
    return token


def revoke(path: Path, name: str) -> bool:
    """Remove a token; return whether there was one."""
    known = read(path)
    if name in known:
        _write(path, {each: token for each, token in known.items() if each != name})
    return name in known


def read(path: Path) -> dict[str, Token]:
    """All tokens of a file by name; none where there is no file. Raises SettingsError."""
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the tokens in {path}: {error}") from error
    found: dict[str, Token] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            token = _token(line)
            if token is None:
                raise SettingsError(f"{path}, line {number}, is no NAME ROLE EXPIRY HASH; `serve token` writes them")
            found[token.name] = token
    return found


class Tokens:
    """The tokens of a file; none without a file. Raises SettingsError if the file cannot be used."""

    def __init__(self, path: Path, group: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._path, self._group, self._clock = path, group, clock
        self._guard = threading.Lock()
        self._seen = state_of(path)
        self._known = self._read()

    def __bool__(self) -> bool:
        return bool(self._known)

    def owner(self, token: str) -> Token | None:
        """The entry of this token; None: there is none, or it has expired."""
        return next((each for each in self._matching(token) if each.expires_at > self._clock()), None)

    def named(self, name: str) -> Token | None:
        """The entry of this name; None: there is none, or it has expired."""
        with self._guard:
            self._look()
            found = self._known.get(name)
        return found if found is not None and found.expires_at > self._clock() else None

    def expired(self, token: str) -> bool:
        """Whether this token existed and has expired. Its holder may learn that."""
        return any(each.expires_at <= self._clock() for each in self._matching(token))

    def _matching(self, token: str) -> list[Token]:
        given = _digest(token)
        with self._guard:
            self._look()
            known = tuple(self._known.values())
        return [each for each in known if hmac.compare_digest(each.digest, given)]

    def _look(self) -> None:
        """Read the file if it changed. While it cannot be read, every token is refused."""
        now = state_of(self._path)
        if now == self._seen:
            return
        self._seen = now
        try:
            self._known = self._read()
        except SettingsError as error:
            changed(error)
            self._known = {}

    def _read(self) -> Mapping[str, Token]:
        found = exposure(self._path, group=self._group, private=True)
        if found is not None:
            raise SettingsError(f"the tokens {self._path} may be read or changed by others: {found}")
        return read(self._path)


def _token(line: str) -> Token | None:
    try:
        name, role, expires, digest = line.split()
        at = datetime.strptime(expires, _TIME).replace(tzinfo=UTC).timestamp()
        return Token(name, Role[role.upper()], at, digest)
    except (ValueError, KeyError):
        return None


def _write(path: Path, tokens: Mapping[str, Token]) -> None:
    lines = (
        f"{each.name} {each.role} {datetime.fromtimestamp(each.expires_at, UTC).strftime(_TIME)} {each.digest}\n"
        for each in tokens.values()
    )
    replace_file(path, lines)


def _digest(token: str) -> str:
    return "sha256$" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
