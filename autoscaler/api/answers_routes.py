"""The routes of answers: what the last pass saw and decided, for readers, on this machine and elsewhere.

Their version is in the path. What is added later (cost, metrics of a pass) is another question under it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from autoscaler.answer_client import PREFIX
from autoscaler.api.answers import Asker
from autoscaler.api.asking import api_of, asker_of, known_only
from autoscaler.api.listeners import SOCKET, TCP, served_at

Form = Annotated[
    Literal["document", "text"], Query(description="The document that `--json` prints, or blocks of text for people.")
]
HistoryForm = Annotated[
    Literal["document", "text", "csv"], Query(description="`csv`: the document is a text of lines.")
]
By = Annotated[Asker, Depends(asker_of)]

_SAID: dict[str, Any] = {
    "type": "object",
    "required": ["answers", "pass", "as_of", "age_s", "trouble"],
    "properties": {
        "answers": {"const": 1, "description": "Version of these answers; fields may be added."},
        "pass": {
            "type": ["integer", "null"],
            "description": "Number of the pass that the answer is from; null: none yet.",
        },
        "as_of": {"type": ["string", "null"], "description": "When that pass observed."},
        "age_s": {"type": ["number", "null"]},
        "trouble": {"type": "string", "description": "Why nothing was observed since; empty while there is."},
        "document": {"description": "What the command prints with `--json`: docs/json.md."},
        "blocks": {
            "type": "array",
            "description": "For people: title, heads of columns, rows of cells, lines.",
            "items": {"type": "array", "minItems": 4, "maxItems": 4},
        },
    },
}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"type": "object"}}}}


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The answer.", "content": {"application/json": {"schema": _SAID}}},
    400: _error("The question is refused; `error` says why."),
    401: _error("Neither user and password nor a token is right."),
    403: _error("Only the job's owner and managers may see it."),
    404: _error("There is no such job, host, worker or node array; with the header `X-Answers`."),
    429: _error("The caller asks too often."),
    503: _error("No pass has been made yet, or the autoscaler does not run."),
}

answers = APIRouter(prefix=PREFIX, route_class=served_at(TCP, SOCKET))


def _answer(request: Request, question: str, by: Asker) -> Response:
    answering = api_of(request).answers
    if answering is None:
        raise HTTPException(404, "only nodes are served here")
    reply = answering.answer(question, dict(request.query_params), by)
    headers = {} if reply.retry_after is None else {"Retry-After": str(reply.retry_after)}
    if reply.missing:
        headers["X-Answers"] = "answers"
    return Response(b"".join(reply.parts), reply.status, headers, "application/json")


@answers.get("/status", dependencies=[Depends(known_only("form"))], responses=_RESPONSES, response_class=Response)
def status(request: Request, by: By, form: Form = "document") -> Response:
    """The last pass, workers and their price, what waits, pauses and troubles."""
    return _answer(request, "status", by)


@answers.get("/jobs", dependencies=[Depends(known_only("form"))], responses=_RESPONSES, response_class=Response)
def jobs(request: Request, by: By, form: Form = "document") -> Response:
    """Every waiting job: whether it counts, and why it waits."""
    return _answer(request, "jobs", by)


@answers.get("/queue", dependencies=[Depends(known_only("form"))], responses=_RESPONSES, response_class=Response)
def queue(request: Request, by: By, form: Form = "document") -> Response:
    """What waits, by reason, with the jobs that have waited longest."""
    return _answer(request, "queue", by)


@answers.get("/workers", dependencies=[Depends(known_only("form"))], responses=_RESPONSES, response_class=Response)
def workers(request: Request, by: By, form: Form = "document") -> Response:
    """Every worker and persistent host with its verdict."""
    return _answer(request, "workers", by)


@answers.get(
    "/explain", dependencies=[Depends(known_only("subject", "form"))], responses=_RESPONSES, response_class=Response
)
def explain(
    request: Request,
    by: By,
    subject: Annotated[str, Query(max_length=300, description="A job (`12`, `12.3`), a host, or a worker's id.")],
    form: Form = "document",
) -> Response:
    """Why a job waits or waited, where it ran and how it ended; why a worker stays or leaves."""
    return _answer(request, "explain", by)


@answers.get(
    "/history",
    dependencies=[Depends(known_only("since", "step", "array", "form"))],
    responses=_RESPONSES,
    response_class=Response,
)
def history(
    request: Request,
    by: By,
    since: Annotated[float, Query(description="Seconds to look back.")] = 3600.0,
    step: Annotated[float | None, Query(description="Seconds of a period.")] = None,
    array: Annotated[str, Query(max_length=300, description="Only this node array's workers.")] = "",
    form: HistoryForm = "document",
) -> Response:
    """Jobs, workers and cost, period by period."""
    return _answer(request, "history", by)


@answers.get(
    "/events",
    dependencies=[Depends(known_only("job", "host", "since", "after", "last", "form"))],
    responses=_RESPONSES,
    response_class=Response,
)
def events(
    request: Request,
    by: By,
    job: Annotated[str, Query(max_length=40, description="Only this job's or task's (`12`, `12.3`).")] = "",
    host: Annotated[str, Query(max_length=300, description="Only this host's, or this worker's, by its id.")] = "",
    since: Annotated[str, Query(max_length=40, description="Seconds to look back.")] = "",
    after: Annotated[str, Query(max_length=40, description="Only events of a greater number.")] = "",
    last: Annotated[str, Query(max_length=40, description="The newest so many, at most 1,000.")] = "100",
    form: Form = "document",
) -> Response:
    """What happened to jobs and workers."""
    return _answer(request, "events", by)


@answers.get(
    "/passes", dependencies=[Depends(known_only("last", "form"))], responses=_RESPONSES, response_class=Response
)
def passes(
    request: Request,
    by: By,
    last: Annotated[str, Query(max_length=40, description="The newest so many, at most 200.")] = "20",
    form: Form = "document",
) -> Response:
    """What the last passes decided: those that had news."""
    return _answer(request, "passes", by)


@answers.get(
    "/cost",
    dependencies=[Depends(known_only("by", "month", "since", "until", "form"))],
    responses=_RESPONSES,
    response_class=Response,
)
def cost(
    request: Request,
    by: By,
    rows: Annotated[str, Query(alias="by", max_length=20, description="user, group, department, project, …")] = "user",
    month: Annotated[str, Query(max_length=10, description="`2026-11`; without it and `since`, this month.")] = "",
    since: Annotated[str, Query(max_length=40, description="A date, or a length of time to look back.")] = "",
    until: Annotated[str, Query(max_length=40, description="A date, or a length of time to look back.")] = "",
    form: HistoryForm = "document",
) -> Response:
    """What workers cost, and for whom; an estimate."""
    return _answer(request, "cost", by)
