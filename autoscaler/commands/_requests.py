"""How commands reach the service of requests, and where it listens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.commands._socket_path import named, socket_path
from autoscaler.commands.context import Invocation
from autoscaler.jetpack.service import OF_ROOT, Service, Unreachable, first_listening

if TYPE_CHECKING:
    from autoscaler.api.request_service import RequestService
    from autoscaler.store.store import Store


def service(
    invocation: Invocation,
    store: Store,
    node_arrays: Callable[[], Sequence[str]],
    ring: Callable[[], None],
    offered: Callable[[], frozenset[str]] = frozenset,
) -> RequestService:
    """What callers of this cell talk to."""
    from autoscaler.api.request_service import RequestService
    from autoscaler.store import lock

    running = lambda: lock.running(invocation.cell) is not None  # noqa: E731
    return RequestService(store, node_arrays, ring=ring, loop_runs=running, offered=offered)


def reachable(invocation: Invocation) -> Service | None:
    """The service that the settings name, or this cell's where it listens, our own or root's; None: nobody does."""
    process = invocation.settings.process
    if process.caller_url:
        login = process.caller_login
        return Service(url=process.caller_url, login=None if login is None else str(login))
    own = socket_path(invocation)
    places = [own] if process.socket is not None else [own, OF_ROOT / named(invocation)]
    if invocation.running is not None and invocation.running.socket:
        places.insert(0, Path(invocation.running.socket))
    found = first_listening(places)
    return None if found is None else Service(found)


@contextlib.contextmanager
def own_store(invocation: Invocation) -> Iterator[Store]:
    """This cell's store, to be written where nobody listens. Raises Unreachable where nobody would look there."""
    if not _ours_to_write(invocation):
        raise Unreachable(
            "no autoscaler listens for this cell, and its state is not yours to write: ask root, or start one yourself"
        )
    with invocation.store() as store:
        yield store


def _ours_to_write(invocation: Invocation) -> bool:
    """Whether this cell's state is the asking user's: into an ordinary user's, root's autoscaler never looks."""
    chosen = invocation.settings.process.work_directory is not None
    return os.geteuid() == 0 or chosen or invocation.store_file.exists()
