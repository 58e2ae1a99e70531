"""A worker is a *run* of the platform whose parent is the master run: its record as our values.

Its owner and its order are in the run's parameters: they are part of the call that creates it and nobody can change
them afterwards, while anybody who sees the run can edit its tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from autoscaler.core.model.fleet import Ending, FailureKind, InstanceType, MachineState, PriceType, Worker
from autoscaler.providers.cloud_pipeline.api import as_record, as_records, is_capacity, is_interruption, unix_time
from autoscaler.providers.interface import Unreachable

CELL = "SGE_AUTOSCALER_CELL"
ORDER = "SGE_AUTOSCALER_ORDER"
TOKEN = "SGE_AUTOSCALER_TOKEN"
INDEX = "SGE_AUTOSCALER_INDEX"
"""The worker's number among those of one token, from 0."""
NODE_ARRAY = "SGE_AUTOSCALER_NODE_ARRAY"
GROUP = "SGE_AUTOSCALER_GROUP"
BOOT = "SGE_AUTOSCALER_BOOT"
"""The order's boot script, compressed and in base64. It holds a secret, and is never read back."""

MARKS = (CELL, ORDER, TOKEN, INDEX, NODE_ARRAY, GROUP)
PARAMETER_TYPES = frozenset({"string", "boolean", "int", "path", "input", "output", "common"})
_SPLITS = re.compile(r"[|=%]")

LIVING = ("RUNNING", "PAUSING", "PAUSED", "RESUMING")
ENDED = ("SUCCESS", "FAILURE", "STOPPED")
_SET_ASIDE: Mapping[str, str] = MappingProxyType(
    {
        "PAUSING": "its run is being paused",
        "PAUSED": "its run is paused: `pipe resume`, or stop it, at the platform",
        "RESUMING": "its run is being resumed",
    }
)


@dataclass(frozen=True, slots=True)
class Run:
    """The relevant part of one run's record."""

    id: str
    status: str
    parameters: Mapping[str, str]
    created_at: float
    """Unix seconds."""
    ended_at: float | None
    pod: str | None
    """Its host name."""
    address: str | None
    initialized: bool
    node_type: str
    spot: bool
    price_per_hour: float | None
    parent: int | None
    reason: str
    """Why it is in its state, in the platform's words; '' if it gives none."""

    @property
    def cell(self) -> str | None:
        return self.mark(CELL)

    def mark(self, name: str) -> str | None:
        """One of `MARKS` as the creating call meant it."""
        value = self.parameters.get(name)
        return None if value is None else unquote(value)

    @property
    def is_final(self) -> bool:
        return self.status in ENDED

    @property
    def index(self) -> int:
        """-1: unknown."""
        text = self.mark(INDEX) or ""
        return int(text) if text.isdecimal() else -1


def run_from(record: Mapping[str, Any]) -> Run:
    """Read a run's record. Raises Unreachable if it lacks a field that every run has."""
    what = f"the record of run {record.get('id')}"
    run_id, status = record.get("id"), record.get("status")
    if not isinstance(run_id, int) or isinstance(run_id, bool) or not isinstance(status, str):
        raise Unreachable(f"{what} has no id or no status")
    if status not in (*LIVING, *ENDED):
        raise Unreachable(f"{what} has the unknown status {status}")
    instance = as_record(record.get("instance") or {}, what)
    price, ended = record.get("pricePerHour"), record.get("endDate")
    return Run(
        id=str(run_id),
        status=status,
        parameters=parameters_of(record),
        created_at=unix_time(record.get("createdDate") or record.get("startDate"), what),
        ended_at=unix_time(ended, what) if ended else None,
        pod=str(record["podId"]).lower() if record.get("podId") else None,
        address=record.get("podIP") or None,
        initialized=record.get("initialized") is True,
        node_type=str(instance.get("nodeType") or ""),
        spot=instance.get("spot") is True,
        price_per_hour=float(price) if isinstance(price, int | float) and not isinstance(price, bool) else None,
        parent=parent if isinstance(parent := record.get("parentRunId"), int) else None,
        reason=" ".join(str(record.get("stateReasonMessage") or "").split()),
    )


