"""Who looks: a user with a session, or one whom a trusted proxy names in a header. Roles are those of the REST API.

A session ends with its time, at logout, and when the password or token that began it is replaced or removed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fastapi import Request, Response

from autoscaler.api.answers import Asker
from autoscaler.api.dependencies import USER, peer_of
from autoscaler.api.listeners import THROUGH
from autoscaler.api.logins import UNKNOWN, LoginRefused, Logins
from autoscaler.api.principal import Principal, Role
from autoscaler.api.tokens import PREFIX
from autoscaler.store.sessions import LENGTH, Sessions

LONGEST = 1024
"""Characters of a name or a password."""


class NotLoggedIn(Exception):
    """Nobody is known to look; `expired`: a session was given that has ended."""

    def __init__(self, *, expired: bool) -> None:
        super().__init__("log in first")
        self.expired = expired


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks, for the length of a call."""

    principal: Principal
    asker: Asker
    session: str = ""
    """The secret of the session; '': a proxy names the user."""
    acts: Callable[[], bool] = lambda: False
    """Whether they may act on the autoscaler. Grid Engine may be asked for its managers."""

    @property
    def name(self) -> str:
        return self.principal.name


@dataclass(slots=True)
class Viewers:
    """Finds who looks. `header`: the header in which a proxy of `proxies` names its user; '': none does."""

    logins: Logins
    sessions: Sessions
    cell: str
    header: str = ""
    proxies: Sequence[str] = ()
    clock: Callable[[], float] = time.time
    _cookie: str = field(init=False)

    def __post_init__(self) -> None:
        # Cookies are shared by all ports of a host, so that two cells of one machine need two names.
        self._cookie = f"sge_autoscaler_{hashlib.sha256(self.cell.encode()).hexdigest()[:8]}"

    def cookie(self, request: Request) -> str:
        """The cookie's name. Over TLS a browser takes it from nothing that is served in the clear, as at another port.
        `__Host-` would ask for the path `/`, and so send the session to all else that a proxy serves.
        """
        return f"__Secure-{self._cookie}" if request.url.scheme == "https" else self._cookie

    def viewer(self, request: Request) -> Viewer:
        """Who looks. Raises NotLoggedIn."""
        named = self._named_by_proxy(request)
        if named is not None:
            return self._seen(request, named)
        secret = request.cookies.get(self.cookie(request), "")
        session = self.sessions.find(secret, self.clock()) if secret else None
        standing = None if session is None else self.logins.standing(session.name)
        if session is None or standing is None or not hmac.compare_digest(standing[1], session.mark):
            raise NotLoggedIn(expired=bool(secret))
        return replace(self._seen(request, standing[0]), session=secret)

    def log_in(self, request: Request, response: Response, name: str, password: str) -> None:
        """Begin a session by user and password, or by a token in the place of the password. Raises LoginRefused."""
        if max(len(name), len(password)) > LONGEST:
            raise LoginRefused(401, "user or password is wrong")
        if password.startswith(PREFIX) and self.logins.tokens is not None:
            header = f"Bearer {password}"
        else:
            pair = f"{name}:{password}".encode("utf-8", "surrogatepass")
            header = f"Basic {base64.b64encode(pair).decode()}"
        found = self.logins.caller(header, peer_of(request))
        standing = self.logins.standing(found.name)
        if standing is None:  # it was removed meanwhile
            raise LoginRefused(401, "user or password is wrong")
        request.scope[USER] = found.name
        secret = self.sessions.begin(found.name, standing[1], self.clock())
        self._set_cookie(request, response, secret, int(LENGTH))

    def _set_cookie(self, request: Request, response: Response, secret: str, seconds: int) -> None:
        # Without a path the browser takes that of the page, also below a proxy's own path.
        secure = request.url.scheme == "https"
        response.set_cookie(
            self.cookie(request), secret, max_age=seconds, path=None, secure=secure, httponly=True, samesite="lax"
        )

    def log_out(self, request: Request, response: Response) -> None:
        """End the session of this browser."""
        if secret := request.cookies.get(self.cookie(request), ""):
            self.sessions.end(secret)
        self._set_cookie(request, response, "", 0)

    def _named_by_proxy(self, request: Request) -> Principal | None:
        """The user whom a trusted proxy names. Other callers' headers count for nothing."""
        if not self.header or not _of(request.scope["state"].get(THROUGH, ""), self.proxies):
            return None
        given = request.headers.getlist(self.header)
        if len(given) != 1 or not given[0].strip():
            return None
        name = given[0].strip()
        if not name.isprintable() or ":" in name or len(name) > LONGEST:
            return None
        standing = self.logins.standing(name)
        role = Role.READER if standing is None else standing[0].role
        return Principal(name, f"{name} (page)", role, of_cell=role < Role.ADMIN)

    def _seen(self, request: Request, principal: Principal) -> Viewer:
        peer = peer_of(request)
        request.scope[USER] = principal.name

        def manages() -> bool:
            return principal.role >= Role.ADMIN

        def acts() -> bool:
            return principal.role >= Role.ADMIN or (
                principal.of_cell and self.logins.manages(principal.name, peer, acts=True)
            )

        asker = Asker(principal.name, manages, peer or UNKNOWN, of_cell=principal.of_cell)
        return Viewer(replace(principal, by=f"{principal.name} (page)"), asker, acts=acts)


def _of(address: str, proxies: Sequence[str]) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(found in ipaddress.ip_network(each, strict=False) for each in proxies)
