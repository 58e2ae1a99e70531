"""Enrol, Enable, Disable and Remove of several hosts at once: few commands change what their hosts have in common.

If Grid Engine did not do it for a host, the action's own executor does it, and says why. Every action has its own entry
in the journal and its own outcome, so that a crash in between is recovered action by action.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import cast

from autoscaler.core.actions import Disable, Enable, Enrol, Remove
from autoscaler.core.requests.group_names import COMPLEX
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.engine.executors.execute import OneCall, execute
from autoscaler.engine.executors.remove import remove_all
from autoscaler.errors import AutoscalerError, GridEngineRefused
from autoscaler.sge.batches import AT_ONCE, Batches, NewHost
from autoscaler.store.journal import Journalled, Outcome, Result

REMOVED_AT_ONCE = 10
"""Hosts of one removal: Grid Engine has no command that takes several out of a queue, so each of them costs an edit of
the whole queue, seconds where the queue is large and its machine busy.
"""


def batches_of(plan: Iterable[Journalled]) -> Iterator[Sequence[Journalled]]:
    """The plan's actions in their order: those together that one call may carry out, any other alone."""
    for _, items in groupby(plan, _in_common):
        alike = list(items)
        most = REMOVED_AT_ONCE if isinstance(alike[0].action, Remove) else AT_ONCE
        yield from (alike[start : start + most] for start in range(0, len(alike), most))


def _in_common(item: Journalled) -> Hashable:
    """A key that is the same for actions that are carried out together, and unique for any other."""
    action = item.action
    match action:
        case Enrol() if not action.joined:
            return Enrol.kind, action.queue, action.host_group, action.group_id, action.group_pes
        case Enable() if action.queues:
            return item.id
        case Enable() | Disable() | Remove():
            return action.kind
        case _:
            return item.id


def execute_all(actions: Sequence[OneCall], context: ExecutionContext, seen: Seen) -> list[Outcome]:
    """Carry out one of `batches_of`; one outcome each, in their order."""
    done: Mapping[str, Outcome] = {}
    if len(actions) > 1 and context.batches is not None:
        try:
            done = _together(actions, context, seen, context.batches)
        except GridEngineRefused:
            done = {}
        except AutoscalerError as error:  # no answer: a call for each host would wait as long
            return [Outcome(action, Result.FAILED, str(error)) for action in actions]
    return [
        replace(done[host], action=action)
        if isinstance(action, Enrol | Enable | Disable | Remove) and (host := action.host) in done
        else execute(action, context, seen)
        for action in actions
    ]


def _together(
    actions: Sequence[OneCall], context: ExecutionContext, seen: Seen, batches: Batches
) -> Mapping[str, Outcome]:
    """The results by host, of hosts whose result is known: the other actions are carried out one by one."""
    match actions[0]:
        case Enrol():
            messages = _enrol(cast("Sequence[Enrol]", actions), context, batches)
        case Enable():
            messages = dict.fromkeys(batches.enable(_hosts(actions)), "")
        case Disable():
            messages = dict.fromkeys(batches.disable(_hosts(actions)), "")
        case Remove():
            return remove_all(cast("Sequence[Remove]", actions), context, seen, batches)
        case _:
            messages = {}
    return {host: Outcome(actions[0], Result.DONE, message) for host, message in messages.items()}


def _hosts(actions: Sequence[OneCall]) -> list[str]:
    return [action.host for action in cast("Sequence[Enable | Disable]", actions)]


def _enrol(actions: Sequence[Enrol], context: ExecutionContext, batches: Batches) -> Mapping[str, str]:
    first = actions[0]
    of_group: tuple[tuple[str, str], ...] = ()
    also_in: tuple[str, ...] = ()
    if first.group_id and context.groups is not None:
        ours = context.groups.prepare(
            first.group_id, queue=first.queue, host_group=first.host_group, pes=first.group_pes
        )
        of_group, also_in = ((COMPLEX, first.group_id),), (ours,)
    hosts = [
        NewHost(action.host, action.slots, (*action.complex_values, *of_group), action.seq_no) for action in actions
    ]
    new = batches.enrol(hosts, first.queue, first.host_group, also_in)
    done = frozenset(new)
    if context.load_sensor and new:
        done = batches.sense(list(new), context.load_sensor)
    return {host: "" if new[host] else "was enrolled already" for host in new if host in done}
