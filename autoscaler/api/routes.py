"""The routes and their listeners. Paths, names and statuses of the REST API are those of CycleCloud's reference.

202 with Location: an operation has begun. 409: the body is refused. 400: the query is refused. 404: there is no such
object.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from autoscaler.api.auto_stop import refusal
from autoscaler.api.dependencies import (
    BODY_KINDS,
    accepted,
    api_of,
    at_least,
    body_bytes,
    body_of,
    known_only,
    of_cluster,
    operations_of,
    principal,
    user,
    warn_if_late,
)
from autoscaler.api.journal import METRICS
from autoscaler.api.listeners import SOCKET, TCP, WORKERS, served_at
from autoscaler.api.models import (
    ClusterStatus,
    ClusterUsage,
    NodeCreationRequest,
    NodeCreationResult,
    NodeList,
    NodeManagementRequest,
    NodeManagementResult,
    OperationStatus,
)
from autoscaler.api.operations import ManagingVerb
from autoscaler.api.principal import Principal, Role
from autoscaler.api.records import node_records
from autoscaler.api.request_service import RequestService
from autoscaler.api.status import status_of
from autoscaler.api.usage import Granularity, InvalidTimes, Timeframe, spans, usage_of
from autoscaler.report.metrics import CONTENT_TYPE, exposition
from autoscaler.store.nodes import Operation

VERBS: Mapping[ManagingVerb, str] = {
    "terminate": "End nodes: each once its jobs have ended.",
    "remove": "The same as terminate: no record of an ended node stays.",
    "shutdown": "The same as terminate: no node of this cluster is kept deallocated.",
    "deallocate": "Stop nodes but keep them; a provider that cannot do it refuses each node.",
    "start": "Start nodes that were deallocated; running nodes are not changed.",
    "restart": "Restart nodes; a provider that cannot do it refuses each node.",
    "reimage": "Give nodes a new disk; a provider that cannot do it refuses each node.",
}


def _text_answer(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}


_ALWAYS: dict[int | str, dict[str, Any]] = {
    400: _text_answer("The query is refused; the text says why."),
    401: _text_answer("The login is wrong."),
    403: _text_answer("The caller's role does not allow it, or the call is from a page of another site."),
    404: _text_answer("There is no such cluster, operation or node array."),
    503: _text_answer("The request cannot be stored now; try again."),
}
_BEGUN: dict[int | str, dict[str, Any]] = {
    **_ALWAYS,
    202: {"headers": {"Location": {"description": "Address of the operation.", "schema": {"type": "string"}}}},
    409: _text_answer("The request is refused; the text says where and why. Nothing was done."),
    413: _text_answer("The body is too large."),
}

_UPDATE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["arrays"],
                    "properties": {
                        "arrays": {"type": "array", "items": {"type": "object"}},
                        "request_set": {"type": "string"},
                        "expiration_interval": {"type": "number", "nullable": True},
                    },
                }
            }
        },
    }
}
_ARRAYS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The update is refused; `error` says where and why."},
    401: _ALWAYS[401],
    403: {"description": "The caller's role does not allow it, or another caller asked for that request set."},
    404: {"description": "Only nodes are served here."},
    413: _text_answer("The body is too large."),
    503: {"description": "The request cannot be stored now; try again."},
}

User = Annotated[str, Depends(user)]
asks = Depends(at_least(Role.CALLER))
Creation = Annotated[NodeCreationRequest, Depends(body_of(NodeCreationRequest))]
Management = Annotated[NodeManagementRequest, Depends(body_of(NodeManagementRequest))]
Caller = Annotated[Principal, Depends(principal)]
_rest = served_at(TCP)
_local = served_at(TCP, SOCKET)
state = APIRouter(prefix="/clusters/{cluster}", dependencies=[Depends(of_cluster)], route_class=_local)
clusters = APIRouter(prefix="/clusters/{cluster}", dependencies=[Depends(of_cluster)], route_class=_rest)
operations = APIRouter(dependencies=[Depends(user)], route_class=_rest)
actions = APIRouter(dependencies=[Depends(user)], route_class=_rest)
description = APIRouter(include_in_schema=False, dependencies=[Depends(user)], route_class=_rest)
arrays = APIRouter(dependencies=[Depends(user)], route_class=_local)
local = APIRouter(include_in_schema=False, dependencies=[Depends(user)], route_class=served_at(SOCKET))
metrics = APIRouter(include_in_schema=False, dependencies=[Depends(user)], route_class=_local)
workers = APIRouter(include_in_schema=False, route_class=served_at(WORKERS))


class Document(JSONResponse):
    """JSON for shell scripts: a space after each colon, a newline at the end."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _body_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in BODY_KINDS}}}


