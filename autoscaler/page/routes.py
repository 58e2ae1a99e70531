"""The routes of the page, at the TCP address only: views, login, and the files that it loads.

What they answer is for a browser: a strict policy of content, no frame, nothing kept by caches.
"""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Annotated, Any, cast
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.background import BackgroundTask

from autoscaler.api.answers import TOO_OFTEN
from autoscaler.api.app import Room
from autoscaler.api.dependencies import FORM, USER, api_of
from autoscaler.api.gate import PAGE
from autoscaler.api.listeners import TCP, served_at
from autoscaler.api.logins import LoginRefused
from autoscaler.api.operations import Operations
from autoscaler.api.override_routes import still_asked
from autoscaler.page import views
from autoscaler.page.feed import Feed, TooManyStreams
from autoscaler.page.reader import Reader, Unavailable
from autoscaler.page.rendering import render, zone_of
from autoscaler.page.viewer import NotLoggedIn, Viewers
from autoscaler.page.views.actions import act, refused
from autoscaler.page.views.looking import Looking, Shown

LARGEST_FORM = 16 * 1024
_OF_ACTION = ("verb", "host", "undo")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
page = APIRouter(prefix=PAGE.rstrip("/"), route_class=served_at(TCP), include_in_schema=False)
root = APIRouter(route_class=served_at(TCP), include_in_schema=False)


@dataclass(slots=True)
class Page:
    """The parts of the page of one cell."""

    title: str
    """The cell, as people know it."""
    viewers: Viewers
    reader: Reader
    operations: Operations
    feed: Feed = field(default_factory=Feed)
    version: str = "0"
    limit_after: float = 1800.0
    """Seconds after which a cap that keeps all jobs waiting needs a person, as in notifications."""


def with_page(made: Page) -> Room:
    """What adds the page to an application."""

    def add(app: FastAPI) -> None:
        app.state.page = made
        app.include_router(root)
        app.include_router(page)

    return add


def page_of(request: Request) -> Page:
    return cast("Page", request.app.state.page)


@root.get("/")
def to_the_page() -> Response:
    return RedirectResponse("page/", 307, HEADERS)


@page.get("")
def with_a_slash() -> Response:
    return RedirectResponse("page/", 307, HEADERS)


# -- files -------------------------------------------------------------------------------------------------------------


@cache
def _files() -> Mapping[str, bytes]:
    """The files that a page may load, by name: read once, so that no path of a caller's is ever opened."""
    folder = resources.files("autoscaler.page") / "static"
    found: dict[str, bytes] = {}
    for place, prefix in ((folder, ""), (folder / "vendored", "vendored/")):
        if place.is_dir():
            found |= {f"{prefix}{each.name}": each.read_bytes() for each in place.iterdir() if each.is_file()}
    return found


@page.get("/static/{name:path}")
def file(name: str) -> Response:
    body = _files().get(name)
    if body is None:
        return Response("there is no such file", 404, HEADERS, "text/plain")
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return Response(body, 200, HEADERS | {"Cache-Control": "private, max-age=3600"}, kind)


# -- views -------------------------------------------------------------------------------------------------------------


def _html(request: Request, shown: Shown, looking: Looking | None, status: int | None = None) -> Response:
    made, zone = page_of(request), zone_of(request.query_params.get("zone", ""))
    values: dict[str, Any] = {
        "cell": made.title,
        "version": made.version,
        "viewer": looking.viewer if looking else None,
        "reading": looking.reading if looking else None,
        "path": shown.path,
        "here": _here(request),
        "live": shown.live,
        "mark": looking.mark if looking else "",
        "title": shown.title,
        "problems": [each for each in (zone.problem, *(looking.problems if looking else ())) if each],
        **shown.values,
    }
    return HTMLResponse(render(shown.template, zone, **values), status or shown.status, HEADERS)


def _here(request: Request) -> str:
    """This view as a link, with what it shows."""
    query = request.url.query
    return (request.url.path.rpartition("/")[2] or "./") + (f"?{query}" if query else "")


def _show(view: Callable[[Looking], Shown | Response]) -> Callable[[Request], Response]:
    def route(request: Request) -> Response:
        made = page_of(request)
        try:
            viewer = made.viewers.viewer(request)
        except NotLoggedIn as error:
            return _to_login(request, error)
        looking = Looking(
            viewer, made.reader, made.operations, dict(request.query_params), made.limit_after, made.feed.mark
        )
        try:
            shown = view(looking)
        except Unavailable as error:
            shown = Shown("trouble.html", "No answer", "", {"text": error.text, "status": error.status}, error.status)
        return shown if isinstance(shown, Response) else _html(request, shown, looking)

    return route


def _to_login(request: Request, error: NotLoggedIn) -> Response:
    """A browser goes to the login and comes back; a script of an open page learns that the session has ended."""
    if request.headers.get("HX-Request") or "text/event-stream" in request.headers.get("Accept", ""):
        return Response("log in again", 401, HEADERS, "text/plain")
    values = {"next": _here(request), "wrong": "", "expired": error.expired}
    return _html(request, Shown("login.html", "Log in", "", values, status=401, live=False), None)


for _path, _view in views.VIEWS.items():
    page.get(f"/{_path}")(_show(_view))


