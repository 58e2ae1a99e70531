"""Carries out what a plan asks, in its order, and never decides. One action's failure never hides the others.

What the provider has to do happens on other threads: `act` waits for it a moment and then goes on; what comes later is
journalled where it comes and told with the next pass.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from autoscaler.act.annotate import annotate
from autoscaler.act.ask import ask
from autoscaler.act.disable import disable
from autoscaler.act.enable import enable
from autoscaler.act.enrol import enrol
from autoscaler.act.hold import hold, release
from autoscaler.act.kill import kill
from autoscaler.act.launch import give_up, recover, walk
from autoscaler.act.means import Means, Seen
from autoscaler.act.push_back import push_back
from autoscaler.act.remove import remove
from autoscaler.act.terminate import terminate
from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Launch,
    PushBack,
    Release,
    Remove,
    Terminate,
)
from autoscaler.core.fleet import Worker
from autoscaler.errors import AutoscalerError, GridEngineRefused
from autoscaler.store.journal import Journalled, OrderRecord, Outcome, Result
from providers.interface import Refused

Prompt = Enrol | Enable | Disable | Remove | AskGridEngine | Annotate | Hold | Release | Kill | PushBack
"""What is carried out on the loop's thread, one after the other: it asks Grid Engine only."""
LANES = 8
"""So many threads end machines at the same time."""
SWEEP_EVERY = 10.0
"""Seconds between two tries to take away what is left of groups."""
SWEEP_ANYWAY = 600.0
"""Seconds after which it is looked for what is left of them, should a person have taken out their last host."""
FIRST_WAIT, LONGEST_WAIT = 5.0, 60.0
"""Seconds until an order without an answer is asked for again, doubled each time."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Backoff:
    """When an order that got no answer may be asked for again."""

    due_at: float
    wait: float


class Actor:
    """One for the life of a process: it knows what is under way off the loop's thread."""

    def __init__(self, means: Means, *, patience: float = 1.0, on_late: Callable[[], None] = lambda: None) -> None:
        self._means = means
        self._patience = patience
        """Seconds that a pass waits for the provider, so that a quick answer is told in the same pass."""
        self._on_late = on_late
        self._orders: dict[str, Future[None]] = {}
        self._ending: dict[str, Future[None]] = {}
        self._backoff: dict[str, _Backoff] = {}
        self._done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unswept = ""
        """Why phantoms could not be swept away, said once."""
        self._groups_swept_at = means.clock() - SWEEP_EVERY

    @property
    def uncertain(self) -> bool:
        """Whether machines may exist, or come to exist, that no listing shows yet."""
        return self.busy > 0 or any(not record.closed for record in self._means.store.journal.orders(self._now()))

    @property
    def busy(self) -> int:
        """How many calls to the provider are under way."""
        return len(self._under_way())

    def finish(self, timeout: float) -> None:
        """Wait for what is under way; what does not end in time is asked for again by the next process."""
        wait(self._under_way(), timeout)

    def act(
        self,
        plan: Sequence[Journalled],
        workers: Iterable[Worker],
        *,
        carry_on: Callable[[], bool] = lambda: True,
    ) -> list[Outcome]:
        """Carry out a plan's actions. `carry_on` is asked before each: False leaves the rest undone.

        Returns their outcomes, and those of earlier actions that ended meanwhile.
        """
        seen = {worker.id: worker for worker in workers}
        outcomes: list[Outcome] = []
        endings: list[Journalled] = []
        self.sweep()
        self._sweep_groups()
        for item in plan:
            action = item.action
            if not carry_on():
                outcomes.append(self._journal(item, Outcome(action, Result.NOT_BEGUN, "told to stop")))
                continue
            match action:
                case Launch():
                    self._begin_order(item.order_id or "")
                case Terminate():
                    endings.append(item)
                case (
                    Enrol()
                    | Enable()
                    | Disable()
                    | Remove()
                    | AskGridEngine()
                    | Annotate()
                    | Hold()
                    | Release()
                    | Kill()
                    | PushBack()
                ):
                    outcomes.append(self._journal(item, self._try(action, seen)))
                case _:
                    assert_never(action)
        self._begin_endings(endings, seen)
        return outcomes + self._collect(item.action for item in plan if isinstance(item.action, Launch | Terminate))

    def ended(self) -> list[Outcome]:
        """Outcomes that came since they were last asked for."""
        outcomes: list[Outcome] = []
        while not self._done.empty():
            outcomes.append(self._done.get())
        return outcomes

    def resume(self, workers: Iterable[Worker], *, grace: float) -> None:
        """Ask again for open orders that have no answer; after `grace` seconds give them up.

        Called only after a successful observation whose listing is `workers`, and never while people wish no launch.
        """
        now = self._now()
        for record, listed in self._open_orders(workers):
            under_way = self._is_under_way(self._orders, record.id)
            if now - record.ordered_at >= grace:
                self._end_order(record.id, Result.FAILED, give_up(record, listed, self._means))
            elif under_way:
                continue
            elif recover(record, listed, self._means):
                self._end_order(record.id, Result.DONE, "found in the listing")
            elif record.id not in self._backoff or now >= self._backoff[record.id].due_at:
                self._begin_order(record.id)

    def abandon(self, workers: Iterable[Worker], *, grace: float) -> None:
        """While nothing is to be launched: close open orders that were never asked for, or for too long in vain."""
        now = self._now()
        for record, listed in self._open_orders(workers):
            if now - record.ordered_at >= grace or not (
                _uncertain(record) or self._is_under_way(self._orders, record.id)
            ):
                self._end_order(record.id, Result.FAILED, give_up(record, listed, self._means))

    def _open_orders(self, workers: Iterable[Worker]) -> list[tuple[OrderRecord, list[Worker]]]:
        """Each with the workers of it that the listing shows."""
        listed: dict[str | None, list[Worker]] = {}
        for worker in workers:
            listed.setdefault(worker.order_id, []).append(worker)
        records = self._means.store.journal.orders(self._now())
        return [(record, listed.get(record.id, [])) for record in records if not record.closed]

    def _now(self) -> float:
        return self._means.clock()

    # -- on the loop's thread ------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Take away phantoms that an earlier process, or an ask that went wrong, may have left behind."""
        if self._means.scheduler.swept:
            return
        try:
            found = self._means.scheduler.sweep()
        except AutoscalerError as error:
            if str(error) != self._unswept:
                log.warning("phantoms of an earlier ask may still be there: %s", error)
            self._unswept = str(error)
            return
        self._unswept = ""
        if found:
            log.info("took away what an interrupted ask had left: %s", ", ".join(found))

    def _sweep_groups(self) -> None:
        """Take away what Grid Engine still has of groups without hosts: parallel environments that waiting jobs'
        requests matched when the last host left, or what a crash or a person left behind.
        """
        groups, now = self._means.groups, self._now()
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
            log.debug("what is left of groups of workers stays for now: %s", "; ".join(refused))

    def _try(self, action: Prompt, seen: Seen) -> Outcome:
        try:
            match action:
                case AskGridEngine():
                    return ask(action, self._means)
                case Annotate():
                    return annotate(action, self._means)
                case Hold():
                    return hold(action, self._means)
                case Release():
                    return release(action, self._means)
                case Kill():
                    return kill(action, self._means)
                case PushBack():
                    return push_back(action, self._means)
                case Enrol():
                    return enrol(action, self._means)
                case Enable():
                    return enable(action, self._means)
                case Disable():
                    return disable(action, self._means)
                case Remove():
                    return remove(action, self._means, seen)
                case _:
                    assert_never(action)
        except GridEngineRefused as error:
            return Outcome(action, Result.REFUSED, str(error))
        except AutoscalerError as error:
            return Outcome(action, Result.FAILED, str(error))

    def _journal(self, item: Journalled, outcome: Outcome) -> Outcome:
        self._means.store.journal.end(item.id, outcome.result, outcome.message, self._now())
        return outcome

    def _collect(self, expected: Iterable[Action]) -> list[Outcome]:
        """What ended by now, and UNDER_WAY for the rest of what was expected."""
        wait(self._under_way(), self._patience)
        ended = self.ended()
        actions = [outcome.action for outcome in ended]
        return ended + [Outcome(action, Result.UNDER_WAY) for action in expected if action not in actions]

    def _under_way(self) -> list[Future[None]]:
        with self._lock:
            return [future for future in (*self._orders.values(), *self._ending.values()) if not future.done()]

    def _is_under_way(self, futures: Mapping[str, Future[None]], name: str) -> bool:
        with self._lock:
            return name in futures and not futures[name].done()

    # -- off the loop's thread -----------------------------------------------------------------------------------

    def _begin_order(self, order_id: str) -> None:
        self._start(self._orders, [order_id], lambda: self._order(order_id), f"launch-{order_id[:8]}")

    def _begin_endings(self, items: Sequence[Journalled], seen: Seen) -> None:
        """Spread over a few threads; a machine whose end is under way is not asked for twice."""
        new = [item for item in items if not self._is_under_way(self._ending, _worker_id(item))]
        for item in items:
            if item not in new:
                self._journal(item, Outcome(item.action, Result.UNDER_WAY, "asked for by an earlier pass"))
        for lane in range(min(LANES, len(new))):
            part = new[lane::LANES]
            self._start(
                self._ending,
                [_worker_id(item) for item in part],
                partial(self._end, part, seen),
                f"end-{lane}",
            )

    def _start(
        self, futures: dict[str, Future[None]], names: Sequence[str], call: Callable[[], None], thread: str
    ) -> None:
        future = self._means.executor(call, thread)
        with self._lock:
            for name in [name for name, old in futures.items() if old.done()]:
                del futures[name]
            futures.update(dict.fromkeys(names, future))
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        """On whichever thread: a provider's own defect is told and counts as no answer; the loop is woken."""
        if error := future.exception():
            log.error("the provider failed in a way that its contract does not know", exc_info=error)
        self._on_late()

    def _order(self, order_id: str) -> None:
        record = self._record(order_id)
        if record is None or record.closed:
            return
        known = self._backoff.get(order_id)
        pause = min(LONGEST_WAIT, known.wait * 2) if known else FIRST_WAIT
        self._backoff[order_id] = _Backoff(self._now() + pause, pause)
        result, message = walk(record, self._means)
        if result is Result.UNDER_WAY:
            self._means.store.journal.end_launch(order_id, result, message, self._now())
        else:
            self._end_order(order_id, result, message)

    def _end_order(self, order_id: str, result: Result, message: str) -> None:
        self._backoff.pop(order_id, None)
        action = self._means.store.journal.end_launch(order_id, result, message, self._now())
        if action is not None:
            self._done.put(Outcome(action, result, message))

    def _record(self, order_id: str) -> OrderRecord | None:
        open_orders = self._means.store.journal.orders(self._now())
        return next((record for record in open_orders if record.id == order_id), None)

    def _end(self, items: Sequence[Journalled], seen: Seen) -> None:
        for item in items:
            action = item.action
            assert isinstance(action, Terminate)
            try:
                outcome = terminate(action, self._means, seen)
            except Refused as error:
                outcome = Outcome(action, Result.REFUSED, str(error))
            except AutoscalerError as error:
                outcome = Outcome(action, Result.FAILED, str(error))
            self._done.put(self._journal(item, outcome))


def _worker_id(item: Journalled) -> str:
    return item.action.worker_id if isinstance(item.action, Terminate) else ""


def _uncertain(record: OrderRecord) -> bool:
    """Whether its last attempt was sent and not answered: machines of it may exist."""
    return bool(record.attempts) and record.attempts[-1].answered_at is None
