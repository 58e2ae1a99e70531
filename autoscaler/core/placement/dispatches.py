"""Jobs that were dispatched while Grid Engine was read: they wait in qstat, and use slots in the later qhost.

For waiting jobs, a host to which something was dispatched in between counts as it was when the jobs were read: the jobs
in flight find their own slots there, so that nothing is launched for them. For anything else its present use counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.model.cluster import Cluster, ExecutionHost, QueueInstance
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.hosts import joined_host
from autoscaler.core.placement.needs import SLOTS, requested_amounts
from autoscaler.core.readable.remembered import LastObjects


@dataclass(frozen=True, slots=True)
class BeforeDispatch:
    """Hosts as they were when the jobs were read."""

    hosts: Mapping[str, Host] = field(default_factory=lambda: MappingProxyType({}))
    """By name, those with slots in flight."""
    order: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By name, the index of each host of the cell. Placement fills hosts in order, so a host that comes back into the
    supply must get its old place: elsewhere the same jobs may fit worse.
    """
    at_least: Mapping[str, Host] = field(default_factory=lambda: MappingProxyType({}))
    """The same hosts if the jobs in flight hold nothing but slots."""

    @property
    def with_least(self) -> BeforeDispatch:
        """The hosts if the jobs in flight hold nothing but slots."""
        return replace(self, hosts=self.at_least)

    def of(self, supply: Iterable[Host]) -> tuple[Host, ...]:
        """The supply with each of these hosts as it was when the jobs were read, also if full or closed now."""
        found = [self.hosts.get(host.name, host) for host in supply]
        names = {host.name for host in found}
        for name, host in self.hosts.items():
            if name not in names:
                place = self.order.get(name, -1)
                later = (at for at, other in enumerate(found) if self.order.get(other.name, place) > place)
                found.insert(next(later, len(found)), host)
        return tuple(found)


def before_dispatch(
    cluster: Cluster, demands: Sequence[CategoryDemand], names: frozenset[str], groups: Mapping[str, str]
) -> BeforeDispatch:
    """Hosts with slots in flight, as they were when the jobs were read.

    What was left of a consumable then is not known. For each slot in flight, the most that any waiting job asks for is
    added to what is left now, or nothing. `groups`: of workers, by name.
    """
    found: dict[str, Host] = {}
    least: dict[str, Host] = {}
    for host, slots in _IN_FLIGHT.value_of((cluster.hosts,), lambda: _in_flight(cluster.hosts)):
        earlier = joined_host(_earlier(host), cluster.complexes, names)
        if earlier is not None:
            held = {name: slots * amount for name, amount in _most_of_a_slot(demands)}
            free = tuple((name, left + held.get(name, 0)) for name, left in earlier.free)
            least[host.name] = replace(earlier, group=groups.get(host.name, ""))
            found[host.name] = replace(least[host.name], free=free)
    return BeforeDispatch(found, {host.name: at for at, host in enumerate(cluster.hosts)} if found else {}, least)


_IN_FLIGHT = LastObjects[list[tuple[ExecutionHost, int]]](2)


def _in_flight(hosts: Sequence[ExecutionHost]) -> list[tuple[ExecutionHost, int]]:
    """Hosts with slots in flight, and how many."""
    return [(host, slots) for host in hosts if (slots := sum([each.in_flight for each in host.instances]))]


def _earlier(host: ExecutionHost) -> ExecutionHost:
    """The host before the dispatch. Its queue instances were enabled then, whatever their states now."""

    def earlier(instance: QueueInstance) -> QueueInstance:
        if not instance.in_flight:
            return instance
        return replace(instance, used=instance.used - instance.in_flight, states="")

    return replace(host, instances=tuple(map(earlier, host.instances)))


def _most_of_a_slot(demands: Iterable[CategoryDemand]) -> Iterator[tuple[str, float]]:
    """For every consumable, slots included, the most that one slot of a waiting job may hold."""
    most: dict[str, float] = {SLOTS: 1}
    for want in demands:
        for name, amount in (*requested_amounts(want.demand), *want.demand.assumed):
            most[name] = max(most.get(name, 0), amount)
    yield from most.items()
