"""Why workers in service leave: the list `MOTIVES`, the facts that a motive is judged by, and what keeps a worker
nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity.alarms import alarm_of, stays
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.scale_down.floors import Floor
from autoscaler.core.scale_down.quarantine import Suspect
from autoscaler.core.workers.drain import busy_reason
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.idle import idle_for, paid_until
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class ServingWorker:
    """A worker in service, with all facts for and against its removal."""

    worker: WorkerState
    array: NodeArrayPolicy
    pass_context: PassContext
    needed: bool
    """Waiting demand would use it."""
    floor: Floor
    batch: int
    """How many more idle workers of its array may be disabled now."""
    queue_not_empty: Reason | None
    """Why `scale_down_timeout` keeps the workers of its queue."""
    swapped_out: Reason | None
    """Why it leaves for a stronger worker."""
    suspect: Suspect | None
    """Why it seems broken."""
    held: Reason | None
    """Why it stays for a request."""
    group_verdict: GroupVerdict

    @property
    def idle(self) -> float | None:
        """Seconds since it was last seen busy."""
        return idle_for(self.worker, self.pass_context.now)

    @property
    def stop_requested(self) -> bool:
        """It asks to stop."""
        return self.worker.worker.id in self.pass_context.stop_requests


Check = Callable[[ServingWorker], Reason | None]
"""A reason for which a worker leaves, or stays; None: it does not apply."""


@dataclass(frozen=True, slots=True)
class Motive:
    """One reason why a worker in service is disabled, to be removed when it is empty."""

    name: str
    why: str
    """In a sentence, for the page of transitions."""
    applies: Check
    """Why the worker leaves; None: this motive does not apply."""
    reasons: tuple[Code, ...]
    """Codes of its reason; empty: the reason comes from the verdict on its group."""
    mark: Disabling
    """What remembers the cause."""
    keepers: tuple[Check, ...]
    """What keeps the worker nevertheless; the first that applies gives the reason."""
    by_person: bool = False
    """Whether it applies even if the autoscaler is paused."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a worker in service."""

    serving: ServingWorker
    motive: Motive | None
    """The first that applies and that no keeper stops; None: it stays."""
    reason: Reason
    """Of that motive; of a worker that stays, of the first keeper of the last motive."""

    @property
    def worker(self) -> WorkerState:
        return self.serving.worker


def judged(serving: ServingWorker) -> Judged:
    """The verdict on one worker in service: each motive is asked once, and its keepers if it applies."""
    kept_by: Reason | None = None
    for motive in MOTIVES:
        reason = motive.applies(serving)
        if reason is not None:
            kept_by = _first(motive.keepers, serving)
            if kept_by is None:
                return Judged(serving, motive, reason)
    assert kept_by is not None  # the last motive always applies
    return Judged(serving, None, kept_by)


def _first(keepers: Sequence[Check], serving: ServingWorker) -> Reason | None:
    """The reason of the first keeper that applies."""
    for keeper in keepers:
        if (reason := keeper(serving)) is not None:
            return reason
    return None


# -- why a worker leaves -----------------------------------------------------------------------------------------------


def stopped_now(serving: ServingWorker) -> Reason | None:
    now = serving.pass_context.overrides.stop == "now"
    return serving.pass_context.drained_by_person(serving.worker) if now else None


def drained(serving: ServingWorker) -> Reason | None:
    now = serving.pass_context.overrides.stop == "now"
    return None if now else serving.pass_context.drained_by_person(serving.worker)


def broken(serving: ServingWorker) -> Reason | None:
    return serving.suspect.reason if serving.suspect is not None and serving.suspect.acts else None


def swapped_out(serving: ServingWorker) -> Reason | None:
    return serving.swapped_out


def advised(serving: ServingWorker) -> Reason | None:
    return because(Code.REBALANCE_RECOMMENDED) if serving.worker.advised else None


def winding_down(serving: ServingWorker) -> Reason | None:
    return serving.pass_context.winding_down


def group_leaves(serving: ServingWorker) -> Reason | None:
    """Judged for all its workers at once (`group_verdicts.py`)."""
    return serving.group_verdict.leave


def asks_to_stop(serving: ServingWorker) -> Reason | None:
    return because(Code.ASKED_TO_STOP) if serving.stop_requested and serving.idle is not None else None


def idle(serving: ServingWorker) -> Reason:
    """It always applies; its keepers say why a worker in service stays."""
    return because(Code.IDLE, idle_s=serving.idle, limit_s=serving.array.idle_timeout)


# -- what keeps a worker ----------------------------------------------------------------------------------------------


def kept(serving: ServingWorker) -> Reason | None:
    """A person, a request set or a rule keeps it."""
    return serving.pass_context.kept(serving.worker)


def busy(serving: ServingWorker) -> Reason | None:
    """It runs jobs, or holds reserved slots (rule 1)."""
    return None if serving.worker.empty else busy_reason(serving.worker)


def needed(serving: ServingWorker) -> Reason | None:
    """Waiting demand would use it."""
    return because(Code.NEEDED) if serving.needed else None


