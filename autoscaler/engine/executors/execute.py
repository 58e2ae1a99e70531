"""Finds the function that carries out an action by the action's class. A kind without one is an error of type check.

A Launch is not among them: it is an order, which may need several calls and outlive the process (`launch`).
"""

from __future__ import annotations

from typing import assert_never

from autoscaler.core.actions import (
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    JobAction,
    Kill,
    Reimage,
    Release,
    Remove,
    Renumber,
    Reschedule,
    Restart,
    TellWaiting,
    Terminate,
    WorkerAction,
)
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.engine.executors.ask import ask
from autoscaler.engine.executors.enable import disable, enable
from autoscaler.engine.executors.enrol import enrol
from autoscaler.engine.executors.jobs import annotate, hold, kill, release, reschedule
from autoscaler.engine.executors.operate import operate
from autoscaler.engine.executors.remove import remove
from autoscaler.engine.executors.renumber import renumber
from autoscaler.engine.executors.tell_waiting import tell_waiting
from autoscaler.engine.executors.terminate import terminate_all
from autoscaler.errors import AutoscalerError, GridEngineRefused
from autoscaler.providers.interface import Refused
from autoscaler.store.journal import Outcome, Result

OneCall = WorkerAction | AskGridEngine | JobAction | Renumber
"""An action that is done or has failed when its function returns."""


def execute(action: OneCall, context: ExecutionContext, seen: Seen) -> Outcome:
    """Carry out one action. Errors of Grid Engine and of the provider become its outcome."""
    try:
        return _execute(action, context, seen)
    except (GridEngineRefused, Refused) as error:
        return Outcome(action, Result.REFUSED, str(error))
    except AutoscalerError as error:
        return Outcome(action, Result.FAILED, str(error))


def _execute(action: OneCall, context: ExecutionContext, seen: Seen) -> Outcome:
    match action:
        case Enrol():
            return enrol(action, context)
        case Enable():
            return enable(action, context)
        case Disable():
            return disable(action, context)
        case Remove():
            return remove(action, context, seen)
        case Terminate():
            return terminate_all([action], context, seen)[0]
        case Restart() | Reimage():
            return operate(action, context)
        case Renumber():
            return renumber(action, context)
        case AskGridEngine():
            return ask(action, context)
        case Annotate():
            return annotate(action, context)
        case TellWaiting():
            return tell_waiting(action, context)
        case Hold():
            return hold(action, context)
        case Release():
            return release(action, context)
        case Kill():
            return kill(action, context)
        case Reschedule():
            return reschedule(action, context)
        case _:
            assert_never(action)
