"""Renders the templates. Everything that comes from outside is text: escaped, and without control characters.

Links are relative, so that the page works below any path of a proxy. They carry what is shown: filter, time and zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, available_timezones

import jinja2
from markupsafe import Markup, escape

from autoscaler.plain_text import plain
from autoscaler.report.wording import count, duration, number, workers_of

NAVIGATION = (
    ("./", "Overview"),
    ("jobs", "Jobs"),
    ("workers", "Workers"),
    ("decisions", "Decisions"),
    ("cost", "Cost"),
    ("actions", "Actions"),
)
"""Path and name of each view, in the order of the page."""
_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b")
CELL_ZONE = "cell"
"""Value of `zone` in links: the zone of the autoscaler's machine. Without any, scripts show the reader's."""


@dataclass(frozen=True, slots=True)
class Zone:
    """The zone in which times are shown. `chosen`: as links name it; '': the reader's."""

    chosen: str
    at: tzinfo | None
    """None: that of this machine."""
    problem: str = ""
    """What is wrong with the name that a link has; '' if it holds."""

    def text(self, at: datetime, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        local = at.astimezone(self.at)
        return f"{local.strftime(form)} {local.tzname()}"


def zone_of(name: str) -> Zone:
    """The zone that a link names; an unknown one is that of the cell."""
    if name in ("", CELL_ZONE):
        return Zone(name, None)
    try:
        known = _zones().get(name.lower(), name)
        return Zone(known, UTC if known == "UTC" else ZoneInfo(known))
    except (ValueError, OSError, KeyError):  # the last is what zoneinfo raises for a name that it does not know
        problem = f"zone: {name[:60]} is not known here: write one as Europe/Berlin or UTC, or {CELL_ZONE}"
        return Zone(CELL_ZONE, None, problem)


@cache
def _zones() -> Mapping[str, str]:
    """The names of zones by their lower case."""
    return {name.lower(): name for name in available_timezones()} | {"utc": "UTC"}


def link(path: str, **query: object) -> str:
    """A link to a view with what it shows; what is empty is left out."""
    kept = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(kept)}" if kept else path


def render(template: str, zone: Zone, /, **values: Any) -> str:
    """A whole page."""

    def to(path: str, **query: object) -> str:
        return link(path, **{"zone": zone.chosen, **query})

    def moment(at: str | None, *, form: str = "%Y-%m-%d %H:%M:%S") -> Markup:
        return _moment(at, zone, form)

    return (
        _environment().get_template(template).render(**values, link=to, moment=moment, zone=zone, navigation=NAVIGATION)
    )


def _moment(at: str | None, zone: Zone, form: str) -> Markup:
    """A time as an element that a script may show in the reader's zone; its title names the cell's."""
    if at is None:
        return Markup("–")
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        return escape(plain(at))
    title = zone_of(CELL_ZONE).text(when)
    local = Markup("") if zone.chosen else Markup(" data-local")
    return Markup('<time datetime="{}" title="{} in the zone of the cell"{}>{}</time>').format(
        when.isoformat(timespec="seconds"), title, local, zone.text(when, form)
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autoscaler.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_as_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "coded": _coded,
        "duration": duration,
        "number": number,
        "plain": plain,
        "money": _money,
        "hourly": _hourly,
        "hours": _hours,
        "link_to": _link_to,
    }
    environment.globals["count"] = count
    environment.globals["workers_of"] = workers_of
    return environment


def _as_text(value: Any) -> Any:
    """What an expression of a template shows: no control character of anybody's text."""
    if value is None:
        return "–"
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@jinja2.pass_context
def _coded(context: jinja2.runtime.Context, text: str) -> Markup:
    """A text of ours, with what stands between backticks as code, and times in the zone in which times are shown."""
    parts, zone = plain(text).split("`"), context["zone"]
    if len(parts) % 2 == 0:  # a backtick of somebody else's
        parts = [plain(text)]
    marked = (Markup("<code>{}</code>").format(part) if at % 2 else _timed(part, zone) for at, part in enumerate(parts))
    return Markup("").join(marked)


def _timed(text: str, zone: Zone) -> Markup:
    """A text with the times that sentences have (`report.wording.instant`) as elements that a script may show in the
    reader's zone.
    """
    parts = _INSTANT.split(text)
    return Markup("").join(
        _moment(f"{part}+00:00", zone, "%Y-%m-%d %H:%M:%S") if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def _money(value: float | None) -> str:
    """Two decimals, or as many as a small amount needs."""
    if value is None:
        return "–"
    return f"{value:,.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.4f}"


def _hourly(value: float | None) -> str:
    """A price an hour: three decimals, as commands show it."""
    return "–" if value is None else f"{value:,.3f}"


def _hours(value: float) -> str:
    """Two decimals, in every row of a column."""
    return "< 0.01" if 0 < value < 0.005 else f"{value:,.2f}"


def _link_to(query: Mapping[str, Any], path: str) -> str:
    return link(path, **query)
