"""Refuses calls that only a page in a browser makes: for another host name, or from another site. It reads the head
alone, before any password is checked.

A browser sends a stored login with every call of a page (cross-site request forgery), and takes a name that an
attacker's DNS points here for the attacker's own site (DNS rebinding). It names the page's site in `Origin` or
`Sec-Fetch-Site`, and the host name in `Host`. Programs send neither `Origin` nor `Sec-Fetch-Site`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from autoscaler.api.listeners import TCP, listener_of
from autoscaler.plain_text import plain

KINDS = ("application/json", "text/plain")
"""CycleCloud's own examples send JSON as text/plain. A body of either type is read as JSON."""
_ALSO = ("application/x-www-form-urlencoded",)
"""The type that `curl -d` sends by default."""
PAGE = "/page/"
HOSTS_SETTING = "CP_CAP_AUTOSCALE_HTTP_HOSTS"
_PROXY = "; a proxy before this service must pass Host on unchanged, as the browser sends it"
_OWN_SITE = ("same-origin", "none")
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?")
"""A host as RFC 9110 has it: no user, path or query, which a part of a program might take for another host."""
Refusal = tuple[int, str]


def own_names() -> frozenset[str]:
    """This machine's own names."""
    return frozenset(name.lower() for name in ("localhost", socket.gethostname(), socket.getfqdn()))


class Gate:
    """Middleware. `hosts`: host names that callers may give, besides our own. Addresses are always allowed."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = own_names() | {name.lower().rstrip(".") for name in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refused(scope, self._hosts) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, text = refused
        headers = {"Connection": "close"}  # nothing else on this connection is trusted
        over_tcp = listener_of(scope) is TCP
        answer: Response = (
            PlainTextResponse(text, status, headers) if over_tcp else JSONResponse({"error": text}, status, headers)
        )
        await answer(scope, receive, send)


def _refused(scope: Scope, hosts: Collection[str]) -> Refusal | None:
    headers = Headers(scope=scope)
    # A proxy and this server could differ on where such a body ends (request smuggling).
    if "transfer-encoding" in headers and "content-length" in headers:
        return 400, "Transfer-Encoding and Content-Length are given both: give one"
    if listener_of(scope) is not TCP:
        return None
    # Of two such headers a proxy might use one, and this server the other.
    for name in ("Host", "Authorization", "Origin", "Referer", "Sec-Fetch-Site", "Content-Type"):
        if len(headers.getlist(name)) > 1:
            return 400, f"{name} is given more than once"
    host = headers.get("host")
    if host is not None and not _known(host, hosts):
        return 421, f"{plain(host)[:100]} is not served here; {HOSTS_SETTING} names the hosts that are"
    if _opens_page(scope, headers):
        return None
    return _of_another_site(headers, host or "", hosts) or _of_another_kind(scope["method"], headers)


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """Whether a browser opens a view of the page, perhaps by a link of another site. That changes nothing, and the
    other site sees nothing of it.
    """
    to_page = scope["path"] == "/" or f"{scope['path']}/".startswith(PAGE)
    opens = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return to_page and scope["method"] == "GET" and opens


def _known(host: str, hosts: Collection[str]) -> bool:
    """Whether callers may give this host: one of the names, or an address, which no DNS can redirect."""
    found = _HOST.fullmatch(host)
    name = "" if found is None else (found["six"] or found["name"]).lower().rstrip(".")
    return name in hosts or is_address(name)


def is_address(host: str) -> bool:
    """Whether it is an IP address as it is written usually."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _of_another_site(headers: Headers, host: str, hosts: Collection[str]) -> Refusal | None:
    site = headers.get("sec-fetch-site", "none").lower()
    for name in ("origin", "referer"):
        from_page = headers.get(name)
        if from_page is None or _place(from_page) == host.lower():
            continue
        # A proxy may have replaced the host name. The browser itself says that the page is of the same site.
        if site == "same-origin" and _known(_place(from_page), hosts):
            continue
        return 403, f"this call is from a page of another site ({name}){_PROXY}"
    return None if site in _OWN_SITE else (403, f"this call is from a page of another site (Sec-Fetch-Site){_PROXY}")


def _place(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _of_another_kind(method: str, headers: Headers) -> Refusal | None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method not in _CHANGING or not kind or kind in (*KINDS, *_ALSO):
        return None
    return 415, f"a body of type {plain(kind)[:100]} is not accepted: send JSON, as application/json"
