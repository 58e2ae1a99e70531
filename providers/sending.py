"""Whether a call left this machine: the one thing that tells a call that surely did not happen from one that may have.

The errors of an HTTP client do not say so: the same TLS error ends a handshake, and a connection on which the request
was sent already. So the connection itself notes when it begins to send a request.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

_thread = threading.local()


def nothing_sent() -> None:
    """Begin a call on this thread."""
    _thread.sent = False


def was_sent() -> bool:
    """Whether any part of the call's request was sent since `nothing_sent`: the server may have received it."""
    return bool(getattr(_thread, "sent", True))


class _Connection(HTTPConnection):
    def request(self, *args: Any, **options: Any) -> None:
        _connected(self)
        super().request(*args, **options)


class _TlsConnection(HTTPSConnection):
    def request(self, *args: Any, **options: Any) -> None:
        _connected(self)
        super().request(*args, **options)


def _connected(connection: HTTPConnection) -> None:
    """Connect first, TLS handshake included: an error of that is one of a request that was not sent."""
    if connection.sock is None:
        connection.connect()
    _thread.sent = True


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_POOLS: Mapping[str, type[HTTPConnectionPool]] = MappingProxyType({"http": _Pool, "https": _TlsPool})


class NotingAdapter(HTTPAdapter):
    """The transport of `requests`, whose connections note what they send; through a proxy as well."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = dict(_POOLS)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):  # its connections are of a kind of their own: always "sent"
            manager.pool_classes_by_scheme = dict(_POOLS)
        return manager
