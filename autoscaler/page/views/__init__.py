"""The views, one file each: from the query and the answers to the values of a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi.responses import Response

from autoscaler.page.rendering import NAVIGATION
from autoscaler.page.views.jobs import jobs
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.page.views.overview import overview
from autoscaler.page.views.workers import workers

View = Callable[[Looking], Shown | Response]
VIEWS: Mapping[str, View] = {"": overview, "jobs": jobs, "workers": workers}
"""By path. To add a view: a file here, its template, and its row in `rendering.NAVIGATION`."""
LINKED = (*NAVIGATION, *((path, path) for path in VIEWS))
"""Paths to which a login may lead."""
