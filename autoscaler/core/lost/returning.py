"""Work that will wait again soon: jobs on workers that are about to be taken or ended, as far as they may start again.

It is wanted like what waits, after it, so that a replacement is ordered before the old worker is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoscaler.core.cluster import Ask, Cluster, HostJob
from autoscaler.core.life import Life, Machine
from autoscaler.core.lost.lost_jobs import standing
from autoscaler.core.lost.recovery import Aftermath, restart_known
from autoscaler.core.model import Demand, Wanted
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Reason
from autoscaler.core.requests import Reader
from autoscaler.core.ruled.demand import Asker
from autoscaler.core.sight import Sight


def returning(sight: Sight, cluster: Cluster, policy: Policy, after: Aftermath, now: float) -> tuple[Wanted, ...]:
    """One entry for every different need. A job over several hosts needs again what it has on this one."""
    reader: Reader | None = None
    rules = Asker(cluster, policy, {})
    counts: dict[tuple[Demand, tuple[str, ...]], int] = {}
    for job, queue, slots in _work(sight.machines, after):
        reader = reader or Reader(cluster, policy, frozenset(machine.name for machine in sight.machines))
        ask = Ask("Rq", hard=job.hard, queues=(queue,), owner=job.owner)
        served = reader.read(ask)
        if not isinstance(served, Reason) and served.launches:
            served = rules.ask(served, rules.known_of(ask), array=bool(job.task))
            need = replace(served.demand, slots=slots, per_host=slots)
            counts[need, served.launches] = counts.get((need, served.launches), 0) + 1
    return tuple(
        Wanted(need, count, now, expired=True, launches=launches) for (need, launches), count in counts.items()
    )


def _work(machines: Sequence[Machine], after: Aftermath) -> Iterator[tuple[HostJob, str, int]]:
    """Jobs with their queue and the slots that they have on that worker."""
    for machine in machines:
        taken = machine.life is Life.INTERRUPTED and machine.notice is not None
        if machine.host is None or not (taken or machine.life is Life.FENCED):
            continue
        for job, queue in standing(machine.host):
            if restart_known(job, queue, after):
                same = [one for one in machine.host.jobs if (one.number, one.task) == (job.number, job.task)]
                yield job, queue, sum(one.slots for one in same)
