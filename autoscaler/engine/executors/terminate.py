"""Terminate: end machines that are no execution hosts (any more). Off the loop's thread, since a cloud may hang."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from autoscaler.core.actions import Terminate
from autoscaler.core.model.fleet import LaunchFailure
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.errors import AutoscalerError
from autoscaler.providers.interface import HasConsole, ProviderError, Refused, Unreachable
from autoscaler.store.journal import Outcome, Result

KEPT = 2000
"""Characters of a console that are kept."""
CONSOLE_PATIENCE = 30.0

log = logging.getLogger(__name__)


def terminate_all(actions: Sequence[Terminate], context: ExecutionContext, seen: Seen) -> list[Outcome]:
    """Terminate machines by few calls; the provider refuses ids that do not carry our tag.

    Returns one outcome each, in their order. If the provider refuses, each half is tried separately, so that a
    protected machine does not keep the others. Where there is no answer, a later plan, which still observes the
    machine, tries again.
    """
    words = [_noted(action, context, seen) for action in actions]
    refused = _end([action.worker_id for action in actions], context)
    return [
        Outcome(action, *refused.get(action.worker_id, (Result.DONE, message)))
        for action, message in zip(actions, words, strict=True)
    ]


def _end(ids: Sequence[str], context: ExecutionContext) -> dict[str, tuple[Result, str]]:
    """The errors, by worker id."""
    try:
        context.provider.terminate(ids)
    except Refused as error:
        if len(ids) == 1:
            return {ids[0]: (Result.REFUSED, str(error))}
        half = len(ids) // 2
        return {**_end(ids[:half], context), **_end(ids[half:], context)}
    except AutoscalerError as error:
        without_answer = error.ids if isinstance(error, Unreachable) and error.ids else ids
        return dict.fromkeys(without_answer, (Result.FAILED, str(error)))
    return {}


def _noted(action: Terminate, context: ExecutionContext, seen: Seen) -> str:
    """Record a failed boot before the machine is gone; returns the sentence about it."""
    worker = seen.get(action.worker_id)
    message = worker.message if worker is not None and (worker.failure is not None or worker.stopped) else None
    words = message or (_console_of(action, context) if action.failure else "")
    if action.failure and worker is not None:
        failure = LaunchFailure(worker.bucket, context.clock(), action.failure, words, worker.order_id or "")
        context.store.journal.fail(failure, worker_id=worker.id)
    return words


def _console_of(action: Terminate, context: ExecutionContext) -> str:
    """The last console output of a machine that never joined: often the only trace of the cause. Whatever goes wrong
    with it, the machine is ended.
    """
    provider = context.provider
    if not isinstance(provider, HasConsole):
        return "never joined"
    try:
        read = context.executor(lambda: str(provider.console(action.worker_id)).rstrip(), "console")
        printed = read.result(CONSOLE_PATIENCE)
    except TimeoutError:
        return f"never joined; its console was not read within {CONSOLE_PATIENCE:g} s"
    except ProviderError as error:
        return f"never joined; its console cannot be read: {error}"
    except Exception as error:
        log.exception("the console of %s raised an error that the provider's contract does not allow", action.worker_id)
        return f"never joined; its console cannot be read: {error!r}"
    return f"never joined; it printed last: {printed[-KEPT:]}" if printed else "never joined; it printed nothing"
