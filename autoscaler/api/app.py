"""The one application behind all listeners: routes, answers to errors, what OpenAPI says of the REST API.

An error is one sentence. A defect is logged and answered with 500, without details.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from autoscaler.answer_client import PREFIX
from autoscaler.api import answers_routes, override_routes, routes
from autoscaler.api.dependencies import Api, errors_text
from autoscaler.api.gate import Gate
from autoscaler.api.journal import Journalled
from autoscaler.api.listeners import SOCKET, TCP, WORKERS, listener_of
from autoscaler.api.models import Conflict, NodeCreationRequest, NodeManagementRequest
from autoscaler.errors import StateNotKept
from autoscaler.plain_text import plain_lines

log = logging.getLogger("autoscaler.api")
Room = Callable[[FastAPI], None]
"""Adds routes of a layer above: the page."""
_WITHOUT_ROUTES = ("HTTPValidationError", "ValidationError")
_METHODS = ("GET", "POST", "DELETE")
_PLACES = (
    "there is POST /autoscale, GET /requests and DELETE /requests/SET, GET /clusters/CLUSTER/status, "
    "GET /clusters/CLUSTER/nodes and GET /answers/v1/status"
)
_UNMATCHED = ("Not Found", "Method Not Allowed")
"""Starlette's texts if no route matches."""


def make_app(api: Api, *, hosts: Collection[str] = (), version: str = "0", rooms: Iterable[Room] = ()) -> FastAPI:
    """The application for one cluster, for all listeners. `hosts`: further host names that callers may give; `rooms`:
    what else it serves.
    """
    app = FastAPI(
        title="sge-autoscaler",
        version=version,
        description="Nodes of a Grid Engine cluster, by the REST API of CycleCloud.",
        dependencies=[Depends(_http_1)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # FastAPI's own route would exist at every listener
        redirect_slashes=False,
    )
    app.state.api = api
    app.add_middleware(Gate, hosts=hosts)
    app.add_middleware(Journalled)  # outermost, so that it also records what the gate refuses
    for router in (routes.state, routes.clusters, routes.operations, routes.actions, routes.arrays):
        app.include_router(router)
    app.include_router(answers_routes.answers)
    app.include_router(override_routes.overrides)
    for router in (routes.description, routes.local, routes.metrics, routes.workers):
        app.include_router(router)
    for add in rooms:
        add(app)
    app.add_exception_handler(Conflict, _refused)
    app.add_exception_handler(StateNotKept, _not_kept)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    _describe(app)
    return app


def _http_1(request: Request) -> None:
    """Refuse other versions: h11 accepts any with two digits."""
    if (version := request.scope["http_version"]) not in ("1.0", "1.1"):
        raise HTTPException(505, f"Invalid HTTP version ({version})")


def _error(request: Request, text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Text for callers of CycleCloud's API; JSON at the other listeners and for questions. Control characters are
    escaped: the text may repeat what the caller sent.
    """
    text = plain_lines(text)
    if listener_of(request.scope) is TCP and not request.url.path.startswith(PREFIX):
        return PlainTextResponse(text, status, headers)
    return routes.Document({"error": text}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    return _error(request, str(error), 409)


async def _not_kept(request: Request, error: Exception) -> Response:
    log.error("a call cannot be carried out: %s", error)
    return _error(request, "the state cannot be stored now; try again", 503, {"Retry-After": "5"})


async def _invalid(request: Request, error: Exception) -> Response:
    """An invalid query or path; `dependencies.body_of` reports bodies."""
    assert isinstance(error, RequestValidationError)
    return _error(request, errors_text({**each, "loc": each["loc"][1:]} for each in error.errors()), 400)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text, status, listener = str(error.detail), error.status_code, listener_of(request.scope)
    if listener is SOCKET and text in _UNMATCHED:
        text, status = _PLACES, 404 if request.method in _METHODS else 405
    if listener is WORKERS and status == 405:
        text = "use GET: GET URL?instance=ID"
    return _error(request, text, status, error.headers)


async def _gone(request: Request, _: Exception) -> Response:
    """For the journal of calls: the caller has gone."""
    return _error(request, "the body is incomplete", 408)


_TO_ALL = {
    "421": override_routes.described("The call names a host that is not served here."),
    "429": override_routes.described("Too many wrong logins come from this address, or the caller calls too often."),
}
_TO_BODIES = {
    "408": override_routes.described("The body is incomplete."),
    "413": override_routes.described("The body is too long."),
    "415": override_routes.described("The body has a type that is not accepted."),
}


def _describe(app: FastAPI) -> None:
    """Complete the OpenAPI document: add bodies and the gate's answers, remove 422, which is never sent."""
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
                    with_body = "requestBody" in operation
                    operation["responses"] = _TO_ALL | (_TO_BODIES if with_body else {}) | operation["responses"]
                    if with_body:  # a MUNGE credential does not cover a body
                        operation["security"] = [each for each in operation["security"] if "MUNGE" not in each]
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
