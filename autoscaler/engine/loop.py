"""The loop: a pass is observe, plan, act, report. Woken by events, answers, overrides and signals, and by the poll.

Nothing is decided here. A pass that cannot observe does nothing and says so once; whatever goes wrong in one pass, the
next one observes anew. The only broad `except` of a pass is here.
"""

from __future__ import annotations

import logging
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Protocol

from autoscaler.core.actions import (
    Disable,
    Remove,
    Terminate,
)
from autoscaler.core.model.cluster import short_name
from autoscaler.core.model.fleet import Fleet, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.waits import doubled_wait
from autoscaler.core.outcome.due import nothing_to_scale
from autoscaler.core.policy import Policy
from autoscaler.core.readable.screening import readable
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.settled import SettledObservation
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.engine.actor import Actor
from autoscaler.engine.cost_keeper import slots_of
from autoscaler.engine.fulfil import Fulfilment
from autoscaler.engine.observe import Observation, Observer
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener, PassListeners
from autoscaler.engine.pass_timing import SOON, PassTiming
from autoscaler.engine.place import place_of
from autoscaler.engine.steady_clock import SteadyClock
from autoscaler.engine.systemd import Notifier
from autoscaler.engine.unseen import RELEASED, may_still_come, unseen
from autoscaler.engine.wakeup import Wakeup
from autoscaler.errors import (
    NO_ROOM,
    AutoscalerError,
    CommandError,
    LockHeld,
    NotObservable,
    StateNotKept,
    StateReplaced,
)
from autoscaler.garbage import FreedMemory, collect_after_pass
from autoscaler.providers.interface import ForgetsNotices, Operates
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.wording import few, text
from autoscaler.store.history import COST_KEPT
from autoscaler.store.journal import Outcome, Result
from autoscaler.store.observations import LastObservation, last_observation
from autoscaler.store.overrides import AUTOSCALER, MAY_COME, Verb
from autoscaler.store.store import Store
from autoscaler.supervised import troubles as failed_threads

IDLE = 6.0
"""The pause between passes, in polling delays, while there is nothing to scale and Grid Engine's events arrive."""
LONG_PAUSE = 10.0
"""Seconds between passes above which the log says why."""
COMMANDS_SLOW = "our commands to Grid Engine take more than 5 % of the time: passes are up to a minute apart"
LAST_CALLS = 35.0
"""Seconds that the loop waits for calls to the provider before it ends: a launch is answered within 30."""
HOUSEKEEPING = 3600.0
DEFECT = "a defect ended this pass; the next pass starts anew"

_AGAIN = dict.fromkeys((StateNotKept.__name__, OSError.__name__), "the state can be kept again")
"""What is well again, by the class of the error that there was."""
MOST_WORDS = 20
"""Different words of one outage that are logged."""
_DIGITS = re.compile(r"\d+")

log = logging.getLogger("autoscaler.engine.loop")


class Wakes(Protocol):
    """`autoscaler.sge.events.Events`: wakes the loop when something changed in Grid Engine."""

    @property
    def alive(self) -> bool:
        """Whether it would report a change now."""
        ...

    @property
    def trouble(self) -> str:
        """Why it reports none; '' while it does, or may soon."""
        ...


class Guard(Protocol):
    """`engine.qmaster_guard.QmasterGuard`: how long qmaster is to be left alone, at a polling delay in seconds."""

    def pause(self, poll: float) -> float: ...

    def slowed(self, poll: float) -> float: ...

    def trouble(self, poll: float) -> str: ...