@page.get("/alive")
def alive(request: Request) -> Response:
    """Whether the autoscaler answers now, as open pages ask: 503 with the reason if it does not, and 504 if it answers
    but makes no passes any more.
    """
    made = page_of(request)
    try:
        viewer = made.viewers.viewer(request)
        reading = made.reader.read("passes", viewer.asker, {"last": "1"}, made.feed.mark)
    except NotLoggedIn as error:
        return _to_login(request, error)
    except Unavailable as error:
        answers = error.status < HTTPStatus.INTERNAL_SERVER_ERROR
        return Response("" if answers else error.text, 200 if answers else 503, HEADERS, "text/plain")
    status = 503 if reading.stored else 504 if reading.late else 200
    return Response("" if status == HTTPStatus.OK else reading.trouble, status, HEADERS, "text/plain")


# -- news --------------------------------------------------------------------------------------------------------------


@page.get("/stream")
async def stream(request: Request, seen: str = "") -> Response:
    """Server-sent events: `pass` whenever there is news, `expired` once the session has ended."""
    made = page_of(request)
    try:
        await asyncio.to_thread(made.viewers.viewer, request)
    except NotLoggedIn as error:
        return _to_login(request, error)
    name = str(request.scope[USER])

    def holds() -> bool:
        try:
            return made.viewers.viewer(request).name == name
        except NotLoggedIn:
            return False

    place = contextlib.ExitStack()
    try:
        event = place.enter_context(made.feed.place(name))
    except TooManyStreams:
        return Response("too many pages are open", 503, HEADERS | {"Retry-After": "10"}, "text/plain")

    async def events() -> AsyncIterator[ServerSentEvent]:
        with place:
            async for mark in made.feed.marks(event, request.headers.get("Last-Event-ID") or seen, holds):
                yield ServerSentEvent(mark, event="pass" if mark else "expired", id=mark or None)

    async def leave() -> None:
        place.close()  # if the caller had gone before the first event

    return EventSourceResponse(events(), headers=HEADERS, ping=15, background=BackgroundTask(leave))


# -- login -------------------------------------------------------------------------------------------------------------


async def form_of(request: Request) -> dict[str, str]:
    """A form's fields. What is too large is read no further."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_FORM:
            return {}
    try:
        fields = parse_qs(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:  # more fields than any form here has
        return {}
    return {name: values[0] for name, values in fields.items()}


Form = Annotated[dict[str, str], Depends(form_of)]


async def asked_form(request: Request, form: Form) -> dict[str, str]:
    """The form of somebody who still waits for the answer. Raises HTTPException."""
    await still_asked(request)
    return form


Asked = Annotated[dict[str, str], Depends(asked_form)]


def from_this_page(request: Request) -> bool:
    """Whether a browser says that a form is of this page; the gate has refused those of other sites."""
    return "Origin" in request.headers or request.headers.get("Sec-Fetch-Site") == "same-origin"


@page.post("/login")
def log_in(request: Request, form: Form) -> Response:
    made, target = page_of(request), own_target(form.get("next", ""))
    response = RedirectResponse(target, 303, HEADERS)
    try:
        if not from_this_page(request):
            raise LoginRefused(403, "this form is not from this page")
        made.viewers.log_in(request, response, form.get("user", ""), form.get("password", ""))
    except LoginRefused as error:
        text = "user or password is wrong" if error.status == 401 else error.text
        values = {"next": target, "wrong": text, "expired": False}
        status = 401 if error.status == 401 else error.status
        return _html(request, Shown("login.html", "Log in", "", values, live=False), None, status)
    return response


@page.get("/login")
def login_form(request: Request) -> Response:
    target = own_target(request.query_params.get("next", ""))
    expired = request.query_params.get("expired") == "1"
    values = {"next": target, "wrong": "", "expired": expired}
    return _html(request, Shown("login.html", "Log in", "", values, live=False), None)


@page.post("/logout")
def log_out(request: Request) -> Response:
    response = RedirectResponse("login", 303, HEADERS)
    if from_this_page(request):
        page_of(request).viewers.log_out(request, response)
    return response


@page.post("/act")
def carry_out(request: Request, form: Asked) -> Response:
    """Carry out what a question asked."""
    made = page_of(request)
    try:
        viewer = made.viewers.viewer(request)
    except NotLoggedIn as error:
        return _to_login(request, error)
    request.scope[FORM] = urlencode({name: value for name, value in form.items() if name in _OF_ACTION})
    looking = Looking(viewer, made.reader, made.operations, {}, made.limit_after, made.feed.mark)
    if not from_this_page(request):
        shown = Shown("trouble.html", "Not done", "actions", {"text": "this form is not from this page"}, 403)
    elif not viewer.acts():
        shown = refused(looking)
    elif not api_of(request).acts.take(viewer.name):
        shown = Shown("trouble.html", "Not done", "actions", {"text": TOO_OFTEN}, 429, live=False)
    else:
        shown = act(looking, form)
    return _html(request, shown, looking)


def own_target(text: str) -> str:
    """Where a login leads: a view of this page, never another site."""
    name = text.partition("?")[0]
    return text if text and name in views.LINKED and text.isprintable() and "\\" not in text else "./"
