"""The sockets at which the one application is served, and what each of them allows.

A route says at which listeners it is there; at all others it does not exist. So a worker, and every job on it, reaches
the one path of its own, a local user what the socket's mode allows, and only the TCP address has the whole REST API.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

STATE, LISTENER, PEER, GROUPS = "state", "listener", "peer", "groups"
"""Where a call's scope says at which listener it came in, and the uid and groups of its process where the kernel knows
them.
"""
_CLOSE = ("Connection", "close")


@dataclass(frozen=True, slots=True)
class Listener:
    """One kind of socket. What is beyond a limit never costs a thread."""

    name: str
    setting: str
    """The setting that says where it listens."""
    at_once: int
    """Connections, and calls under way, at once: further calls are answered 503."""
    waiting: int
    """Connections that may wait for a request at once: for one more, the one that has waited longest is ended."""
    places: int
    """Threads, each for a call that is carried out: further calls wait for one."""
    of_one: int | None = None
    """Connections of one address at once: a further one is told 503, and ended."""
    of_user: int | None = None
    """Connections of one local user at once, root and the service's own user aside."""
    body: float = math.inf
    """Seconds in which a body must have come, where they are fewer than `deadlines.BODY`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Those of every answer."""


TCP = Listener("http", "CP_CAP_AUTOSCALE_HTTP", at_once=200, waiting=100, places=40)
"""The REST API, with user and password."""
SOCKET = Listener(
    "requests", "CP_CAP_AUTOSCALE_SOCKET", at_once=144, waiting=128, places=16, of_user=32, body=10.0, headers=(_CLOSE,)
)
"""Answers and requests for node arrays on this host: every user may look, and `local_roles` says who may do more."""
WORKERS = Listener(
    "auto-stop",
    "CP_CAP_AUTOSCALE_AUTOSTOP",
    at_once=256,
    waiting=256,
    places=256,  # each waits for a pass
    of_one=8,
    body=10.0,
    headers=(_CLOSE, ("Cache-Control", "no-store")),
)
"""What workers ask, with a token of their order and machine. In the clear, and reached by every job on a worker."""


def listener_of(scope: Scope) -> Listener | None:
    """The one at which a call came in."""
    found = scope.get(STATE, {}).get(LISTENER)
    return found if isinstance(found, Listener) else None


def served_at(*listeners: Listener) -> type[APIRoute]:
    """The class of routes that are there at these listeners only."""

    class ServedRoute(APIRoute):
        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            if listener_of(scope) not in listeners:
                return Match.NONE, {}
            return super().matches(scope)

    return ServedRoute
