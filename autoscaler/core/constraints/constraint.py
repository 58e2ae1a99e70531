"""Constraints: what a job asks of a node. Each takes its amount from a node, or says why it cannot.

`take` returns the use after one task, so that a later constraint sees what an earlier one took. An `or` takes for its
first alternative only. `document` returns a constraint as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Protocol

from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.values import (
    Scalar,
    Size,
    Value,
    is_number,
    millionths,
    same,
    shown,
    shown_apart,
    written,
)
from autoscaler.core.model.reasons import Code, Reason, because

Document = dict[str, object]
SharedKey = tuple[str, str]
"""Name and source of a shared resource."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node, the amounts taken of resources that all nodes share, and the job whose task is put there."""

    node: Node
    job: str = ""
    spent: Mapping[SharedKey, int | float] = field(default_factory=dict)


class Constraint(Protocol):
    """One constraint of a demand."""

    def take(self, use: NodeUse) -> NodeUse | Reason:
        """The use with one task more, or why the node is none for it."""
        ...

    def document(self) -> Document:
        """The constraint as JSON."""
        ...


def take_all(constraints: Sequence[Constraint], use: NodeUse) -> NodeUse | Reason:
    """Apply the constraints in turn, each to the use that the one before left; return the first refusal."""
    for constraint in constraints:
        after = constraint.take(use)
        if isinstance(after, Reason):
            return after
        use = after
    return use


def put_one(job: str, constraints: Sequence[Constraint], use: NodeUse) -> NodeUse | Reason:
    """Put one task of a job on a node, unless a job there has the node to itself."""
    node = use.node
    if node.taken_by is not None and (node.sealed or node.taken_by != job):
        return because(Code.NODE_TAKEN, job=node.taken_by)
    after = take_all(constraints, replace(use, job=job))
    if isinstance(after, Reason):
        return after
    return replace(after, node=replace(after.node, jobs=after.node.jobs | {job}))


@dataclass(frozen=True, slots=True)
class MinimumResource:
    """At least this amount of a counted resource is left, and is taken."""

    resource: str
    amount: int | float

    def __post_init__(self) -> None:
        if not is_number(self.amount) or not self.amount >= 0:
            raise ValueError(f"of {self.resource} the amount must be at least 0, not {self.amount!r}")

    def take(self, use: NodeUse) -> NodeUse | Reason:
        node = use.node
        whole, left = node.resources.get(self.resource), node.remaining(self.resource)
        if whole is None and left is None:
            return because(Code.LACKS_RESOURCE, resource=self.resource)
        # A plain number that is asked of a size is shown as a size.
        required = Size(self.amount) if isinstance(left, Size) else self.amount
        if not is_number(left):
            return _differs(self.resource, left, (required,))
        if millionths(left) < millionths(self.amount):
            return because(
                Code.RESOURCE_SHORT,
                resource=self.resource,
                left=shown(left),
                whole=shown(whole),
                requested=shown(required),
            )
        return replace(use, node=node.less(self.resource, self.amount))

    def document(self) -> Document:
        return {self.resource: written(self.amount)}


@dataclass(frozen=True, slots=True)
class NodeResourceConstraint:
    """A resource has one of these values; text may have wildcards. Nothing is taken."""

    resource: str
    value: Scalar | Sequence[Scalar]

    @property
    def allowed(self) -> tuple[Scalar, ...]:
        return several(self.value)

    def take(self, use: NodeUse) -> NodeUse | Reason:
        there = use.node.resources.get(self.resource)
        if there is None:
            return because(Code.LACKS_RESOURCE, resource=self.resource)
        return use if among(there, self.allowed) else _differs(self.resource, there, self.allowed)

    def document(self) -> Document:
        values = [written(value) for value in self.allowed]
        # A single number would read back as a minimum.
        return {self.resource: values[0] if len(values) == 1 and not is_number(self.allowed[0]) else values}


@dataclass(frozen=True, slots=True)
class NodePropertyConstraint:
    """A property of the node (its name without `node.`) has one of these values; text may have wildcards."""

    name: str
    values: tuple[Value, ...]

    def take(self, use: NodeUse) -> NodeUse | Reason:
        there = use.node.properties[self.name]
        return use if among(there, self.values) else _differs(f"node.{self.name}", there, self.values)

    def document(self) -> Document:
        values = [written(value) for value in self.values]
        return {f"node.{self.name}": values[0] if len(values) == 1 else values}


