"""Default resources: what a node has before it exists, by rules tried in order; the first rule for a name wins.

The own values of a joined host are never replaced. Every node has some resources by itself, unless a rule gives them
another value.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from autoscaler.core.constraints.constraint import And, Constraint, NodeUse
from autoscaler.core.constraints.node import Node, NodeProperties
from autoscaler.core.constraints.values import Scalar, Size, Value, is_number
from autoscaler.core.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class OfNode:
    """The value that a property of the node has."""

    name: str


@dataclass(frozen=True, slots=True)
class OfResource:
    """The value that a resource has by earlier rules, by the host itself, or by default."""

    name: str


Operand = Scalar | OfNode | OfResource
ANY_NODE = And()
BY_ITSELF: Mapping[str, str] = MappingProxyType(
    {
        "ncpus": "vcpu_count",
        "pcpus": "pcpu_count",
        "ngpus": "gpu_count",
        **dict.fromkeys(("memb", "memkb", "memmb", "memgb", "memtb"), "memory"),
        "nodearray": "nodearray",
    }
)
"""Resources that every node has, with the property that gives their value. `memb` to `memtb` all give bytes, whatever
the name says: `{"memgb": 4}` is 4 bytes (docs/rules.md).
"""
_UNBOUNDED = 1e300


class Operator(StrEnum):
    """An operation on a value."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    DIVIDE_FLOOR = "divide_floor"


@dataclass(frozen=True, slots=True)
class DefaultResource:
    """Nodes that `select` takes have `name` with this value, changed by `changes` in their order."""

    name: str
    value: Operand
    select: Constraint = ANY_NODE
    changes: tuple[tuple[Operator, Operand], ...] = ()


def resources_of(
    properties: NodeProperties, defaults: Sequence[DefaultResource], own: Mapping[str, Value] | None = None
) -> dict[str, Value]:
    """All that rules give a node with these properties; `own`: the values that a joined host reports. A rule may select
    by what an earlier rule gave. If the node does not have the value that a rule uses, the rule gives nothing, and
    later rules may.
    """
    resources: dict[str, Value] = {name: value for name, value in (own or {}).items() if value is not None}
    so_far = Node(properties, ChainMap(resources, by_itself(properties)))
    for default in defaults:
        if default.name in resources:
            continue
        if isinstance(default.select.take(NodeUse(so_far)), Reason):
            continue
        value = _value(default, so_far)
        if value is not None:
            resources[default.name] = value
    return resources


def by_itself(properties: NodeProperties) -> dict[str, Value]:
    """What a node with these properties has unless a rule or its host says otherwise."""
    return {name: properties[meant] for name, meant in BY_ITSELF.items()}


def node_of(
    properties: NodeProperties,
    defaults: Sequence[DefaultResource],
    own: Mapping[str, Value] | None = None,
    left: Mapping[str, int | float] | None = None,
    jobs: Iterable[str] = (),
) -> Node:
    """The node with its resources; `left`: what is left of those in use; `jobs`: those that run on it."""
    resources = {**by_itself(properties), **resources_of(properties, defaults, own)}
    return Node(properties, resources, left or {}, frozenset(jobs))


def _value(default: DefaultResource, node: Node) -> Value:
    value = _operand(default.value, node)
    for operator, by in default.changes:
        operand = _operand(by, node)
        if not (is_number(value) and is_number(operand)):
            return None
        value = changed(value, operator, operand)
    return value


def _operand(operand: Operand, node: Node) -> Value:
    match operand:
        case OfNode(name):
            return node.properties[name]
        case OfResource(name):
            return node.resources.get(name)
        case _:
            return operand


def changed(value: int | float, operator: Operator, by: int | float) -> int | float | None:
    """Arithmetic that keeps bytes and, if possible, whole numbers whole. A difference is at least 0. None: divided by
    zero, or beyond all bounds.
    """
    match operator:
        case Operator.ADD:
            result: int | float = value + by
        case Operator.SUBTRACT:
            result = max(0, value - by)
        case Operator.MULTIPLY:
            result = value * by
        case Operator.DIVIDE | Operator.DIVIDE_FLOOR:
            if by == 0:
                return None
            result = value / by if operator is Operator.DIVIDE else value // by
    if not -_UNBOUNDED < result < _UNBOUNDED:
        return None
    if _in_bytes(value, operator, by):
        return Size(result)
    return int(result) if result == int(result) else result


def _in_bytes(value: int | float, operator: Operator, by: int | float) -> bool:
    """Size divided by size is a plain number; any other result with a size is a size."""
    if operator in (Operator.DIVIDE, Operator.DIVIDE_FLOOR):
        return isinstance(value, Size) and not isinstance(by, Size)
    return isinstance(value, Size) or isinstance(by, Size)
