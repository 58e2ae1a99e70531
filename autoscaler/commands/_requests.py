"""How commands reach the service of requests, and how `run` and `serve` put it up."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError
from autoscaler.jetpack.service import OF_ROOT, Service, Unreachable, first_listening
from autoscaler.loop import Loop
from autoscaler.store import lock
from autoscaler.store.store import Store
from autoscaler.web.local_socket import serve_requests
from autoscaler.web.request_service import RequestService

log = logging.getLogger("autoscaler.requests")


def socket_path(invocation: Invocation) -> Path:
    """Where this cell's service listens."""
    process = invocation.settings.process
    if process.socket is not None:
        return process.socket
    # A work directory is closed to everybody else, and so to a group that may ask.
    of_root = os.geteuid() == 0 and (process.work_directory is None or process.socket_group is not None)
    return (OF_ROOT if of_root else invocation.state_directory) / _name(invocation)


def _name(invocation: Invocation) -> str:
    return f"{invocation.cell.cell}-{invocation.cell.slug[-8:]}.sock"


def service(
    invocation: Invocation, store: Store, node_arrays: Callable[[], Sequence[str]], ring: Callable[[], None]
) -> RequestService:
    """What callers of this cell talk to."""
    return RequestService(
        store, node_arrays, ring=ring, loop_runs=lambda: lock.held(invocation.cell, lock.lock_directory())
    )


@contextlib.contextmanager
def request_socket(invocation: Invocation, served: RequestService) -> Iterator[None]:
    """Listen for callers until the end of the block.

    Raises SettingsError where a socket that was chosen cannot be had; without the usual one scaling goes on.
    """
    process = invocation.settings.process
    with contextlib.ExitStack() as stack:
        path = socket_path(invocation)
        try:
            stack.enter_context(serve_requests(served, path, process.socket_group))
        except SettingsError as error:
            if process.socket is not None or process.socket_group is not None:
                raise
            log.warning("callers cannot ask for node arrays: %s", error)
        yield


@contextlib.contextmanager
def listening(invocation: Invocation, loop: Loop) -> Iterator[None]:
    """The same for a loop that serves this cell; a dry run takes no requests."""
    if loop.dry_run:
        yield
        return

    def arrays() -> Sequence[str]:
        return [array.name for array in loop.observer.policy.node_arrays]

    with request_socket(invocation, service(invocation, loop.store, arrays, loop.bell.ring)):
        yield


def reachable(invocation: Invocation) -> Service | None:
    """The service that the settings name, or this cell's where it listens, our own or root's; None: nobody does."""
    process = invocation.settings.process
    if process.caller_url:
        login = process.caller_login
        return Service(url=process.caller_url, login=None if login is None else str(login))
    own = socket_path(invocation)
    places = (own,) if process.socket is not None else (own, OF_ROOT / _name(invocation))
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
