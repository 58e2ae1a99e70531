"""The routes of answers: what the last pass observed and decided, for readers on this machine and elsewhere.

Their version is in the path. To add a question, add a class to `QUESTIONS`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from autoscaler.answer_client import PREFIX
from autoscaler.api.answers import Asker
from autoscaler.api.dependencies import api_of, asker_of, known_only
from autoscaler.api.listeners import SOCKET, TCP, served_at

By = Annotated[Asker, Depends(asker_of)]

_ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["answers", "pass", "as_of", "age_s", "trouble"],
    "properties": {
        "answers": {"const": 1, "description": "Version of these answers; fields may be added."},
        "pass": {
            "type": ["integer", "null"],
            "description": "Number of the pass that is shown; null: none yet.",
        },
        "as_of": {"type": ["string", "null"], "description": "When that pass observed."},
        "age_s": {"type": ["number", "null"]},
        "trouble": {"type": "string", "description": "Why nothing was observed since; empty while passes observe."},
        "late": {"type": "boolean", "description": "Whether passes have stopped; then `trouble` says since when."},
        "for_all": {"type": "boolean", "description": "Whether every user gets the same answer."},
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
    200: {"description": "The answer.", "content": {"application/json": {"schema": _ANSWER_SCHEMA}}},
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


class _Question(BaseModel):
    form: Annotated[
        Literal["document", "text"],
        Field(description="The document that `--json` prints, or blocks of text for people."),
    ] = "document"


class Status(_Question):
    """The last pass, workers and their price, what waits, pauses and troubles."""


class Jobs(_Question):
    """Every waiting job: whether it counts, and why it waits."""

    running: Annotated[bool, Field(description="Running jobs, too.")] = False


class Queue(_Question):
    """Waiting tasks by reason, with the jobs that have waited longest."""


class Waiting(_Question):
    """Waiting job categories, a page at a time: the caller's own first, then those that have waited longest."""

    search: Annotated[
        str, Field(max_length=100, description="A job (`12`, `12.3`), or a part of an owner's or project's name.")
    ] = ""
    owner: Annotated[str, Field(max_length=100, description="Only this owner's.")] = ""
    code: Annotated[str, Field(max_length=60, description="Only those that wait for this reason.")] = ""
    names: Annotated[str, Field(max_length=1, description="`1`: with the names of the caller's own jobs.")] = ""
    first: Annotated[str, Field(max_length=20, description="How many rows to leave out.")] = "0"
    last: Annotated[str, Field(max_length=20, description="How many rows to return, at most 500.")] = "100"


class Workers(_Question):
    """Every worker and persistent host with its verdict."""


class Explain(_Question):
    """Why a job waits or waited, where it ran and how it ended; why a worker stays or leaves."""

    subject: Annotated[str, Field(max_length=300, description="A job (`12`, `12.3`), a host, or a worker's id.")]


class Events(_Question):
    """Events of jobs and workers."""

    job: Annotated[str, Field(max_length=40, description="Only this job's or task's (`12`, `12.3`).")] = ""
    host: Annotated[str, Field(max_length=300, description="Only this host's, or this worker's, by its id.")] = ""
    since: Annotated[str, Field(max_length=40, description="Seconds to look back.")] = ""
    after: Annotated[str, Field(max_length=40, description="Only events of a greater number.")] = ""
    last: Annotated[str, Field(max_length=40, description="How many of the newest to return, at most 1,000.")] = "100"


class Passes(_Question):
    """The sentences of the last passes that had news."""

    last: Annotated[str, Field(max_length=40, description="How many of the newest to return, at most 200.")] = "20"


class Decisions(_Question):
    """Passes that changed something or had news, newest first, with the reasons of their actions and what was
    considered for launches.
    """

    kind: Annotated[str, Field(max_length=40, description="Only passes with such an action: launch, disable, …")] = ""
    since: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = ""
    until: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = ""
    before: Annotated[str, Field(max_length=20, description="Only rows of a lower number: the next page.")] = ""
    last: Annotated[str, Field(max_length=20, description="How many to return, at most 200.")] = "50"


class Lanes(_Question):
    """Each worker of a period from its order to its end, and when it had jobs; the latest first."""

    since: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = "6h"
    until: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = ""
    search: Annotated[str, Field(max_length=100, description="A part of a name, id, type or node array.")] = ""
    first: Annotated[str, Field(max_length=20, description="How many workers to leave out.")] = "0"
    last: Annotated[str, Field(max_length=20, description="How many workers to return, at most 200.")] = "50"


class _Table(BaseModel):
    form: Annotated[
        Literal["document", "text", "csv"], Field(description="`csv`: the document is a text of lines.")
    ] = "document"


class History(_Table):
    """Jobs, workers and cost, period by period."""

    since: Annotated[float, Field(description="Seconds to look back.")] = 3600.0
    step: Annotated[float | None, Field(description="Seconds of a period.")] = None
    array: Annotated[str, Field(max_length=300, description="Only this node array's workers.")] = ""


class Cost(_Table):
    """The cost of workers, and for whom; an estimate."""

    by: Annotated[str, Field(max_length=20, description="user, group, department, project, …")] = "user"
    month: Annotated[str, Field(max_length=10, description="`2026-11`; without it and `since`, this month.")] = ""
    since: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = ""
    until: Annotated[str, Field(max_length=40, description="A date, or a length of time to look back.")] = ""
    first: Annotated[str, Field(max_length=20, description="How many rows of each currency to leave out.")] = "0"
    last: Annotated[str, Field(max_length=20, description="How many rows of each to return; empty: all.")] = ""


QUESTIONS: tuple[type[BaseModel], ...] = (
    *(Status, Jobs, Queue, Waiting, Workers, Explain),
    *(History, Events, Passes, Decisions, Lanes, Cost),
)
"""The path of each is its name in lower case; its fields are the query parameters."""


def _serve(question: type[BaseModel]) -> None:
    name = question.__name__.lower()

    # FastAPI checks the query here. The function that answers reads it, since commands call it as well.
    def route(request: Request, by: By, query: BaseModel) -> Response:
        return _answer(request, name, by)

    route.__name__, route.__doc__ = name, question.__doc__
    route.__annotations__ = {"request": Request, "by": By, "query": Annotated[question, Query()]}
    known = Depends(known_only(*question.model_fields))
    answers.get(f"/{name}", dependencies=[known], responses=_RESPONSES, response_class=Response)(route)


for _each in QUESTIONS:
    _serve(_each)
