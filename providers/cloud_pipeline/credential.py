"""The token of all calls: kept in memory only, renewed before it expires and when the platform refuses it.

Its end is in the token itself (a JWT's `exp`); a token without it is renewed at half its set duration.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from collections.abc import Callable

from requests import PreparedRequest
from requests.auth import AuthBase

EARLY = 0.25
"""A token is renewed so long before its end, as a share of its duration."""
AGAIN = 60.0
"""Seconds until a renewal that failed is tried again; the old token stays in use as long as it can."""


class Credential(AuthBase):
    """The token in force. Safe to be used by several threads: one renews, the others take its result."""

    def __init__(self, token: str, duration: float, clock: Callable[[], float] = time.time) -> None:
        self._token, self._duration, self._clock = token, duration, clock
        self._guard = threading.Lock()
        self._renew_at = self._due(token)

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def __repr__(self) -> str:
        return "Credential(...)"

    @property
    def token(self) -> str:
        return self._token

    @property
    def due(self) -> bool:
        """Whether it should be renewed now, while it is still good."""
        return self._clock() >= self._renew_at

    def renew(self, ask: Callable[[], str], *, refused: str = "") -> bool:
        """Replace the token by the result of `ask`; False if there is no better one.

        `refused`: the token that the platform refused; if another thread has renewed it meanwhile, that is enough. An
        error of `ask` is raised, and the old token stays.
        """
        with self._guard:
            if (refused and refused != self._token) or (not refused and not self.due):
                return True
            self._renew_at = self._clock() + AGAIN
            token = ask()
            if not token or token == refused:
                return False
            self._token, self._renew_at = token, self._due(token)
            return True

    def _due(self, token: str) -> float:
        now, end = self._clock(), expiry(token)
        if end is None:
            return now + self._duration / 2
        return end - EARLY * min(self._duration, max(0.0, end - now))


def expiry(token: str) -> float | None:
    """The end of a JWT, as Unix seconds; None if it has none, or the text is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        # A JWT's base64 has no padding, without which Python does not decode it.
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else None