@dataclass(slots=True)
class Loop:
    """One for the life of a process."""

    observer: Observer
    decide: Callable[[Snapshot], Plan]
    actor: Actor
    store: Store
    poll: float
    listeners: PassListeners = field(default_factory=PassListeners)
    """What reports, records and shows passes."""
    wakeup: Wakeup = field(default_factory=Wakeup)
    notifier: Notifier = field(default_factory=lambda: Notifier({}))
    dry_run: bool = False
    """Decide and report, but order nothing, change nothing and journal nothing."""
    reload: Callable[[], tuple[Policy, float]] | None = None
    """Reads settings again: the new policy and polling delay. May raise SettingsError."""
    guard: Guard | None = None
    """Measures how much time passes take of qmaster; None: no bound."""
    cost_kept: float = COST_KEPT
    """Seconds for which costs of workers are kept."""
    stopwatch: Callable[[], float] = time.monotonic
    asks_policies: bool = False
    """Whether autoscale policies run in each pass: their requests may change at any time."""
    may_come: str = ""
    """After a stop that is fulfilled: the machines that no listing showed in time; '' if there are none."""
    _awaited: list[str] = field(default_factory=list)
    _unadvised: Mapping[str, str] = field(default_factory=dict)
    _events: Wakes | None = None
    _troubles: tuple[str, ...] = ()
    """What an operator should know, as of the last pass."""
    _rejected: str = ""
    """Why the settings that were read last do not hold."""
    _slowed: tuple[str, ...] = ()
    """Why it polls, or polls less often, as last reported."""
    _watched: tuple[int, int] | None = None
    """The store's file whose changes wake the loop."""
    _stop: str = ""
    _anew: bool = False
    _reload_wanted: bool = False
    _blind: str = ""
    _blind_passes: int = 0
    _blind_words: set[str] = field(default_factory=set)
    """What was logged of the outage that goes on, without numbers."""
    _last: Observation | None = None
    _memory: Memory | None = None
    """What the last pass remembers."""
    _ends: set[str] = field(default_factory=set)
    """Listed machines that the provider was asked to end."""
    _cleaned_at: float | None = None
    _changes_seen: int = 0
    _settled: SettledObservation = field(default_factory=SettledObservation)
    """What is reported sees hosts as Grid Engine has them, a plan as rules and queues change them."""
    _fulfilment: Fulfilment = field(init=False)
    _timing: PassTiming = field(default_factory=PassTiming)

    def __post_init__(self) -> None:
        self.listeners.dry_run = self.dry_run
        self._fulfilment = Fulfilment(self.store)

    # -- one pass ------------------------------------------------------------------------------------------------

    def pass_once(self) -> Pass:
        """Observe, plan, act, report. Raises NotObservable, and has then done nothing."""
        observation = self.observer.observe()
        snapshot = observation.snapshot
        self._last = observation
        self._ends.intersection_update(worker.id for worker in snapshot.fleet.workers)
        began = self.stopwatch()
        plan = self.decide(snapshot)
        timings = {**observation.timings, "decide": self.stopwatch() - began}
        self._memory = plan.memory
        self.listeners.decided(ObservedPlan(snapshot, plan, timings, None))
        began = self.stopwatch()
        outcomes = [] if self._stop else self._act(plan, snapshot)
        done = self._done(observation, plan, outcomes, {**timings, "act": self.stopwatch() - began})
        self._note_ends(outcomes)
        self._report_troubles()
        self.listeners.passed(done)
        self._remember(done)
        return done

    def _done(
        self, observation: Observation, plan: Plan, outcomes: Sequence[Outcome], timings: Mapping[str, float]
    ) -> Pass:
        snapshot = readable(observation.snapshot)
        observed = observe_workers(
            snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now, self._settled
        )
        return Pass(
            replace(observation, timings={name: spent for name, spent in timings.items() if name != "act"}),
            plan,
            snapshot,
            observed,
            outcomes,
            timings,
            self.poll,
            self._delay(observation.snapshot, plan),
            frozenset(self._ends),
            stopping=bool(self._stop),
        )

    def _act(self, plan: Plan, snapshot: Snapshot) -> list[Outcome]:
        if self.dry_run:
            self.store.memory.save(plan.memory, snapshot.now)
            return []
        journalled = self.store.accept(
            plan, pass_number=plan.memory.passes, at=snapshot.now, overrides=snapshot.overrides, worded=text
        )
        if isinstance(self.observer.provider, ForgetsNotices):
            self.observer.provider.notices_kept()
        outcomes = self.actor.act(journalled, snapshot.fleet.workers, carry_on=lambda: not self._stop)
        grace = self.observer.policy.order_grace
        if snapshot.overrides.paused or snapshot.overrides.stop or plan.memory.circuit_breaker:
            self.actor.abandon(snapshot.fleet.workers, grace=grace)
        elif not self._stop:
            self.actor.resume(snapshot.fleet.workers, grace=grace)
        return outcomes

    def _remember(self, done: Pass) -> None:
        """Keep what commands show later (explanations, lifetimes), and end overrides that have been carried out."""
        plan, snapshot, observed = done.plan, done.snapshot, done.observed
        notes = plan.memory.workers
        reported = [worker_id for worker_id, note in notes.items() if note.joined_at is not None]
        with self.store.database.transaction():
            if isinstance(self.observer.clock, SteadyClock):
                self.observer.clock.keep()
            slots = {worker.worker.id: count for worker in observed.known if (count := slots_of(worker.host))}
            self.store.history.note_workers(
                snapshot.fleet.workers,
                reported,
                snapshot.now,
                slots,
                snapshot.policy.currency,
                {worker_id: note.ordered_for for worker_id, note in notes.items()},
                {worker_id: note.made_at for worker_id, note in notes.items() if note.made_at is not None},
            )
            self.store.history.explain(plan.job_categories, snapshot.now)
            self._fulfilment.note(snapshot)
            self._end_overrides_for_gone_hosts(snapshot)
            self.store.observations.keep(self._last_observation(snapshot, observed, plan), snapshot.now)
            self.listeners.keep(done, self.store.database)
        if self._cleaned_at is None or snapshot.now - self._cleaned_at > HOUSEKEEPING:
            self._cleaned_at = snapshot.now
            self.store.forget_old(snapshot.now, self.cost_kept)

    def _last_observation(self, snapshot: Snapshot, observed: ObservedWorkers, plan: Plan) -> LastObservation:
        """The values that other threads may show."""
        provider = self.observer.provider
        seen = last_observation(
            snapshot, observed, plan, provider=provider.name, operates=isinstance(provider, Operates)
        )
        return replace(seen, troubles=self._troubles, **place_of(provider))

    def _end_overrides_for_gone_hosts(self, snapshot: Snapshot) -> None:
        """An override names a host, or a worker by its id: not a later machine of the same name."""
        there = {short_name(name) for name in snapshot.cluster.execution_hosts}
        ids = {worker.id for worker in snapshot.fleet.workers if worker.exists}
        ids |= {worker_id for worker_id, note in snapshot.memory.workers.items() if not note.gone}
        there |= {short_name(worker.name) for worker in snapshot.fleet.workers if worker.exists and worker.name}
        for verb, hosts in ((Verb.KEEP, snapshot.overrides.keep), (Verb.DRAIN, snapshot.overrides.drain)):
            for host in sorted(hosts):
                if short_name(host) not in there and host not in ids:
                    self.store.overrides.end(verb, who=f"{AUTOSCALER}: the host is gone", at=snapshot.now, host=host)

    def _report_troubles(self) -> None:
        """Why it observes less often than it could; each reason is logged when it begins, and when it is over."""
        found = []
        if self._events is not None and (why := self._events.trouble):
            found.append(f"no events of Grid Engine ({why}): it is polled every {self._poll:g} s")
        if self.guard is not None and (slow := self.guard.trouble(self.poll)):
            found.append(slow)
        if self.guard is not None and self.guard.pause(self.poll) > max(LONG_PAUSE, 2 * self.poll):
            found.append(COMMANDS_SLOW)
        before, self._slowed = self._slowed, tuple(found)
        for trouble in self._slowed:
            if trouble not in before:
                log.warning(trouble)
        if before and not found:
            log.info("Grid Engine is observed as usual again")
        rejected = (self._rejected,) if self._rejected else ()
        self._troubles = (*rejected, *self._slowed, *self._report_advice(), *self.listeners.troubles, *failed_threads())

    def _report_advice(self) -> list[str]:
        """What the provider cannot say now; each source is logged when that begins, and when it is over."""
        before, self._unadvised = self._unadvised, self.observer.troubles()
        for source, why in self._unadvised.items():
            if source not in before:
                log.warning("%s: %s", source, why)
        for source in before.keys() - self._unadvised.keys():
            log.info("%s: as usual again", source)
        return [f"{source}: {why}" for source, why in self._unadvised.items()]

    @property
    def _poll(self) -> float:
        """The polling delay as it is now."""
        return self.poll if self.guard is None else self.guard.slowed(self.poll)

    def _delay(self, snapshot: Snapshot, plan: Plan) -> float:
        """Seconds from a pass to the next if nothing wakes the loop and nothing is due."""
        idle = self._events is not None and self._events.alive and not self.asks_policies
        return self._poll * (IDLE if idle and nothing_to_scale(snapshot, plan) else 1.0)

    # -- many passes ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Make passes until the autoscaler is stopped, or until a `stop` by a person is carried out."""
        self.store.sweep(self.observer.clock())
        self._changes_seen = self.store.database.changes_by_others
        self._watch()
        self.notifier.ready()
        try:
            released = self._pass_after_pass()
        finally:
            self.notifier.stopping()
        if released:
            self.listeners.released()
            if self.may_come:
                log.warning("%s", may_still_come(self.may_come))
            self._log_remaining(("all listed workers" if self.may_come else "all workers") + RELEASED)
            return
        if under_way := self.actor.busy:
            log.info("%s: waiting for %d calls to the provider", self._stop, under_way)
            self.actor.finish(LAST_CALLS)
        self._log_remaining(self._stop if self._anew else f"{self._stop}: stopping")

    def _pass_after_pass(self) -> bool:
        """False: the autoscaler was stopped. True: all workers of a `stop` are released."""
        freed = FreedMemory()
        while not self._stop:
            if self.store.database.file != self._watched:
                self._watch()
            began = self.stopwatch()
            self.listeners.begins()
            pause = self._guarded_pass()
            collect_after_pass()
            freed.give_back(self.stopwatch())
            try:
                if self._released():
                    return True
                self._wait(pause, at_least=min(self.stopwatch() - began, self.poll))
                if self._reload_wanted:
                    self._reload()
            except StateReplaced:
                raise
            except Exception as error:  # noqa: BLE001 - as after a failed pass
                self.wakeup.wait(self._failed(error))
        return False

    def _watch(self) -> None:
        """Wake up when other processes write to the store."""
        self._watched = self.store.database.file
        self.wakeup.watch(self.store.database.log_file)

    def stop(self, why: str, *, anew: bool = False) -> None:
        """End after the action in hand; workers stay. Safe in a signal handler. `anew`: another loop follows at
        once.
        """
        self._stop, self._anew = why, anew
        self.wakeup.ring()

    def _guarded_pass(self) -> float:
        """One pass; returns how long to wait after it. No error in a pass ends the loop."""
        began = self.stopwatch()
        try:
            done = self.pass_once()
        except (LockHeld, StateReplaced):  # another one acts now, or our memory fits no more: we could act twice
            raise
        except Exception as error:  # noqa: BLE001 - the loop's edge: the next pass observes anew
            return self._failed(error)
        if self._blind:
            again = _AGAIN.get(self._blind, "Grid Engine and the provider can be observed again")
            log.info("%s after %d attempts", again, self._blind_passes)
        self._blind, self._blind_passes = "", 0
        self.notifier.status(f"pass {done.plan.memory.passes}: {done.plan.waiting} wait")
        return self._timing.pause_after(
            done.plan.workers,
            now=self.observer.clock(),
            took=self.stopwatch() - began,
            delay=done.next_in,
            due=done.plan.due,
            acted=bool(done.acted),
            continues=done.ordered or done.did(Disable) or done.did(Remove),
        )

    def _failed(self, error: Exception) -> float:
        """Log what ended a pass, or the wait after it; returns how long to wait."""
        match error:
            case NotObservable():
                return self._cannot(f"cannot observe Grid Engine or the provider, so nothing is done: {error}", error)
            case StateNotKept() | CommandError():
                return self._cannot(str(error), error)
            case OSError() if error.errno in NO_ROOM:
                return self._cannot(f"the disk is full: {error}; make room there", error)
        log.error(DEFECT, exc_info=error)
        return self._backoff(error, "")

    def _cannot(self, words: str, error: Exception) -> float:
        """Log it once. The words change while an outage goes on (refused, timed out), and only a new kind is news:
        other words of the same kind are details, each once and a few at most.
        """
        kind, plain = type(error).__name__, _DIGITS.sub("0", words)
        if kind != self._blind:
            log.error(words)
            self._blind_words = set()
        elif plain not in self._blind_words and len(self._blind_words) < MOST_WORDS:
            log.debug(words)
        self._blind = kind
        self._blind_words.add(plain)
        self.notifier.status(words)
        return self._backoff(error, words)

    def _backoff(self, error: Exception, words: str) -> float:
        self.listeners.failed(FailedPass(error, self.observer.clock(), words))
        self._blind_passes += 1
        return doubled_wait(self._blind_passes, SOON, self.poll)

    def _wait(self, pause: float, *, at_least: float) -> None:
        """Wait for the poll or for a reason to observe earlier, for at least as long as the last pass took."""
        alone = 0.0 if self.guard is None else self.guard.pause(self.poll)
        wait = self._timing.wait(self.stopwatch(), pause, at_least=at_least, alone=alone)
        while not self._stop and not self._reload_wanted:
            self.notifier.alive()
            left = wait.until - self.stopwatch()
            if left <= 0:
                return
            rung = self.wakeup.wait(min(left, self.notifier.watchdog_every or left))
            person = self._others_wrote()
            if rung or person:
                wait.ring(self.stopwatch(), person=person)

    def _others_wrote(self) -> bool:
        """Whether another process wrote to the store."""
        changes = self.store.database.changes_by_others
        changed, self._changes_seen = changes != self._changes_seen, changes
        return changed

    def _released(self) -> bool:
        """Whether an operator stopped it, and no worker is left; then the override is done."""
        last = self._last
        if last is None or self._blind or self._stop or not last.snapshot.overrides.stop:
            return False
        if any(worker.exists for worker in last.snapshot.fleet.workers) or self.actor.uncertain:
            return False
        if not self._all_seen(last.snapshot):
            return False
        done = f"{AUTOSCALER}: done" + (f"{MAY_COME}{self.may_come}" if self.may_come else "")
        now = self.observer.clock()
        ended = [self.store.overrides.end(verb, who=done, at=now) for verb in (Verb.STOP_DRAIN, Verb.STOP_NOW)]
        if not any(ended):
            return False  # a person resumed meanwhile
        self._fulfilment.end_all(self.observer.clock(), f"{AUTOSCALER}: all is given back")
        return True

    def _all_seen(self, snapshot: Snapshot) -> bool:
        """Whether no worker may come any more that no listing shows, or a stop has waited for it long enough: then
        `may_come` names it. A known worker that the listing leaves out is waited for, too: as long as the listing may
        lag, and then as long as a silent host is given, which makes its end certain.
        """
        policy = snapshot.policy
        now, grace = self.observer.clock(), policy.order_grace
        asked_at = self.store.overrides.stopping_since
        hidden = unseen(self.store, (now if asked_at is None else asked_at) - grace)
        notes = (snapshot.memory if self._memory is None else self._memory).workers
        missing = {worker_id: note.missing_since or now for worker_id, note in notes.items() if not note.gone}
        long_enough = now - grace - policy.silence_timeout
        left_out = [worker_id for worker_id, since in missing.items() if since > long_enough]
        awaited = [each.words for each in hidden if now - each.since < grace] + left_out
        if awaited and awaited != self._awaited:
            log.info("the stop waits for %s: in no listing yet", few(awaited))
        self._awaited = awaited
        if not awaited:
            self.may_come = few([each.words for each in hidden] + [one for one in missing if one not in left_out])
        return not awaited

    def _reload(self) -> None:
        self._reload_wanted = False
        if self.reload is None:
            return
        try:
            self.observer.policy, self.poll = self.reload()
        except AutoscalerError as error:
            log.error("the former settings stay in force: %s", error)  # noqa: TRY400 - a sentence, no traceback
            self._rejected = f"the settings were read again and are refused, so the former ones stay in force: {error}"
            return
        self._rejected = ""
        log.info("the changed settings apply now")

    def offered(self) -> frozenset[str]:
        """Names of the instance types that the provider offers, as of the last observation. Any thread may ask."""
        last = self._last
        return frozenset() if last is None else frozenset(bucket.type.name for bucket in last.snapshot.fleet.buckets)

    def _log_remaining(self, why: str) -> None:
        """Which workers stay: those of the last observation (of a former process if need be), without those ended
        since, and with those ordered.
        """
        self._note_ends(self.actor.ended())
        if self._last is not None:
            listed = self._last.snapshot.fleet.workers
        else:
            before = self.store.observations.load()
            listed = tuple(each.worker for each in before.workers) if before is not None else ()
        workers = [worker for worker in listed if worker.exists]
        ending = [worker for worker in workers if worker.id in self._ends]
        left = [worker for worker in workers if worker.id not in self._ends]
        now, policy = self.observer.clock(), self.observer.policy
        orders = self.observer.orders(now)
        coming = sum(count for _, count in outstanding(Fleet(tuple(listed), (), orders), policy, now))
        log.info("%s; %s", why, remaining(left, policy.currency, ending=len(ending), coming=coming))

    def _note_ends(self, outcomes: Iterable[Outcome]) -> None:
        """Note the machines that the provider was asked to end, whether the listing shows it already or not."""
        done = (outcome for outcome in outcomes if outcome.result is Result.DONE)
        self._ends.update(outcome.action.worker_id for outcome in done if isinstance(outcome.action, Terminate))

    # -- wake-ups ------------------------------------------------------------------------------------------------

    @contextmanager
    def signals(self, *, reloads: bool = True) -> Iterator[None]:
        """SIGTERM and SIGINT stop it, SIGHUP reads the settings again. Only on the main thread. `reloads`: False where
        SIGHUP stops it, too, as the end of its terminal does, but for one that ignores it (`nohup`).
        """

        def stop(number: int, _: FrameType | None) -> None:
            self.stop(signal.Signals(number).name)

        def reload(_: int, __: FrameType | None) -> None:
            self._reload_wanted = True
            self.wakeup.ring()

        chosen = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        if not reloads:
            chosen[signal.SIGHUP] = stop
            if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                del chosen[signal.SIGHUP]
        before = {number: signal.signal(number, handler) for number, handler in chosen.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def stopped_by(self) -> str:
        """Name of the signal that stopped it; '' if none did."""
        return self._stop

    def attach(self, listener: PassListener) -> None:
        """Have it hear of each pass from the next one on."""
        self.listeners.attach(listener)

    def listen(self, events: Wakes) -> None:
        """Wake on Grid Engine's events, for as long as the process lives; polling goes on as the backstop."""
        self._events = events


def remaining(workers: Sequence[Worker], currency: str, *, ending: int = 0, coming: int = 0) -> str:
    """`2 workers stay, 0.384 USD an hour: w1, w2; 1 is ending`."""
    besides = f"; {ending} {'is' if ending == 1 else 'are'} ending" if ending else ""
    besides += f"; {coming} more {'was' if coming == 1 else 'were'} ordered and may come" if coming else ""
    return _remaining(workers, currency, alone=not besides) + besides


def _remaining(workers: Sequence[Worker], currency: str, *, alone: bool) -> str:
    if not workers:
        return "no worker is left" if alone else "no worker stays"
    prices = [worker.price_per_hour for worker in workers]
    known = [price for price in prices if price is not None]
    price = f"{sum(known):.3f} {currency} an hour" if known else "at an unknown price"
    unknown = f" and {len(prices) - len(known)} of unknown price" if known and len(known) < len(prices) else ""
    names = ", ".join(worker.name or worker.id for worker in workers)
    return f"{len(workers)} worker{'s' * (len(workers) > 1)} stay{'s' * (len(workers) == 1)}, {price}{unknown}: {names}"
