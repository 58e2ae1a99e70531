"""Where the master task of a parallel job may be: `-masterq`.

One slot of such a job must be in a queue instance that the request names; for the others it counts only without `-q`
(seen on 8.1.9: with `-q main.q -masterq big.q` one slot is in big.q and all others are in main.q). Placement knows
amounts only. So the request is an amount once per job, on the queue instances that may have the master task. A queue
that is for the master task alone offers one slot of the others' amount: it counts for one such job at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.model.cluster import Cluster, JobRequest
from autoscaler.core.model.complexes import matches

MASTER = "-masterq "
"""The names of these amounts begin so."""
_ALONE = " alone"
_ANY_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class MasterRequest:
    """The queues that a parallel job names for its master task, and those for its other tasks (none: any)."""

    masters: tuple[str, ...]
    queues: tuple[str, ...]

    @property
    def name(self) -> str:
        """The amount once per job, for its master task."""
        return MASTER + ",".join(self.masters) + (f" -q {','.join(self.queues)}" if self.queues else "")

    @property
    def alone(self) -> str:
        """The amount of every slot in a queue that is for the master task alone."""
        return self.name + _ALONE

    def amounts(self, queue: str, hosts: Iterable[str], groups: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """What a queue instance has of both. `hosts`: names that its host goes by, host groups of its included."""
        names = tuple(hosts)
        of_master = any(_is_named(request, queue, names, groups) for request in self.masters)
        if not self.queues or any(_is_named(request, queue, names, groups) for request in self.queues):
            return {self.name: _ANY_NUMBER} if of_master else {}
        # The master's queue on another host than the one it names is for none of its tasks.
        return {self.name: 1, self.alone: 1} if of_master else {self.alone: 0}


def master_request(ask: JobRequest) -> MasterRequest | None:
    """None: it names no queue for its master task."""
    return MasterRequest(ask.master_queues, ask.queues) if ask.master_queues else None


def master_requests(cluster: Cluster) -> tuple[MasterRequest, ...]:
    """All that waiting jobs have, each once."""
    found = (master_request(category.ask) for category in cluster.job_categories if category.ask.master_queues)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _is_named(request: str, queue: str, hosts: Sequence[str], groups: Mapping[str, Sequence[str]]) -> bool:
    """Whether a request (`main.q`, `*@w1`, `@@x`) names the queue on a host of these names."""
    pattern, _, place = request.partition("@")
    if not matches(pattern or "*", queue):
        return False
    if not place.startswith("@"):
        return not place or any(matches(place, host) for host in hosts)
    return any(place == host or host in groups.get(place, ()) for host in hosts)
