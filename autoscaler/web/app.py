"""The REST API as an application: routes, how errors are told, what OpenAPI says of it.

An error's body is one sentence of plain text. What nobody foresaw is logged and answered 500, without particulars.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from autoscaler.errors import StateNotKept
from autoscaler.store.calls import CallLog
from autoscaler.web import routes
from autoscaler.web.asking import Api, told
from autoscaler.web.journal import Journalled
from autoscaler.web.models import NodeCreationRequest, NodeManagementRequest
from autoscaler.web.operations import Operations
from autoscaler.web.passwords import Passwords
from autoscaler.web.refusal import Conflict
from autoscaler.web.request_service import RequestService

log = logging.getLogger("autoscaler.web")
_WITHOUT_ROUTES = ("HTTPValidationError", "ValidationError")


def make_app(
    operations: Operations,
    passwords: Passwords,
    calls: CallLog,
    requests: RequestService | None = None,
    *,
    version: str = "0",
) -> FastAPI:
    """The application for one cluster. `calls` is told of every call; `requests` takes those for node arrays."""
    app = FastAPI(
        title="sge-autoscaler",
        version=version,
        description="Nodes of a Grid Engine cluster, by the REST API of CycleCloud.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.api = Api(operations, passwords, calls, requests)
    app.add_middleware(Journalled)
    app.include_router(routes.clusters)
    app.include_router(routes.operations)
    app.include_router(routes.actions)
    app.include_router(routes.arrays)
    app.add_exception_handler(Conflict, _refused)
    app.add_exception_handler(StateNotKept, _not_kept)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    _describe(app)
    return app


async def _refused(_: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 409)


async def _not_kept(_: Request, error: Exception) -> Response:
    log.error("a call cannot be carried out: %s", error)
    return PlainTextResponse("the state cannot be kept now; ask again", 503, {"Retry-After": "5"})


async def _invalid(_: Request, error: Exception) -> Response:
    """Of bodies `asking.body_of` tells; what is left is a query or a path."""
    assert isinstance(error, RequestValidationError)
    return PlainTextResponse(told({**each, "loc": each["loc"][1:]} for each in error.errors()), 400)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(str(error.detail), error.status_code, error.headers)


async def _gone(_: Request, __: Exception) -> Response:
    """Nobody reads it: the journal of calls does."""
    return PlainTextResponse("the body came to no end", 408)


def _describe(app: FastAPI) -> None:
    """OpenAPI: with the bodies that FastAPI does not see, and without the status that is never answered."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            schemas = document["components"]["schemas"]
            for model in (NodeCreationRequest, NodeManagementRequest):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {})
                schemas[model.__name__] = schema
            for name in _WITHOUT_ROUTES:
                schemas.pop(name, None)
            for path in document["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
