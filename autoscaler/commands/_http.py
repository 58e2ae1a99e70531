"""How `run` and `serve` start the listeners, all with one application: the Unix socket beside the loop, and the network
addresses in a process of their own. Only a listener imports FastAPI.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from autoscaler.api.auto_stop import AutoStops
from autoscaler.commands._answering import answering, local_roles, relayed
from autoscaler.commands._service import cluster, password_file, service, socket_path, token_file
from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import auto_stop_endpoint, order_secret, refuse_exposed_files
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.engine.loop import Loop
from autoscaler.engine.wakeup import Wakeup
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.process import SystemRunner
from autoscaler.store import lock
from autoscaler.store.calls import CallLog
from autoscaler.store.observations import seen_arrays
from autoscaler.store.store import Store
from autoscaler.supervised import supervised

if TYPE_CHECKING:
    from autoscaler.api.app import Room
    from autoscaler.api.logins import Logins
    from autoscaler.api.munge_login import MungeLogin
    from autoscaler.api.operations import Operations
    from autoscaler.api.relayed_answers import RelayedAnswers
    from autoscaler.api.server import Address, Server

log = logging.getLogger("autoscaler.api")
_VERSION = version("sge-autoscaler")
SHORTEST_WAIT = 0.25
"""Shortest time between two checks for a new pass, in seconds."""
LONGEST_WAIT = 60.0
"""Longest time between two such checks, in seconds."""


@contextlib.contextmanager
def listening(invocation: Invocation, loop: Loop) -> Iterator[None]:
    """The Unix socket of a loop that serves this cell; a dry run accepts no requests. `serve` listens at network
    addresses, in a process without the cloud's credentials. Raises SettingsError if the socket of the settings cannot
    be made; without the default socket the loop goes on.
    """
    if loop.dry_run:
        yield
        return
    for warning in unserved(invocation):
        log.warning(warning)

    def arrays() -> Sequence[str]:
        return [array.name for array in loop.observer.policy.node_arrays]

    requests = service(invocation, loop.store, arrays, loop.wakeup.ring, loop.offered)
    with answering(invocation, loop) as answers, contextlib.ExitStack() as stack:

        @cache
        def app() -> Any:
            from autoscaler.api.app import make_app
            from autoscaler.api.dependencies import Api

            operations = operations_of(invocation, loop.store, loop.observer.policy.node_arrays, loop.wakeup.ring)
            calls = _calls(invocation)
            if calls is not None:
                stack.callback(calls.close)
            api = Api(operations, calls=calls, requests=requests, answers=answers(), local=local_roles(invocation))
            return make_app(api, version=_VERSION)

        with request_socket(invocation, app):
            yield


def unserved(invocation: Invocation) -> Iterator[str]:
    """A sentence for each address of the settings at which no process listens."""
    process = invocation.settings.process
    for name, written in (("CP_CAP_AUTOSCALE_HTTP", process.http), ("CP_CAP_AUTOSCALE_AUTOSTOP", process.auto_stop)):
        if written and not _answers(written):
            yield (
                f"no process listens at {name}={written} yet: `sge-autoscaler serve` does "
                "(sge-autoscaler-serve.service); `run` itself serves the Unix socket only"
            )


def _answers(written: str) -> bool:
    host, _, port = written.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    address = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        with socket.create_connection((address, int(port)), timeout=1.0):
            return True
    except (OSError, ValueError, OverflowError):
        return False


@contextlib.contextmanager
def network(invocation: Invocation) -> Iterator[tuple[Server, Mapping[str, str]]]:
    """The listeners at network addresses: the REST API, and auto-stop. Yields the server to run, while the others run
    beside it, and the URL of each by a description. Raises SettingsError.

    It makes no provider, so nothing can use the cloud's credentials.
    """
    from autoscaler.api.app import make_app
    from autoscaler.api.dependencies import Api
    from autoscaler.api.listeners import WORKERS
    from autoscaler.api.server import Address, Server

    at, endpoint = _address(invocation), auto_stop_endpoint(invocation)
    if at is None and endpoint is None:
        raise SettingsError("no address to serve at: set CP_CAP_AUTOSCALE_HTTP, for example to 127.0.0.1:8651")
    refuse_exposed_files(invocation, invocation.settings)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(invocation.store())
        logins, calls = (None, None) if at is None else stack.enter_context(_logins(invocation))
        policy = invocation.settings.policy(master=invocation.cell.master)
        operations = operations_of(invocation, store, policy.node_arrays, ring=lambda: None)
        requests = service(invocation, store, lambda: _names(policy, store), ring=lambda: None)
        auto_stops = AutoStops(store.auto_stops, order_secret(invocation), ring=lambda: None) if endpoint else None
        hosts = (invocation.cell.master, *invocation.settings.process.http_hosts)
        answers = relayed(invocation)
        api = Api(operations, logins, calls, requests, auto_stops, answers)
        rooms = [] if logins is None else [stack.enter_context(_page(invocation, logins, operations, answers))]
        app = make_app(api, hosts=hosts, version=_VERSION, rooms=rooms)
        servers: dict[str, Server] = {}
        if endpoint is not None and auto_stops is not None:
            servers["workers ask at {}/autostop"] = Server(app, Address(endpoint.address, endpoint.port), WORKERS)
            stack.enter_context(following_passes(auto_stops, store))
        if at is not None:
            try:
                servers[f"REST API at {{}}/clusters/{cluster(invocation)}"] = Server(app, at)
            except BaseException:
                for made in servers.values():
                    made.close()
                raise
        *others, last = servers.values()
        for other in others:
            stack.enter_context(other.beside())
        if auto_stops is not None:
            stack.callback(auto_stops.close)  # before the server ends, so that waiting workers get an answer
        urls = {description: server.url for description, server in servers.items()}
        if at is not None:
            urls["page at {}/page/"] = last.url
        yield last, urls


@contextlib.contextmanager
def _page(invocation: Invocation, logins: Logins, operations: Operations, answers: RelayedAnswers) -> Iterator[Room]:
    """The page, with its sessions."""
    from autoscaler.api.answers import Answers
    from autoscaler.api.stored_answers import AnsweredOrStored, NoPass
    from autoscaler.page.feed import Feed
    from autoscaler.page.reader import Reader
    from autoscaler.page.routes import Page, with_page
    from autoscaler.page.viewer import Viewers
    from autoscaler.store.sessions import Sessions

    process, name = invocation.settings.process, f"{invocation.cell.root} {invocation.cell.cell}"
    feed = Feed()
    with (
        contextlib.closing(Sessions.open(invocation.store_file.with_suffix(".sessions"))) as sessions,
        invocation.store() as store,  # a connection of its own, so that it also sees what callers change here
        feed.following(store),
    ):
        viewers = Viewers(logins, sessions, name, process.http_user_header or "", process.http_proxies)

        def owners_only() -> bool:
            of_autoscaler = store.service_settings.load() or {}
            return "owner" in (process.job_details, of_autoscaler.get("CP_CAP_AUTOSCALE_JOB_DETAILS", "").lower())

        no_pass = NoPass()
        stored = Answers(no_pass, store, _stored_status(invocation, store), owners_only=True, stored=True)
        reader = Reader(AnsweredOrStored(answers, stored, no_pass, owners_only))
        limit_after = invocation.settings.process.notify_limit_after
        yield with_page(Page(invocation.cell.title, viewers, reader, operations, feed, _VERSION, limit_after))


def _stored_status(invocation: Invocation, store: Store) -> Callable[[], dict[str, Any]]:
    """Makes the document of `status` while the autoscaler does not answer: without provider, and without its socket."""
    from autoscaler.engine.spending import SpendingReader
    from autoscaler.report.status import Now, status

    process = invocation.settings.process
    policy = invocation.settings.policy(master=invocation.cell.master, currency=process.currency or "USD")

    def made() -> dict[str, Any]:
        now, who = time.time(), lock.running(invocation.cell)
        return status(
            store,
            Now(
                at=now,
                cell=invocation.cell.title,
                provider=process.provider,
                serving=who is not None,
                silent=who is not None,
                holder=who if who is not None and who.pid else None,
                policy=policy,
                spending=SpendingReader(store).read(policy, now),
            ),
        )

    return made


@contextlib.contextmanager
def following_passes(auto_stops: AutoStops, store: Store) -> Iterator[None]:
    """Pass the results of each pass from the store to `auto_stops`, until the end of the block."""
    ended = threading.Event()
    wakeup = Wakeup(SHORTEST_WAIT)
    wakeup.watch(store.database.log_file)

    def follow() -> None:
        seen = None
        while not ended.is_set():
            try:
                changes = store.database.changes_by_others
                if changes != seen and (last := store.observations.load()) is not None:
                    auto_stops.passed([each.worker for each in last.workers], store.memory.load())
                seen = changes
            except StateNotKept as error:
                log.warning("what the last pass answers to workers cannot be read: %s", error)
            wakeup.wait(LONGEST_WAIT)

    thread = supervised(follow, "passes", ended)
    try:
        yield
    finally:
        ended.set()
        wakeup.ring()
        thread.join(5)


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


def _calls(invocation: Invocation) -> CallLog | None:
    """The journal of calls, which `serve` writes as well; None if it cannot be written: the log has who acts."""
    try:
        return CallLog.open(invocation.store_file.with_suffix(".calls"))
    except (SettingsError, StateNotKept) as error:
        log.warning("the journal of calls cannot be kept: %s", error)
        return None


@contextlib.contextmanager
def _logins(invocation: Invocation) -> Iterator[tuple[Logins, CallLog]]:
    """Logins of the network, and the journal of calls."""
    from autoscaler.api.logins import Logins
    from autoscaler.api.passwords import Passwords
    from autoscaler.api.tokens import Tokens

    group = invocation.settings.process.trusted_group
    tokens, munge = Tokens(token_file(invocation), group), _munge(invocation)
    # Without any user it starts, too: one that is made later may log in at once.
    passwords = Passwords(password_file(invocation), group, may_be_empty=True)
    if passwords.empty and not tokens and not munge:
        log.warning("nobody can log in yet: `sge-autoscaler serve passwd USER` makes a user, who may log in at once")
    with contextlib.closing(CallLog.open(invocation.store_file.with_suffix(".calls"))) as calls:
        yield Logins(passwords, tokens, munge), calls


def _munge(invocation: Invocation) -> MungeLogin | None:
    """Logins by MUNGE; None: not set. Raises SettingsError if MUNGE is not installed."""
    from autoscaler.api.munge_login import MungeLogin
    from autoscaler.munge import refuse_missing

    if (socket_of_daemon := invocation.settings.process.munge) is None:
        return None
    refuse_missing()
    return MungeLogin(socket_of_daemon, local_roles(invocation), SystemRunner())


def operations_of(
    invocation: Invocation, store: Store, arrays: Sequence[NodeArrayPolicy], ring: Callable[[], None]
) -> Operations:
    """The nodes of this store. `arrays`: node arrays of the settings, used until a loop has observed."""
    from autoscaler.api.operations import Operations
    from autoscaler.api.view import ClusterValues

    name = invocation.settings.process.provider or ""
    return Operations(
        store,
        ClusterValues(cluster(invocation), name, name),
        arrays=seen_arrays(arrays, (), ()),
        ring=ring,
        loop_runs=lambda: lock.running(invocation.cell) is not None,
    )


def _address(invocation: Invocation) -> Address | None:
    from autoscaler.api.server import address

    process = invocation.settings.process
    if process.http is None:
        return None
    return address(
        process.http,
        process.http_certificate,
        process.http_key,
        plain=process.http_plain,
        proxies=process.http_proxies,
        group=process.trusted_group,
    )


def _names(policy: Policy, store: Store) -> list[str]:
    """Names of the settings' node arrays, as the loop last published them."""
    last = store.observations.load()
    if last is None:
        return [array.name for array in policy.node_arrays]
    return [array.name for array in last.arrays if array.extends is None]
