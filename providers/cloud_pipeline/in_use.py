"""The tag by which the platform's people see that a run is in use, as its own autoscaler sets it."""

from __future__ import annotations

import re

from autoscaler.providers.cloud_pipeline.api import Api, NotKnown, as_record, run_path

IN_USE = "SGE_IN_USE"
_HOST = re.compile(r"pipeline-(\d+)")
"""Host names of runs: those of static workers tell the run."""


def run_of_host(name: str) -> str:
    """The run whose host has this name; '' if it is none."""
    match = _HOST.fullmatch(name)
    return match[1] if match else ""


def show_use(api: Api, run_id: str, *, in_use: bool) -> None:
    """Set or take away the tag. Setting adds it to whatever is there by then. The platform has no call that takes one
    tag away: all are read and written again without it, one right after the other, and only where it is there.
    """
    path = run_path(run_id, "tag")
    try:
        if in_use:
            api.post(path, {"tags": {IN_USE: "true"}}, params={"overwrite": "false"}, repeat=True)
            return
        run = run_path(run_id)
        tags = as_record(as_record(api.get(run), run).get("tags") or {}, f"the tags of {run}")
        if IN_USE in tags:
            api.post(path, {"tags": {name: value for name, value in tags.items() if name != IN_USE}}, repeat=False)
    except NotKnown:
        return