def enabled_by_hand(serving: ServingWorker) -> Reason | None:
    """A person has just enabled it."""
    return because(Code.ENABLED_BY_HAND) if serving.worker.enabled_by_hand else None


def held(serving: ServingWorker) -> Reason | None:
    """A request set or a created node needs it."""
    return serving.held


def kept_for_group(serving: ServingWorker) -> Reason | None:
    """Its group stays."""
    return serving.group_verdict.keep


def floor_reached(serving: ServingWorker) -> Reason | None:
    """No fewer workers of its node array may stay."""
    least = serving.floor.min_workers
    return because(Code.MIN_WORKERS, min_workers=least) if serving.floor.staying <= least else None


def not_idle_long_enough(serving: ServingWorker) -> Reason | None:
    """It was busy a moment ago, or in alarm: then no job could have started there."""
    idle, limit, worker = serving.idle, serving.array.idle_timeout, serving.worker
    if idle is not None and (idle >= limit or serving.stop_requested):
        return None
    if Condition.IN_ALARM in worker.conditions and not stays(worker, serving.pass_context.now):
        return alarm_of((worker,))
    return _idle_for(idle, limit)


def _idle_for(idle: float | None, limit: float) -> Reason:
    return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle or 0.0, limit_s=limit)


def still_idle(worker: WorkerState, now: float) -> Reason | None:
    """Why an empty worker stays of which `not_idle_long_enough` said so at another time, while nothing else changed;
    None: its idle time is over, or an alarm may end.
    """
    array, since = worker.array, worker.conditions.get(Condition.IDLE)
    if array is None or Condition.IN_ALARM in worker.conditions:
        return None
    idle = None if since is None else now - since
    return None if idle is not None and idle >= array.idle_timeout else _idle_for(idle, array.idle_timeout)


def paid_for(serving: ServingWorker) -> Reason | None:
    """Its time is billed in steps, and the end of this one is not near."""
    until = None if serving.stop_requested else paid_until(serving.worker, serving.pass_context.now)
    return None if until is None else because(Code.PAID_FOR, until_at=until)


def queue_not_empty(serving: ServingWorker) -> Reason | None:
    """With `scale_down_timeout`, no worker leaves before the queues have been empty for that long."""
    return None if serving.stop_requested else serving.queue_not_empty


def batch_full(serving: ServingWorker) -> Reason | None:
    """One batch of workers leaves at a time."""
    return because(Code.SCALE_DOWN_BATCH, batch=serving.array.scale_down_batch) if serving.batch <= 0 else None


# -- the list ----------------------------------------------------------------------------------------------------------

_STAYS = (kept, busy, enabled_by_hand, held)
MOTIVES: tuple[Motive, ...] = (
    # A person removes it: nothing keeps it, and its jobs run to their end.
    Motive(
        "StoppedNow", "A person stops all (`stop --now`).", stopped_now, (Code.STOPPING,), Disabling.STOP, (),
        by_person=True,
    ),
    Motive(
        "Drained", "A person drains it.", drained, (Code.DRAINED_BY_COMMAND,), Disabling.COMMAND, (), by_person=True
    ),
    # A worker on which jobs fail goes before any that demand could keep.
    Motive(
        "Quarantined", "It seems broken.", broken, (Code.BLACK_HOLE, Code.UNHEALTHY, Code.INSTANCE_IN_ERROR),
        Disabling.BROKEN, (kept,),
    ),
    # A swap was judged as a whole: its workers leave together, whatever floor and batch.
    Motive("Swapped", "A stronger worker replaces it.", swapped_out, (Code.SWAP,), Disabling.SWAP, (kept,)),
    # Its cloud may take it soon: if nothing needs it, it goes first. Its jobs may end before the machine does.
    Motive(
        "Advised", "Its cloud advises to move away, and nothing needs it.", advised, (Code.REBALANCE_RECOMMENDED,),
        Disabling.ADVISED, (kept, needed, enabled_by_hand),
    ),
    # A person stops the autoscaler: each goes as soon as no job needs it.
    Motive(
        "Stopped", "A person stops the autoscaler, and no job needs it.", winding_down, (Code.STOPPING,),
        Disabling.STOP, (kept, busy, needed), by_person=True,
    ),
    # Groups leave as a whole, before their workers are judged one by one.
    Motive("GroupLeaves", "Its group leaves.", group_leaves, (), Disabling.GROUP, _STAYS),
    # Workers that ask to stop go before those that are only idle, and count for the floor.
    Motive(
        "AskedToStop", "It asks to stop.", asks_to_stop, (Code.ASKED_TO_STOP,), Disabling.AUTO_STOP,
        (*_STAYS, kept_for_group, needed, floor_reached),
    ),
    # All others: the most expensive first, of equal price the longest idle (`removal_order`).
    Motive(
        "IdleTooLong", "It has been idle for `idle_timeout`.", idle, (Code.IDLE,), Disabling.IDLE,
        (
            *_STAYS, kept_for_group, not_idle_long_enough, needed, queue_not_empty, floor_reached, paid_for, batch_full,
        ),
    ),
)  # fmt: skip
"""Why workers in service leave, in order. The first motive that applies without a keeper disables the worker. If none
does, the first keeper of the last motive is the reason why it stays.
"""
