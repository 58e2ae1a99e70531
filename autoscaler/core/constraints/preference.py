"""Which nodes a job prefers: those of an earlier alternative of an `or`, and those with an earlier value of a list.

The constraints say whether a node fits at all; of two that fit, the one of lower rank is tried first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    NodePropertyConstraint,
    NodeResourceConstraint,
    NodeUse,
    Or,
    XOr,
    among,
)
from autoscaler.core.constraints.values import Value
from autoscaler.core.model.reasons import Reason

Rank = tuple[int, ...]
"""The node with the lower rank is preferred."""


def has_choice(constraints: Iterable[Constraint]) -> bool:
    """Whether nodes that meet these may differ in rank."""
    return any(_leaves_open(constraint) for constraint in constraints)


def rank_of(constraints: Sequence[Constraint], use: NodeUse) -> Rank:
    """For each constraint in order, the index of the alternative or value that the node meets; the first decides."""
    return tuple(_rank(constraints, use))


def _leaves_open(constraint: Constraint) -> bool:
    match constraint:
        case Or():
            return True
        case And(children) | XOr(children):
            return has_choice(children)
        case NodePropertyConstraint(_, values):
            return len(values) > 1
        case NodeResourceConstraint():
            return len(constraint.allowed) > 1
        case _:
            return False


def _rank(constraints: Iterable[Constraint], use: NodeUse) -> Iterable[int]:
    for constraint in constraints:
        match constraint:
            case And(children):
                yield from _rank(children, use)
            case Or(children):
                at = _first(children, use)
                yield len(children) if at is None else at
                yield from () if at is None else _rank((children[at],), use)
            case XOr(children):
                at = _first(children, use)
                yield from () if at is None else _rank((children[at],), use)
            case NodePropertyConstraint(name, values):
                yield _place(use.node.properties[name], values)
            case NodeResourceConstraint():
                yield _place(use.node.resources.get(constraint.resource), constraint.allowed)
            case _:
                pass
        after = constraint.take(use)
        if isinstance(after, Reason):
            return
        use = after


def _first(children: Sequence[Constraint], use: NodeUse) -> int | None:
    able = (at for at, child in enumerate(children) if not isinstance(child.take(use), Reason))
    return next(able, None)


def _place(there: Value, allowed: Sequence[Value]) -> int:
    return next((at for at, value in enumerate(allowed) if among(there, (value,))), len(allowed))
