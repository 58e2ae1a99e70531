"""Carries out a plan's actions in their order, and never decides. One action's failure never hides the others.

Calls to the provider run on other threads: `act` waits for them briefly and then goes on. A later answer is journalled
at once and reported by the next pass.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from autoscaler.core.actions import Action, Launch, Reimage, Remove, Restart, Terminate
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.waits import doubled_wait
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.engine.executors.execute import execute
from autoscaler.engine.executors.launch import give_up, recover, request_offers
from autoscaler.engine.executors.terminate import terminate_all
from autoscaler.engine.executors.together import batches_of, execute_all
from autoscaler.errors import AutoscalerError
from autoscaler.store.journal import Journalled, OrderRecord, Outcome, Result

OfProvider = Terminate | Restart | Reimage
"""Actions that call the provider, which may hang: they run off the loop's thread. All others, except launches, call
Grid Engine only and run on the loop's thread, one after the other.
"""
LANES, TOGETHER = 8, 50
"""Most threads that call the provider at the same time; most machines that one of them terminates by one call."""
SWEEP_EVERY = 10.0
"""Seconds between two attempts to delete the leftovers of groups."""
SWEEP_ANYWAY = 600.0
"""Seconds between two searches for leftovers of groups, in case a person removed their last host."""
NOT_ALLOWED = "the provider raised an error that its contract does not allow"
REMOVING_FOR = 10.0
"""Seconds after which a pass begins no further removal: jobs that came meanwhile wait for the next pass."""
LATER = "the pass has removed hosts for long enough: a later one goes on"
FIRST_WAIT, LONGEST_WAIT = 5.0, 60.0
"""Seconds until an order without an answer is requested again, doubled each time."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Backoff:
    """The time at which an order without an answer may be requested again."""

    due_at: float
    tries: int


@dataclass(frozen=True, slots=True)
class _Call:
    """An action that calls the provider for one machine."""

    item: Journalled
    action: OfProvider

    @property
    def name(self) -> str:
        return f"{self.action.kind} {self.action.worker_id}"


