"""Puts demand on nodes: for every job, which nodes take its tasks, and why the others do not.

Jobs are placed in their order, first on existing nodes, then on new nodes of the candidates: first fit, with the nodes
that a job prefers first. A job checks one node after the other until its tasks are placed, in about 15 µs each, so
equal jobs should be one job with a count.

It is the library's own: scalelib's callers have nodes, constraints and counts, and neither queues nor slots. A plan
does not use it. There each constraint is a property of a host (decision 27), and `core.placement` places jobs as the
scheduler does, with queue instances, parallel environments and quotas, of which this module knows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.constraints.constraint import Constraint, NodeUse, SharedKey, put_one
from autoscaler.core.constraints.default_resources import DefaultResource, node_of
from autoscaler.core.constraints.node import Node, NodeProperties, named
from autoscaler.core.constraints.preference import has_choice, rank_of
from autoscaler.core.model.reasons import Code, Reason, because

NO_ARRAY = "node"
"""Begins the names of nodes whose bucket serves any node array."""


@dataclass(frozen=True, slots=True)
class JobDemand:
    """A job: what each of its tasks asks of a node, and how many there are."""

    name: str
    constraints: tuple[Constraint, ...] = ()
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"{self.name} cannot have {self.count} tasks")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kind of node that could be had, with the rules that give its resources."""

    properties: NodeProperties
    defaults: tuple[DefaultResource, ...] = ()
    most: int | None = None
    """How many more can be had; None: any number."""

    @property
    def label(self) -> str:
        """Its name in reasons: `execute/Standard_F2`, with its price type and placement group."""
        spot = " (spot)" if self.properties.spot else ""
        group = f" in {self.properties.placement_group}" if self.properties.placement_group else ""
        array = f"{self.properties.nodearray}/" if self.properties.nodearray else ""
        return f"{array}{self.properties.vm_size}{spot}{group}"

    def node(self, name: str) -> Node:
        """A new node of this kind."""
        return node_of(named(self.properties, name), self.defaults)


@dataclass(frozen=True, slots=True)
class Matched:
    """The number of tasks of a job that are on a node."""

    job: str
    node: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A node (by name) or a candidate (by label) that takes no (further) task of a job."""

    job: str
    node: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Matching:
    """Where the tasks of a demand went."""

    matched: tuple[Matched, ...]
    rejected: tuple[Rejected, ...]
    unmatched: Mapping[str, int]
    """Tasks that no node takes, by job; none with 0."""
    nodes: tuple[Node, ...]
    """All nodes after placement: those given, then those to be created."""
    new: tuple[str, ...]
    """Names of those to be created."""
    spent: Mapping[SharedKey, int | float]
    """The amounts taken of resources that all nodes share."""


@dataclass(slots=True)
class _Placing:
    nodes: list[Node]
    candidates: list[Candidate]
    names: set[str]
    numbers: dict[str, int] = field(default_factory=dict)
    spent: Mapping[SharedKey, int | float] = field(default_factory=dict)
    matched: list[Matched] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def match(demand: Sequence[JobDemand], nodes: Sequence[Node], candidates: Sequence[Candidate] = ()) -> Matching:
    """Put the tasks of every job on nodes. Each job needs a name of its own, because exclusiveness is by name."""
    if len({job.name for job in demand}) < len(demand):
        raise ValueError("every job of a demand needs a name of its own")
    placing = _Placing(list(nodes), list(candidates), {node.properties.name for node in nodes})
    unplaced = {job.name: _put(job, placing) for job in demand}
    return Matching(
        matched=tuple(placing.matched),
        rejected=tuple(placing.rejected),
        unmatched={name: count for name, count in unplaced.items() if count},
        nodes=tuple(placing.nodes),
        new=tuple(placing.new),
        spent=placing.spent,
    )


def _put(job: JobDemand, placing: _Placing) -> int:
    """Place a job's tasks; return how many are left over."""
    left = job.count
    for at in _in_order(job, placing.nodes, placing):
        if not left:
            return 0
        placing.nodes[at], left = _fill(job, placing.nodes[at], left, placing)
    for at in _in_order(job, placing.candidates, placing):
        if not left:
            return 0
        left = _open(job, at, placing.candidates[at], left, placing)
    return left


def _in_order(job: JobDemand, these: Sequence[Node] | Sequence[Candidate], placing: _Placing) -> Sequence[int]:
    """Their indices, those that the job prefers first, otherwise in the given order."""
    places = range(len(these))
    if not has_choice(job.constraints):
        return places
    nodes = [one.node("") if isinstance(one, Candidate) else one for one in these]
    ranks = [rank_of(job.constraints, NodeUse(node, job.name, placing.spent)) for node in nodes]
    return sorted(places, key=lambda at: ranks[at])


def _fill(job: JobDemand, node: Node, count: int, placing: _Placing) -> tuple[Node, int]:
    """Put as many tasks on the node as it takes; return the node then, and how many tasks are left over."""
    use, left = NodeUse(node, job.name, placing.spent), count
    while left:
        after = put_one(job.name, job.constraints, use)
        if isinstance(after, Reason):
            placing.rejected.append(Rejected(job.name, node.name, after))
            break
        use, left = after, left - 1
    if left < count:
        placing.matched.append(Matched(job.name, node.name, count - left))
        placing.spent = use.spent
    return use.node, left


def _open(job: JobDemand, at: int, candidate: Candidate, count: int, placing: _Placing) -> int:
    """Add nodes of a candidate, as long as more can be had and they take tasks."""
    while count and candidate.most != 0:
        node = candidate.node(_next_name(candidate.properties.nodearray or NO_ARRAY, placing))
        why = put_one(job.name, job.constraints, NodeUse(node, job.name, placing.spent))
        if isinstance(why, Reason):
            placing.rejected.append(Rejected(job.name, candidate.label, why))
            return count
        rejected_before = len(placing.rejected)
        node, count = _fill(job, node, count, placing)
        del placing.rejected[rejected_before:]  # a new node that is full now is no rejection
        placing.nodes.append(node)
        placing.names.add(node.name)
        placing.new.append(node.name)
        if candidate.most is not None:
            candidate = replace(candidate, most=candidate.most - 1)
            placing.candidates[at] = candidate
    if count:
        placing.rejected.append(Rejected(job.name, candidate.label, because(Code.NONE_LEFT)))
    return count


def _next_name(node_array: str, placing: _Placing) -> str:
    """The first free one of `execute-1`, `execute-2`, …"""
    number = placing.numbers.get(node_array, 1)
    while f"{node_array}-{number}" in placing.names:
        number += 1
    placing.numbers[node_array] = number
    return f"{node_array}-{number}"
