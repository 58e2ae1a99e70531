"""Writes every call down once it is answered: who, what, which status, which operation. Bodies and headers are not."""

from __future__ import annotations

import logging
import time
from typing import cast

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autoscaler.errors import StateNotKept
from autoscaler.store.calls import Call
from autoscaler.web.asking import OPERATION, USER, Api

log = logging.getLogger("autoscaler.web")


class Journalled:
    """An application whose calls are written down."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        api, began, status = cast("Api", scope["app"].state.api), time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            query = scope.get("query_string", b"").decode("ascii", "replace")
            call = Call(
                at=api.operations.clock(),
                who=scope.get(USER, ""),
                method=scope["method"],
                target=scope["path"] + (f"?{query}" if query else ""),
                status=status,
                operation=scope.get(OPERATION, ""),
                seconds=round(time.monotonic() - began, 4),
            )
            await run_in_threadpool(_keep, api, call)


def _keep(api: Api, call: Call) -> None:
    try:
        api.calls.add(call)
    except StateNotKept as error:
        log.warning("a call is not written down: %s", error)
