"""What rules say about one job or host, for people who ask: which entries hold, which nodes meet them, and why others
do not.

The nodes are the same that a plan uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoscaler.core.constraints.constraint import Constraint, NodeUse
from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.ruleset import Entry
from autoscaler.core.demand.constraint_demand import NO_RULES, entries_of
from autoscaler.core.demand.demand import read_demand
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.constraint_effects import nodes_of, refusal_of, under_rules
from autoscaler.core.placement.hosts import as_node
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.worker_observation import observe_workers


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """One node that was checked against a constraint."""

    node: str
    """`execute/m5.large`, or a host's name."""
    refusal: Reason | None
    """Why it does not meet it; None: it does."""


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """One entry of the rules that holds for a job."""

    entry: Entry
    looked: tuple[CheckedNode, ...]


def rules_for_job(snapshot: Snapshot, job: int) -> tuple[EntryVerdict, ...]:
    """The entries that hold for a waiting job, checked against every type that could be had for it and every host of
    its queues.
    """
    rules = snapshot.policy.rules
    if rules is None or not rules.entries:
        return ()
    ruled = under_rules(snapshot)
    observed = observe_workers(ruled.cluster, ruled.fleet, ruled.memory, ruled.policy, ruled.now)
    reading = read_demand(ruled.cluster, ruled.memory, ruled.policy, ruled.now, observed.names)
    for want, parts in zip(reading.wanted, reading.counted, strict=True):
        if any(job in part.jobs for part in parts):
            entries = entries_of(want.demand, rules)
            nodes = list(_nodes(snapshot, want.demand.pools))
            return tuple(EntryVerdict(entry, tuple(_checked_nodes(entry, nodes))) for entry in entries)
    return ()


def rules_of_host(snapshot: Snapshot, name: str) -> tuple[EntryVerdict, ...]:
    """The entries that hold for a host's queues, and whether it meets them."""
    rules = snapshot.policy.rules or NO_RULES
    for host, node in nodes_of(snapshot) if rules.entries else ():
        if host.name == name:
            queues = frozenset(instance.queue for instance in host.instances)
            entries = [entry for entry in rules.entries if any(entry.who.uses(queue) for queue in queues)]
            return tuple(
                EntryVerdict(entry, (CheckedNode(name, refusal_of(entry, node, queues)),)) for entry in entries
            )
    return ()


def refusal_by(constraint: Constraint, bucket: Bucket, array: NodeArrayPolicy, snapshot: Snapshot) -> Reason | None:
    """Why a worker of this bucket does not meet a constraint; None: it does."""
    rules = snapshot.policy.rules or NO_RULES
    after = constraint.take(NodeUse(as_node(bucket, array, snapshot.cluster.complexes, rules)))
    return after if isinstance(after, Reason) else None


def _nodes(snapshot: Snapshot, pools: frozenset[str]) -> Iterator[tuple[str, Node, frozenset[str]]]:
    """Name, node and queues of every type that could be had for these queues, and of their hosts."""
    rules = snapshot.policy.rules or NO_RULES
    for array in snapshot.policy.node_arrays:
        if array.queue not in pools:
            continue
        allowed = allowed_types(array, snapshot.fleet.buckets)
        seen: set[str] = set()
        for bucket in snapshot.fleet.buckets:
            name = f"{array.name}/{_label(bucket)}"
            if bucket.key.price_type not in array.price_types or bucket.type.name not in allowed:
                continue
            if array.takes(bucket.key) and name not in seen:
                seen.add(name)
                yield name, as_node(bucket, array, snapshot.cluster.complexes, rules), frozenset({array.queue})
    for host, node in nodes_of(snapshot):
        queues = frozenset(instance.queue for instance in host.instances)
        if queues & pools:
            yield host.name, node, queues


def _label(bucket: Bucket) -> str:
    key = bucket.key
    where = ", ".join(part for part in (key.zone, key.placement_group, key.price_type.value) if part)
    return f"{key.instance_type} ({where})"


def _checked_nodes(entry: Entry, nodes: Iterable[tuple[str, Node, frozenset[str]]]) -> Iterator[CheckedNode]:
    for name, node, queues in nodes:
        if any(entry.who.uses(queue) for queue in queues):
            yield CheckedNode(name, refusal_of(entry, node, queues))
