"""Enrol: make a machine an execution host, disabled; one of a group as one of that group's hosts. A host that its own
image made gets what is missing.
"""

from __future__ import annotations

from autoscaler.core.actions import Enrol
from autoscaler.core.requests.group_names import COMPLEX
from autoscaler.engine.execution import ExecutionContext
from autoscaler.errors import GridEngineRefused
from autoscaler.sge.admin import Change
from autoscaler.store.journal import Outcome, Result


def enrol(action: Enrol, context: ExecutionContext) -> Outcome:
    """Idempotent: it completes an interrupted enrolment."""
    change = _make_host(action, context)
    message = "" if change.changed else "was enrolled already"
    if context.load_sensor:
        try:
            context.grid_engine.sense(action.host, context.load_sensor)
        except GridEngineRefused as error:
            message = f"{message}; it cannot report interruption notices: {error}".removeprefix("; ")
    return Outcome(action, Result.DONE, message)


def _make_host(action: Enrol, context: ExecutionContext) -> Change:
    host, queue, host_group, slots = action.host, action.queue, action.host_group, action.slots
    values, also_in = action.complex_values, tuple[str, ...]()
    if action.group_id and context.groups is not None:
        ours = context.groups.prepare(action.group_id, queue=queue, host_group=host_group, pes=action.group_pes)
        values, also_in = (*values, (COMPLEX, action.group_id)), (ours,)
    if action.joined:
        return context.grid_engine.complete(host, queue, values, also_in)
    return context.grid_engine.enrol(host, queue, host_group, slots, values, also_in, action.seq_no)