def taken_over(run: Run, cell: str, arrays: Mapping[str, str]) -> Run:
    """A worker that the platform's own autoscaler launched for a queue in `arrays`, as one of ours. Any other run stays
    as it is.
    """
    array = arrays.get(run.parameters.get("CP_CAP_SGE_QUEUE_NAME", ""))
    if array is None or not of_platform(run):
        return run
    return replace(run, parameters={**run.parameters, CELL: cell, NODE_ARRAY: array})


def of_platform(run: Run) -> bool:
    """Whether the platform's own autoscaler launched it: it is an additional worker, and has no mark of a cell of ours.
    Static workers have another role.
    """
    given = run.parameters
    return CELL not in given and (given.get("cluster_role"), given.get("cluster_role_type")) == ("worker", "additional")


def encoded(value: str) -> str:
    """A mark without the characters at which the platform splits its text of all parameters."""
    return _SPLITS.sub(lambda found: f"%{ord(found[0]):02X}", value)


def parameters_of(record: Mapping[str, Any]) -> dict[str, str]:
    """A run's parameters, resolved as far as the platform does that."""
    what = f"the parameters of run {record.get('id')}"
    found = map(_parameter, as_records(record.get("pipelineRunParameters") or [], what))
    return {name: value for name, value in found if name != BOOT}


def _parameter(item: Mapping[str, Any]) -> tuple[str, str]:
    """Name and value. The platform keeps all parameters as one text, `NAME=VALUE=TYPE|…`. Of a value with `=` in it the
    record has everything as the name, or the rest of the value as the type.
    """
    name, value, kind = (str(item.get(key) or "") for key in ("name", "value", "type"))
    if not value and "=" in name:
        name, _, value = name.partition("=")
        rest, separator, last = value.rpartition("=")
        return name, rest if separator and last in PARAMETER_TYPES else value
    if kind and kind not in PARAMETER_TYPES:
        return name, f"{value}={kind}"
    return name, str(item.get("resolvedValue") or value)


def worker_from(run: Run, kind: InstanceType, *, ready: bool) -> Worker:
    """The run as a worker. `kind`: its instance type; `ready`: whether its set-up is done."""
    return Worker(
        id=run.id,
        type=kind,
        node_array=run.mark(NODE_ARRAY) or "",
        state=state_of(run),
        created_at=run.created_at,
        name=run.pod,
        address=run.address,
        price_type=PriceType.SPOT if run.spot else PriceType.ON_DEMAND,
        price_per_hour=run.price_per_hour,
        order_id=run.mark(ORDER),
        group_id=run.mark(GROUP),
        ready=ready,
        taken_over=run.cell is not None and run.mark(ORDER) is None,  # each launch of ours has an order
        message=message_of(run),
        ending=ending_of(run),
        failure=failure_of(run),
    )


def state_of(run: Run) -> MachineState:
    """A run is RUNNING for the platform from its creation; a machine is RUNNING for us once it has an address.

    A paused run has no machine, and may get one again: it is PENDING, so that nothing counts on it. Its end is
    requested like that of any machine that is silent or does not come.
    """
    if run.is_final:
        return MachineState.TERMINATED
    if run.status == "RUNNING" and run.address:
        return MachineState.RUNNING
    return MachineState.PENDING


def ending_of(run: Run) -> Ending:
    """Why it ended or is down: its command ended by itself, its cloud took the machine back, or somebody paused it."""
    if run.status == "SUCCESS":
        return Ending.RELEASED
    if run.is_final and run.spot and is_interruption(run.reason):
        return Ending.INTERRUPTED
    return Ending.STOPPED if run.status == "PAUSED" else Ending.UNKNOWN


def failure_of(run: Run) -> FailureKind | None:
    """The kind of failure of a run that ended before it was up; None for every other."""
    if run.status != "FAILURE" or run.initialized:
        return None
    return FailureKind.CAPACITY if is_capacity(run.reason) else FailureKind.BOOT


def message_of(run: Run) -> str | None:
    """The platform's words; it may give none for a run that failed."""
    if failure_of(run) is not None and not run.reason:
        return "the platform reports FAILURE without a reason; see the run's log"
    return run.reason or _SET_ASIDE.get(run.status)
