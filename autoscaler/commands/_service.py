"""The service of a cell: where it listens, who may call it, and how commands reach it. Imports very little."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.answer_client import OF_ROOT
from autoscaler.commands.context import Invocation
from autoscaler.strict_modes import ours

if TYPE_CHECKING:
    from autoscaler.api.request_service import RequestService
    from autoscaler.jetpack.service import Service
    from autoscaler.store.store import Store


def service(
    invocation: Invocation,
    store: Store,
    node_arrays: Callable[[], Sequence[str]],
    ring: Callable[[], None],
    offered: Callable[[], frozenset[str]] = frozenset,
) -> RequestService:
    """The request service of this cell."""
    from autoscaler.api.request_service import RequestService
    from autoscaler.store import lock

    running = lambda: lock.running(invocation.cell) is not None  # noqa: E731
    return RequestService(
        store, node_arrays, ring=ring, loop_runs=running, offered=offered, cluster=cluster(invocation)
    )


def cluster(invocation: Invocation) -> str:
    """The cluster's name for callers."""
    return invocation.settings.process.http_cluster or invocation.cell.cell


def socket_path(invocation: Invocation) -> Path:
    """The Unix socket of this cell's service."""
    process = invocation.settings.process
    if process.socket is not None:
        return process.socket
    # Other users cannot enter a work directory, and so could not reach a socket in it.
    of_root = os.geteuid() == 0 and (process.work_directory is None or process.socket_group is not None)
    of_account = os.geteuid() != 0 and ours(OF_ROOT)  # systemd made it for the account (`RuntimeDirectory`)
    return (OF_ROOT if of_root or of_account else invocation.state_directory) / socket_name(invocation)


def socket_name(invocation: Invocation) -> str:
    return f"{invocation.cell.cell}-{invocation.cell.slug[-8:]}.sock"


def password_file(invocation: Invocation) -> Path:
    """The file of users with passwords."""
    return invocation.settings.process.http_passwords or invocation.state_directory / "http-passwords"


def token_file(invocation: Invocation) -> Path:
    """The file of tokens."""
    return password_file(invocation).with_name("http-tokens")


def reachable(invocation: Invocation) -> Service | None:
    """The service that the settings name, else this cell's if it listens, our own or root's; None: none listens."""
    from autoscaler.jetpack.service import Service, first_listening  # with TLS, which the service does not need

    process = invocation.settings.process
    if process.caller_url:
        paths = (process.caller_login, process.caller_token, process.caller_ca)
        login, token, ca_file = (None if path is None else str(path) for path in paths)
        plain = process.http_plain
        return Service(url=process.caller_url, login=login, token=token, plain=plain, ca_file=ca_file or "")
    own = socket_path(invocation)
    places = [own] if process.socket is not None else [own, OF_ROOT / socket_name(invocation)]
    if invocation.running is not None and invocation.running.socket:
        places.insert(0, Path(invocation.running.socket))
    found = first_listening(places)
    return None if found is None else Service(found)


def call(invocation: Invocation, method: str, place: str, document: Any = None) -> dict[str, Any] | None:
    """The service's answer; None: none answers, so use this cell's state instead. A service that hangs is reported.
    Raises Rejected, Unreachable.
    """
    from autoscaler.jetpack.service import Silent, Unreachable

    listening = reachable(invocation)
    if listening is None:
        return None
    try:
        return listening.call(method, place, document)
    except Unreachable as error:
        hangs = isinstance(error, Silent)
        if listening.url is not None or (hangs and method != "GET" and not _ours_to_write(invocation)):
            raise
        if isinstance(error, Silent):
            instead = "shows what it has stored" if method == "GET" else "stores this for when it goes on"
            invocation.note(f"{error.brief}: this command {instead}")
        return None  # the socket of a crashed process


@contextlib.contextmanager
def own_store(invocation: Invocation) -> Iterator[Store]:
    """This cell's store, to write to when no service listens. Raises Unreachable if no autoscaler would read it."""
    from autoscaler.jetpack.service import Unreachable

    if not _ours_to_write(invocation):
        raise Unreachable(
            "no autoscaler listens for this cell, and you may not write its state: ask root, or start one yourself"
        )
    with invocation.store() as store:
        yield store


def _ours_to_write(invocation: Invocation) -> bool:
    """Whether this user's state is the cell's: root's autoscaler never reads an ordinary user's state."""
    chosen = invocation.settings.process.work_directory is not None
    return os.geteuid() == 0 or chosen or invocation.store_file.exists()
