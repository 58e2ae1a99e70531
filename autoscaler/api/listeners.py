"""The listeners of the one application, with their limits.

Each route names its listeners and does not exist at the others: workers, and every job on them, reach one path, local
users what the socket offers, and only the TCP address has the whole REST API.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

STATE, LISTENER, PEER, GROUPS, THROUGH = "state", "listener", "peer", "groups", "through"
"""Keys of a call's scope: its listener; the uid and groups of the calling process if the kernel knows them; the address
at the other end of the connection, which may be a proxy's.
"""
_CLOSE = ("Connection", "close")


@dataclass(frozen=True, slots=True)
class Listener:
    """One kind of socket. A call beyond a limit never takes a thread."""

    name: str
    setting: str
    """The setting with its address."""
    at_once: int
    """Connections, and calls under way, at once. Further calls get 503."""
    waiting: int
    """Connections without a request at once. One more ends the oldest of them."""
    places: int
    """Threads that carry out calls. Further calls wait for one."""
    of_one: int | None = None
    """Connections of one address at once. A further one gets 503 and is ended."""
    under_way_of_one: int | None = None
    """Connections of one address at once with a call under way, unless it is a proxy's. A further one gets 503."""
    of_user: int | None = None
    """Connections of one local user at once; root and the user of the service have no such limit."""
    reserved: int = 0
    """Of `at_once`, those that only root and the user of the service get."""
    body: float = math.inf
    """Seconds for a body to arrive, if fewer than `deadlines.BODY`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every answer."""


STREAMS = 100
"""Open pages that hear of news, of all users together."""
TCP = Listener(
    "http",
    "CP_CAP_AUTOSCALE_HTTP",
    at_once=200 + STREAMS,
    waiting=100,
    places=40,
    under_way_of_one=100 + STREAMS,
)
"""The REST API and the page, with a login. 200 connections are left to those who ask, however many pages are open."""
SOCKET = Listener(
    "requests",
    "CP_CAP_AUTOSCALE_SOCKET",
    at_once=192,
    waiting=128,
    places=16,
    of_user=32,
    reserved=64,  # more than `serve` has threads that relay questions
    body=10.0,
    headers=(_CLOSE,),
)
"""Answers and requests for node arrays on this host. Every user may read; `local_roles` says who may do more."""
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
"""Workers' questions, with a token of order and machine. Without TLS, and open to every job on a worker."""


def listener_of(scope: Scope) -> Listener | None:
    """The listener of a call."""
    found = scope.get(STATE, {}).get(LISTENER)
    return found if isinstance(found, Listener) else None


def served_at(*listeners: Listener) -> type[APIRoute]:
    """A class of routes that exist at these listeners only."""

    class ServedRoute(APIRoute):
        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            if listener_of(scope) not in listeners:
                return Match.NONE, {}
            return super().matches(scope)

    return ServedRoute
