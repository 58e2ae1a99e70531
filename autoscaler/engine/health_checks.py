"""Runs the operator's own command to check whether workers are healthy: a few at a time, off the loop's thread.

Exit code 0 means healthy, and 1 sick, with the reason in the first line of output. Any other result, or no end in time,
has no meaning, and no decision uses it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.fleet import MachineState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.policy import Policy
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.errors import CommandError
from autoscaler.process import Runner
from autoscaler.store.evidence import HealthTable

AT_ONCE = 8
"""Most checks that run at the same time."""
TIMEOUT = 30.0
"""Seconds until a check is killed; it then has no result."""
WORDS = 200
"""Characters of a check's first line that are kept."""
HEALTHY, SICK = 0, 1

log = logging.getLogger(__name__)


@dataclass(slots=True)
class HealthChecks(PassListener):
    """One for the life of a process."""

    title = "health checks"

    runner: Runner
    table: HealthTable
    clock: Callable[[], float]
    on_sick: Callable[[], None] = lambda: None
    """Called from another thread when a worker is sick."""
    executor: Executor = on_thread
    _begun: dict[str, float] = field(default_factory=dict)
    """The start of each worker's last check, by worker id."""
    _running: dict[str, Future[None]] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    """The logged errors of checks without a result."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def passed(self, done: Pass) -> None:
        if not done.stopping:
            snapshot = done.observation.snapshot
            self.begin(snapshot.fleet.workers, done.plan.memory, snapshot.policy)

    def begin(self, workers: Sequence[Worker], memory: Memory, policy: Policy) -> None:
        """Begin the checks that are due, longest waiting first, without waiting for any."""
        now = self.clock()
        self._collect()
        due = list(_to_check(workers, memory, policy))
        self._begun = {one.worker.id: self._begun[one.worker.id] for one in due if one.worker.id in self._begun}
        for one in sorted(due, key=lambda one: self._begun.get(one.worker.id, 0.0)):
            worker_id = one.worker.id
            if len(self._running) >= AT_ONCE:
                return
            if worker_id in self._running or now - self._begun.get(worker_id, -one.interval) < one.interval:
                continue
            self._begun[worker_id] = now
            self._running[worker_id] = self.executor(partial(self._check, one), f"health-{worker_id[:8]}")

    def _collect(self) -> None:
        """Forget the checks that ended. A result that cannot be stored (a full disk) is logged, and the check runs
        again.
        """
        for worker_id, check in list(self._running.items()):
            if check.done():
                del self._running[worker_id]
                if error := check.exception():
                    log.error("the result of the health check of %s cannot be stored: %s", worker_id, error)

    def _check(self, one: Check) -> None:
        try:
            answer = self.runner(one.argv, timeout=TIMEOUT)
        except CommandError as error:
            return self._no_answer(one, str(error))
        if answer.returncode not in (HEALTHY, SICK):
            return self._no_answer(one, f"{one.command[0]} ended with {answer.returncode}")
        healthy = answer.returncode == HEALTHY
        message = "" if healthy else _first_line(answer.stdout)
        self.table.note(one.worker.id, self.clock(), healthy=healthy, message=message)
        if not healthy:
            self.on_sick()
        return None

    def _no_answer(self, one: Check, why: str) -> None:
        self.table.unknown(one.worker.id)
        with self._lock:
            known = why in self._said
            self._said.add(why)
        if not known:
            log.warning("the health check of %s gave no result: %s", one.worker.name, why)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one worker."""

    worker: Worker
    command: tuple[str, ...]
    interval: float

    @property
    def argv(self) -> tuple[str, ...]:
        """Host name, address ('' where unknown) and worker id follow the operator's own words."""
        return (*self.command, self.worker.name or "", self.worker.address or "", self.worker.id)


def _to_check(workers: Sequence[Worker], memory: Memory, policy: Policy) -> Iterator[Check]:
    """Workers in service, of node arrays with a check: not those that come or leave."""
    for worker in workers:
        array, note = policy.node_array(worker.node_array), memory.workers.get(worker.id)
        if array is None or not array.health_check or note is None or note.joined_at is None:
            continue
        option = worker.id.startswith("-")  # whose names and addresses are none is known before (`foreign_names`)
        if note.disabling is None and worker.name and not option and worker.state is MachineState.RUNNING:
            yield Check(worker, array.health_check, array.health_interval)


def _first_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    printable = "".join(char for char in lines[0] if char.isprintable()) if lines else ""
    return printable[:WORDS]
