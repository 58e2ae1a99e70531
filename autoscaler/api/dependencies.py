"""FastAPI dependencies of the routes: the caller, the cluster, the body and the query of a call."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import unquote

from fastapi import Depends, HTTPException, Path, Request, Response
from fastapi.security.http import HTTPBase
from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection

from autoscaler.answer_client import OF_CELL, ROLE, SOURCE, UNKNOWN_NAME
from autoscaler.api.answers import TOO_OFTEN, Answering, Asker, Turns
from autoscaler.api.auto_stop import AutoStops
from autoscaler.api.gate import KINDS, is_address
from autoscaler.api.listeners import GROUPS, PEER, SOCKET, TCP, listener_of
from autoscaler.api.local_roles import LocalRoles
from autoscaler.api.local_users import person_of
from autoscaler.api.logins import REALM, UNKNOWN, LoginRefused, Logins
from autoscaler.api.operations import Operations
from autoscaler.api.principal import ON_BEHALF, Principal, Role, of_process
from autoscaler.api.request_service import LONGEST_DOCUMENT, RequestService
from autoscaler.constraints.json_text import read_json
from autoscaler.errors import SettingsError
from autoscaler.munge import Call
from autoscaler.store.calls import CallLog

USER, OPERATION, FORM = "autoscaler.user", "autoscaler.operation", "autoscaler.form"
"""Keys of a call's scope for the journal of calls: the caller, the operation that it began, what its form asked."""
LARGEST_BODY = 4 * 1024 * 1024
BODY_KINDS = KINDS
_LOOKS = ("GET", "HEAD")
Body = TypeVar("Body", bound=BaseModel)


class _LoginScheme(HTTPBase):
    """Describes a login in OpenAPI; `principal` checks it."""

    async def __call__(self, request: HTTPConnection) -> None:
        return None


_basic = _LoginScheme(scheme="basic", scheme_name="HTTPBasic", description="A user of the password file.")
_bearer = _LoginScheme(scheme="bearer", scheme_name="HTTPBearer", description="A token of `serve token create`.")
_munge = _LoginScheme(
    scheme="MUNGE", scheme_name="MUNGE", description="A credential for this one call, where a setting allows it."
)


@dataclass(frozen=True, slots=True)
class Api:
    """The parts of an application. None: that part is not served."""

    operations: Operations | None = None
    """Nodes, at the TCP address; with `logins` and `calls`."""
    logins: Logins | None = None
    calls: CallLog | None = None
    """The journal of the REST API's calls."""
    requests: RequestService | None = None
    """Takes requests for node arrays."""
    auto_stops: AutoStops | None = None
    """Answers workers."""
    answers: Answering | None = None
    """Answers what the last pass observed and decided."""
    local: LocalRoles = field(default_factory=LocalRoles)
    """The roles of local users."""
    reads: Turns = field(default_factory=lambda: Turns())
    """How often each local user may read: their questions are answered while passes run."""
    acts: Turns = field(default_factory=lambda: Turns())
    """How often each operator may act."""


def api_of(request: Request) -> Api:
    return cast("Api", request.app.state.api)


def operations_of(request: Request) -> Operations:
    found = api_of(request).operations
    if found is None:
        raise HTTPException(404, "this address does not serve nodes")
    return found


def principal(
    request: Request,
    _basic: Annotated[Any, Depends(_basic)] = None,
    _bearer: Annotated[Any, Depends(_bearer)] = None,
    _munge: Annotated[Any, Depends(_munge)] = None,
) -> Principal:
    """The caller. Raises 401 if it proves nothing, 429 and 503 if the login was not checked."""
    found, logins = None, api_of(request).logins
    if listener_of(request.scope) is SOCKET:
        found = local_caller(request)
    elif listener_of(request.scope) is TCP and logins is not None:
        found = _proven(request, logins)
    if found is None:
        raise HTTPException(401, "user and password are required", {"WWW-Authenticate": REALM})
    request.scope[USER] = found.name
    return found


def _proven(request: Request, logins: Logins) -> Principal:
    header, peer = request.headers.get("Authorization", ""), peer_of(request)
    scheme, _, given = header.partition(" ")
    try:
        if scheme.lower() != "munge":
            return logins.caller(header, peer)
        if request.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in request.headers:
            raise LoginRefused(401, "MUNGE proves calls without a body: a token, or user and password, is needed")
        acts = request.method not in _LOOKS
        found = logins.by_munge(given, _call(request), request.scope["server"][0], peer, acts=acts)
        manages = acts and logins.manages(found.name, peer, acts=True)
        return replace(found, role=Role.ADMIN) if manages else found
    except LoginRefused as error:
        raise HTTPException(error.status, error.text, error.headers) from error


def _call(request: Request) -> Call:
    path, query = request.scope["raw_path"].decode("latin-1"), request.scope["query_string"].decode("latin-1")
    return Call(request.method, f"{path}?{query}" if query else path, request.headers.get("Host", ""))


def peer_of(request: Request) -> str:
    """The address of a caller; '' if a proxy has passed on something that is not an address."""
    peer = request.client.host if request.client else ""
    try:
        return str(ipaddress.ip_address(peer.partition("%")[0]))
    except ValueError:
        return ""


