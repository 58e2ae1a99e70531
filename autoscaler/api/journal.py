"""Records every call of the REST API when it is answered: caller, target, status, operation. Of calls at the Unix
socket it records only accepted operator overrides. It records no bodies, no headers, and no calls of workers, whose
paths contain tokens.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from typing import cast

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autoscaler.answer_client import OVERRIDES
from autoscaler.api.dependencies import FORM, OPERATION, USER, Api
from autoscaler.api.gate import PAGE
from autoscaler.api.listeners import SOCKET, TCP, listener_of
from autoscaler.api.tokens import PREFIX
from autoscaler.errors import StateNotKept
from autoscaler.plain_text import plain
from autoscaler.store.calls import READS, Call, CallLog

log = logging.getLogger("autoscaler.api")
_TOKEN = re.compile(rf"{PREFIX}[\w%-]+")
"""A token in a URL: it proves nothing there, but it is a valid secret."""


METRICS = "/metrics"
_REFUSED = frozenset({403, 429, 503})


class Journalled:
    """Middleware that records calls."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = cast("Api", scope["app"].state.api)
        if scope["type"] != "http" or not _written(scope) or api.operations is None or api.calls is None:
            await self._app(scope, receive, send)
            return
        calls, clock, began, status = api.calls, api.operations.clock, time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await (
                    keep()
                )  # before the caller has the answer, so that calls cannot come faster than they are recorded
            await send(message)

        kept = False

        async def keep() -> None:
            nonlocal kept
            if kept or (scope["path"] == METRICS and status == 200):  # a scrape every 30 s changes nothing
                return
            if scope["path"].startswith(PAGE) and scope["method"] in READS and status < 500:  # nor does who looks
                return
            if status >= 400 and listener_of(scope) is SOCKET:  # refused calls must not displace recorded ones
                return
            if status in _REFUSED and scope.get(USER) and scope["method"] in READS:  # nor may questions asked in vain
                return
            kept = True
            query = scope.get(FORM) or scope.get("query_string", b"").decode("ascii", "replace")
            call = Call(
                at=clock(),
                who=plain(scope.get(USER, "")),
                method=plain(scope["method"]),
                target=_TOKEN.sub(f"{PREFIX}...", plain(scope["path"] + (f"?{query}" if query else ""))),
                status=status,
                operation=scope.get(OPERATION, ""),
                seconds=round(time.monotonic() - began, 4),
            )
            await run_in_threadpool(_keep, calls, call)

        try:
            await self._app(scope, receive, noting)
        finally:
            await keep()


def _written(scope: Scope) -> bool:
    listener = listener_of(scope)
    return listener is TCP or (
        listener is SOCKET and scope["method"] == "POST" and scope["path"].startswith(f"{OVERRIDES}/")
    )


def _keep(calls: CallLog, call: Call) -> None:
    try:
        calls.add(call)
    except (StateNotKept, sqlite3.Error) as error:  # the call is answered nevertheless
        log.warning("a call was not recorded: %s", error)
