"""Interruption notices that workers themselves report: a load value of their load sensor, from the cloud's metadata,
which only the machine can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import Interruption, Worker
from autoscaler.core.workers.worker_state import same_host

COMPLEX = "sge_autoscaler_notice"
"""The load value. Grid Engine drops it while no complex of this name is defined; `init` defines it."""
_NOTICE = re.compile(r"(terminate|stop|reboot|rebalance)@([0-9]{9,11})")


def reported_notices(hosts: Iterable[ExecutionHost], workers: Iterable[Worker]) -> Iterator[Interruption]:
    """Notices of hosts that still send load reports, for the workers that they are. Any other text is no notice."""
    reported = {
        host.name: (notice[1], float(notice[2]))
        for host in hosts
        if host.heard and (notice := _NOTICE.fullmatch(host.load.get(COMPLEX, "")))
    }
    for worker in workers if reported else ():
        for name, (kind, at) in reported.items():
            if worker.exists and worker.name is not None and same_host(worker.name, name):
                yield Interruption(worker.id, at, kind)