def local_caller(request: Request) -> Principal:
    """The caller as the kernel names it. Grid Engine is asked for its managers only if that makes a difference."""
    state, local = request.scope["state"], api_of(request).local
    role = local.role(state[PEER], state.get(GROUPS, ()))
    found = of_process(state[PEER], request.headers, role)
    if role < Role.ADMIN and not api_of(request).reads.take(f"uid {person_of(state[PEER])}"):
        raise HTTPException(429, TOO_OFTEN, {"Retry-After": "1"})
    if role < Role.ADMIN and request.method not in _LOOKS and local.manages(found.name):
        return of_process(state[PEER], request.headers, Role.ADMIN)
    return found


def asker_of(request: Request, caller: Annotated[Principal, Depends(principal)]) -> Asker:
    """The user who asks. A server that relays questions names that user and role in headers."""
    local, name, role = api_of(request).local, caller.name, request.headers.get(ROLE)
    if listener_of(request.scope) is not SOCKET:
        return Asker(name, lambda: _administers(request, caller), peer_of(request) or UNKNOWN, of_cell=caller.of_cell)
    if caller.role >= Role.ADMIN and role is not None:
        name, source = unquote(request.headers.get(ON_BEHALF, "")), request.headers.get(SOURCE, "")
        return Asker(name, lambda: role == str(Role.ADMIN) or (role == OF_CELL and local.manages(name)), source)
    uid = request.scope["state"][PEER]
    # A user's subordinate uids ask together.
    place = name if (person := person_of(uid)) == uid else of_process(person, {}).name
    return Asker(
        name,
        lambda: caller.role >= Role.ADMIN or local.manages(name),
        counted_as=place,
        reserved=uid in (0, os.geteuid()),
    )


def _administers(request: Request, caller: Principal) -> bool:
    """Whether a remote caller is an admin. Grid Engine is asked for its managers only if that makes a difference."""
    logins = api_of(request).logins
    if caller.role >= Role.ADMIN or not caller.of_cell or logins is None:
        return caller.role >= Role.ADMIN
    try:
        return logins.manages(caller.name, peer_of(request), acts=False)
    except LoginRefused as error:
        raise HTTPException(error.status, error.text, error.headers) from error


def user(caller: Annotated[Principal, Depends(principal)]) -> str:
    """The caller's name; raises 401 without a login."""
    return caller.name


def at_least(role: Role) -> Callable[[Principal], None]:
    """Refuse callers of a lower role with 403."""

    def check(caller: Annotated[Principal, Depends(principal)]) -> None:
        if caller.role < role:
            raise HTTPException(403, f"{caller.name} is a {caller.role}: this takes a {role}")

    return check


def of_cluster(
    request: Request,
    _: Annotated[str, Depends(user)],
    cluster: Annotated[str, Path(description="Name of the cluster.")],
) -> None:
    """Raise 404 for another cluster than ours."""
    ours = operations_of(request).place.cluster
    if cluster != ours:
        raise HTTPException(404, f"there is no cluster {cluster}; this is {ours}")


def known_only(*names: str) -> Callable[[Request], None]:
    """Refuse a misspelt or repeated name in a query with 400: it would silently change the question."""

    def check(request: Request) -> None:
        for name in request.query_params:
            if name not in names:
                raise HTTPException(400, f"{UNKNOWN_NAME}{name}; it may have: {', '.join(names) or 'nothing'}")
            if len(request.query_params.getlist(name)) > 1:
                raise HTTPException(400, f"{name} is given more than once")

    return check


async def body_bytes(request: Request, _: Annotated[str, Depends(user)]) -> bytes:
    """The body of a caller that may call; 413 if it is, or claims to be, too large."""
    most = LONGEST_DOCUMENT if listener_of(request.scope) is SOCKET else LARGEST_BODY
    length = request.headers.get("Content-Length", "")
    data = bytearray()
    if not length.isdecimal() or int(length) <= most:
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                break
        else:
            return bytes(data)
    raise HTTPException(413, f"the body is larger than {most} bytes")


def body_of(model: type[Body]) -> Callable[[bytes], Body]:
    """Read a body; 409 with the path of an error, as CycleCloud answers invalid input."""

    def body(data: Annotated[bytes, Depends(body_bytes)]) -> Body:
        try:
            read_json(data.decode("utf-8"))  # refuses a name that is given twice, of which pydantic takes the last
        except (SettingsError, UnicodeDecodeError) as error:
            raise HTTPException(409, f"the body: {error}") from error
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            raise HTTPException(409, errors_text(cast("Any", error.errors(include_url=False)))) from error

    return body


def errors_text(errors: Iterable[Mapping[str, Any]]) -> str:
    """`sets[0].count: Input should be greater than or equal to 1`, all of them."""
    return "; ".join(f"{_path(each['loc'])}{each['msg']}" for each in errors)[:2000]


def _path(steps: tuple[int | str, ...]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return f"{text}: " if text else ""


def accepted(request: Request, response: Response, operation_id: str) -> None:
    """Add the headers of an answer that begins an operation."""
    # An address in `Host` may be anybody's. Unless it is ours, the place is relative to the one that the caller asked.
    host, ours = request.base_url.hostname or "", (request.scope.get("server") or ("",))[0]
    base = "/" if is_address(host) and host != ours else str(request.base_url)
    response.headers["Location"] = f"{base}operations/{operation_id}"
    request.scope[OPERATION] = operation_id
    warn_if_late(request, response)


def warn_if_late(request: Request, response: Response) -> None:
    """Add a warning if requests are carried out late or the answer is old."""
    if (warning := operations_of(request).warning()) is not None:
        response.headers["Warning"] = f'199 sge-autoscaler "{warning}"'
