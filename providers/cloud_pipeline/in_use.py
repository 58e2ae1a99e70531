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
    """Set or take away the tag, whatever other tags there are by then: the platform merges this one into them itself.
    A tag without a value is none: its server keeps no such entry (api/…/dao/pipeline/PipelineRunDao.java stores tags by
    config/JsonMapper.java, which leaves empty values out).
    """
    path = run_path(run_id, "tag")
    try:
        body = {"tags": {IN_USE: "true" if in_use else None}}
        answer = api.post(path, body, params={"overwrite": "false"}, repeat=True)
        left = as_record(as_record(answer or {}, path).get("tags") or {}, f"the tags of run {run_id}")
        if not in_use and left.get(IN_USE):
            _rewrite(api, run_id)
    except NotKnown:
        return


def _rewrite(api: Api, run_id: str) -> None:
    """Read all tags, and write them again without ours: for a server that keeps a tag without a value."""
    run = run_path(run_id)
    tags = as_record(as_record(api.get(run), run).get("tags") or {}, f"the tags of {run}")
    others = {name: value for name, value in tags.items() if name != IN_USE}
    api.post(run_path(run_id, "tag"), {"tags": others}, repeat=False)
