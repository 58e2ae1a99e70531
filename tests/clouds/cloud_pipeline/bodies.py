"""What the platform takes: the fields of every body and query, none missing, none unknown, each of its type.

The published API ignores what it does not know. Here it is refused, so that a misspelt field cannot pass unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from tests.clouds.cloud_pipeline.platform import DATE

Types = tuple[type, ...]
Fields = Mapping[str, Types]
TEXT, NUMBER, FLAG, TABLE, LIST, MAYBE_NUMBER = (str,), (int,), (bool,), (dict,), (list,), (int, NoneType)

LAUNCH: Fields = {
    "instanceType": TEXT,
    "hddSize": NUMBER,
    "dockerImage": TEXT,
    "cmdTemplate": TEXT,
    "nodeCount": MAYBE_NUMBER,
    "isSpot": FLAG,
    "cloudRegionId": NUMBER,
    "parentRunId": NUMBER,
    "timeout": MAYBE_NUMBER,
    "params": TABLE,
    "tags": TABLE,
}
PARAMETER: Fields = {"value": TEXT, "type": TEXT, "required": FLAG}
PARAMETER_TYPES = frozenset({"string", "boolean", "int", "path", "input", "output", "common"})
STATUS: Fields = {"status": TEXT, "endDate": TEXT}
LOG: Fields = {"runId": NUMBER, "date": TEXT, "status": TEXT, "logText": TEXT, "taskName": TEXT}
TAGS: Fields = {"tags": TABLE}
PRICE: Fields = {"instanceType": TEXT, "instanceDisk": NUMBER, "spot": FLAG, "regionId": NUMBER}
FILTER: Fields = {"page": NUMBER, "pageSize": NUMBER, "parentId": NUMBER, "partialParameters": TEXT}
FILTER_MORE: Fields = {"statuses": LIST}
WORKER = {
    "CP_CAP_SGE": "false",
    "CP_CAP_AUTOSCALE": "false",
    "CP_CAP_AUTOSCALE_WORKERS": "0",
    "CP_DISABLE_RUN_ENDPOINTS": "true",
    "cluster_role": "worker",
    "cluster_role_type": "additional",
}
"""What keeps a worker from becoming a master: a launch without it would start an autoscaler of its own."""
TASK_STATUSES = frozenset({"SUCCESS", "FAILURE", "RUNNING", "STOPPED", "PAUSED", "PAUSING", "RESUMING"})


class Malformed(Exception):
    """The request is not what this API takes."""


def check_launch(body: Any) -> dict[str, Any]:
    asked = fields(body, LAUNCH)
    if asked["nodeCount"]:
        raise Malformed("nodeCount makes a cluster, no worker")
    for name, parameter in asked["params"].items():
        if fields(parameter, PARAMETER)["type"] not in PARAMETER_TYPES:
            raise Malformed(f"{name} has no known type: {parameter['type']}")
    values = {name: parameter["value"] for name, parameter in asked["params"].items()}
    wrong = {name for name, value in WORKER.items() if values.get(name) != value}
    wrong |= {name for name in ("CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME") if not values.get(name)}
    if wrong:
        raise Malformed(f"a worker must be told {', '.join(sorted(wrong))}")
    texts(asked["tags"])
    if asked["hddSize"] <= 0:
        raise Malformed("hddSize must be above 0")
    return asked


def check_filter(body: Any) -> dict[str, Any]:
    asked = fields(body, FILTER, FILTER_MORE)
    if asked["page"] < 1 or not 1 <= asked["pageSize"] <= 1000:
        raise Malformed("page and pageSize start at 1; pageSize is at most 1000")
    if unknown := set(asked.get("statuses", ())) - TASK_STATUSES:
        raise Malformed(f"no status: {unknown}")
    return asked


def check_status(body: Any) -> str:
    asked = fields(body, STATUS)
    date(asked["endDate"])
    if asked["status"] != "STOPPED":
        raise Malformed(f"only STOPPED is asked for here, not {asked['status']}")
    return str(asked["status"])


def check_log(body: Any, run: int) -> dict[str, Any]:
    asked = fields(body, LOG)
    date(asked["date"])
    if asked["runId"] != run or asked["status"] not in TASK_STATUSES:
        raise Malformed("a line of the log is of the run in the path, with a status of a task")
    return asked


def fields(body: Any, required: Fields, more: Fields | None = None) -> dict[str, Any]:
    """The body as an object with all `required` fields and none but them and `more`."""
    known = {**required, **(more or {})}
    if not isinstance(body, dict):
        raise Malformed(f"{type(body).__name__} where an object belongs")
    if missing := required.keys() - body.keys():
        raise Malformed(f"missing: {', '.join(sorted(missing))}")
    if unknown := body.keys() - known.keys():
        raise Malformed(f"unknown: {', '.join(sorted(unknown))}")
    for name, value in body.items():
        if type(value) not in known[name]:
            raise Malformed(f"{name} = {value!r} is of the wrong type")
    return body


def texts(table: Any) -> dict[str, str]:
    """A map of text to text."""
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise Malformed("a map of text to text is wanted")
    return table


def date(text: str) -> None:
    try:
        datetime.strptime(text, DATE).replace(tzinfo=UTC)
    except ValueError as error:
        raise Malformed(f"{text} is no date: {DATE}") from error
