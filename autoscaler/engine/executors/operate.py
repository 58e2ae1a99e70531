"""Restart and Reimage a machine by its provider, as a caller requested. Runs off the loop's thread, since a cloud may
hang.
"""

from __future__ import annotations

from autoscaler.core.actions import Reimage, Restart
from autoscaler.engine.execution import ExecutionContext
from autoscaler.errors import AutoscalerError
from autoscaler.providers.interface import Operates
from autoscaler.store.journal import Outcome, Result


def operate(action: Restart | Reimage, context: ExecutionContext) -> Outcome:
    """Call the provider once: an operation that an earlier pass or process began is not repeated.

    Raises ProviderError; the store has the result in any case.
    """
    provider, operations = context.provider, context.store.node_operations
    if not operations.begin(action.kind, action.worker_id, context.clock()):
        return Outcome(action, Result.REFUSED, "it was done before, or the request was withdrawn")
    message = "not done: the provider raised an error that its contract does not allow"
    try:
        if not isinstance(provider, Operates):
            message = f"not done: {provider.name} has no {action.kind}"
            return Outcome(action, Result.REFUSED, message)
        provider.operate(action.worker_id, action.kind)
        message = "done"
        return Outcome(action, Result.DONE)
    except AutoscalerError as error:
        message = f"not done: {error}"
        raise
    finally:
        operations.end(action.worker_id, message, context.clock())