# -- reading -------------------------------------------------------------------------------------------------------


@state.get("/status", dependencies=[Depends(known_only("nodes"))], responses=_ALWAYS, response_model_exclude_none=True)
def status(
    request: Request, response: Response, nodes: Annotated[bool, Query(description="Include the nodes.")] = False
) -> ClusterStatus:
    """State, limits and buckets of the cluster."""
    warn_if_late(request, response)
    return status_of(operations_of(request).view(), with_nodes=nodes)


@state.get(
    "/nodes",
    dependencies=[Depends(known_only("operation", "request_id"))],
    responses=_ALWAYS,
    response_model_exclude_none=True,
)
def nodes(
    request: Request,
    response: Response,
    operation: Annotated[str | None, Query(description="Only nodes of this operation.")] = None,
    request_id: Annotated[str | None, Query(description="Only nodes of the operation of this request.")] = None,
) -> NodeList:
    """Nodes of the cluster, or of one operation."""
    warn_if_late(request, response)
    if operation is not None and request_id is not None:
        raise HTTPException(400, "give operation or request_id, not both")
    view, table = operations_of(request).view(), operations_of(request).store.nodes
    if operation is None and request_id is None:
        return NodeList(nodes=node_records(view))
    found = table.operation(operation) if operation is not None else table.operation_of(request_id or "")
    if found is None:
        raise HTTPException(404, "there is no such operation")
    ids = frozenset(found.nodes)
    return NodeList(nodes=[each for each in node_records(view) if each["NodeId"] in ids], operation=_status_of(found))


@clusters.get(
    "/usage",
    dependencies=[Depends(known_only("timeframe", "from", "to", "granularity"))],
    responses=_ALWAYS,
    response_model_exclude_none=True,
)
def usage(
    request: Request,
    timeframe: Annotated[Timeframe, Query(description="UTC; a week begins on Sunday.")] = "monthToDate",
    begin: Annotated[str | None, Query(alias="from", description="ISO 8601, for custom.")] = None,
    end: Annotated[str | None, Query(alias="to", description="ISO 8601, for custom.")] = None,
    granularity: Annotated[Granularity, Query()] = "daily",
) -> ClusterUsage:
    """Core-hours and their estimated cost; ended workers are forgotten after CP_CAP_AUTOSCALE_COST_KEPT."""
    asked_of = operations_of(request)
    now = asked_of.clock()
    try:
        asked = spans(timeframe, granularity, now, start=begin, end=end)
    except InvalidTimes as error:
        raise HTTPException(400, str(error)) from error
    view = asked_of.view()
    vcpus = {kind.name: kind.vcpus for array in view.look.arrays for kind in array.types.values()}
    vcpus |= {node.type.name: node.type.vcpus for node in view.nodes if node.type is not None}
    return usage_of(asked_of.store.history.lifetimes(asked[0].start.timestamp()), vcpus, asked, now, view.place.region)


@operations.get("/operations", include_in_schema=False)
@operations.get("/operations/", dependencies=[Depends(known_only("request_id"))], responses=_ALWAYS)
def operations_list(
    request: Request,
    request_id: Annotated[str | None, Query(description="Only the operation of this request.")] = None,
) -> list[OperationStatus]:
    """The newest operations, or the one of a request: none or one."""
    table = operations_of(request).store.nodes
    if request_id is None:
        return [_status_of(each) for each in table.operations()]
    found = table.operation_of(request_id)
    return [_status_of(found)] if found else []


@operations.get("/operations/{id}", dependencies=[Depends(known_only())], responses=_ALWAYS)
def operation_status(request: Request, operation_id: Annotated[str, Path(alias="id")]) -> OperationStatus:
    """One operation."""
    found = operations_of(request).store.nodes.operation(operation_id)
    if found is None:
        raise HTTPException(404, "there is no such operation")
    return _status_of(found)


def _status_of(operation: Operation) -> OperationStatus:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(operation.at))
    return OperationStatus(action=operation.action, start_time=started)


# -- changing ------------------------------------------------------------------------------------------------------


@clusters.post(
    "/nodes/create",
    dependencies=[asks, Depends(known_only())],
    status_code=202,
    responses=_BEGUN,
    openapi_extra=_body_schema(NodeCreationRequest),
    response_model_exclude_none=True,
)
def create(request: Request, response: Response, caller: User, body: Creation) -> NodeCreationResult:
    """Create nodes. Each stays until it is ended; it is not removed for idleness."""
    result = operations_of(request).create(body, caller)
    accepted(request, response, result.operation_id)
    return result