@dataclass(frozen=True, slots=True)
class And:
    """All of them. Every node meets an empty one."""

    children: tuple[Constraint, ...] = ()

    def take(self, use: NodeUse) -> NodeUse | Reason:
        return take_all(self.children, use)

    def document(self) -> Document:
        return {"and": [child.document() for child in self.children]}


@dataclass(frozen=True, slots=True)
class Or:
    """The first that the node meets takes its amount; the others are not checked."""

    children: tuple[Constraint, ...]

    def take(self, use: NodeUse) -> NodeUse | Reason:
        why: list[Reason] = []
        for child in self.children:
            after = child.take(use)
            if not isinstance(after, Reason):
                return after
            why.append(after)
        return _with(because(Code.NO_ALTERNATIVE, count=len(why)), why)

    def document(self) -> Document:
        return {"or": [child.document() for child in self.children]}


@dataclass(frozen=True, slots=True)
class XOr:
    """The node meets exactly one of them, and that one takes its amount."""

    children: tuple[Constraint, ...]

    def take(self, use: NodeUse) -> NodeUse | Reason:
        tried = [(child, child.take(use)) for child in self.children]
        able = [(child, after) for child, after in tried if not isinstance(after, Reason)]
        if not able:
            why = [after for _, after in tried if isinstance(after, Reason)]
            return _with(because(Code.NO_ALTERNATIVE, count=len(why)), why)
        if len(able) > 1:
            return because(Code.SEVERAL_ALTERNATIVES, alternatives=tuple(as_text(child) for child, _ in able))
        return able[0][1]

    def document(self) -> Document:
        return {"xor": [child.document() for child in self.children]}


@dataclass(frozen=True, slots=True)
class Not:
    """The node does not meet the child. Nothing is taken."""

    child: Constraint

    def take(self, use: NodeUse) -> NodeUse | Reason:
        if isinstance(self.child.take(use), Reason):
            return use
        return because(Code.MEETS_EXCLUDED, excluded=as_text(self.child))

    def document(self) -> Document:
        return {"not": self.child.document()}


@dataclass(frozen=True, slots=True)
class Exclusive:
    """The node runs this job and nothing else: one task of it, or with `tasks` any number."""

    tasks: bool = False

    def take(self, use: NodeUse) -> NodeUse | Reason:
        node = use.node
        others = node.jobs - {use.job} if self.tasks else node.jobs
        if others:
            return because(Code.NODE_IN_USE, jobs=tuple(sorted(others)))
        return replace(use, node=replace(node, taken_by=use.job, sealed=not self.tasks))

    def document(self) -> Document:
        return {"exclusive-task" if self.tasks else "exclusive": True}


@dataclass(frozen=True, slots=True)
class InAPlacementGroup:
    """The node is in a placement group, or is in none."""

    wanted: bool

    def take(self, use: NodeUse) -> NodeUse | Reason:
        group = use.node.properties.placement_group
        if bool(group) is self.wanted:
            return use
        if group:
            return because(Code.IN_PLACEMENT_GROUP, placement_group=group)
        return because(Code.IN_NO_PLACEMENT_GROUP)

    def document(self) -> Document:
        return {"in-a-placement-group": self.wanted}


@dataclass(frozen=True, slots=True)
class Never:
    """No node, for the reason given."""

    message: str

    def take(self, use: NodeUse) -> NodeUse | Reason:
        return because(Code.NEVER, message=self.message)

    def document(self) -> Document:
        return {"never": self.message}


def as_text(constraint: Constraint) -> str:
    """A constraint as one line of JSON."""
    return json.dumps(constraint.document())


def several(value: Scalar | Sequence[Scalar]) -> tuple[Scalar, ...]:
    """One value, or each of many."""
    return (value,) if isinstance(value, str | int | float) else tuple(value)


def among(there: Value, allowed: Sequence[Value]) -> bool:
    """Whether it is one of these, or text that matches the wildcards (`*`, `?`, `[ab]`) of one."""
    return any(same(there, value) or _fits(there, value) for value in allowed)


def _fits(there: Value, pattern: Value) -> bool:
    return isinstance(there, str) and isinstance(pattern, str) and fnmatchcase(there, pattern)


def _differs(what: str, there: Value, allowed: Sequence[Value]) -> Reason:
    value, required = shown_apart(there, allowed)
    return because(Code.RESOURCE_DIFFERS, resource=what, value=value, requested=required)


def _with(reason: Reason, why: Sequence[Reason]) -> Reason:
    for link in dict.fromkeys(why):  # a reason that several give appears once
        reason = reason.then(link)
    return reason
