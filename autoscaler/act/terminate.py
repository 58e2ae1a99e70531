"""Terminate: end a machine that is no execution host (any more). Off the loop's thread, since a cloud may hang."""

from __future__ import annotations

from autoscaler.act.means import Means, Seen
from autoscaler.core.actions import Terminate
from autoscaler.core.fleet import LaunchFailure
from autoscaler.store.journal import Outcome, Result
from providers.interface import HasConsole, ProviderError

LAST_WORDS = 2000
"""Characters of a console that are worth keeping."""


def terminate(action: Terminate, means: Means, seen: Seen) -> Outcome:
    """End it; the provider refuses ids that do not carry our tag. A failed boot is noted before the machine is gone.

    Raises ProviderError; a later plan, which still sees the machine, asks again.
    """
    worker = seen.get(action.worker_id)
    said = worker.message if worker is not None and worker.failure is not None else None
    words = said or (_last_words(action, means) if action.failure else "")
    if action.failure and worker is not None:
        failure = LaunchFailure(worker.bucket, means.clock(), action.failure, words, worker.order_id or "")
        means.store.journal.fail(failure, worker_id=worker.id)
    means.provider.terminate([action.worker_id])
    return Outcome(action, Result.DONE, words)


def _last_words(action: Terminate, means: Means) -> str:
    """What a machine that never joined printed last: often the only trace of why."""
    if not isinstance(means.provider, HasConsole):
        return "never joined"
    try:
        printed = means.provider.console(action.worker_id).rstrip()
    except ProviderError as error:
        return f"never joined; its console cannot be read: {error}"
    return f"never joined; it printed last: {printed[-LAST_WORDS:]}" if printed else "never joined; it printed nothing"
