"""How `run` and `serve` put up the REST API. Nothing of it is imported before it is served."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.commands._requests import service
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError
from autoscaler.loop import Loop
from autoscaler.store import lock
from autoscaler.store.store import Store

if TYPE_CHECKING:
    from autoscaler.web.server import Server

log = logging.getLogger("autoscaler.web")


def password_file(invocation: Invocation) -> Path:
    """Who may call."""
    return invocation.settings.process.http_passwords or invocation.state_directory / "http-passwords"


@contextlib.contextmanager
def rest_beside(invocation: Invocation, loop: Loop) -> Iterator[None]:
    """The REST API on a thread beside a loop, where the settings say so; a dry run takes no requests."""
    if invocation.settings.process.http is None or loop.dry_run:
        if loop.dry_run and invocation.settings.process.http is not None:
            log.warning("a dry run takes no requests: the REST API is not served")
        yield
        return
    with rest(invocation, ring=loop.bell.ring) as server, server.beside():
        log.info("REST API at %s/clusters/%s", server.url, cluster(invocation))
        yield


@contextlib.contextmanager
def rest(invocation: Invocation, *, ring: Callable[[], None] = lambda: None) -> Iterator[Server]:
    """The REST API of this cell, listening, over a connection of its own to the store. Raises SettingsError."""
    from autoscaler.store.calls import CallLog
    from autoscaler.store.looks import seen_arrays
    from autoscaler.web.app import make_app
    from autoscaler.web.operations import Operations
    from autoscaler.web.passwords import Passwords
    from autoscaler.web.server import Server, address
    from autoscaler.web.view import Place

    process = invocation.settings.process
    if process.http is None:
        raise SettingsError("say where to serve: set CP_CAP_AUTOSCALE_HTTP, to 127.0.0.1:8651 for example")
    at = address(process.http, process.http_certificate, process.http_key)
    passwords = Passwords(password_file(invocation))
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(invocation.store())
        calls = CallLog.open(invocation.store_file.with_suffix(".calls"))
        stack.callback(calls.close)
        operations = Operations(
            store,
            Place(cluster(invocation), **_region(invocation)),
            arrays=seen_arrays(invocation.policy.node_arrays, (), ()),
            ring=ring,
            loop_runs=lambda: lock.held(invocation.cell, lock.lock_directory()),
        )
        requests = service(invocation, store, lambda: _names(invocation, store), ring)
        app = make_app(operations, passwords, calls, requests, version=version("sge-autoscaler"))
        yield Server(app, at)


def cluster(invocation: Invocation) -> str:
    """How callers name the cluster."""
    return invocation.settings.process.http_cluster or invocation.cell.cell


def _names(invocation: Invocation, store: Store) -> list[str]:
    """Node arrays of the settings, as the loop last had them."""
    look = store.looks.load()
    if look is None:
        return [array.name for array in invocation.policy.node_arrays]
    return [array.name for array in look.arrays if array.extends is None]


def _region(invocation: Invocation) -> dict[str, Any]:
    """Region and subnet as far as the provider's settings name them; without any the provider's name is the region."""
    name = invocation.settings.process.provider
    given: dict[str, str] = {}
    if name is not None:
        settings = getattr(invocation.provider(), "settings", None)
        found = (str(getattr(settings, field, None) or "") for field in ("region", "location"))
        given["region"] = next((each for each in found if each), name)
        given["subnet"] = str(getattr(settings, "subnet", None) or "")
    return given