class Actor:
    """One for the life of a process: it knows which calls are under way off the loop's thread."""

    def __init__(
        self,
        context: ExecutionContext,
        *,
        patience: float = 1.0,
        on_late: Callable[[], None] = lambda: None,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._patience = patience
        """Seconds that a pass waits for the provider, so that it can report a quick answer itself."""
        self._on_late = on_late
        self._stopwatch = stopwatch
        self._orders: dict[str, Future[None]] = {}
        self._calls: dict[str, Future[None]] = {}
        self._backoff: dict[str, _Backoff] = {}
        self._done: queue.SimpleQueue[tuple[str, Outcome]] = queue.SimpleQueue()
        """Each with the name of its call, or the id of its order."""
        self._lock = threading.Lock()
        self._unswept = ""
        """The error that kept probe hosts from being removed, logged once."""
        self._groups_swept_at = context.clock() - SWEEP_EVERY

    @property
    def uncertain(self) -> bool:
        """Whether machines may exist, or come to exist, that no listing shows yet."""
        return self.busy > 0 or any(not record.closed for record in self._context.store.journal.orders(self._now()))

    @property
    def busy(self) -> int:
        """How many calls to the provider are under way."""
        return len(self._under_way())

    def finish(self, timeout: float) -> None:
        """Wait for calls that are under way; the next process repeats those that do not end in time."""
        wait(self._under_way(), timeout)

    def act(
        self,
        plan: Sequence[Journalled],
        workers: Iterable[Worker],
        *,
        carry_on: Callable[[], bool] = lambda: True,
    ) -> list[Outcome]:
        """Carry out a plan's actions. From the first batch before which `carry_on` returns False, or the lease is not
        held, all are left undone; removals also once they have taken long.

        Returns their outcomes, and those of earlier actions that ended meanwhile.
        """
        seen = {worker.id: worker for worker in workers}
        outcomes: list[Outcome] = []
        expected: dict[str, Action] = {}
        calls: list[_Call] = []
        if not self._forbidden():
            self.sweep()
            self._sweep_groups()
        stopped, remove_until = "", math.inf
        for batch in batches_of(plan):
            item, action = batch[0], batch[0].action
            stopped = stopped or (self._forbidden() if carry_on() else "the autoscaler stopped before its turn")
            if stopped:
                outcomes += [self._journal(one, Outcome(one.action, Result.NOT_BEGUN, stopped)) for one in batch]
            elif isinstance(action, Remove) and (now := self._stopwatch()) > remove_until:
                outcomes += [self._journal(one, Outcome(one.action, Result.NOT_BEGUN, LATER)) for one in batch]
            elif isinstance(action, Launch):
                expected[item.order_id or ""] = action
                self._begin_order(item.order_id or "")
            elif isinstance(action, OfProvider):
                calls.append(_Call(item, action))
            else:
                if isinstance(action, Remove):
                    remove_until = min(remove_until, now + REMOVING_FOR)
                actions = [one.action for one in batch if not isinstance(one.action, Launch)]
                done = execute_all(actions, self._context, seen)
                outcomes += [self._journal(*each) for each in zip(batch, done, strict=True)]
        self._begin_calls(calls, seen)
        expected |= {call.name: call.action for call in calls}
        return outcomes + self._collect(expected)

    def _forbidden(self) -> str:
        """Why nothing may be done now: another autoscaler may serve this cell. '' if it may."""
        try:
            self._context.may_act()
        except AutoscalerError as error:
            return str(error)
        return ""

    def ended(self) -> list[Outcome]:
        """Outcomes since the last call of this method."""
        return [outcome for _, outcome in self._taken()]

    def _taken(self) -> list[tuple[str, Outcome]]:
        taken: list[tuple[str, Outcome]] = []
        while not self._done.empty():
            taken.append(self._done.get())
        return taken

    def resume(self, workers: Iterable[Worker], *, grace: float) -> None:
        """Request open orders without an answer again; after `grace` seconds give them up.

        Called only after a successful observation whose listing is `workers`, and never while an operator allows no
        launch.
        """
        now = self._now()
        for record, listed in self._open_orders(workers):
            under_way = self._is_under_way(self._orders, record.id)
            if now - record.ordered_at >= grace:
                self._end_order(record.id, Result.FAILED, give_up(record, listed, self._context))
            elif under_way:
                continue
            elif recover(record, listed, self._context):
                self._end_order(record.id, Result.DONE, "found in the listing")
            elif record.id not in self._backoff or now >= self._backoff[record.id].due_at:
                self._begin_order(record.id)

    def abandon(self, workers: Iterable[Worker], *, grace: float) -> None:
        """While no launch is allowed: close open orders that were never requested, that got no answer for too long, or
        whose workers are all listed.
        """
        now = self._now()
        for record, listed in self._open_orders(workers):
            under_way = self._is_under_way(self._orders, record.id)
            if now - record.ordered_at >= grace or not (_uncertain(record) or under_way):
                self._end_order(record.id, Result.FAILED, give_up(record, listed, self._context))
            elif not under_way and recover(record, listed, self._context):
                self._end_order(record.id, Result.DONE, "found in the listing")

    def _open_orders(self, workers: Iterable[Worker]) -> list[tuple[OrderRecord, list[Worker]]]:
        """Each with the workers of it that the listing shows."""
        listed: dict[str | None, list[Worker]] = {}
        for worker in workers:
            listed.setdefault(worker.order_id, []).append(worker)
        records = self._context.store.journal.orders(self._now())
        return [(record, listed.get(record.id, [])) for record in records if not record.closed]

    def _now(self) -> float:
        return self._context.clock()

    # -- on the loop's thread ------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Remove probe hosts that an earlier process, or a failed question to Grid Engine, may have left."""
        if self._context.scheduler.swept:
            return
        try:
            found = self._context.scheduler.sweep()
        except AutoscalerError as error:
            if str(error) != self._unswept:
                log.warning("probe hosts of an earlier proof may still exist: %s", error)
            self._unswept = str(error)
            return
        self._unswept = ""
        if found:
            log.info("removed the probe hosts that an interrupted proof had left: %s", ", ".join(found))

    def _sweep_groups(self) -> None:
        """Delete Grid Engine's objects of groups without hosts: parallel environments that requests of waiting jobs
        matched when the last host left, or leftovers of a crash or a person.
        """
        groups, now = self._context.groups, self._now()
        if groups is None:
            return
        pause = SWEEP_ANYWAY if groups.swept else SWEEP_EVERY
        if now - self._groups_swept_at < pause:
            return
        self._groups_swept_at = now
        try:
            refused = groups.sweep()
        except AutoscalerError as error:
            refused = (str(error),)
        if refused:
            log.debug("host groups and PEs of ended groups stay for now: %s", "; ".join(refused))

    def _journal(self, item: Journalled, outcome: Outcome) -> Outcome:
        self._context.store.journal.end(item.id, outcome.result, outcome.message, self._now())
        return outcome

    def _collect(self, expected: Mapping[str, Action]) -> list[Outcome]:
        """The outcomes so far, and UNDER_WAY for the other expected ones."""
        wait(self._under_way(), self._patience)
        taken = self._taken()
        late = expected.keys() - {name for name, _ in taken}
        under_way = [Outcome(action, Result.UNDER_WAY) for name, action in expected.items() if name in late]
        return [outcome for _, outcome in taken] + under_way

    def _under_way(self) -> list[Future[None]]:
        with self._lock:
            return [future for future in (*self._orders.values(), *self._calls.values()) if not future.done()]

    def _is_under_way(self, futures: Mapping[str, Future[None]], name: str) -> bool:
        with self._lock:
            return name in futures and not futures[name].done()

    # -- off the loop's thread -----------------------------------------------------------------------------------

    def _begin_order(self, order_id: str) -> None:
        self._start(self._orders, [order_id], lambda: self._order(order_id), f"launch-{order_id[:8]}")

    def _begin_calls(self, calls: Sequence[_Call], seen: Seen) -> None:
        """Spread over a few threads; a call that is under way is not made twice."""
        new: list[_Call] = []
        for call in calls:
            if not self._is_under_way(self._calls, call.name):
                new.append(call)
            else:
                self._journal(call.item, Outcome(call.action, Result.UNDER_WAY, "requested by an earlier pass"))
        # Ends of workers that never joined need their console first, which is slow. Other ends go together, with few
        # calls.
        together = [call for call in new if _goes_together(call.action)]
        alone = [call for call in new if not _goes_together(call.action)]
        lanes = min(LANES, len(alone)) or 1
        parts = [alone[lane::lanes] for lane in range(lanes) if alone]
        lanes = min(LANES, -(-len(together) // TOGETHER)) or 1
        parts += [together[lane::lanes] for lane in range(lanes) if together]
        for lane, part in enumerate(parts):
            self._start(
                self._calls, [call.name for call in part], partial(self._carry_out, part, seen), f"provider-{lane}"
            )

    def _start(
        self, futures: dict[str, Future[None]], names: Sequence[str], call: Callable[[], None], thread: str
    ) -> None:
        future = self._context.executor(call, thread)
        with self._lock:
            for name in [name for name, old in futures.items() if old.done()]:
                del futures[name]
            futures.update(dict.fromkeys(names, future))
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        """Runs on any thread. A provider's defect is logged and counts as no answer; then the loop is woken."""
        if error := future.exception():
            log.error(NOT_ALLOWED, exc_info=error)
        self._on_late()

    def _order(self, order_id: str) -> None:
        record = self._record(order_id)
        if record is None or record.closed or self._forbidden():
            return
        known = self._backoff.get(order_id)
        tries = known.tries + 1 if known else 1
        self._backoff[order_id] = _Backoff(self._now() + doubled_wait(tries, FIRST_WAIT, LONGEST_WAIT), tries)
        result, message = request_offers(record, self._context)
        if result is Result.UNDER_WAY:
            self._context.store.journal.end_launch(order_id, result, message, self._now())
            self._context.store.journal.unanswered(order_id, message, again_at=self._backoff[order_id].due_at)
        else:
            self._end_order(order_id, result, message)

    def _end_order(self, order_id: str, result: Result, message: str) -> None:
        self._backoff.pop(order_id, None)
        action = self._context.store.journal.end_launch(order_id, result, message, self._now())
        if action is not None:
            self._done.put((order_id, Outcome(action, result, message)))

    def _record(self, order_id: str) -> OrderRecord | None:
        open_orders = self._context.store.journal.orders(self._now())
        return next((record for record in open_orders if record.id == order_id), None)

    def _carry_out(self, calls: Sequence[_Call], seen: Seen) -> None:
        if forbidden := self._forbidden():
            for call in calls:
                undone = Outcome(call.action, Result.NOT_BEGUN, forbidden)
                self._done.put((call.name, self._journal(call.item, undone)))
            return
        if all(_goes_together(call.action) for call in calls):
            ends = [call.action for call in calls if isinstance(call.action, Terminate)]
            for call, outcome in zip(calls, terminate_all(ends, self._context, seen), strict=True):
                self._done.put((call.name, self._journal(call.item, outcome)))
            return
        for call in calls:
            self._done.put((call.name, self._journal(call.item, self._executed(call.action, seen))))

    def _executed(self, action: OfProvider, seen: Seen) -> Outcome:
        """A provider's defect in one call keeps no other call of its thread from being made."""
        try:
            return execute(action, self._context, seen)
        except Exception as error:
            log.exception(NOT_ALLOWED)
            return Outcome(action, Result.FAILED, f"{NOT_ALLOWED}: {error!r}")


def _goes_together(action: Action) -> bool:
    """Whether it is an end that one call to the provider may carry out with others."""
    return isinstance(action, Terminate) and not action.failure


def _uncertain(record: OrderRecord) -> bool:
    """Whether its last attempt was sent and not answered: machines of it may exist."""
    return bool(record.attempts) and record.attempts[-1].answered_at is None
