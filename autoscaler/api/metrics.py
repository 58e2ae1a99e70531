"""`GET /metrics`: what the last passes measured, for Prometheus. It is read from the store, which every pass writes:
so it is there while nothing is observed, and in a process without a loop.
"""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from autoscaler.api.asking import operations_of, user
from autoscaler.api.journal import METRICS
from autoscaler.api.listeners import SOCKET, TCP, served_at
from autoscaler.report.metrics import CONTENT_TYPE, exposition

metrics = APIRouter(include_in_schema=False, dependencies=[Depends(user)], route_class=served_at(TCP, SOCKET))


@metrics.get(METRICS)
def expose(request: Request) -> Response:
    """Whoever may look."""
    return Response(exposition(operations_of(request).store.measures.load()), headers={"Content-Type": CONTENT_TYPE})
