"""The needs of request sets for each node array, and which workers meet them.

A worker is *surplus* if the queues' own demand does not need it: it is idle or coming, and no counted waiting job would
use it. Targets of all live sets on an array add up, and surplus workers meet them. Growth launches the shortfall;
shrink keeps as many as needed. If the queues' demand is switched off, every worker counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import Requests, RequestSet
from autoscaler.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Need:
    """The workers that all live sets together request of one node array, besides the queue's demand."""

    node_array: str
    workers: int = 0
    cores: int = 0
    """vCPUs of further workers besides those `workers`."""
    sets: tuple[str, ...] = ()
    """The sets that request it, sorted."""

    @property
    def reason(self) -> Reason:
        workers, cores = self.workers or None, self.cores or None
        return because(Code.REQUESTED, node_array=self.node_array, sets=self.sets, workers=workers, cores=cores)

    def met_by(self, vcpus: Iterable[int]) -> bool:
        """Whether workers with these numbers of cores are enough: the smallest of them count for `workers`."""
        ascending = sorted(vcpus)
        return len(ascending) >= self.workers and sum(ascending[self.workers :]) >= self.cores

    def shortfall(self, vcpus: Sequence[int], each: int) -> int:
        """How many more workers of `each` cores are needed beside the present ones."""
        most = self.workers + -(-self.cores // each)
        return bisect_left(range(most), True, key=lambda count: self._met_with(vcpus, each, count))

    def _met_with(self, vcpus: Sequence[int], each: int, count: int) -> bool:
        """Whether these workers and `count` more of `each` cores are enough."""
        if len(vcpus) + count < self.workers:
            return False
        skipped, cores = self.workers, 0
        for size, some in sorted([*((size, 1) for size in vcpus), (each, count)]):
            taken = min(skipped, some)
            skipped -= taken
            cores += (some - taken) * size
        return cores >= self.cores


def needs_of(requests: Requests, policy: Policy, now: float) -> dict[str, Need]:
    """By node array, in the policy's order, without groups and without targets of unknown arrays."""
    found: dict[str, Need] = {}
    for array in policy.node_arrays:
        requested = [
            (live.name, target)
            for live in requests.sets
            if live.expires_at is None or live.expires_at > now
            for target in live.targets
            if target.node_array == array.name and (target.count or target.cores)
        ]
        if requested and array.requested:
            found[array.name] = Need(
                array.name,
                workers=sum(target.count or 0 for _, target in requested),
                cores=sum(target.cores or 0 for _, target in requested),
                sets=tuple(sorted({name for name, _ in requested})),
            )
    return found


def unknown_arrays(requests: Requests, policy: Policy) -> tuple[Reason, ...]:
    """Targets of node arrays that do not exist (any more)."""
    named = {(target.node_array, live.name) for live in requests.sets for target in live.targets}
    named |= {(node.node_array, node.name) for node in requests.nodes if node.worker_id is None}
    return tuple(
        because(Code.NO_SUCH_NODE_ARRAY, node_array=name, by=by)
        for name, by in sorted(named)
        if policy.node_array(name) is None
    )


def unknown_types(requests: Requests, policy: Policy) -> tuple[Reason, ...]:
    """Arrays of the settings for which callers name only instance types that the provider does not offer."""
    return tuple(
        because(
            Code.TYPES_NOT_OFFERED,
            node_array=array.name,
            requested=array.unknown_types,
            sets=tuple(live.name for live in requests.sets if array.name in _arrays_of(live)) or None,
        )
        for array in policy.node_arrays
        if array.unknown_types and array.extends is None
    )


def _arrays_of(live: RequestSet) -> frozenset[str]:
    return frozenset(target.node_array for target in live.targets)


@dataclass(frozen=True, slots=True)
class SurplusWorker:
    """One worker that demand does not need."""

    id: str
    vcpus: int
    leaving: bool = False
    """Whether it drains and could be enabled again."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The workers that requests keep."""

    held: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id, for all that stay for a request: why."""
    to_enable: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id, for those that drain and are enabled again for a request: why."""
    vcpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By node array with a need: the cores of every worker that counts towards it."""


def hold(needs: Mapping[str, Need], surplus: Mapping[str, Sequence[SurplusWorker]]) -> Holding:
    """Find the workers that stay. `surplus`: by node array, the surplus workers, those that would leave last first,
    draining ones at the end.
    """
    held: dict[str, Reason] = {}
    to_enable: dict[str, Reason] = {}
    vcpus: dict[str, tuple[int, ...]] = {}
    for name, need in needs.items():
        chosen = _chosen(need, surplus.get(name, ()))
        held |= {worker.id: need.reason for worker in chosen if not worker.leaving}
        to_enable |= {worker.id: need.reason for worker in chosen if worker.leaving}
        vcpus[name] = tuple(worker.vcpus for worker in chosen)
    return Holding(held, to_enable, vcpus)


def _chosen(need: Need, surplus: Sequence[SurplusWorker]) -> list[SurplusWorker]:
    """The first workers that meet the need, without those that it does not need."""
    chosen: list[SurplusWorker] = []
    for worker in surplus:
        if need.met_by(each.vcpus for each in chosen):
            break
        chosen.append(worker)
    if not need.met_by(each.vcpus for each in chosen):
        return chosen
    for worker in reversed(tuple(chosen)):
        rest = [each for each in chosen if each is not worker]
        if need.met_by(each.vcpus for each in rest):
            chosen = rest
    return chosen
