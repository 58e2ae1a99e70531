"""How many tasks of a constraint a node has room for, if its alternatives take different amounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    MinimumResource,
    NodeUse,
    Not,
    Or,
    XOr,
    put_one,
)
from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.values import SCALE, is_number, millionths
from autoscaler.core.model.reasons import Reason

ANY_NUMBER = 1_000_000
"""More than anybody asks for: used when a task takes nothing."""
MOST_BY_ONE = 256
"""Up to this number tasks are tried one by one if that may matter. Few nodes have as many slots."""


def takes_of_nodes(constraint: Constraint) -> bool:
    """Whether a task may take something of a node, by any alternative."""
    return not isinstance(constraint, Not) and _compares_amounts(constraint)


def _compares_amounts(constraint: Constraint) -> bool:
    match constraint:
        case And(children) | Or(children) | XOr(children):
            return any(map(_compares_amounts, children))
        case Not(child):
            return _compares_amounts(child)
        case MinimumResource(_, amount):
            return amount > 0
        case Exclusive(tasks):
            return not tasks
        case _:
            return False


def room_for(constraint: Constraint, node: Node, job: str) -> int:
    """How many tasks of this job fit on the node, each by the first alternative that still fits. Resources that all
    nodes share do not count here.
    """
    room, left, by_one = 0, node, may_turn(constraint)
    while room < ANY_NUMBER:
        after = _after_one(constraint, left, job)
        if after is None:
            return room
        if after.sealed:
            return room + 1
        taken = _taken(left, after)
        if not taken:
            return ANY_NUMBER
        # The same alternative serves until it has too little: those before it have it already, and get no more.
        times = min(_millionths(left, name) // amount for name, amount in taken.items())
        times = 1 if by_one and room < MOST_BY_ONE else times
        room, left = room + times, _less(after, left, taken, times)
    return ANY_NUMBER


def may_turn(constraint: Constraint) -> bool:
    """Whether it may accept a node that it refused once less is left there: `xor` and `not` may."""
    match constraint:
        case And(children) | Or(children):
            return any(may_turn(child) for child in children)
        case XOr() | Not():
            return _compares_amounts(constraint)
        case _:
            return False


def _after_one(constraint: Constraint, node: Node, job: str) -> Node | None:
    after = put_one(job, (constraint,), NodeUse(node))
    return None if isinstance(after, Reason) else after.node


def _taken(before: Node, after: Node) -> dict[str, int]:
    """In millionths."""
    less = {name: _millionths(before, name) - _millionths(after, name) for name in after.left}
    return {name: amount for name, amount in less.items() if amount}


def _less(node: Node, whole: Node, taken: Mapping[str, int], times: int) -> Node:
    """The node with what is left of the whole one after this many tasks."""
    left = {name: (_millionths(whole, name) - amount * times) / SCALE for name, amount in taken.items()}
    return replace(node, left={**node.left, **left})


def _millionths(node: Node, name: str) -> int:
    there = node.remaining(name)
    return millionths(there) if is_number(there) else 0
