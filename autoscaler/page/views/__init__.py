"""The views, one file each: from the query and the answers to the values of a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi.responses import Response

from autoscaler.page.rendering import NAVIGATION
from autoscaler.page.views.actions import actions, question
from autoscaler.page.views.cost import cost, cost_csv
from autoscaler.page.views.decisions import decisions
from autoscaler.page.views.jobs import jobs
from autoscaler.page.views.lanes import lanes
from autoscaler.page.views.looking import Looking, Shown
from autoscaler.page.views.overview import overview
from autoscaler.page.views.story import story
from autoscaler.page.views.workers import workers

View = Callable[[Looking], Shown | Response]
VIEWS: Mapping[str, View] = {
    "": overview,
    "jobs": jobs,
    "job": story,
    "workers": workers,
    "lanes": lanes,
    "worker": story,
    "decisions": decisions,
    "cost": cost,
    "cost.csv": cost_csv,
    "actions": actions,
    "act": question,
}
"""By path. To add a view: a file here, its template, and its row in `rendering.NAVIGATION`."""
LINKED = frozenset((*VIEWS, *(path for path, _ in NAVIGATION)))
"""Paths to which a login may lead."""
