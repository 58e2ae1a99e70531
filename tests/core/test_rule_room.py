"""How many tasks of a constraint a node has room for: as many as fit one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    MinimumResource,
    Never,
    NodeResourceConstraint,
    NodeUse,
    Not,
    Or,
    XOr,
    put_one,
)
from autoscaler.core.constraints.node import Node, NodeProperties
from autoscaler.core.constraints.node_room import ANY_NUMBER, room_for
from autoscaler.core.constraints.values import Size, Value
from autoscaler.core.model.reasons import Reason

HAS: dict[str, Value] = {"ncpus": 8, "ngpus": 2, "mem": Size(4096), "share": 1, "os": "linux"}
NODE = Node(NodeProperties("execute", "Standard_NC24"), HAS)
GPU = MinimumResource("ngpus", 1)
FOUR = MinimumResource("ncpus", 4)


@pytest.mark.parametrize(
    ("constraint", "room"),
    (
        (Or((GPU, FOUR)), 4),
        (Or((And((GPU, FOUR)), FOUR)), 2),
        (XOr((GPU, MinimumResource("ngpus", 3))), 2),
        (Or((Never("no"), MinimumResource("share", 0.1))), 10),
        (Or((GPU, NodeResourceConstraint("os", "linux"))), ANY_NUMBER),
        (Or((XOr((MinimumResource("share", 0.5), MinimumResource("share", 0.1))), MinimumResource("share", 0.2))), 7),
        (And((Or((GPU, FOUR)), Not(MinimumResource("ncpus", 9)))), 4),
        (Or((Exclusive(), GPU)), 1),
        (Or((Exclusive(tasks=True), GPU)), ANY_NUMBER),
        (Or((Never("no"), MinimumResource("ngpus", 3))), 0),
    ),
)
def test_the_number_of_tasks_that_fit_on_a_node_with_alternatives(constraint: Constraint, room: int) -> None:
    assert room_for(constraint, NODE, "j") == room


LEAVES: st.SearchStrategy[Constraint] = st.one_of(
    st.builds(MinimumResource, st.sampled_from(("ncpus", "ngpus", "share")), st.sampled_from((0.25, 0.5, 1, 2, 3))),
    st.builds(MinimumResource, st.just("mem"), st.sampled_from((Size(512), Size(1000), 3000))),
    st.builds(NodeResourceConstraint, st.just("os"), st.sampled_from(("linux", "bsd"))),
    st.just(Never("no")),
)


def _above(children: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Constraint]:
    some = st.lists(children, min_size=1, max_size=3).map(tuple)
    return st.one_of(st.builds(And, some), st.builds(Or, some), st.builds(XOr, some), st.builds(Not, children))


@given(st.recursive(LEAVES, _above, max_leaves=6))
def test_room_equals_the_number_of_tasks_that_fit_one_by_one(constraint: Constraint) -> None:
    most, fit, node = 40, 0, NODE
    while fit < most:
        after = put_one("j", (constraint,), NodeUse(node))
        if isinstance(after, Reason):
            break
        fit, node = fit + 1, after.node
    assert min(room_for(constraint, NODE, "j"), most) == fit
