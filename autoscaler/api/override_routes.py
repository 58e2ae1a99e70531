"""Operator overrides: `pause`, `resume`, `retry`, `keep`, `drain`, `stop`, `log-level`, for callers that may act.

At the Unix socket these are root, the user of the service, the socket's group and Grid Engine's managers; at the
address, callers of the role admin.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import JSONResponse

from autoscaler.answer_client import OVERRIDES, OVERRIDES_VERSION
from autoscaler.api.answers import TOO_OFTEN, Asker
from autoscaler.api.dependencies import api_of, asker_of, known_only, operations_of, principal
from autoscaler.api.listeners import SOCKET, TCP, listener_of, served_at
from autoscaler.api.principal import Principal, Role
from autoscaler.engine.operator_commands import OperatorCommand, carry_out
from autoscaler.errors import NotFound, SettingsError
from autoscaler.plain_text import plain
from autoscaler.store.overrides import LogLevel, Verb

log = logging.getLogger("autoscaler.api")
overrides = APIRouter(prefix=OVERRIDES, route_class=served_at(TCP, SOCKET))
By = Annotated[Asker, Depends(asker_of)]
Caller = Annotated[Principal, Depends(principal)]
WHO_MAY = {
    SOCKET: "only root, the user who runs the autoscaler, the group of its socket and Grid Engine's managers may",
    TCP: "only an admin may, and whom MUNGE proves to be a manager of Grid Engine",
}


def described(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {}, "text/plain": {}}}


_DISCONNECT_SEEN = 0.05
"""Seconds until a disconnect is seen. If this process was stopped meanwhile, it comes after the call."""

_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: described("The command or its host is refused; the text says why."),
    401: described("The login is wrong."),
    403: described("The caller may only read, or the call is from a page of another site."),
    404: described("The autoscaler has no such worker; with the header `X-Answers`."),
    409: described("The caller has gone; nothing was done."),
    429: described("The caller acts too often."),
    503: described("The command cannot be stored now; try again."),
}


def may_act(request: Request, caller: Caller) -> None:
    """Refuse callers that may only read with 403, and those that act too often with 429."""
    if caller.role < Role.ADMIN:
        local = listener_of(request.scope) is SOCKET
        refusal = f"{caller.name} may read, but not act on the autoscaler: {WHO_MAY[SOCKET if local else TCP]}"
        logins = api_of(request).logins
        unread = api_of(request).local.unread if local else logins.unread if logins and caller.of_cell else ""
        raise HTTPException(
            403, f"{refusal}; Grid Engine's managers cannot be read now: {unread}" if unread else refusal
        )
    if not api_of(request).acts.take(caller.name):
        raise HTTPException(429, TOO_OFTEN, {"Retry-After": "1"})


async def still_asked(request: Request) -> None:
    """Refuse with 409 if the caller has gone: a service that hung must not carry out a command hours later."""
    await asyncio.sleep(_DISCONNECT_SEEN)
    if await request.is_disconnected():
        log.warning("%s: not carried out: the caller has disconnected", plain(request.url.path))
        raise HTTPException(409, "the caller has disconnected")


@overrides.get("", dependencies=[Depends(known_only())], responses=_RESPONSES)
def standing(request: Request, by: By) -> JSONResponse:
    """Whether the caller may act, and why a command may be carried out late."""
    document = {"overrides": OVERRIDES_VERSION, "name": by.name, "may": by.manages()}
    return JSONResponse(document | {"warning": operations_of(request).warning()})


@overrides.post(
    "/{verb}",
    dependencies=[Depends(may_act), Depends(known_only("host", "undo", "level")), Depends(still_asked)],
    responses=_RESPONSES,
)
def override(
    request: Request,
    caller: Caller,
    verb: Verb,
    host: Annotated[str, Query(max_length=300, description="A worker's host, of `keep` and `drain`.")] = "",
    undo: Annotated[bool, Query(description="Cancel a `keep` or `drain`.")] = False,
    level: Annotated[LogLevel | None, Query(description="How much is logged, of `log-level`.")] = None,
) -> JSONResponse:
    """Store the override; the next pass carries it out."""
    operations, command = operations_of(request), OperatorCommand(verb, host, undo, level)
    try:
        stored = carry_out(operations.store, command, who=caller.by, at=operations.clock())
    except NotFound as error:
        raise HTTPException(404, str(error), {"X-Answers": "overrides"}) from error
    except SettingsError as error:
        raise HTTPException(400, str(error)) from error
    log.info("%s: %s: %s", plain(caller.by), plain(str(command)), plain(stored.message))
    operations.ring()
    document = {"overrides": OVERRIDES_VERSION, "message": stored.message, "done": stored.changed}
    return JSONResponse(document | {"facts": dict(stored.facts), "warning": operations.warning()})
