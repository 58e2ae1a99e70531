"""Keeps the names of workers resolvable on the master if no DNS knows them: Grid Engine accepts no host whose name does
not resolve, so a worker could not join by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from autoscaler.core.model.fleet import Worker
from autoscaler.engine.pass_listener import PassListener
from autoscaler.errors import HostsFileUnusable
from autoscaler.report.observed_plan import ObservedPlan

log = logging.getLogger(__name__)


class KeepsNames(Protocol):
    """`autoscaler.hosts_file.HostsFile`, or its helper; `autoscaler.engine.host_list.HostList`."""

    def kept(self) -> dict[str, str]: ...

    def keep(self, addresses: Mapping[str, str]) -> bool: ...


class WorkerNames(PassListener):
    """Before actions, since a worker is made an execution host by its name. If the file cannot be
    changed, that is logged once, until it can be changed again.
    """

    title = "the names of workers"

    def __init__(
        self, hosts: KeepsNames, clock: Callable[[], float], grace: float, harm: str = "workers may be unable to join"
    ) -> None:
        """`grace`: seconds for which a listing may lag. A worker that a listing leaves out may still exist. `harm`:
        what happens if the names cannot be kept.
        """
        self._hosts, self._clock, self._grace, self._harm, self._logged = hosts, clock, grace, harm, ""
        self._seen: dict[str, tuple[str, float]] | None = None
        """Address by name, and when it was last listed so; None until the file was read."""

    def decided(self, seen: ObservedPlan) -> None:
        self.keep_names(seen.snapshot.fleet.workers)

    def keep_names(self, workers: Sequence[Worker]) -> None:
        """Make the names of all workers that exist, or may exist, resolve, and remove other names of ours."""
        try:
            self._hosts.keep(self._named(workers))
        except HostsFileUnusable as error:
            if str(error) != self._logged:
                log.warning("%s: %s", self._harm, error)
            self._logged = str(error)
            return
        self._logged = ""

    def _named(self, workers: Sequence[Worker]) -> dict[str, str]:
        now = self._clock()
        if self._seen is None:  # lines of an earlier process may be of workers that this listing leaves out
            self._seen = {name: (address, now) for name, address in self._hosts.kept().items()}
        listed = {worker.name: worker.address for worker in workers if worker.exists and worker.name and worker.address}
        ended = {worker.name for worker in workers if not worker.exists}
        given = set(listed.values())
        missing = {
            name: (address, at)
            for name, (address, at) in self._seen.items()
            if name not in ended and address not in given and now - at < self._grace
        }
        self._seen = missing | {name: (address, now) for name, address in listed.items()}
        return {name: address for name, (address, _) in self._seen.items()}
