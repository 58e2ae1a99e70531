"""What the server reads out of a body, and what our provider has to write into one.

The server reads by the fields of its own classes (api/…/app/AppMVCConfiguration.java, config/JsonMapper.java): a field
that the class does not have is an error, a number may be text, and what is missing is empty. `read` does that, and so
serves the platform's own clients. Besides, it tells `note` what a provider of ours may not do: leave out a field, or
write a value as another type. Tests of the provider fail on each note.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from tests.clouds.cloud_pipeline.platform import DATE, Refusal

Types = tuple[type, ...]
Note = Callable[[str], None]
TEXT, NUMBER, FLAG, TABLE, LIST, MAYBE_NUMBER = (str,), (int,), (bool,), (dict,), (list,), (int, NoneType)


@dataclass(frozen=True, slots=True)
class Form:
    """One class of the server."""

    name: str
    written: Mapping[str, Types]
    """What our provider writes, each time."""
    more: str = ""
    """Further fields."""
    dates: Collection[str] = ()


LAUNCH = Form(  # core/…/entity/pipeline/run/PipelineStart.java
    "PipelineStart",
    {
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
    },
    "pipelineId version instanceImage useRunId parentNodeId configurationName workerCmd podAssignPolicy runSids force "
    "executionEnvironment prettyUrl nonPause runAs notifications kubeLabels kubeServiceAccount",
)
PARAMETER = Form(  # core/…/entity/configuration/PipeConfValueVO.java
    "PipeConfValueVO",
    {"value": TEXT, "type": TEXT, "required": FLAG},
    "pretty_name icon section no_override enum validation visible description",
)
STATUS = Form("RunStatusVO", {"status": TEXT, "endDate": TEXT}, dates=("endDate",))
LOG = Form(  # core/…/entity/pipeline/RunLog.java
    "RunLog",
    {"runId": NUMBER, "date": TEXT, "status": TEXT, "logText": TEXT, "taskName": TEXT},
    "instance task",
    ("date",),
)
TAGS = Form("TagsVO", {"tags": TABLE})
PRICE = Form(
    "InstanceOfferParametersVO", {"instanceType": TEXT, "instanceDisk": NUMBER, "spot": FLAG, "regionId": NUMBER}
)
FILTER = Form(  # api/…/controller/vo/PagingRunFilterVO.java, PipelineRunFilterVO.java
    "PagingRunFilterVO",
    {"page": NUMBER, "pageSize": NUMBER, "parentId": NUMBER, "partialParameters": TEXT},
    "regionIds pipelineIds versions statuses startDateFrom endDateTo owners roles ownershipFilter entitiesIds "
    "configurationIds projectIds dockerImages prettyUrl instanceTypes userModified eagerGrouping masterRun workerRun "
    "tags",
    ("startDateFrom", "endDateTo"),
)
PARAMETER_TYPES = frozenset({"string", "boolean", "int", "path", "input", "output", "common"})
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


def read_launch(body: Any, note: Note) -> dict[str, Any]:
    asked = read(body, LAUNCH, note)
    for name, text in (("instanceType", "instance_type"), ("hddSize", "instance_disk")):
        if asked.get(name) is None:  # manager/pipeline/PipelineRunManager.java: runCmd
            raise Refusal(f"Settings '{text}' is not provided")
    if asked.get("nodeCount"):
        note("nodeCount makes a cluster, no worker")
    params = {name: read(one, PARAMETER, note) for name, one in (asked.get("params") or {}).items()}
    for name, one in params.items():
        if one.get("type") not in PARAMETER_TYPES:
            note(f"{name} has no known type: {one.get('type')}")
    values = {name: one.get("value") for name, one in params.items()}
    wrong = {name for name, value in WORKER.items() if values.get(name) != value}
    wrong |= {name for name in ("CP_CAP_SGE_QUEUE_NAME", "CP_CAP_SGE_HOSTLIST_NAME") if not values.get(name)}
    if wrong:
        note(f"a worker must be told {', '.join(sorted(wrong))}")
    if asked["hddSize"] <= 0:
        note("hddSize must be above 0")
    return {**asked, "params": params, "tags": texts(asked.get("tags"))}


def read_filter(body: Any, note: Note) -> dict[str, Any]:
    asked = read(body, FILTER, note)
    if asked["page"] < 1 or not 1 <= asked["pageSize"] <= 1000:
        raise Refusal("page and pageSize start at 1; pageSize is at most 1000")
    if unknown := set(asked.get("statuses") or ()) - TASK_STATUSES:
        raise Refusal(f"no TaskStatus: {', '.join(sorted(unknown))}")
    return asked


def read_status(body: Any, note: Note) -> str:
    asked = read(body, STATUS, note)
    if asked.get("status") not in TASK_STATUSES:
        raise Refusal(f"no TaskStatus: {asked.get('status')}")
    if asked["status"] != "STOPPED":
        note(f"only STOPPED is asked for here, not {asked['status']}")
    return str(asked["status"])


def read_log(body: Any, note: Note) -> dict[str, Any]:
    asked = read(body, LOG, note)
    for name in ("runId", "date", "status"):  # manager/pipeline/RunLogManager.java: saveLog
        if asked.get(name) is None:
            raise Refusal(f"Parameter '{name}' of RunLog is required")
    if asked["status"] not in TASK_STATUSES:
        raise Refusal(f"no TaskStatus: {asked['status']}")
    return asked


def read(body: Any, form: Form, note: Note) -> dict[str, Any]:
    """The body as the server has it: an object with fields of `form` and none but them."""
    if not isinstance(body, dict):
        raise Refusal(f"Could not read document: cannot deserialize {form.name} out of {type(body).__name__}")
    if unknown := [name for name in body if name not in form.written and name not in form.more.split()]:
        raise Refusal(f'Could not read document: Unrecognized field "{unknown[0]}" (class {form.name})')
    if missing := form.written.keys() - body.keys():
        note(f"{form.name} without {', '.join(sorted(missing))}")
    values = {name: _value(name, value, form, note) for name, value in body.items()}
    for name in form.dates:
        if values.get(name) is not None:
            date(values[name])
    return values


def _value(name: str, value: Any, form: Form, note: Note) -> Any:
    """A value as its field has it: Jackson makes numbers and flags of text."""
    wanted = form.written.get(name, (object,))
    if object in wanted or type(value) in wanted:
        return value
    note(f"{form.name}.{name} = {value!r} is of another type")
    if value is None:
        return None
    with contextlib.suppress(KeyError, ValueError, TypeError):
        if bool in wanted:
            return {"true": True, "false": False}[str(value).lower()]
        if int in wanted:
            return int(value)
        if str in wanted:
            return str(value)
    raise Refusal(f"Could not read document: cannot deserialize {form.name}.{name} out of {value!r}")


def texts(table: Any) -> dict[str, str | None]:
    """A map of text to text, as Java has it: a value may be null."""
    if not isinstance(table, dict | NoneType):
        raise Refusal("Could not read document: no map")
    return {name: None if value is None else str(value) for name, value in (table or {}).items()}


def date(text: str) -> None:
    """A date in the only form that the server reads (config/Constants.java: FMT_ISO_LOCAL_DATE). Of more than three
    digits it makes that many milliseconds, as SimpleDateFormat does.
    """
    try:
        datetime.strptime(text, DATE).replace(tzinfo=UTC)
    except (ValueError, TypeError):
        raise Refusal(f"Could not read document: cannot parse date {text!r}: not of the form {DATE}") from None
