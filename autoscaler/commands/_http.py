"""How `run` and `serve` start the listeners, all with one application. Only a listener imports FastAPI."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from autoscaler.api.auto_stop import AutoStops
from autoscaler.commands._answering import answering, local_roles, relayed
from autoscaler.commands._password_file import password_file, token_file
from autoscaler.commands._requests import cluster, service
from autoscaler.commands._socket_path import socket_path
from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import auto_stop_endpoint, order_secret, refuse_exposed_files
from autoscaler.engine.loop import Loop
from autoscaler.errors import SettingsError
from autoscaler.store import lock
from autoscaler.store.calls import CallLog
from autoscaler.store.observations import seen_arrays
from autoscaler.store.store import Store
from providers.interface import Provider

if TYPE_CHECKING:
    from autoscaler.api.operations import Operations
    from autoscaler.api.passwords import Passwords
    from autoscaler.api.server import Address, Server
    from autoscaler.api.tokens import Tokens
    from autoscaler.api.view import Place

log = logging.getLogger("autoscaler.api")
_VERSION = version("sge-autoscaler")


@contextlib.contextmanager
def listening(invocation: Invocation, loop: Loop) -> Iterator[None]:
    """All listeners of the settings, for a loop that serves this cell; a dry run accepts no requests. Raises
    SettingsError if a listener cannot start; without the default socket the loop goes on.
    """
    http, endpoint, ring = invocation.settings.process.http, auto_stop_endpoint(invocation), loop.wakeup.ring
    if loop.dry_run:
        if http is not None:
            log.warning("a dry run accepts no requests, so it does not serve the REST API")
        yield
        return

    def arrays() -> Sequence[str]:
        return [array.name for array in loop.observer.policy.node_arrays]

    with contextlib.ExitStack() as stack:
        requests = service(invocation, loop.store, arrays, ring, loop.offered)
        auto_stops = AutoStops(loop.store.auto_stops, order_secret(invocation), ring) if endpoint else None
        passwords, tokens, calls = (None, None, None) if http is None else stack.enter_context(_logins(invocation))
        # Callers from elsewhere never wait for the loop's connection.
        store = loop.store if http is None else stack.enter_context(invocation.store())
        answers = stack.enter_context(answering(invocation, loop))

        @cache
        def app() -> Any:
            from autoscaler.api.app import make_app

            operations, hosts = _operations(invocation, store, loop.observer.provider, ring), _hosts(invocation)
            return make_app(
                operations,
                passwords,
                calls,
                requests,
                auto_stops,
                tokens=tokens,
                answers=answers(),
                local=local_roles(invocation),
                hosts=hosts,
                version=_VERSION,
            )

        if endpoint is not None and auto_stops is not None:
            from autoscaler.api.listeners import WORKERS
            from autoscaler.api.server import Address, Server

            stack.enter_context(Server(app(), Address(endpoint.address, endpoint.port), WORKERS).beside())
            stack.callback(auto_stops.close)  # before the server ends: who waits is told that nothing is decided
            loop.answered = auto_stops.passed
        stack.enter_context(request_socket(invocation, app))
        if http is not None:
            from autoscaler.api.server import Server

            server = stack.enter_context(Server(app(), _address(invocation)).beside())
            log.info("REST API at %s/clusters/%s", server.url, cluster(invocation))
        yield


@contextlib.contextmanager
def rest(invocation: Invocation) -> Iterator[Server]:
    """The REST API of this cell without a loop, listening. Raises SettingsError."""
    from autoscaler.api.app import make_app
    from autoscaler.api.server import Server

    at = _address(invocation)
    refuse_exposed_files(invocation, invocation.settings)
    with _logins(invocation) as (passwords, tokens, calls), invocation.store() as store:
        provider = invocation.provider() if invocation.settings.process.provider is not None else None
        operations = _operations(invocation, store, provider, ring=lambda: None)
        requests = service(invocation, store, lambda: _names(invocation, store), ring=lambda: None)
        hosts = _hosts(invocation)
        answers = relayed(invocation)
        app = make_app(
            operations, passwords, calls, requests, tokens=tokens, answers=answers, hosts=hosts, version=_VERSION
        )
        yield Server(app, at)


@contextlib.contextmanager
def request_socket(invocation: Invocation, make_app: Callable[[], Any]) -> Iterator[None]:
    """Listen for local callers until the end of the block. `make_app` is called when the first one comes.

    Raises SettingsError if the socket of the settings cannot be made; without the default socket the loop goes on.
    """
    from autoscaler.api.local_socket import served_locally

    process = invocation.settings.process
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(served_locally(make_app, socket_path(invocation), process.socket_group))
        except SettingsError as error:
            if process.socket is not None or process.socket_group is not None:
                raise
            log.warning("callers cannot request workers: %s", error)
        yield


@contextlib.contextmanager
def _logins(invocation: Invocation) -> Iterator[tuple[Passwords, Tokens, CallLog]]:
    """Who may call over the network, and where calls are recorded."""
    from autoscaler.api.passwords import Passwords
    from autoscaler.api.tokens import Tokens

    group = invocation.settings.process.trusted_group
    tokens = Tokens(token_file(invocation), group)
    passwords = Passwords(password_file(invocation), group, may_be_empty=bool(tokens))
    with contextlib.closing(CallLog.open(invocation.store_file.with_suffix(".calls"))) as calls:
        yield passwords, tokens, calls


def _hosts(invocation: Invocation) -> tuple[str, ...]:
    """Names by which callers may call, besides those that this machine gives itself."""
    return (invocation.cell.master, *invocation.settings.process.http_hosts)


def _operations(
    invocation: Invocation, store: Store, provider: Provider | None, ring: Callable[[], None]
) -> Operations:
    """Nodes, as this store has them."""
    from autoscaler.api.operations import Operations

    return Operations(
        store,
        place(invocation, provider),
        arrays=seen_arrays(invocation.policy.node_arrays, (), ()),
        ring=ring,
        loop_runs=lambda: lock.running(invocation.cell) is not None,
    )


def _address(invocation: Invocation) -> Address:
    from autoscaler.api.server import address

    process = invocation.settings.process
    if process.http is None:
        raise SettingsError("no address to serve at: set CP_CAP_AUTOSCALE_HTTP, for example to 127.0.0.1:8651")
    return address(process.http, process.http_certificate, process.http_key, plain=process.http_plain)


def _names(invocation: Invocation, store: Store) -> list[str]:
    """Node arrays of the settings, as the loop last published them."""
    look = store.looks.load()
    if look is None:
        return [array.name for array in invocation.policy.node_arrays]
    return [array.name for array in look.arrays if array.extends is None]


def place(invocation: Invocation, provider: Provider | None) -> Place:
    """The cluster with region and subnet as far as the provider's settings name them, of several subnets the first;
    without any the provider's name stands for each.
    """
    from autoscaler.api.view import Place

    settings, name = getattr(provider, "settings", None), invocation.settings.process.provider or ""
    regions = (getattr(settings, field, None) for field in ("region", "location"))
    subnets = getattr(settings, "subnets", None) or (getattr(settings, "subnet", None),)
    return Place(cluster(invocation), str(next(filter(None, regions), name)), str(subnets[0] or name))
