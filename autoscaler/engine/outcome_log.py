"""Logs what became of actions: those that failed or were refused, and machines that never joined."""

from __future__ import annotations

import logging
from collections.abc import Collection

from autoscaler.core.actions import Action, Launch, Reimage, Restart, Terminate, WorkerAction, subject_of
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.actor import LATER
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.store.journal import Outcome, Result

log = logging.getLogger("autoscaler.engine.loop")


class OutcomeLog(PassListener):
    """The same words in passes that follow each other are logged once."""

    title = "the log of actions"
    in_dry_run = True

    def __init__(self) -> None:
        self._last: frozenset[tuple[str, str, str]] = frozenset()

    def passed(self, done: Pass) -> None:
        complaints = set()
        for outcome in done.outcomes:
            kind, target = outcome.action.kind, subject_of(outcome.action)
            words = " | ".join(outcome.message.splitlines())
            line = f"{kind} {target}: {outcome.result}" + (f": {words}" if words else "")
            fields = _fields(outcome) | _queue_of(outcome.action, done.observation.snapshot)
            if outcome.message == LATER:
                log.debug(line, extra=fields)
                continue
            if outcome.result in (Result.DONE, Result.UNDER_WAY) and not _gives_up(outcome, done.ending):
                asked_for = isinstance(outcome.action, Restart | Reimage) and outcome.result is Result.DONE
                log.log(logging.INFO if asked_for else logging.DEBUG, line, extra=fields)
                continue
            complaint = (kind, target, outcome.message)
            complaints.add(complaint)
            if complaint not in self._last:
                log.warning(line, extra=fields)
        self._last = frozenset(complaints)


def _queue_of(action: Action, snapshot: Snapshot) -> dict[str, str]:
    """The queue that an action is about, for logs that are kept by queue; empty: several, or none."""
    if isinstance(action, Launch):
        name = action.node_array
    elif isinstance(action, WorkerAction):
        workers = snapshot.fleet.workers
        name = next((worker.node_array for worker in workers if worker.id == action.worker_id), "")
    else:
        return {}
    array = snapshot.policy.node_array(name.partition(GROUPS)[0])
    return {} if array is None else {"queue": array.queue}


def _fields(outcome: Outcome) -> dict[str, str]:
    """Further fields of a line of JSON."""
    action = outcome.action
    found = {"kind": action.kind, "result": outcome.result.value, "code": action.reason.code.value}
    if host := getattr(action, "host", None):
        found["host"] = host
    if jobs := getattr(action, "jobs", ()):
        found["job"] = " ".join(jobs)
    return found


def _gives_up(outcome: Outcome, before: Collection[str]) -> bool:
    """Whether it ended a machine that never joined: its console is often the only trace of the cause. `before`: ids of
    machines that were ended before, and again because a late listing still showed them.
    """
    action = outcome.action
    if outcome.result is not Result.DONE or not isinstance(action, Terminate):
        return False
    return action.failure is not None and action.worker_id not in before