def _add_verb(verb: ManagingVerb, description: str) -> None:
    def manage(request: Request, response: Response, caller: Caller, body: Management) -> NodeManagementResult:
        own_only = caller.role < Role.ADMIN
        result = operations_of(request).manage(verb, body, caller.name, own_only=own_only)
        accepted(request, response, result.operation_id)
        return result

    clusters.post(
        f"/nodes/{verb}",
        dependencies=[asks, Depends(known_only())],
        status_code=202,
        responses=_BEGUN,
        openapi_extra=_body_schema(NodeManagementRequest),
        response_model_exclude_none=True,
        summary=f"{verb} nodes".capitalize(),
        description=description,
        operation_id=f"{verb}_nodes",
    )(manage)


for _verb, _description in VERBS.items():
    _add_verb(_verb, _description)


@clusters.post(
    "/scale/{nodearray}",
    dependencies=[asks, Depends(known_only("totalCoreCount", "totalNodeCount"))],
    status_code=202,
    responses=_BEGUN,
    response_model_exclude_none=True,
)
def scale(
    request: Request,
    response: Response,
    caller: User,
    nodearray: Annotated[str, Path(description="Name of the node array.")],
    cores: Annotated[int | None, Query(alias="totalCoreCount", ge=0, le=2**31)] = None,
    count: Annotated[int | None, Query(alias="totalNodeCount", ge=0, le=2**31)] = None,
) -> NodeCreationResult:
    """Create nodes until the array has a number of nodes or of cores: give exactly one. Nothing is ended."""
    result = operations_of(request).scale(nodearray, cores=cores, count=count, who=caller)
    accepted(request, response, result.operation_id)
    return result


@actions.post(
    "/cloud/actions/retry/{cluster}", dependencies=[asks, Depends(of_cluster), Depends(known_only())], responses=_ALWAYS
)
def retry(request: Request, response: Response, caller: User) -> dict[str, str]:
    """Retry at once the launches that failed or were refused, without waiting for the end of the backoff."""
    operations_of(request).retry(caller)
    warn_if_late(request, response)
    return {"message": "the next pass tries again what failed"}


# -- requests for node arrays --------------------------------------------------------------------------------------


def _service(request: Request) -> RequestService:
    found = api_of(request).requests
    if found is None:
        raise HTTPException(404, "only nodes are served here")
    return found


Service = Annotated[RequestService, Depends(_service)]


@arrays.post("/autoscale", dependencies=[asks], responses=_ARRAYS, openapi_extra=_UPDATE)
def autoscale(service: Service, caller: Caller, body: Annotated[bytes, Depends(body_bytes)]) -> JSONResponse:
    """Replace all targets of a request set."""
    status, answer = service.update(body, caller.by, own_only=caller.role < Role.ADMIN)
    return Document(answer, status)


@arrays.get("/requests", responses=_ARRAYS)
def requests(service: Service) -> JSONResponse:
    """Every live request."""
    status, answer = service.show()
    return Document(answer, status)


@local.get("/settings")
def settings(service: Service) -> JSONResponse:
    """The settings of the running autoscaler, without secrets, by environment name."""
    status, answer = service.settings()
    return Document(answer, status)


@arrays.delete("/requests/{request_set:path}", dependencies=[asks], responses=_ARRAYS)
def end_request(service: Service, caller: Caller, request_set: str) -> JSONResponse:
    """End a request set."""
    if not request_set:
        raise HTTPException(404, "name the request set: DELETE /requests/SET")
    status, answer = service.end(request_set, caller.by, own_only=caller.role < Role.ADMIN)
    return Document(answer, status)


# -- the rest ------------------------------------------------------------------------------------------------------


@description.get("/openapi.json")
def openapi(request: Request) -> JSONResponse:
    """The description of the REST API."""
    return JSONResponse(request.app.openapi())


@metrics.get(METRICS)
def expose(request: Request) -> Response:
    """Metrics for Prometheus. They are read from the store, which every pass writes, so they are there while nothing is
    observed, and in a process without a loop.
    """
    return Response(exposition(operations_of(request).store.measures.load()), headers={"Content-Type": CONTENT_TYPE})


@workers.get("/{path:path}")
def auto_stop(request: Request) -> JSONResponse:
    """Answer a worker. `AutoStops` reads the path as sent; it contains the token, so it is not logged."""
    auto_stops, scope = api_of(request).auto_stops, request.scope
    if auto_stops is None or request.client is None:
        reply = refusal(HTTPStatus.NOT_FOUND, "there is nothing at this path")
    else:
        target = b"?".join(part for part in (scope["raw_path"], scope["query_string"]) if part)
        reply = auto_stops.reply_to(target.decode("latin-1"), request.client.host)
    headers = {} if reply.retry_after is None else {"Retry-After": str(reply.retry_after)}
    return Document(reply.says, reply.status, headers)
