"""Keeps the names of workers resolvable on the master where no DNS knows them: Grid Engine takes no host whose name
does not resolve, so a worker that joins by itself could not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from autoscaler.core.fleet import Worker
from autoscaler.errors import HostsFileUnusable
from autoscaler.hosts_file import HostsFile

log = logging.getLogger(__name__)


class WorkerNames:
    """Called with every complete listing. A file that cannot be changed is said once, until it can be again."""

    def __init__(self, hosts: HostsFile) -> None:
        self._hosts, self._said = hosts, ""

    def __call__(self, workers: Sequence[Worker]) -> None:
        """Let the names of all workers that exist resolve, and no others of ours."""
        named = {worker.name: worker.address for worker in workers if worker.exists and worker.name and worker.address}
        try:
            self._hosts.keep(named)
        except HostsFileUnusable as error:
            if str(error) != self._said:
                log.warning("workers may be unable to join: %s", error)
            self._said = str(error)
            return
        self._said = ""
