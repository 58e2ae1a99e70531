"""Shows on the platform which machines are in use: a tag on each run on whose host a job runs, or ran a moment ago.

Grid Engine's jobs are the only source. The platform is told on a thread of its own, one run after the other, and asked
again with a later pass if it did not answer. After a start nothing is known of the tags that are there, so each idle
run is looked at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from autoscaler.core.model.cluster import short_name
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.providers.interface import Machine, ProviderError, ShowsUse

log = logging.getLogger(__name__)
Start = Callable[[Callable[[], None], str], "Future[None]"]
_LAST_CALL = 60.0
"""Seconds to wait for a call that is under way when the last worker has left."""


class InUse(PassListener):
    """One for the life of a loop."""

    title = "showing which machines are in use"

    def __init__(self, shows: ShowsUse, timeout: float, start: Start) -> None:
        """`timeout`: seconds after its last job for which a machine still counts as in use."""
        self._shows, self._timeout, self._start = shows, timeout, start
        self._last_job: dict[Machine, float] = {}
        self._told: dict[Machine, bool] = {}
        self._wanted: dict[Machine, bool] = {}
        self._queues: dict[str, str] = {}
        """By name of a host of one queue alone, that queue: what is done about it is told in its log."""
        self._guard = threading.Lock()
        self._under_way: Future[None] | None = None
        self._complained = ""
        self._noted_at = 0.0

    def passed(self, done: Pass) -> None:
        self.note(done.snapshot)

    def note(self, snapshot: Snapshot) -> None:
        machines = dict(_machines(snapshot))
        self._noted_at = snapshot.now
        self._queues |= dict(_queues(snapshot))
        self._last_job |= dict.fromkeys((machine for machine, busy in machines.items() if busy), snapshot.now)
        wanted = {
            machine: machine in self._last_job and snapshot.now - self._last_job[machine] < self._timeout
            for machine in machines
        }
        with self._guard:
            gone = {machine: False for machine, told in self._told.items() if told and machine not in machines}
            self._told = {machine: told for machine, told in self._told.items() if machine in machines or told}
            self._wanted = wanted | gone
            known = {machine.name for machine in (*machines, *self._told)}
            self._queues = {name: queue for name, queue in self._queues.items() if name in known}
            todo = [machine for machine, use in self._wanted.items() if self._told.get(machine) is not use]
        self._last_job = {machine: at for machine, at in self._last_job.items() if machine in machines}
        if todo and (self._under_way is None or self._under_way.done()):
            self._under_way = self._start(lambda: self._tell(todo), "in-use")

    def released(self) -> None:
        """Nobody keeps these tags any more: those of machines on which no job runs now are taken away."""
        if self._under_way is not None:
            self._under_way.result(_LAST_CALL)
        with self._guard:
            idle = [
                machine
                for machine, told in self._told.items()
                if told and self._last_job.get(machine) != self._noted_at
            ]
            self._wanted |= dict.fromkeys(idle, False)
        self._tell(idle)

    def _tell(self, machines: list[Machine]) -> None:
        for machine in machines:
            use = self._wanted.get(machine, False)
            try:
                self._shows.show_use(machine, in_use=use)
            except ProviderError as error:
                if str(error) != self._complained:
                    log.warning("the platform does not show which runs are in use: %s", error)
                self._complained = str(error)
                return
            self._complained = ""
            if use or self._told.get(machine):
                what = "is tagged as in use" if use else "is in use no longer: its tag is gone"
                of_queue = {"queue": self._queues[machine.name]} if machine.name in self._queues else None
                log.debug("the run of %s %s", machine.name, what, extra=of_queue)
            with self._guard:
                self._told[machine] = use
                if not use and machine not in self._last_job and machine not in self._wanted:
                    del self._told[machine]


def _queues(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for host in snapshot.cluster.hosts:
        queues = {instance.queue for instance in host.instances}
        if len(queues) == 1:
            yield short_name(host.name), queues.pop()


def _machines(snapshot: Snapshot) -> Iterator[tuple[Machine, bool]]:
    """Each machine, and whether a job runs there now."""
    workers = {short_name(worker.name): worker.id for worker in snapshot.fleet.workers if worker.exists and worker.name}
    master = short_name(snapshot.policy.master)
    for host in snapshot.cluster.hosts:
        name = short_name(host.name)
        yield Machine(name, workers.get(name), is_master=name == master), bool(host.jobs)
