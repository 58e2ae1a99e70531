"""Checks the login of a caller of the REST API: user and password (Basic), a token (Bearer), or a MUNGE credential.

A caller that logged in before does not wait for others. Wrong passwords are limited by address, and few unknown callers
are checked at once, so that guessing neither uses all processors nor keeps others out. Tokens and credentials cannot be
guessed: wrong ones are logged and limited by nothing but places.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.api.munge_login import MungeLogin
from autoscaler.api.passwords import Passwords
from autoscaler.api.principal import Principal, of_rest
from autoscaler.api.tokens import Tokens
from autoscaler.munge import Call, Undecided, Unproven
from autoscaler.plain_text import plain

BURST, EVERY = 20, 3.0
"""Wrong logins that one address may make at once, and seconds until it may make one more."""
AT_ONCE = 4
"""Unknown callers that are checked at once; further ones get 503."""
_MOST_ADDRESSES = 10_000
_OF_TOKEN = "token:"
"""Begins the name of a caller with a token; the name of a user has no colon."""
_LOG_EVERY = 60.0
UNKNOWN = "an unknown address"
"""The caller's address if a proxy passes on something that is not one."""
REALM = 'Basic realm="sge-autoscaler", charset="UTF-8"'

log = logging.getLogger("autoscaler.api")


class LoginRefused(Exception):
    """The login failed. `status`: 401, or 429 and 503 if it was not checked."""

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.text = status, text
        self.headers = {"WWW-Authenticate": REALM} if status == 401 else {"Retry-After": str(retry_after or 1)}


@dataclass(slots=True)
class _Address:
    """How many logins an address may still try, and how many failed."""

    left: float = float(BURST)
    since: float = 0.0
    failures: int = 0
    logged_at: float = float("-inf")


@dataclass(slots=True)
class Logins:
    """For one process. Any thread may call."""

    passwords: Passwords | None = None
    tokens: Tokens | None = None
    munge: MungeLogin | None = None
    stopwatch: Callable[[], float] = time.monotonic
    failures: int = 0
    """Wrong logins since the start."""
    _addresses: OrderedDict[str, _Address] = field(default_factory=OrderedDict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def caller(self, header: str, peer: str) -> Principal:
        """The caller with this `Authorization` header, at this address. Raises LoginRefused."""
        scheme, _, given = header.partition(" ")
        if scheme.lower() == "bearer" and self.tokens is not None:
            return self._by_token(given.strip(), peer)
        pair = _pair(given) if scheme.lower() == "basic" else None
        if pair is None or self.passwords is None:
            raise LoginRefused(401, "user and password are needed")
        name, password = pair
        role = self.passwords.proven(name, password)
        if role is not None:
            return of_rest(name, role)
        self._take(peer)
        if not self._turns.acquire(blocking=False):
            self._give_back(peer)
            raise LoginRefused(503, "too many log in at once: ask again", 1)
        try:
            role = self.passwords.role(name, password)
        finally:
            self._turns.release()
        if role is None:
            self._failed(peer, name)
            raise LoginRefused(401, "user and password are needed")
        self._give_back(peer)
        return of_rest(name, role)

    def _by_token(self, token: str, peer: str) -> Principal:
        assert self.tokens is not None
        found = self.tokens.owner(token)
        if found is not None:
            return of_rest(f"{_OF_TOKEN}{found.name}", found.role)
        self._failed(peer, "a token")  # cannot be guessed, so no try is counted: that would only shut out others
        why = "this token has expired" if self.tokens.expired(token) else "this token is not known"
        raise LoginRefused(401, why)

    def by_munge(self, credential: str, call: Call, address: str, peer: str, *, acts: bool) -> Principal:
        """The caller, by a credential for this call alone. `address`: our address at which it came in. `acts`: whether
        the call may change something. Raises LoginRefused.
        """
        if self.munge is None:
            raise LoginRefused(401, "MUNGE proves nothing here: a token, or user and password, is needed")
        try:
            with self.munge.turn(network_of(peer), acts=acts):
                return self.munge.caller(credential.strip(), call, address)
        except Unproven as error:
            self._failed(peer, "a user by MUNGE")
            raise LoginRefused(401, str(error)) from error
        except Undecided as error:
            raise _ask_again(error) from error

    def standing(self, name: str) -> tuple[Principal, str] | None:
        """The caller of this name who proved a login before, with the present role, and a mark that changes when what
        proved it is replaced; None: this login counts no more.
        """
        if name.startswith(_OF_TOKEN):
            token = None if self.tokens is None else self.tokens.named(name.removeprefix(_OF_TOKEN))
            return None if token is None else (of_rest(name, token.role), token.digest)
        found = None if self.passwords is None else self.passwords.standing(name)
        return None if found is None else (of_rest(name, found[0]), found[1])

    def manages(self, name: str, peer: str, *, acts: bool) -> bool:
        """Whether a user that MUNGE proved is a manager of Grid Engine. Raises LoginRefused if it was not checked."""
        if self.munge is None:
            return False
        try:
            with self.munge.turn(network_of(peer), acts=acts):
                return self.munge.roles.manages(name)
        except Undecided as error:
            raise _ask_again(error) from error

    @property
    def unread(self) -> str:
        """Why Grid Engine's managers are not known; '' if they are."""
        return "" if self.munge is None else self.munge.roles.unread

    def _take(self, peer: str) -> None:
        """Count a try before its result is known: many may come at once."""
        now = self.stopwatch()
        with self._guard:
            known = self._address(peer, now)
            known.left = min(float(BURST), known.left + (now - known.since) / EVERY)
            known.since = now
            if known.left < 1:
                wait = int((1 - known.left) * EVERY) + 1
                raise LoginRefused(429, "too many wrong logins from this address", wait)
            known.left -= 1

    def _give_back(self, peer: str) -> None:
        with self._guard:
            known = self._address(peer, self.stopwatch())
            known.left = min(float(BURST), known.left + 1)

    def _failed(self, peer: str, name: str) -> None:
        now = self.stopwatch()
        with self._guard:
            self.failures += 1
            known = self._address(peer, now)
            known.failures += 1
            count, log_now = known.failures, now - known.logged_at >= _LOG_EVERY
            known.logged_at = now if log_now else known.logged_at
        if log_now:
            log.warning("wrong login from %s as %s; %d from there so far", peer or UNKNOWN, plain(name)[:64], count)

    def _address(self, peer: str, now: float) -> _Address:
        key = network_of(peer)
        known = self._addresses.pop(key, None) or _Address(since=now)
        self._addresses[key] = known
        if len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        return known


def _ask_again(error: Undecided) -> LoginRefused:
    return LoginRefused(503, f"MUNGE cannot be asked now: {error}", 1)


def network_of(peer: str) -> str:
    """The address, or of IPv6 its /64: one host can use all of that."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    return peer if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))


def _pair(encoded: str) -> tuple[str, str] | None:
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if name and colon else None
